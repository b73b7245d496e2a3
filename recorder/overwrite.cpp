#include "recorder/overwrite.h"

#include <algorithm>
#include <array>

#include "recorder/schema_key.h"
#include "support/assert.h"

namespace tjit {
namespace {

// Their first argument is all that they write, and is not read.
bool FillsFirstArgument(OpId op) {
  static const std::array<OpId, 4> ops = {
      InternOp("aten::copy_"), InternOp("aten::fill_.Scalar"),
      InternOp("aten::fill_.Tensor"), InternOp("aten::zero_")};
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

// Each element of the memory from the first byte on is one of the tensor's.
bool IsDense(const TensorGeometry& g) {
  switch (LayoutOf(g)) {
    case LayoutClass::kContiguous:
    case LayoutClass::kChannelsLast:
    case LayoutClass::kTransposed:
      return g.offset == 0;
    default:
      return false;
  }
}

}  // namespace

bool OverwritesAll(const StepRecord& step, const ArgRecord& arg,
                   std::uint64_t bytes) {
  TJIT_ASSERT(&arg >= step.args.data() &&
              &arg < step.args.data() + step.args.size());
  if (!arg.written || &arg != step.args.data() ||
      !FillsFirstArgument(step.op)) {
    return false;
  }
  const auto reads_it = [&](const ArgRecord& other) {
    return &other != &arg && other.slot == arg.slot;
  };
  const TensorGeometry& g = arg.geometry;
  return IsDense(g) &&
         static_cast<std::uint64_t>(g.numel()) * g.itemsize == bytes &&
         std::none_of(step.args.begin(), step.args.end(), reads_it);
}

}  // namespace tjit
