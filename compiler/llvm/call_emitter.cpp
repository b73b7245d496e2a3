#include "compiler/llvm/call_emitter.h"

#include <cstddef>

#include "compiler/llvm/index_math.h"
#include "llvm/IR/Module.h"

namespace tjit::llvm_backend {

using llvm::Value;

namespace {

bool IsRstd(ir::Op op) {
  return op == ir::Op::kNormRstd || op == ir::Op::kNormRstdWide;
}

}  // namespace

CallEmitter::CallEmitter(const LoopContext& loop)
    : loop_(loop), b_(loop.frame.builder()) {}

Value* CallEmitter::Null() const {
  return llvm::ConstantPointerNull::get(b_.getPtrTy());
}

Value* CallEmitter::Constant(std::int64_t number) const {
  return b_.getInt64(static_cast<std::uint64_t>(number));
}

Value* CallEmitter::Length() const {
  return loop_.frame.Number(loop_.code.sizes.back());
}

Value* CallEmitter::ColumnCount() const {
  return loop_.code.is_whole ? Constant(1) : Length();
}

Value* CallEmitter::Result(const Step& step) const {
  return loop_.buffers[static_cast<std::size_t>(
      loop_.phases.buffer_of_value.at(step.result))];
}

void CallEmitter::Call(const Step& step, const std::vector<llvm::Type*>& types,
                       const std::vector<Value*>& arguments) {
  llvm::Module* module = loop_.frame.function()->getParent();
  b_.CreateCall(module->getOrInsertFunction(
                    loop_.math.SymbolOf(step.math),
                    llvm::FunctionType::get(b_.getVoidTy(), types, false)),
                arguments);
}

void CallEmitter::Array(const Step& step, const Arrays& in, Value* elements) {
  std::vector<llvm::Type*> types = {b_.getInt64Ty()};
  std::vector<Value*> arguments = {elements};
  for (Value* array : in) {
    arguments.push_back(array);
    types.push_back(b_.getPtrTy());
  }
  arguments.push_back(Result(step));
  arguments.push_back(Constant(loop_.math.at(step.math).mode));
  types.push_back(b_.getPtrTy());
  types.push_back(b_.getInt64Ty());
  Call(step, types, arguments);
}

void CallEmitter::PositionCall(const Step& step, const Arrays& in,
                               Value* elements, Value* place, Value* total,
                               Value* from) {
  const auto from_there = [&](Value* array, ir::DType dtype) {
    if (from == nullptr) return array;
    return ElementAt(b_, LaneTypes(b_, 1).RegisterType(dtype), array, from);
  };
  llvm::Type* pointer = b_.getPtrTy();
  llvm::Type* i64 = b_.getInt64Ty();
  llvm::Type* f64 = b_.getDoubleTy();
  std::vector<Value*> tensors, scalars;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] != nullptr) {
      tensors.push_back(from_there(in[i], step.dtype));
    } else {
      scalars.push_back(loop_.frame.Scalar(step.sources[i].scalar,
                                           ir::DType::kF64, false, 1));
    }
  }
  tensors.resize(2, Null());
  scalars.resize(3, llvm::ConstantFP::get(f64, 0));
  Call(step, {i64, pointer, pointer, pointer, i64, i64, f64, f64, f64},
       {elements, tensors[0], tensors[1],
        from_there(Result(step), step.result_dtype), place, total, scalars[0],
        scalars[1], scalars[2]});
}

void CallEmitter::Rows(const Step& step, const Arrays& in, Value* rows,
                       Value* sums) {
  const bool is_mean = step.op == ir::Op::kNormMean;
  const Step* partner = PartnerOf(step);
  if (is_mean && partner != nullptr) return;  // it computes both
  Value* second = sums != nullptr ? sums : in.size() > 1 ? in[1] : Null();
  Value* out = is_mean ? Null() : Result(step);
  if (second == nullptr || is_mean) {
    const Step* mean = is_mean ? &step : partner;
    second = RowNumber(step, mean == nullptr ? Null() : Result(*mean));
  }
  llvm::Type* pointer = b_.getPtrTy();
  Call(step, {b_.getInt64Ty(), b_.getInt64Ty(), pointer, pointer, pointer},
       {rows, Length(), in[0], second, out});
}

