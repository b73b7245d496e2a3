#include "compiler/llvm/loop_emitter.h"

#include <algorithm>
#include <vector>

#include "compiler/llvm/block_emitter.h"
#include "compiler/llvm/frame.h"
#include "llvm/IR/Intrinsics.h"

namespace tjit::llvm_backend {
namespace {

using ir::DType;
using llvm::Value;

// All buffers of a tile together, and the elements of a tile.
constexpr int kTileBytes = 16 << 10;
constexpr int kMinTile = 64;
constexpr int kMaxTile = 1024;
// Of a loop that reads columns where it writes rows: a line of the cache that
// holds part of one column is used up before the next ones replace it.
constexpr int kBlockRows = 16;
constexpr int kBlockColumns = 32;

class LoopEmitter {
 public:
  LoopEmitter(const LoopCode& code, const MathTable& math,
              const VectorTarget& target, Frame& frame)
      : code_(code),
        target_(target),
        frame_(frame),
        b_(frame.builder()),
        phases_(MakePhases(code)),
        loop_{code, phases_, math, frame, {}},
        lanes_(LanesOf(code, target)),
        is_transposing_(!phases_.uses_tiles() && Transposes(code)) {}

  void Run() {
    if (phases_.uses_tiles() || is_transposing_) {
      if (phases_.uses_tiles()) MakeBuffers();
      OuterDims(0, code_.sizes.size() > 1 ? 2 : 1, [&] { Tiles(); });
    } else {
      OuterDims(0, 1, [&] {
        const Range range = RangeOf(code_.sizes.size() - 1);
        Columns(range.from, range.to, nullptr, 0);
      });
    }
    b_.CreateRetVoid();
  }

 private:
  struct Range {
    Value* from;
    Value* to;
  };

  // As many as fit a register; narrow types do not widen the block.
  static int LanesOf(const LoopCode& code, const VectorTarget& target) {
    int bytes = 8;
    const auto consider = [&](DType dtype) {
      if (InfoOf(dtype).kind == ir::DTypeKind::kFloat && dtype != DType::kF64) {
        bytes = 4;
      }
    };
    for (const MemoryAccess& access : code.accesses) consider(access.dtype);
    for (const Step& step : code.steps) consider(step.result_dtype);
    return target.bytes / bytes;
  }

  static bool Transposes(const LoopCode& code) {
    const std::size_t dims = code.sizes.size();
    if (dims < 2 || code.in_order) return false;
    return std::any_of(code.accesses.begin(), code.accesses.end(),
                       [&](const MemoryAccess& a) {
                         return a.strides[dims - 2] == ir::Size(1) &&
                                a.strides[dims - 1] != ir::Size(0);
                       });
  }

  Range RangeOf(std::size_t dim) {
    if (dim == 0) return {frame_.begin(), frame_.end()};
    return {b_.getInt64(0), frame_.Number(code_.sizes[dim])};
  }

  // Loops over all dims but the `inner` last ones.
  template <class Body>
  void OuterDims(std::size_t dim, std::size_t inner, Body body) {
    if (dim + inner == code_.sizes.size()) return body();
    const Range range = RangeOf(dim);
    frame_.For(range.from, range.to, b_.getInt64(1), [&](Value* index) {
      outer_.push_back(index);
      OuterDims(dim + 1, inner, body);
      outer_.pop_back();
    });
  }

  void MakeBuffers() {
    int bytes = 0;  // of one element in all buffers
    for (const DType dtype : phases_.buffers) bytes += RegisterBytes(dtype);
    tile_ =
        std::clamp(kTileBytes / bytes / lanes_ * lanes_, kMinTile, kMaxTile);
    for (const DType dtype : phases_.buffers) {
      loop_.buffers.push_back(
          frame_.Array((tile_ + lanes_) * RegisterBytes(dtype)));
    }
  }

  static int RegisterBytes(DType dtype) {
    if (dtype == DType::kBool) return 1;
    const bool is_float = InfoOf(dtype).kind == ir::DTypeKind::kFloat;
    return is_float && dtype != DType::kF64 ? 4 : 8;
  }

