// What programs reached: which ops ran in compiled groups, of which dtypes and
// in which ways, and why the compiler refused the others.
//
// How: each replay shows the steps that its compiled groups are about to run,
// and those it leaves to eager's kernels (runtime/testing.h); the names of
// their ops, without overload and the `_` of the in-place form, and the dtype
// of their first tensor that is no mask make the cell. Thread: one program at a
// time; any thread of it may run groups. Tested by:
// tests/differential/coverage_test.cpp
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tests/differential/program.h"

namespace tjit::differential {

// In the order of kWayLetters.
enum Way : std::uint32_t {
  kFunctional = 1,
  kInPlace = 2,
  kOut = 4,
  kAliasing = 8,    // an argument is a part of a storage, or written and read
  kBroadcast = 16,  // arguments of other sizes, or expanded
  kBackward = 32,   // in a program that computes gradients
  kRandom = 64,     // in a program that draws random numbers
  kLongRows = 128,  // the first tensor's rows are longer than 16 KiB
  kLengths = 256,   // in a program whose steps differ in length or sizes
};
inline constexpr std::string_view kWayLetters = "fioabgrlv";

// The reason of a step that is not refused as such.
inline constexpr std::string_view kNoKernel =
    "can be lowered alone, but was in no group that has a kernel";

struct Covered {
  std::uint32_t ways = 0;  // of what ran in compiled groups
  std::map<std::uint32_t, std::set<std::string>> refused;  // by Way: why
  bool operator==(const Covered&) const = default;
};

// By op and dtype ("mul", "f32").
using Coverage = std::map<std::pair<std::string, std::string>, Covered>;

// "aten::mul_.Tensor" is "mul".
std::string RowOf(std::string_view op);
// Of the form that the op has: kFunctional, kInPlace or kOut.
std::uint32_t TemplateOf(std::string_view op);
// "fia": the letters of `ways`.
std::string LettersOf(std::uint32_t ways);

// From here on what runs is of this program.
void BeginCoverage(const Program& program);
// What has run since, and the end of it.
Coverage TakeCoverage();

void Merge(Coverage& all, const Coverage& more);

// One line of text, and back.
std::string EncodeCoverage(const Coverage& coverage);
Coverage DecodeCoverage(const std::string& text);

// For people: a line per op, its dtypes and the ways in which it ran.
std::string ToString(const Coverage& coverage);

}  // namespace tjit::differential
