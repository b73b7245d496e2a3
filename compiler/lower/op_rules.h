// Which ops are lowered, and how: one table per family of ops.
//
// A rule is a function and its parameters; the functional, the in-place and
// the out= form of an op share it, since a StepLowering knows where results
// go. `operand_spec` names the operands of the IR op in order: a digit is a
// tensor argument, `a`, `b`, `c` are scalars 0, 1, 2, `Z` is the constant 0,
// `O` 1. For an element of a list: a digit is a list, `*` the element's own
// scalar, `T` the one tensor behind the lists.
// Tested by: tests/compiler/lower/lower_test.cpp (names),
// tests/runtime/against_eager/lower_against_eager_test.cpp (bits)
#pragma once

#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "compiler/ir/op.h"

namespace tjit::lower {

class StepLowering;

struct OpRule {
  std::string_view functional, in_place, out;  // empty: there is none
  bool (*lower)(StepLowering& s, const OpRule& rule) = nullptr;
  ir::Op op = ir::Op::kTo;
  const char* operand_spec = "";
  // False: the tensors give sizes and dtype, their bytes are not read.
  bool reads_arguments = true;
};

absl::Span<const OpRule> BatchNormRules();
absl::Span<const OpRule> VectorRemainderRules();
absl::Span<const OpRule> PointwiseRules();
absl::Span<const OpRule> CompositeRules();
absl::Span<const OpRule> CopyFillRules();
absl::Span<const OpRule> GroupNormRules();
absl::Span<const OpRule> ConcatRules();
absl::Span<const OpRule> ForeachRules();
absl::Span<const OpRule> LossRules();
absl::Span<const OpRule> NllLossRules();
absl::Span<const OpRule> NormRules();
absl::Span<const OpRule> NormBackwardRules();
absl::Span<const OpRule> ReduceRules();
absl::Span<const OpRule> RowRules();
absl::Span<const OpRule> PositionDependentRules();

// Lowers one IR op over the operands of `spec`, in the type that eager computes
// in. Refuses where eager's bits are not those of the op.
bool LowerOperandSpec(StepLowering& s, ir::Op op, const char* spec);
// The same for an op whose bits depend on the position of an element
// (position_dependent.cpp).
bool LowerFlat(StepLowering& s, ir::Op op, const char* spec);
// True if no argument lies where another one is written; else refuses.
bool IsApart(StepLowering& s);
// LowerFlat() if IsApart().
bool LowerFlatApart(StepLowering& s, ir::Op op, const char* spec);

// True if the tensors of the step, its arguments from `first` on, are of one
// type of floats and one size, and lie row-major; else it refuses.
bool IsFlat(StepLowering& s, std::size_t first);

// True if rounding to a half, if the type is one, leaves the number as it is:
// what eager does with scalars differs by op and place. Others are true.
bool IsExact(double number, ir::DType dtype);

// Null if the op is not lowered.
const OpRule* RuleOf(std::string_view op);
// All names, sorted.
std::vector<std::string_view> LoweredOps();

}  // namespace tjit::lower