  // Rows of columns, so many at a time that a tile is full (one dim: one row),
  // or blocks of some rows and columns.
  void Tiles() {
    const std::size_t dims = code_.sizes.size();
    const Range columns = RangeOf(dims - 1);
    Value* size = b_.getInt64(
        static_cast<std::uint64_t>(is_transposing_ ? kBlockColumns : tile_));
    Value* width = Min(b_.CreateSub(columns.to, columns.from), size);
    frame_.If(b_.CreateICmpSGT(width, b_.getInt64(0)), [&] {
      const auto tile_row = [&](Value* first_row, Value* rows) {
        frame_.For(columns.from, columns.to, width, [&](Value* first) {
          Value* count = Min(b_.CreateSub(columns.to, first), width);
          Tile(first_row, rows, first, count);
        });
      };
      if (dims == 1) return tile_row(nullptr, b_.getInt64(1));
      const Range rows = RangeOf(dims - 2);
      Value* height = is_transposing_ ? b_.getInt64(kBlockRows)
                                      : b_.CreateUDiv(size, width);
      frame_.For(rows.from, rows.to, height, [&](Value* first) {
        tile_row(first, Min(b_.CreateSub(rows.to, first), height));
      });
    });
  }

  // One tile: phase by phase the vector code of its rows, then the calls.
  void Tile(Value* first_row, Value* rows, Value* first, Value* count) {
    Value* elements = b_.CreateMul(rows, count);
    for (int phase = 0; phase < phases_.count; ++phase) {
      if (HasVectorCode(phase)) {
        frame_.For(b_.getInt64(0), rows, b_.getInt64(1), [&](Value* row) {
          if (first_row != nullptr) {
            outer_.push_back(b_.CreateAdd(first_row, row));
          }
          Value* offset = b_.CreateSub(b_.CreateMul(row, count), first);
          Columns(first, b_.CreateAdd(first, count), offset, phase);
          if (first_row != nullptr) outer_.pop_back();
        });
      }
      for (std::size_t i = 0; i < code_.steps.size(); ++i) {
        if (phases_.of_step[i] != phase || !code_.steps[i].is_array_call) {
          continue;
        }
        CallArray(code_.steps[i], first, elements);
      }
    }
  }

  bool HasVectorCode(int phase) const {
    if (phase == 0 && !phases_.buffer_of_access.empty()) return true;
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      if (phases_.of_step[i] == phase && !code_.steps[i].is_array_call) {
        return true;
      }
    }
    return std::find(phases_.of_store.begin(), phases_.of_store.end(), phase) !=
           phases_.of_store.end();
  }

  // void f(n, in..., out, mode)
  void CallArray(const Step& step, Value* first, Value* elements) {
    std::vector<llvm::Type*> types = {b_.getInt64Ty()};
    std::vector<Value*> arguments = {elements};
    for (const Source& source : step.sources) {
      arguments.push_back(ArrayOf(source, first));
      types.push_back(b_.getPtrTy());
    }
    arguments.push_back(BufferOf(phases_.buffer_of_value.at(step.result)));
    arguments.push_back(
        b_.getInt64(static_cast<std::uint64_t>(loop_.math.at(step.math).mode)));
    types.push_back(b_.getPtrTy());
    types.push_back(b_.getInt64Ty());
    llvm::Module* module = frame_.function()->getParent();
    b_.CreateCall(module->getOrInsertFunction(
                      loop_.math.SymbolOf(step.math),
                      llvm::FunctionType::get(b_.getVoidTy(), types, false)),
                  arguments);
  }

  Value* BufferOf(int number) {
    return loop_.buffers[static_cast<std::size_t>(number)];
  }

