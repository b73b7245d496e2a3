#include "compiler/llvm/slab_emitter.h"

#include "compiler/llvm/frame.h"
#include "compiler/llvm/index_math.h"
#include "compiler/schedule/tile_shape.h"

namespace tjit::llvm_backend {

using llvm::Value;

SlabEmitter::SlabEmitter(const LoopContext& loop, RowEmitter* rows,
                         CallEmitter* calls, std::vector<Value*>* outer)
    : loop_(loop),
      code_(loop.code),
      frame_(loop.frame),
      b_(loop.frame.builder()),
      rows_(*rows),
      calls_(*calls),
      outer_(*outer) {}

Value* SlabEmitter::Number(std::int64_t number) const {
  return b_.getInt64(static_cast<std::uint64_t>(number));
}
Value* SlabEmitter::Rows() {
  return frame_.Number(code_.sizes[code_.sizes.size() - 2]);
}
Value* SlabEmitter::Columns() { return frame_.Number(code_.sizes.back()); }

Value* SlabEmitter::Begin() {
  Value* each = b_.CreateMul(Rows(), Number(TileElementBytes(loop_.phases)));
  const auto within = [&](int bytes) {  // whole vectors, at least one
    Value* columns = b_.CreateUDiv(Number(bytes), each);
    columns = b_.CreateAnd(columns, Number(-kSlabColumns));
    return Max(b_, columns, Number(kSlabColumns));
  };
  Value* most = within(kMostSlabTileBytes);
  Value* some = Max(b_, within(kSlabTileBytes),
                    Min(b_, most, Number(kFewColumns)));
  tile_columns_ = b_.CreateSelect(b_.CreateICmpSLE(Columns(), most), Columns(),
                                  some);
  return b_.CreateMul(Rows(), tile_columns_);
}

void SlabEmitter::Tiles() {
  frame_.For(Number(0), Columns(), tile_columns_, [&](Value* first) {
    Tile(first, Min(b_, b_.CreateSub(Columns(), first), tile_columns_));
  });
}

void SlabEmitter::Tile(Value* first, Value* count) {
  for (int phase = 0; phase < loop_.phases.count; ++phase) {
    const PhaseCode code = CodeOf(code_, loop_.phases, phase, false);
    if (!code.is_empty) Elements(first, count, phase, code.is_dense);
    for (const int call : CallsOf(code_, loop_.phases, phase)) {
      Call(code_.steps[static_cast<std::size_t>(call)], first, count);
    }
  }
}

// As one long row where they lie so and the tile has all columns, which may be
// few.
void SlabEmitter::Elements(Value* first, Value* count, int phase,
                           bool is_dense) {
  const auto by_row = [&] {
    frame_.For(Number(0), Rows(), Number(1), [&](Value* row) {
      outer_.push_back(row);
      rows_.Columns({first, b_.CreateAdd(first, count),
                     Minus(b_, b_.CreateMul(row, count), first), phase});
      outer_.pop_back();
    });
  };
  if (!is_dense) return by_row();
  Value* has_all = b_.CreateICmpEQ(count, Columns());
  frame_.If(b_.CreateNot(has_all), by_row);
  frame_.If(has_all, [&] {
    outer_.push_back(Number(0));
    rows_.Columns(
        {Number(0), b_.CreateMul(Rows(), count), Number(0), phase});
    outer_.pop_back();
  });
}

void SlabEmitter::Call(const Step& step, Value* first, Value* count) {
  const CallEmitter::Arrays in = ArraysOf(step, first);
  if (step.is_slab_call) {
    calls_.Slab(step, in, StridesOf(step, count), Rows(), count,
                ColumnPlace(first), AllColumns());
  } else if (step.is_position_call) {
    PositionCall(step, in, first, count);
  } else {
    calls_.Array(step, in, b_.CreateMul(Rows(), count));
  }
}

// Row by row, as only the elements of one lie one behind the other.
void SlabEmitter::PositionCall(const Step& step, const CallEmitter::Arrays& in,
                               Value* first, Value* count) {
  Value* slab = PlaceIn(0, SplitColumns());
  Value* column = ColumnPlace(first);
  Value* total = b_.CreateMul(Rows(), AllColumns());
  for (std::size_t d = 0; d < SplitColumns(); ++d) {
    total = b_.CreateMul(total, frame_.Number(code_.sizes[d]));
  }
  frame_.For(Number(0), Rows(), Number(1), [&](Value* row) {
    Value* row_place = b_.CreateAdd(b_.CreateMul(slab, Rows()), row);
    Value* place =
        b_.CreateAdd(b_.CreateMul(row_place, AllColumns()), column);
    calls_.PositionCall(step, in, count, place, total,
                        b_.CreateMul(row, count));
  });
}

CallEmitter::Arrays SlabEmitter::ArraysOf(const Step& step, Value* first) {
  outer_.push_back(Number(0));
  outer_.push_back(first);
  CallEmitter::Arrays arrays;
  for (const Source& source : step.sources) {
    const bool is_scalar = source.kind == Source::Kind::kScalar;
    arrays.push_back(is_scalar ? nullptr : rows_.ArrayOf(source));
  }
  outer_.pop_back();
  outer_.pop_back();
  return arrays;
}

// From row to row of each operand, in elements.
CallEmitter::Arrays SlabEmitter::StridesOf(const Step& step,
                                           Value* in_buffers) {
  CallEmitter::Arrays strides;
  for (const Source& source : step.sources) {
    const bool is_direct = source.kind == Source::Kind::kAccess &&
                           IsDirect(code_, source.access);
    if (!is_direct) {
      strides.push_back(in_buffers);
      continue;
    }
    const auto a = static_cast<std::size_t>(source.access);
    strides.push_back(frame_.Number(
        code_.accesses[a].strides[code_.sizes.size() - 2]));
  }
  return strides;
}

// The first of the dims that columns are split into.
std::size_t SlabEmitter::SplitColumns() const {
  return code_.sizes.size() - 2 - static_cast<std::size_t>(code_.split_columns);
}

Value* SlabEmitter::AllColumns() {
  Value* columns = Columns();
  for (std::size_t d = SplitColumns(); d + 2 < code_.sizes.size(); ++d) {
    columns = b_.CreateMul(columns, frame_.Number(code_.sizes[d]));
  }
  return columns;
}

// Of the tile's first column, among those of the slab.
Value* SlabEmitter::ColumnPlace(Value* first) {
  Value* place = PlaceIn(SplitColumns(), code_.sizes.size() - 2);
  return b_.CreateAdd(b_.CreateMul(place, Columns()), first);
}

// Where the loop stands in dims [from, to), row-major.
Value* SlabEmitter::PlaceIn(std::size_t from, std::size_t to) {
  Value* place = Number(0);
  for (std::size_t d = from; d < to; ++d) {
    place = b_.CreateAdd(b_.CreateMul(place, frame_.Number(code_.sizes[d])),
                         outer_[d]);
  }
  return place;
}

}  // namespace tjit::llvm_backend
