#include "compiler/llvm/loop_emitter.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/llvm/call_emitter.h"
#include "compiler/llvm/frame.h"
#include "compiler/llvm/index_math.h"
#include "compiler/llvm/narrow_rows.h"
#include "compiler/llvm/row_emitter.h"
#include "compiler/llvm/row_sums.h"
#include "compiler/llvm/slab_emitter.h"
#include "compiler/schedule/tile_shape.h"

namespace tjit::llvm_backend {
namespace {

using llvm::Value;

class LoopEmitter {
 public:
  LoopEmitter(const LoopCode& code, const MathTable& math,
              const VectorTarget& target, Frame& frame)
      : code_(code),
        frame_(frame),
        b_(frame.builder()),
        phases_(MakePhases(code)),
        loop_{code, phases_, math, frame, {}, target.has_masks},
        calls_(loop_),
        lanes_(LanesOf(code, target.bytes)),
        rows_(loop_, lanes_, outer_),
        sums_(loop_, lanes_),
        slabs_(loop_, &rows_, &calls_, &outer_),
        block_columns_(BlockColumns(code, phases_)),
        first_(frame.begin()) {}

  void Run() {
    if (code_.is_rows) {
      MakeRowBuffers();
      if (code_.is_columns) calls_.BeginColumns();
      OuterDims(0, 2, [&] {
        const Range rows = RangeOf(code_.sizes.size() - 2);
        frame_.For(rows.from, rows.to, tile_rows_, [&](Value* first) {
          RowTile(first, Min(b_, b_.CreateSub(rows.to, first), tile_rows_));
        });
      });
      if (code_.is_columns) calls_.EndColumns();
    } else if (code_.is_slabs) {
      PlaceBuffers(slabs_.Begin());
      OuterDims(0, 2, [&] { slabs_.Tiles(); });
    } else if (phases_.uses_tiles() || code_.is_whole || block_columns_ > 0) {
      if (phases_.uses_tiles() || code_.is_whole) MakeBuffers();
      if (code_.is_whole) calls_.BeginColumns();
      OuterDims(0, code_.sizes.size() > 1 ? 2 : 1, [&] { Tiles(); });
      if (code_.is_whole) calls_.EndColumns();
    } else {
      if (RowsAtATime(code_, lanes_) > 0) {
        first_ = EmitNarrowRows(loop_, lanes_);
      }
      OuterDims(0, 1, [&] {
        const Range range = RangeOf(code_.sizes.size() - 1);
        frame_.If(b_.CreateICmpSLT(range.from, range.to), [&] {
          rows_.Columns({range.from, range.to, nullptr, 0});
        });
      });
    }
    frame_.Return();
  }

 private:
  struct Range {
    Value* from;
    Value* to;
  };
  static int BlockColumns(const LoopCode& code, const Phases& phases) {
    if (phases.uses_tiles() || code.is_rows || code.is_whole) return 0;
    if (Transposes(code)) return kBlockColumns;
    const bool is_narrow = code.narrow_row > 0;
    return !is_narrow && RepeatsColumns(code) ? kRepeatedColumns : 0;
  }
  Range RangeOf(std::size_t dim) {
    if (dim == 0) return {first_, frame_.end()};
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
    tile_ = TileElements(code_, phases_);
    for (const TileBuffer& buffer : phases_.buffers) {
      loop_.buffers.push_back(
          frame_.Array((tile_ + lanes_) * RegisterBytes(buffer.dtype)));
    }
  }

  // As many rows as a tile has elements for, or one that is longer.
  void MakeRowBuffers() {
    Value* length = RowLength();
    Value* rows = b_.CreateUDiv(Number(TileElements(code_, phases_)), length);
    rows = b_.CreateSelect(b_.CreateIsNull(rows), Number(1), rows);
    tile_rows_ = Min(b_, rows, Number(kMaxTileRows));
    if (!sums_.is_empty()) tile_rows_ = sums_.Begin(length, tile_rows_);
    PlaceBuffers(b_.CreateMul(tile_rows_, sums_.KeptOf(length)));
  }

