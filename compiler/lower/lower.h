// Lowers a group of recorded steps to one function of the IR.
//
// A group is some steps of a segment, in their order. One external per storage
// that the group reads or changes and did not make: flat, all elements of the
// slot. What is done in place becomes a new version of the slot's content; the
// versions of slots from outside are written back at the end, only where a
// step wrote. A slot born in the group that is needed after it is a returned
// value, with the recorded strides.
//
// Claims are exact: what is lowered has eager's bits for all inputs (on CPUs
// where eager runs its AVX2 or AVX-512 kernels), NaNs being of no certain
// bits, and math functions being those that eager calls (interpreter.h,
// MathHook). What is not known to be so is refused, with a reason.
//
// Sizes: a recorded size > 1 that comes from a tensor argument is a symbol,
// one symbol for all dims that an op relates; a size that an offset or a
// stride of the recording depends on stays a number, so does 1, but for the
// first dim of a batch of one (batch_of_one.h). The function holds for every
// binding of its symbols. Equal text of two functions (ir_text.h) means that
// one kernel serves both.
// Tested by: tests/compiler/lower_test.cpp, tests/filetests/lower/,
// tests/runtime/lower_against_eager_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "compiler/ir/ir.h"
#include "recorder/op_record.h"

namespace tjit {

struct GroupStep {
  const StepRecord* record = nullptr;
  std::string_view op;  // "aten::add.Tensor"
  int threads = 0;      // that eager has here; 0: any number
};

// Every slot that a step of the group uses.
struct GroupSlot {
  std::int32_t slot = kNoSlot;
  std::uint64_t bytes = 0;  // of the storage
  // A fresh result of one of the steps, or filled by the first one that uses
  // it (recorder/overwrite.h).
  bool born_here = false;
  // Its content is read after the group, or may be. If false, a born slot gets
  // no memory, and a change to one from outside is not written back.
  bool needed_after = true;
};

// Where a scalar argument of the function comes from: scalar `index` of step
// `step` of the group.
struct ScalarSource {
  std::int32_t step = 0;
  std::int32_t index = 0;
  bool operator==(const ScalarSource& o) const = default;
};

// Where a symbol comes from: size `dim` of tensor argument `arg` of step
// `step` of the group.
struct SizeSource {
  std::int32_t step = 0;
  std::int32_t arg = 0;
  std::int32_t dim = 0;
  bool operator==(const SizeSource& o) const = default;
};

struct Lowered {
  ir::Function function;
  std::vector<std::int32_t> external_slots;  // one per external
  std::vector<std::int32_t> return_slots;    // one per returned value
  std::vector<ScalarSource> scalars;         // one per scalar argument
  std::vector<SizeSource> symbols;           // one per symbol
};

// True if the step alone can be lowered. A group of such steps may still be
// refused: for two views of one storage that overlap oddly.
bool CanLower(const GroupStep& step);
// "" if CanLower(); else why not.
std::string WhyNotLowered(const GroupStep& step);

// Lowers the group. Returns false and the reason, naming step and op, if it
// cannot. Scalars that are run-time scalars (ScalarRecord::IsRuntime) become
// arguments, the others constants.
// REQUIRES: the steps are sound (trace_verifier.h) and `slots` has all of
// theirs, with the right bytes.
bool Lower(absl::Span<const GroupStep> steps, absl::Span<const GroupSlot> slots,
           Lowered* lowered, std::string* reason);

// The same without symbols, for MatchesAt() (symbolic_match.h).
bool LowerNumbers(absl::Span<const GroupStep> steps,
                  absl::Span<const GroupSlot> slots, Lowered* lowered,
                  std::string* reason);

// An op of the function is computed by a formula that has eager's bits only
// where results are rounded to the nearest and nothing is flushed to zero:
// roots as MKL computes them, variances, quotients in f64.
bool NeedsUsualArithmetic(const ir::Function& function);

}  // namespace tjit
