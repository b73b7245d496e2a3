// Programs that go through the called ops one after the other: sweep k is about
// some of them (called_op.h), of one element type, with gradients and random
// numbers or without. Each row comes three times: over anything, over parts of
// storages, and broadcast.
//
//   [0, SweepCount()): every row in every type and variant
//   those behind: the same with other random numbers, over parts that lie
//     densely, and a backward pass after each call that has one
//
// Tested by: tests/differential/coverage_test.cpp
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace tjit::differential {

class Generator;

// Seeds from here on are sweeps: seed kFirstSweep + k is sweep k.
inline constexpr std::uint64_t kFirstSweep = std::uint64_t{1} << 40;
inline bool IsSweep(std::uint64_t seed) { return seed >= kFirstSweep; }

// Types vary fastest, then rows, then variants.
inline constexpr std::uint64_t kSweepTypes = 7;
inline constexpr std::uint64_t kSweepVariants = 2;
std::uint64_t SweepCount();
// Is a sweep about this op (coverage.h: RowOf), in this type ("f32")?
// REQUIRES: IsSweep(seed).
bool IsAbout(std::uint64_t seed, std::string_view op, std::string_view type);

class SweepBuilder {
 public:
  // Of a seed that is no sweep, one that it draws.
  explicit SweepBuilder(Generator& generator);
  void Setup();
  void Body();

 private:
  // A set-up statement that binds one variable; its number, or -1.
  int Make(std::string_view row, std::vector<std::int64_t> ints,
           std::vector<int> args = {});
  int Input(std::vector<std::int64_t> sizes);
  void SetupMore(std::int64_t n, std::int64_t m);
  void AddRow(int row);
  void AddBackwardOf(int id);
  void AddRowInEachWay(int row);
  void AddWhereOfParts();
  void AddNegative(int id);
  void AddBackward();

  Generator& g_;
  c10::ScalarType dtype_;
  std::uint64_t first_row_;
  bool has_gradients_;  // and random numbers
  bool is_again_;       // behind SweepCount()
};

}  // namespace tjit::differential
