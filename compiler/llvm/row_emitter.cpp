#include "compiler/llvm/row_emitter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compiler/llvm/index_math.h"
#include "recorder/planted_defect.h"

namespace tjit::llvm_backend {
namespace {

// Steps of a phase that make its body long, a square root is some of them; and
// how many of them there may be for one that divides.
constexpr int kLongBody = 12;
constexpr int kSqrtSteps = 8;
constexpr int kStepsOfDivision = 8;

}  // namespace

using llvm::Value;

RowEmitter::RowEmitter(const LoopContext& loop, int lanes,
                       const std::vector<Value*>& outer)
    : loop_(loop),
      code_(loop.code),
      frame_(loop.frame),
      b_(loop.frame.builder()),
      lanes_(lanes),
      outer_(outer) {}

Value* RowEmitter::OffsetOf(const MemoryAccess& access) {
  Value* offset = frame_.Number(access.offset);
  for (std::size_t d = 0; d < outer_.size(); ++d) {
    Value* stride = frame_.Number(access.strides[d]);
    offset = Plus(b_, offset, Times(b_, outer_[d], stride));
  }
  return offset;
}

Row RowEmitter::MakeRow(const Piece& piece) {
  Row row;
  row.dim = outer_.size();
  row.tile_offset = piece.tile_offset;
  row.starts.resize(code_.accesses.size());
  row.uniforms.resize(code_.accesses.size());
  const LaneTypes one(b_, 1);
  const PhaseCode code =
      CodeOf(code_, loop_.phases, piece.phase, piece.is_of_row);
  for (const int index : code.accesses) {
    const auto a = static_cast<std::size_t>(index);
    const MemoryAccess& access = code_.accesses[a];
    llvm::Type* element = one.MemoryType(access.dtype);
    row.starts[a] =
        ElementAt(b_, element, frame_.Memory(access.memory), OffsetOf(access));
    if (access.strides[row.dim] != ir::Size(0) || IsStored(a)) continue;
    row.uniforms[a] = one.FromMemory(
        access.dtype,
        b_.CreateAlignedLoad(element, row.starts[a],
                             llvm::Align(InfoOf(access.dtype).bytes)));
  }
  if (piece.row == nullptr) return row;
  Row in_buffers;
  in_buffers.tile_offset = b_.getInt64(0);
  for (const ir::ValueId value : code.row_values) {
    row.values[value] =
        BlockEmitter(loop_, in_buffers, {1, piece.row}).LoadValue(value);
  }
  return row;
}

bool RowEmitter::IsStored(std::size_t access) const {
  return std::any_of(code_.stores.begin(), code_.stores.end(),
                     [&](const StoreTo& store) {
                       return store.access == static_cast<int>(access);
                     });
}

// Note [Long bodies].
bool RowEmitter::IsLong(const Piece& piece) const {
  int steps = 0, divisions = 0;
  for (std::size_t i = 0; i < code_.steps.size(); ++i) {
    const Step& step = code_.steps[i];
    if (loop_.phases.of_step[i] != piece.phase || step.is_array_call ||
        step.is_of_row != piece.is_of_row) {
      continue;
    }
    // These are quotients in a masked register.
    if (step.math < 0 && SharesDivisor(code_, step)) return false;
    const bool is_sqrt = step.math >= 0 && loop_.math.IsSqrtInCode(step.math);
    steps += is_sqrt ? kSqrtSteps : 1;
    divisions += is_sqrt || step.op == ir::Op::kDiv ? 1 : 0;
  }
  return steps >= kLongBody && divisions * kStepsOfDivision >= steps;
}

void RowEmitter::Columns(const Piece& piece) {
  Value *const from = piece.from, *const to = piece.to;
  Block block{lanes_, nullptr, nullptr, piece.phase, piece.is_of_row};
  const Row row = MakeRow(piece);
  const int lost = Planted(Defect::kWrongTail) ? 1 : 0;
  Value* last = Minus(b_, to, b_.getInt64(static_cast<std::uint64_t>(lost)));
  // Few are left of each tile for the code of rows: one body is smaller.
  if (loop_.has_masks && (piece.is_of_row || IsLong(piece))) {
    return frame_.For(from, to, Lanes(), [&](Value* index) {
      Masked(row, index, piece.is_of_row ? to : last, block);
    });
  }
  Value* vectors = b_.CreateAnd(Minus(b_, to, from), b_.CreateNeg(Lanes()));
  Value* middle = Plus(b_, from, vectors);
  Blocks(row, from, middle, block);
  if (!loop_.has_masks) {
    block.lanes = 1;
    return Blocks(row, middle, to, block);
  }
  frame_.If(b_.CreateICmpSLT(middle, to),
            [&] { Masked(row, middle, last, block); });
}

// Those of [from, to) that one vector has lanes for, in its first lanes.
void RowEmitter::Masked(const Row& row, Value* from, Value* to, Block block) {
  Value* left = Minus(b_, to, from);
  left = b_.CreateSelect(b_.CreateICmpSLT(left, Lanes()), left, Lanes());
  block.mask = FirstLanes(b_, lanes_, left);
  block.index = from;
  BlockEmitter(loop_, row, block).Run();
}

void RowEmitter::Blocks(const Row& row, Value* from, Value* to, Block block) {
  Value* step = b_.getInt64(static_cast<std::uint64_t>(block.lanes));
  frame_.For(from, to, step, [&](Value* index) {
    block.index = index;
    BlockEmitter(loop_, row, block).Run();
  });
}

Value* RowEmitter::Lanes() const {
  return b_.getInt64(static_cast<std::uint64_t>(lanes_));
}

}  // namespace tjit::llvm_backend
