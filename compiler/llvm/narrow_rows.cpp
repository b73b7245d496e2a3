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

constexpr std::int64_t kMaxNarrowRow = 16;
// Of one loop, all registers of some rows together: code is compiled and kept.
constexpr int kMaxNarrowSteps = 192;

// How the elements of an access lie.
enum class Kind { kDense, kOfRow, kOfColumn, kOne, kOther };

Kind KindOf(const MemoryAccess& access, const Size& row) {
  const Size& outer = access.strides[0];
  const Size& inner = access.strides[1];
  if (access.is_of_row) return Kind::kOther;
  if (inner == Size(1)) {
    if (outer == Size(0)) return Kind::kOfColumn;
    return outer == row ? Kind::kDense : Kind::kOther;
  }
  if (inner != Size(0)) return Kind::kOther;
  if (outer == Size(0)) return Kind::kOne;
  return outer == Size(1) ? Kind::kOfRow : Kind::kOther;
}

// Of a loop that is known to be narrow: the size of its rows is shared.
Kind KnownKindOf(const MemoryAccess& access) {
  const Kind kind = KindOf(access, Size(-1));
  return kind == Kind::kOther ? Kind::kDense : kind;
}

bool IsPlain(const LoopCode& code) {
  return !code.in_order && !code.is_rows && !code.is_whole && !code.is_slabs &&
         code.sizes.size() == 2 &&
         std::none_of(code.steps.begin(), code.steps.end(),
                      [](const Step& step) {
                        return step.is_array_call || step.is_tail_call;
                      });
}

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
      const Kind kind = KnownKindOf(access);
      if (kind == Kind::kOne) {
        uniforms_[a] = one.FromMemory(
            access.dtype,
            b_.CreateAlignedLoad(one.MemoryType(access.dtype),
                                 AddressOf(access, nullptr),
                                 llvm::Align(InfoOf(access.dtype).bytes)));
        splats_[a] = LaneTypes(b_, lanes_).Splat(uniforms_[a]);
      } else if (kind == Kind::kOfColumn) {
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
      if (KnownKindOf(access) != Kind::kOfRow) continue;
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

int NarrowRowOf(const LoopCode& code) {
  if (!IsPlain(code) || !code.sizes[1].is_constant()) return 0;
  const std::int64_t row = code.sizes[1].constant();
  if (row < 2 || row > kMaxNarrowRow) return 0;
  const auto kind_of = [&](int a) {
    return KindOf(code.accesses[static_cast<std::size_t>(a)], Size(row));
  };
  for (int a = 0; a < static_cast<int>(code.accesses.size()); ++a) {
    if (kind_of(a) == Kind::kOther) return 0;
  }
  for (const StoreTo& store : code.stores) {
    const bool is_copy = store.source.kind == Source::Kind::kAccess;
    if (is_copy || kind_of(store.access) != Kind::kDense) return 0;
  }
  return static_cast<int>(row);
}

int RowsAtATime(const LoopCode& code, int lanes) {
  const int row = code.narrow_row;
  if (row == 0 || lanes == 1 || row % lanes == 0) return 0;
  const int common = std::gcd(row, lanes);
  const int steps = static_cast<int>(code.steps.size()) * (row / common);
  return steps > kMaxNarrowSteps ? 0 : lanes / common;
}

Value* EmitNarrowRows(const LoopContext& loop, int lanes) {
  return Emitter(loop, lanes).Run();
}

}  // namespace tjit::llvm_backend
