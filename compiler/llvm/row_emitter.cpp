#include "compiler/llvm/row_emitter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compiler/llvm/index_math.h"
#include "support/planted_defect.h"

namespace tjit::llvm_backend {
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

Value* RowEmitter::ArrayOf(const Source& source) {
  const Phases& phases = loop_.phases;
  const auto buffer = [&](int number) {
    return loop_.buffers[static_cast<std::size_t>(number)];
  };
  if (source.kind == Source::Kind::kRegister) {
    return buffer(phases.buffer_of_value.at(source.value));
  }
  if (!IsDirect(code_, source.access)) {
    return buffer(phases.buffer_of_access.at(source.access));
  }
  return AddressOf(source.access);
}

Value* RowEmitter::AddressOf(int index) {
  const auto a = static_cast<std::size_t>(index);
  const MemoryAccess& access = code_.accesses[a];
  return ElementAt(b_, LaneTypes(b_, 1).MemoryType(access.dtype),
                   frame_.Memory(access.memory), OffsetOf(access));
}

Row RowEmitter::MakeRow(const Piece& piece) {
  Row row;
  row.dim = outer_.size();
  row.tile_offset = piece.tile_offset;
  row.starts.resize(code_.accesses.size());
  row.uniforms.resize(code_.accesses.size());
  row.splats.resize(code_.accesses.size());
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
    row.splats[a] = LaneTypes(b_, lanes_).Splat(row.uniforms[a]);
  }
  if (piece.row == nullptr) return row;
  Row in_buffers;
  in_buffers.tile_offset = b_.getInt64(0);
  for (const ir::ValueId value : code.row_values) {
    row.values[value] =
        BlockEmitter(loop_, in_buffers, {1, piece.row}).LoadValue(value);
    row.value_splats[value] = LaneTypes(b_, lanes_).Splat(row.values[value]);
  }
  return row;
}

bool RowEmitter::IsStored(std::size_t access) const {
  return std::any_of(code_.stores.begin(), code_.stores.end(),
                     [&](const StoreTo& store) {
                       return store.access == static_cast<int>(access);
                     });
}

// Note [One body].
bool RowEmitter::NeedsFullVectors(const Piece& piece) const {
  if (HasSharedDivisors(piece)) return true;
  if (piece.is_of_row) return false;
  for (std::size_t i = 0; i < code_.stores.size(); ++i) {
    if (loop_.phases.of_store[i] == piece.phase &&
        loop_.phases.is_by_call[i] == 0 && !code_.stores[i].is_of_row) {
      return true;
    }
  }
  return false;
}

// A quotient that is a product, but not in a masked register.
bool RowEmitter::HasSharedDivisors(const Piece& piece) const {
  for (std::size_t i = 0; i < code_.steps.size(); ++i) {
    const Step& step = code_.steps[i];
    if (loop_.phases.of_step[i] == piece.phase && !step.is_array_call &&
        step.is_of_row == piece.is_of_row && step.math < 0 &&
        SharesDivisor(code_, step)) {
      return true;
    }
  }
  return false;
}

void RowEmitter::Columns(const Piece& piece) {
  Value *const from = piece.from, *const to = piece.to;
  Block block{lanes_, nullptr, nullptr, piece.phase, piece.is_of_row};
  const Row row = MakeRow(piece);
  const int lost = Planted(Defect::kWrongTail) ? 1 : 0;
  Value* last = Minus(b_, to, b_.getInt64(static_cast<std::uint64_t>(lost)));
  Value* rest_end = piece.is_of_row ? to : last;
  if (loop_.has_masks && !NeedsFullVectors(piece)) {
    return OneBody(row, from, to, rest_end, block);
  }
  Value* vectors = b_.CreateAnd(Minus(b_, to, from), b_.CreateNeg(Lanes()));
  Value* middle = Plus(b_, from, vectors);
  Blocks(row, from, middle, block);
  if (!loop_.has_masks) {
    block.lanes = 1;
    return Blocks(row, middle, rest_end, block);
  }
  frame_.If(b_.CreateICmpSLT(middle, to),
            [&] { Masked(row, middle, last, block); });
}

// Note [One body].
void RowEmitter::OneBody(const Row& row, Value* from, Value* to, Value* last,
                         Block block) {
  Value* full = b_.CreateSub(to, Lanes());
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* check = frame_.NewBlock();
  llvm::BasicBlock* iteration = frame_.NewBlock();
  llvm::BasicBlock* body = frame_.NewBlock();
  llvm::BasicBlock* done = frame_.NewBlock();
  b_.CreateBr(check);
  b_.SetInsertPoint(check);
  llvm::PHINode* begin = b_.CreatePHI(b_.getInt64Ty(), 2);
  b_.CreateCondBr(b_.CreateICmpSLT(begin, to), iteration, done);
  b_.SetInsertPoint(iteration);
  Value* some = LanesOf(begin, last);
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2);
  llvm::PHINode* mask = b_.CreatePHI(some->getType(), 2);
  block.index = index;
  block.mask = mask;
  BlockEmitter(loop_, row, block).Run();
  Value* next = b_.CreateNSWAdd(index, Lanes());
  llvm::BasicBlock* end = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLE(next, full), body, check);
  begin->addIncoming(from, before);
  begin->addIncoming(next, end);
  index->addIncoming(begin, iteration);
  index->addIncoming(next, end);
  mask->addIncoming(some, iteration);
  mask->addIncoming(llvm::Constant::getAllOnesValue(some->getType()), end);
  b_.SetInsertPoint(done);
}

// Those of [from, to) that one vector has lanes for, in its first lanes.
void RowEmitter::Masked(const Row& row, Value* from, Value* to, Block block) {
  block.mask = LanesOf(from, to);
  block.index = from;
  BlockEmitter(loop_, row, block).Run();
}

Value* RowEmitter::LanesOf(Value* from, Value* to) const {
  Value* left = Minus(b_, to, from);
  left = b_.CreateSelect(b_.CreateICmpSLT(left, Lanes()), left, Lanes());
  return FirstLanes(b_, lanes_, left);
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