  // For so many elements of a tile. One array for all, as each has a loop that
  // touches its pages.
  void PlaceBuffers(Value* elements) {
    std::map<std::pair<bool, int>, Value*> bytes;
    std::vector<Value*> places;
    Value* end = Number(0);
    for (const TileBuffer& buffer : phases_.buffers) {
      if (buffer.access >= 0) {
        places.push_back(nullptr);
        continue;
      }
      const int each = RegisterBytes(buffer.dtype);
      Value*& size = bytes[{buffer.is_of_row, each}];
      if (size == nullptr) {
        Value* count = buffer.is_of_row ? tile_rows_ : elements;
        Value* past_end = b_.CreateAdd(Times(b_, count, Number(each)),
                                       Number(lanes_ * each + 63));
        size = b_.CreateAnd(past_end, Number(-64));
      }
      places.push_back(end);
      end = Plus(b_, end, size);
    }
    Value* array = bytes.empty() ? nullptr : frame_.Array(end);
    for (Value* place : places) {
      loop_.buffers.push_back(
          place == nullptr ? nullptr
                           : ElementAt(b_, b_.getInt8Ty(), array, place));
    }
  }

  // Note [Stored by calls] in phases.h.
  void PlaceStoresByCalls(Value* first_row) {
    outer_.push_back(first_row);
    for (std::size_t i = 0; i < loop_.buffers.size(); ++i) {
      const int access = phases_.buffers[i].access;
      if (access >= 0) loop_.buffers[i] = rows_.AddressOf(access);
    }
    outer_.pop_back();
  }

  Value* RowLength() { return frame_.Number(code_.sizes.back()); }
  Value* Number(int number) {
    return b_.getInt64(static_cast<std::uint64_t>(number));
  }

  // Rows of columns, so many at a time that a tile is full (one dim: one row),
  // or blocks of some rows and columns.
  void Tiles() {
    const std::size_t dims = code_.sizes.size();
    const Range columns = RangeOf(dims - 1);
    Value* size = Number(block_columns_ > 0 ? block_columns_ : tile_);
    Value* width = Min(b_, b_.CreateSub(columns.to, columns.from), size);
    frame_.If(b_.CreateICmpSGT(width, b_.getInt64(0)), [&] {
      const auto tile_row = [&](Value* first_row, Value* rows) {
        frame_.For(columns.from, columns.to, width, [&](Value* first) {
          Value* count = Min(b_, b_.CreateSub(columns.to, first), width);
          Tile(first_row, rows, first, count);
        });
      };
      if (dims == 1) return tile_row(nullptr, b_.getInt64(1));
      const Range rows = RangeOf(dims - 2);
      Value* height =
          block_columns_ > 0 ? Number(kBlockRows) : b_.CreateUDiv(size, width);
      frame_.For(rows.from, rows.to, height, [&](Value* first) {
        tile_row(first, Min(b_, b_.CreateSub(rows.to, first), height));
      });
    });
  }

  // Some rows of a rows loop: phase by phase the code of rows, the code of
  // elements, then the calls.
  void RowTile(Value* first_row, Value* rows) {
    Value* length = RowLength();
    Value* elements = b_.CreateMul(rows, length);
    Value* zero = Number(0);
    PlaceStoresByCalls(first_row);
    for (int phase = 0; phase < phases_.count; ++phase) {
      if (!CodeOf(code_, phases_, phase, true).is_empty) {
        rows_.Columns({first_row, b_.CreateAdd(first_row, rows),
                       b_.CreateNeg(first_row), phase, true});
      }
      const PhaseCode code = CodeOf(code_, phases_, phase, false);
      if (!code.is_empty && sums_.AreIn(phase)) {
        SummedElements(first_row, rows, phase, code.is_dense);
      } else if (!code.is_empty && code.is_dense) {
        outer_.push_back(first_row);
        rows_.Columns({zero, elements, zero, phase});
        outer_.pop_back();
      } else if (!code.is_empty) {
        frame_.For(zero, rows, Number(1), [&](Value* row) {
          outer_.push_back(b_.CreateAdd(first_row, row));
          rows_.Columns(
              {zero, length, b_.CreateMul(row, length), phase, false, row});
          outer_.pop_back();
        });
      }
      for (const int call : CallsOf(code_, phases_, phase)) {
        const Step& step = code_.steps[static_cast<std::size_t>(call)];
        const CallEmitter::Arrays in = ArraysOf(step, first_row);
        if (step.is_column_call) {
          calls_.Columns(step, in, rows);
        } else if (step.is_row_call) {
          calls_.Rows(step, in, rows, sums_.SumsOf(step));
        } else if (step.is_position_call) {
          Value* first = step.is_of_row ? nullptr : zero;
          calls_.PositionCall(step, in, step.is_of_row ? rows : elements,
                              PlaceOf(first_row, first),
                              ElementCount(step.is_of_row));
        } else {
          calls_.Array(step, in, step.is_of_row ? rows : elements);
        }
      }
    }
  }

