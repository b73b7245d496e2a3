#include "compiler/passes/loop_kinds.h"

#include <algorithm>

#include "compiler/passes/rewriter.h"

namespace tjit {

using ir::Instruction;
using ir::Operand;

LoopKind LoopKindOf(const Instruction& in) {
  if (in.op == ir::Op::kUpdate) return LoopKind::kUpdate;
  const bool is_of_rows = IsAlongRows(in) && !in.keepdim;
  switch (InfoOf(in.op).family) {
    case ir::Family::kReduce:
      if (IsOverWhole(in)) return LoopKind::kWhole;
      if (is_of_rows) return LoopKind::kRows;
      return IsAlongColumns(in) ? LoopKind::kColumns : LoopKind::kReduce;
    case ir::Family::kRow:
      return is_of_rows ? LoopKind::kRows : LoopKind::kSlabs;
    default:
      return LoopKind::kPointwise;
  }
}

ir::Sizes LoopSizesOf(const ir::Function& function, const Instruction& in) {
  if (LoopKindOf(in) != LoopKind::kPointwise) {
    return in.operands[0].access.sizes;
  }
  return function.values[static_cast<std::size_t>(in.results[0])].layout.sizes;
}

bool TakesRegister(const ir::Function& function, const Instruction& in,
                   std::size_t operand) {
  return LoopKindOf(in) != LoopKind::kUpdate &&
         IsWhole(function, in.operands[operand]);
}

int SlabDimOf(const Instruction& in) {
  return LoopKindOf(in) == LoopKind::kSlabs ? in.dims[0] : -1;
}

bool IsAlongRows(const Instruction& in) {
  return in.dims.size() == 1 &&
         in.dims[0] + 1 == static_cast<int>(in.operands[0].access.sizes.size());
}

bool IsAlongColumns(const Instruction& in) {
  const auto ndim = static_cast<int>(in.operands[0].access.sizes.size());
  return ndim > 1 && static_cast<int>(in.dims.size()) == ndim - 1 &&
         in.dims.back() == ndim - 2;
}

namespace {

bool HasFunctionOfAll(ir::Op op) {
  switch (op) {
    case ir::Op::kSum:
    case ir::Op::kMean:
    case ir::Op::kAmax:
    case ir::Op::kAmin:
    case ir::Op::kNorm:
    case ir::Op::kAny:
    case ir::Op::kAllOf:
    case ir::Op::kMaxOfAll:
    case ir::Op::kMinOfAll:
    case ir::Op::kSumInLevels:
    case ir::Op::kSumOfHalves:
    case ir::Op::kAmaxOfHalves:
    case ir::Op::kAminOfHalves:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool IsOverWhole(const Instruction& in) {
  return HasFunctionOfAll(in.op) && !in.dims.empty() &&
         in.dims.size() == in.operands[0].access.sizes.size();
}

bool AreRowsOf(const ir::Sizes& rows, const ir::Sizes& all) {
  return rows.size() + 1 == all.size() &&
         std::equal(rows.begin(), rows.end(), all.begin());
}

bool ReadsRow(const ir::Function& function, const Instruction& in,
              std::size_t operand) {
  const Operand& read = in.operands[operand];
  if (!read.is_tensor() || LoopKindOf(in) != LoopKind::kPointwise) return false;
  const ir::Geometry& layout =
      function.values[static_cast<std::size_t>(read.value)].layout;
  return AreRowsOf(layout.sizes, read.access.sizes) &&
         AreRowsOf(layout.strides, read.access.strides) &&
         read.access.strides.back() == ir::Size(0) &&
         read.access.offset == layout.offset;
}

bool RunsInParts(LoopKind kind) {
  return kind == LoopKind::kPointwise || kind == LoopKind::kRows ||
         kind == LoopKind::kSlabs;
}

}  // namespace tjit
