#include "compiler/llvm/narrow_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "compiler/llvm/index_math.h"

namespace tjit::llvm_backend {
namespace {

using ir::Size;
using llvm::Value;

class Emitter {
 public:
  Emitter(const LoopContext& loop, int lanes)
      : loop_(loop),
        code_(loop.code),
        b_(loop.frame.builder()),
        lanes_(lanes),
        rows_(RowsAtATime(code_, lanes)),
        registers_(rows_ * code_.narrow_row / lanes) {}

  Value* Run() {
    Frame& frame = loop_.frame;
    Value* rows = b_.CreateSub(frame.end(), frame.begin());
    Value* whole =
        b_.CreateAnd(rows, b_.getInt64(-static_cast<std::uint64_t>(rows_)));
    Value* end = b_.CreateAdd(frame.begin(), whole);
    frame.If(b_.CreateICmpSLT(frame.begin(), end), [&] {
      LoadColumns();
      Value* step = b_.getInt64(static_cast<std::uint64_t>(rows_));
      frame.For(frame.begin(), end, step, [&](Value* row) { Rows(row); });
    });
    return end;
  }

 private:
  Value* AddressOf(const MemoryAccess& access, Value* row) {
    Frame& frame = loop_.frame;
    Value* offset = frame.Number(access.offset);
    if (row != nullptr) {
      offset =
          Plus(b_, offset, Times(b_, row, frame.Number(access.strides[0])));
    }
    return ElementAt(b_, LaneTypes(b_, 1).MemoryType(access.dtype),
                     frame.Memory(access.memory), offset);
  }

  // `count` elements side by side.
  Value* LoadSome(const MemoryAccess& access, Value* row, int count) {
    const LaneTypes types(b_, count);
    return b_.CreateAlignedLoad(types.Lanes(types.MemoryType(access.dtype)),
                                AddressOf(access, row),
                                llvm::Align(InfoOf(access.dtype).bytes));
  }

  // Lanes of register `r`, each of them element f(place among these rows).
  template <class F>
  Value* Spread(Value* elements, int r, F f) {
    std::vector<int> lanes(static_cast<std::size_t>(lanes_));
    std::iota(lanes.begin(), lanes.end(), r * lanes_);
    for (int& lane : lanes) lane = f(lane);
    return b_.CreateShuffleVector(elements, lanes);
  }

  // Also what there is one of, as that is the same in all rows.
  void LoadColumns() {
    const std::size_t accesses = code_.accesses.size();
    spread_.assign(static_cast<std::size_t>(registers_), {});
    for (auto& of_access : spread_) of_access.resize(accesses);
    uniforms_.resize(accesses);
    splats_.resize(accesses);
    const LaneTypes one(b_, 1);
    for (std::size_t a = 0; a < accesses; ++a) {
      const MemoryAccess& access = code_.accesses[a];
      const NarrowAccess kind = NarrowAccessOf(access);
      if (kind == NarrowAccess::kOne) {
        uniforms_[a] = one.FromMemory(
            access.dtype,
            b_.CreateAlignedLoad(one.MemoryType(access.dtype),
                                 AddressOf(access, nullptr),
                                 llvm::Align(InfoOf(access.dtype).bytes)));
        splats_[a] = LaneTypes(b_, lanes_).Splat(uniforms_[a]);
      } else if (kind == NarrowAccess::kOfColumn) {
        Value* columns = LoadSome(access, nullptr, code_.narrow_row);
        for (int r = 0; r < registers_; ++r) {
          spread_[static_cast<std::size_t>(r)][a] =
              Spread(columns, r, [&](int at) { return at % code_.narrow_row; });
        }
      }
    }
  }

  void Rows(Value* first) {
    Row row;
    row.dim = 1;
    row.uniforms = uniforms_;
    row.splats = splats_;
    for (std::size_t a = 0; a < code_.accesses.size(); ++a) {
      const MemoryAccess& access = code_.accesses[a];
      row.starts.push_back(AddressOf(access, first));
      if (NarrowAccessOf(access) != NarrowAccess::kOfRow) continue;
      Value* of_rows = LoadSome(access, first, rows_);
      for (int r = 0; r < registers_; ++r) {
        spread_[static_cast<std::size_t>(r)][a] =
            Spread(of_rows, r, [&](int at) { return at / code_.narrow_row; });
      }
    }
    for (int r = 0; r < registers_; ++r) {
      row.lanes = spread_[static_cast<std::size_t>(r)];
      Value* index = b_.getInt64(static_cast<std::uint64_t>(r * lanes_));
      BlockEmitter(loop_, row, {lanes_, index}).Run();
    }
  }

  const LoopContext& loop_;
  const LoopCode& code_;
  Builder& b_;
  const int lanes_, rows_;
  const int registers_;                      // of these rows
  std::vector<std::vector<Value*>> spread_;  // by register, then access
  std::vector<Value*> uniforms_, splats_;    // by access
};

}  // namespace

Value* EmitNarrowRows(const LoopContext& loop, int lanes) {
  return Emitter(loop, lanes).Run();
}

}  // namespace tjit::llvm_backend