  // The elements of a phase that are added up: whole groups in registers, what
  // is left of each row in the buffers; short rows in the buffers. Note [Sums
  // of registers] in row_sums.h.
  void SummedElements(Value* first_row, Value* rows, int phase, bool is_dense) {
    Value* pieces = sums_.PiecesOf(rows, is_dense);
    frame_.For(Number(0), pieces, Number(1), [&](Value* row) {
      outer_.push_back(b_.CreateAdd(first_row, row));
      RowEmitter::Piece piece{nullptr, nullptr, nullptr, phase, false, row};
      sums_.IfLong([&] { sums_.Groups(rows_.MakeRow(piece), phase, row); });
      const RowSums::Rest rest = sums_.RestOf(phase, rows, row, is_dense);
      piece.from = rest.from;
      piece.to = rest.to;
      piece.tile_offset = rest.tile_offset;
      rows_.Columns(piece);
      outer_.pop_back();
    });
  }

  // One tile: phase by phase the vector code of its rows, then the calls.
  void Tile(Value* first_row, Value* rows, Value* first, Value* count) {
    Value* elements = Times(b_, rows, count);
    for (int phase = 0; phase < phases_.count; ++phase) {
      if (!CodeOf(code_, phases_, phase, false).is_empty) {
        const auto row_code = [&](Value* row) {
          Value* offset = Minus(b_, Times(b_, row, count), first);
          rows_.Columns({first, b_.CreateAdd(first, count), offset, phase});
        };
        if (first_row == nullptr) {
          row_code(Number(0));
        } else {
          frame_.For(Number(0), rows, Number(1), [&](Value* row) {
            outer_.push_back(b_.CreateAdd(first_row, row));
            row_code(row);
            outer_.pop_back();
          });
        }
      }
      for (const int call : CallsOf(code_, phases_, phase)) {
        const Step& step = code_.steps[static_cast<std::size_t>(call)];
        const CallEmitter::Arrays in = ArraysOf(step, first);
        if (step.is_column_call) {
          calls_.Columns(step, in, elements);
        } else if (step.is_position_call) {
          calls_.PositionCall(step, in, elements, PlaceOf(first_row, first),
                              ElementCount(false));
        } else {
          calls_.Array(step, in, elements);
        }
      }
    }
  }

  CallEmitter::Arrays ArraysOf(const Step& step, Value* first) {
    CallEmitter::Arrays arrays;
    for (const Source& source : step.sources) {
      const bool is_scalar = source.kind == Source::Kind::kScalar;
      arrays.push_back(is_scalar ? nullptr : ArrayOf(source, first));
    }
    return arrays;
  }

  // Of the tile's first element, in row-major order; without `first`, of its
  // row among the rows.
  Value* PlaceOf(Value* first_row, Value* first) {
    std::vector<Value*> indices = outer_;
    if (first_row != nullptr) indices.push_back(first_row);
    if (first != nullptr) indices.push_back(first);
    if (indices.empty()) return b_.getInt64(0);
    Value* place = indices[0];
    for (std::size_t d = 1; d < indices.size(); ++d) {
      place = b_.CreateAdd(b_.CreateMul(place, frame_.Number(code_.sizes[d])),
                           indices[d]);
    }
    return place;
  }

  Value* ElementCount(bool is_of_rows) {
    Value* count = b_.getInt64(1);
    for (std::size_t d = 0; d < code_.sizes.size() - (is_of_rows ? 1 : 0);
         ++d) {
      count = Times(b_, count, frame_.Number(code_.sizes[d]));
    }
    return count;
  }

  Value* ArrayOf(const Source& source, Value* first) {
    outer_.push_back(first);
    Value* array = rows_.ArrayOf(source);
    outer_.pop_back();
    return array;
  }

  const LoopCode& code_;
  Frame& frame_;
  Builder& b_;
  const Phases phases_;
  LoopContext loop_;
  CallEmitter calls_;
  const int lanes_;
  RowEmitter rows_;
  RowSums sums_;
  SlabEmitter slabs_;
  const int block_columns_;    // 0: rows as long as they are, or tiles
  Value* first_;               // of the outermost dim
  int tile_ = 0;               // elements
  Value* tile_rows_ = nullptr;  // of a rows loop
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
