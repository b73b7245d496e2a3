// The statements that programs are made of, one row per kind.
//
// How: a row has the C++ text of the statement, a `propose` that fills in
// arguments which fit (or says that none do) and a `run`. In the text, $d0 is
// the first variable bound, $0 the first argument, $s0 a scalar, $i0 an
// integer, $l2 the integers from the third on as a list:
//   "$d0 = at::add($0, $1, $s0);"
// Invariants:
// (1) Rows are only appended to within a family file; a new row changes what
//     every seed means.
// (2) `text` and `run` say the same.
// Tested by: tests/differential/harness_test.cpp (every row is generated)
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/differential/program.h"

namespace tjit::differential {

class Context;
class Generator;
struct Call;  // called_op.h

// Families of programs weigh these differently.
enum class Group : std::uint8_t {
  kSetup,  // makes the variables that live through the loop
  kUnary,
  kBinary,
  kScalar,
  kCompare,
  kInplace,
  kOut,
  kCast,
  kReduce,
  kMatmul,
  kNn,
  kIndex,
  kIndexWrite,
  kShape,
  kView,
  kOverlap,
  kRandom,
  kSeed,
  kAutograd,
  kSync,
  kDynamic,
  kRaw,
  kState,
  kError,
  kCalled,  // an op by its schema
  kComplex,
  kComplexWrite,
  kLength,  // sizes that differ from step to step
  kCount,
};

struct OpSpec {
  std::string_view name;
  Group group;
  std::string_view text;
  // Fills in args, ints and scalars. False if no variable fits.
  bool (*propose)(Generator&, Statement&);
  void (*run)(Context&);
  int num_dst = 0;
  // The first argument is written; it must be the program's own.
  bool writes = false;
  // An exception is the point of it.
  bool throws = false;
  // Draws from the default generator when the program is not concurrent.
  bool random = false;
  // Which op, of rows that call one by its schema.
  const Call* call = nullptr;
};

const std::vector<OpSpec>& OpTable();

// The row called `name`.
// THROWS: c10::Error if there is none.
int OpIndex(std::string_view name);

// The rows, by file.
void AddSetupOps(std::vector<OpSpec>& table);
void AddPointwiseOps(std::vector<OpSpec>& table);
void AddInplaceOps(std::vector<OpSpec>& table);
void AddReduceOps(std::vector<OpSpec>& table);
void AddNnOps(std::vector<OpSpec>& table);
void AddIndexOps(std::vector<OpSpec>& table);
void AddViewOps(std::vector<OpSpec>& table);
void AddStateOps(std::vector<OpSpec>& table);
void AddHabitOps(std::vector<OpSpec>& table);
void AddLengthOps(std::vector<OpSpec>& table);
void AddCalledOps(std::vector<OpSpec>& table);
void AddComplexOps(std::vector<OpSpec>& table);

}  // namespace tjit::differential
