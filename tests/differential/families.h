// The families of programs: what each is about.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/differential/op_table.h"

namespace tjit::differential {

// Groups and their weights while a part of a body is made.
using Phase = std::vector<std::pair<Group, int>>;

struct Family {
  std::string_view name;
  int share;  // of the seeds, in percent
  Phase phase;
  // Set-up: which variables there are.
  bool trains = false;
  bool mixes_dtypes = false;
  bool has_images = false;
  bool has_blobs = false;
  bool hands_over = false;  // statements on another thread
  bool branches = false;
  bool concurrent = false;
  bool sweeps = false;  // is a sweep (sweep.h)
  bool has_complex = false;
  bool has_long_rows = false;
  bool has_lengths = false;  // and loops that go round so often
};

const std::vector<Family>& Families();

// Seeds from here on, up to the sweeps, are of the family "complex", which no
// other seed is of: it came later, and what seeds mean was to stay.
inline constexpr std::uint64_t kFirstComplex = std::uint64_t{1} << 39;

// Seeds from here on, up to those, are of the family "rows": rows of some
// 16 KiB and more.
inline constexpr std::uint64_t kFirstRows = std::uint64_t{1} << 38;

// The family of a seed.
int FamilyOf(std::uint64_t seed);

// Index of the family called `name`, or -1.
int FamilyIndex(std::string_view name);

}  // namespace tjit::differential