// Of norm_mean and the norm_rstd or norm_rstd_wide right behind it, over the
// same rows: the other one. Of two norms over the same rows each has its own
// mean.
const Step* CallEmitter::PartnerOf(const Step& step) const {
  const bool is_mean = step.op == ir::Op::kNormMean;
  if (!is_mean && !IsRstd(step.op)) return nullptr;
  const std::vector<Step>& steps = loop_.code.steps;
  const std::ptrdiff_t at = &step - steps.data() + (is_mean ? 1 : -1);
  if (at < 0 || at >= static_cast<std::ptrdiff_t>(steps.size())) {
    return nullptr;
  }
  const Step& other = steps[static_cast<std::size_t>(at)];
  const bool is_partner =
      is_mean ? IsRstd(other.op) : other.op == ir::Op::kNormMean;
  if (!is_partner || !other.is_row_call) return nullptr;
  const Source& mine = step.sources[0];
  const Source& its = other.sources[0];
  return its.kind == mine.kind && its.value == mine.value &&
                 its.access == mine.access
             ? &other
             : nullptr;
}

// A TjitRowNumber.
Value* CallEmitter::RowNumber(const Step& step, Value* mean) {
  Value* number = loop_.frame.Array(sizeof(TjitRowNumber));
  if (step.sources.size() > 1) {
    b_.CreateStore(
        loop_.frame.Scalar(step.sources[1].scalar, ir::DType::kF64, false, 1),
        number);
  }
  b_.CreateStore(mean,
                 b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), number,
                                               offsetof(TjitRowNumber, mean)));
  return number;
}

void CallEmitter::Slab(const Step& step, const Arrays& in,
                       const Arrays& strides, Value* rows, Value* count,
                       Value* first, Value* columns) {
  llvm::Type* pointer = b_.getPtrTy();
  llvm::Type* i64 = b_.getInt64Ty();
  const bool has_two = in.size() > 1;
  Call(step, {i64, i64, pointer, i64, pointer, i64, pointer, i64, i64},
       {rows, count, in[0], strides[0], has_two ? in[1] : Null(),
        has_two ? strides[1] : Constant(0), Result(step), first, columns});
}

void CallEmitter::CallColumns(const Step& step, Value* rows, Value* a,
                              Value* out) {
  llvm::Type* pointer = b_.getPtrTy();
  Call(step, {b_.getInt64Ty(), b_.getInt64Ty(), pointer, pointer, pointer},
       {rows, ColumnCount(), a, states_.at(step.result), out});
}

Value* CallEmitter::StateBytes() const {
  if (loop_.code.is_whole) return Constant(kTjitWholeStateBytes);
  return b_.CreateAdd(b_.CreateMul(Length(), Constant(kTjitColumnBytes)),
                      Constant(kTjitColumnStateBytes));
}

void CallEmitter::BeginColumns() {
  const std::size_t row =
      loop_.code.sizes.size() - (loop_.code.is_whole ? 0 : 1);
  Value* rows = Constant(1);
  for (std::size_t d = 0; d < row; ++d) {
    rows = b_.CreateMul(rows, loop_.frame.Number(loop_.code.sizes[d]));
  }
  for (const Step& step : loop_.code.steps) {
    if (!step.is_column_call) continue;
    Value* state = loop_.frame.Array(StateBytes());
    states_[step.result] = state;
    columns_[step.result] = loop_.frame.Array(b_.CreateMul(
        ColumnCount(), Constant(RegisterBytes(step.result_dtype))));
    const Source& last = step.sources.back();
    if (last.kind == Source::Kind::kScalar) {
      b_.CreateStore(loop_.frame.Scalar(last.scalar, ir::DType::kF64, false, 1),
                     state);
    }
    b_.CreateStore(
        rows, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), state,
                                            offsetof(TjitColumnState, rows)));
    CallColumns(step, Constant(0), Null(), Null());
  }
}

void CallEmitter::Columns(const Step& step, const Arrays& in, Value* rows) {
  if (in.size() > 1 && in[1] != nullptr) {
    b_.CreateStore(in[1], b_.CreateConstInBoundsGEP1_64(
                              b_.getInt8Ty(), states_.at(step.result),
                              offsetof(TjitColumnState, b)));
  }
  CallColumns(step, rows, in[0], Null());
}

void CallEmitter::EndColumns() {
  for (const Step& step : loop_.code.steps) {
    if (!step.is_column_call) continue;
    CallColumns(step, Constant(0), Null(), columns_.at(step.result));
  }
  for (const ColumnStore& store : loop_.code.column_stores) {
    StoreColumns(store);
  }
}

void CallEmitter::StoreColumns(const ColumnStore& store) {
  Frame& frame = loop_.frame;
  llvm::Type* element = LaneTypes(b_, 1).MemoryType(store.dtype);
  frame.For(Constant(0), ColumnCount(), Constant(1), [&](Value* j) {
    Value* from = b_.CreateInBoundsGEP(element, columns_.at(store.value), j);
    Value* place = b_.CreateMul(j, frame.Number(store.stride));
    b_.CreateStore(
        b_.CreateLoad(element, from),
        b_.CreateInBoundsGEP(element, frame.Memory(store.memory), place));
  });
}

}  // namespace tjit::llvm_backend
