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
// Tested by: tests/compiler/lower/lower_test.cpp, tests/filetests/lower/,
// tests/runtime/against_eager/lower_against_eager_test.cpp
#pragma once

#include <string>

#include "absl/types/span.h"
#include "compiler/ir/ir.h"
#include "compiler/lower/group.h"

namespace tjit {

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