  Value* ArrayOf(const Source& source, Value* first) {
    if (source.kind == Source::Kind::kRegister) {
      return BufferOf(phases_.buffer_of_value.at(source.value));
    }
    if (!IsDirect(code_, source.access)) {
      return BufferOf(phases_.buffer_of_access.at(source.access));
    }
    const auto a = static_cast<std::size_t>(source.access);
    const MemoryAccess& access = code_.accesses[a];
    return b_.CreateInBoundsGEP(
        LaneTypes(b_, 1).MemoryType(access.dtype), frame_.Memory(access.memory),
        b_.CreateAdd(frame_.Number(access.offset), first));
  }

  Value* Min(Value* a, Value* b) {
    return b_.CreateSelect(b_.CreateICmpSLT(b, a), b, a);
  }

  Row MakeRow(Value* tile_offset) {
    Row row;
    row.tile_offset = tile_offset;
    row.uniforms.resize(code_.accesses.size());
    const LaneTypes one(b_, 1);
    for (std::size_t a = 0; a < code_.accesses.size(); ++a) {
      const MemoryAccess& access = code_.accesses[a];
      Value* offset = frame_.Number(access.offset);
      for (std::size_t d = 0; d < outer_.size(); ++d) {
        offset = b_.CreateAdd(
            offset, b_.CreateMul(outer_[d], frame_.Number(access.strides[d])));
      }
      llvm::Type* element = one.MemoryType(access.dtype);
      row.starts.push_back(
          b_.CreateInBoundsGEP(element, frame_.Memory(access.memory), offset));
      if (access.strides.back() != ir::Size(0) || IsStored(a)) continue;
      row.uniforms[a] = one.FromMemory(
          access.dtype,
          b_.CreateAlignedLoad(element, row.starts.back(),
                               llvm::Align(InfoOf(access.dtype).bytes)));
    }
    return row;
  }

  bool IsStored(std::size_t access) const {
    return std::any_of(code_.stores.begin(), code_.stores.end(),
                       [&](const StoreTo& store) {
                         return store.access == static_cast<int>(access);
                       });
  }

  // One phase of elements [from, to) of the row outer_. In an empty row
  // nothing is loaded: there may be nothing to load.
  void Columns(Value* from, Value* to, Value* tile_offset, int phase) {
    frame_.If(b_.CreateICmpSLT(from, to), [&] {
      const Row row = MakeRow(tile_offset);
      Value* count = b_.CreateSub(to, from);
      Value* vectors = b_.CreateAnd(count, b_.getInt64(-std::uint64_t(lanes_)));
      Value* middle = b_.CreateAdd(from, vectors);
      Blocks(row, from, middle, {lanes_, nullptr, nullptr, phase});
      if (!target_.has_masks) {
        return Blocks(row, middle, to, {1, nullptr, nullptr, phase});
      }
      frame_.If(b_.CreateICmpSLT(middle, to), [&] {
        // What is left, in the first lanes of one vector.
        Value* left = LaneTypes(b_, lanes_).Splat(b_.CreateSub(to, middle));
        Value* mask = b_.CreateICmpSLT(LaneNumbers(b_, lanes_), left);
        BlockEmitter(loop_, row, {lanes_, middle, mask, phase}).Run();
      });
    });
  }

  void Blocks(const Row& row, Value* from, Value* to, Block block) {
    Value* step = b_.getInt64(static_cast<std::uint64_t>(block.lanes));
    frame_.For(from, to, step, [&](Value* index) {
      block.index = index;
      BlockEmitter(loop_, row, block).Run();
    });
  }

  const LoopCode& code_;
  const VectorTarget& target_;
  Frame& frame_;
  Builder& b_;
  const Phases phases_;
  LoopContext loop_;
  const int lanes_;
  const bool is_transposing_;
  int tile_ = 0;               // elements
  std::vector<Value*> outer_;  // indices of the dims around
};

}  // namespace

void EmitLoop(const SharedLoop& loop, const MathTable& math,
              const VectorTarget& target, const std::string& name,
              llvm::Module* module) {
  Frame frame(*module, name, loop);
  LoopEmitter(loop.code, math, target, frame).Run();
}

}  // namespace tjit::llvm_backend
