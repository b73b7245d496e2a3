#include "compiler/llvm/block_emitter.h"

#include <algorithm>
#include <numeric>

#include "compiler/llvm/index_math.h"
#include "compiler/llvm/lane_ops.h"
#include "compiler/llvm/sqrt_step.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Module.h"

namespace tjit::llvm_backend {

using ir::DType;
using llvm::Value;

Value* FirstLanes(Builder& b, int lanes, Value* count) {
  std::vector<std::uint32_t> numbers(static_cast<std::size_t>(lanes));
  std::iota(numbers.begin(), numbers.end(), 0);
  Value* last = LaneTypes(b, lanes).Splat(b.CreateTrunc(count, b.getInt32Ty()));
  return b.CreateICmpSLT(llvm::ConstantDataVector::get(b.getContext(), numbers),
                         last);
}

Value* LaneNumbers(Builder& b, int lanes) {
  std::vector<std::uint64_t> numbers(static_cast<std::size_t>(lanes));
  std::iota(numbers.begin(), numbers.end(), 0);
  return llvm::ConstantDataVector::get(b.getContext(), numbers);
}

BlockEmitter::BlockEmitter(const LoopContext& loop, const Row& row,
                           const Block& block)
    : loop_(loop),
      code_(loop.code),
      row_(row),
      block_(block),
      b_(loop.frame.builder()),
      types_(b_, block.lanes),
      quotients_(b_),
      raw_(row.lanes),
      loaded_(loop.code.accesses.size()) {
  raw_.resize(loop.code.accesses.size());
}

void BlockEmitter::Run() {
  const Phases& phases = loop_.phases;
  for (std::size_t i = 0; i < code_.steps.size(); ++i) {
    const Step& step = code_.steps[i];
    if (phases.of_step[i] != block_.phase || step.is_array_call ||
        step.is_of_row != block_.is_of_row) {
      continue;
    }
    registers_[step.result] = Compute(step);
    const auto buffer = phases.buffer_of_value.find(step.result);
    if (buffer == phases.buffer_of_value.end() || !block_.fills_buffers) {
      continue;
    }
    StoreBuffer(buffer->second, registers_[step.result]);
  }
  if (block_.phase == 0) {
    for (const auto& [access, buffer] : phases.buffer_of_access) {
      const auto a = static_cast<std::size_t>(access);
      if (code_.accesses[a].is_of_row != block_.is_of_row) continue;
      StoreBuffer(buffer, Load(access));
    }
  }
  std::vector<Value*> raw(code_.stores.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const StoreTo& store = code_.stores[i];
    if (phases.of_store[i] != block_.phase || phases.is_by_call[i] != 0 ||
        store.is_of_row != block_.is_of_row) {
      continue;
    }
    raw[i] = RawOf(store);
  }
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != nullptr) Store(code_.stores[i].access, raw[i]);
  }
}

Value* BlockEmitter::RawOf(const StoreTo& store) {
  if (store.source.kind == Source::Kind::kAccess) {
    return LoadRaw(store.source.access);
  }
  Value* value = Read(store.source, store.dtype, false);
  return store.source.kind == Source::Kind::kScalar
             ? types_.ToMemory(store.dtype, value)
             : types_.RegisterToMemory(store.dtype, value);
}

Value* BlockEmitter::Compute(const Step& step) {
  if (step.op == ir::Op::kFull) {
    return loop_.frame.Fill(step.sources[0].scalar, step.result_dtype,
                            block_.lanes);
  }
  if (step.op == ir::Op::kTo) {
    return types_.Convert(step.dtype, step.result_dtype,
                          Read(step.sources[0], step.dtype, false));
  }
  const char* kinds = ir::InfoOf(step.op).operands;
  Value* x[5] = {};
  for (std::size_t i = 0; i < step.sources.size(); ++i) {
    x[i] = Read(step.sources[i], kinds[i] == 'c' ? DType::kBool : step.dtype,
                kinds[i] == 'r');
  }
  // A masked register has lanes of 0, and would be divided.
  if (step.math < 0 && loop_.has_masks && block_.lanes > 1 &&
      block_.mask == nullptr && SharesDivisor(code_, step)) {
    return quotients_.Divide(x[0], x[1]);
  }
  if (step.math >= 0) return types_.Round(step.dtype, CallVector(step, x));
  return EmitOp(types_, step.op, step.dtype, x);
}

Value* BlockEmitter::LoadValue(ir::ValueId value) {
  return LoadBuffer(loop_.phases.buffer_of_value.at(value));
}

Value* BlockEmitter::Read(const Source& source, DType dtype, bool rounded) {
  switch (source.kind) {
    case Source::Kind::kScalar:
      return loop_.frame.Scalar(source.scalar, dtype, rounded, block_.lanes);
    case Source::Kind::kAccess:
      return Load(source.access);
    case Source::Kind::kRegister:
      break;
  }
  Value*& value = registers_[source.value];
  if (value != nullptr) return value;
  const auto& of_row = block_.lanes == 1 ? row_.values : row_.value_splats;
  const auto found = of_row.find(source.value);
  value = found == of_row.end() ? LoadValue(source.value) : found->second;
  return value;
}

BlockEmitter::Place BlockEmitter::PlaceOf(int access_index) {
  const auto a = static_cast<std::size_t>(access_index);
  const MemoryAccess& access = code_.accesses[a];
  llvm::Type* element = types_.MemoryType(access.dtype);
  Value* stride = loop_.frame.Number(access.strides[row_.dim]);
  return {
      ElementAt(b_, element, row_.starts[a], Times(b_, block_.index, stride)),
      stride, types_.Lanes(element), llvm::Align(InfoOf(access.dtype).bytes),
      block_.lanes == 1 || access.strides[row_.dim] == ir::Size(1)};
}

Value* BlockEmitter::Pointers(const Place& place) {
  return b_.CreateInBoundsGEP(
      place.type->getScalarType(), place.pointer,
      b_.CreateMul(LaneNumbers(b_, block_.lanes), types_.Splat(place.stride)));
}

// Note [No gathers]. In registers of 16 bytes, which are put together: FastISel
// selects each instruction alone, and a lane of a wider one takes several.
Value* BlockEmitter::LoadElements(const Place& place) {
  llvm::Type* element = place.type->getScalarType();
  const int at_once =
      std::min<int>(block_.lanes, 128 / int(element->getPrimitiveSizeInBits()));
  const LaneTypes narrow(b_, at_once);
  std::vector<Value*> parts;
  Value* pointer = place.pointer;
  for (int i = 0; i < block_.lanes; ++i) {
    if (i % at_once == 0) {
      parts.push_back(llvm::PoisonValue::get(narrow.Lanes(element)));
    }
    if (i > 0) {
      pointer = b_.CreateInBoundsGEP(element, pointer, place.stride);
    }
    parts.back() = b_.CreateInsertElement(
        parts.back(), b_.CreateAlignedLoad(element, pointer, place.align),
        static_cast<std::uint64_t>(i % at_once));
  }
  return parts.size() == 1 ? parts[0] : llvm::concatenateVectors(b_, parts);
}

Value* BlockEmitter::LoadRaw(int access) {
  Value*& raw = raw_[static_cast<std::size_t>(access)];
  if (raw != nullptr) return raw;
  const Place place = PlaceOf(access);
  if (!place.is_row && block_.mask == nullptr) {
    raw = LoadElements(place);
  } else if (!place.is_row) {
    raw = b_.CreateMaskedGather(place.type, Pointers(place), place.align,
                                block_.mask);
  } else if (block_.mask != nullptr) {
    raw =
        b_.CreateMaskedLoad(place.type, place.pointer, place.align, block_.mask,
                            llvm::Constant::getNullValue(place.type));
  } else {
    raw = b_.CreateAlignedLoad(place.type, place.pointer, place.align);
  }
  return raw;
}

Value* BlockEmitter::Load(int access) {
  const auto a = static_cast<std::size_t>(access);
  if (loaded_[a] != nullptr) return loaded_[a];
  if (row_.uniforms[a] != nullptr) {
    loaded_[a] = (block_.lanes == 1 ? row_.uniforms : row_.splats)[a];
  } else {
    loaded_[a] = types_.FromMemory(code_.accesses[a].dtype, LoadRaw(access));
  }
  return loaded_[a];
}

void BlockEmitter::Store(int access, Value* raw) {
  const Place place = PlaceOf(access);
  if (!place.is_row) {
    b_.CreateMaskedScatter(raw, Pointers(place), place.align, block_.mask);
  } else if (block_.mask != nullptr) {
    b_.CreateMaskedStore(raw, place.pointer, place.align, block_.mask);
  } else {
    b_.CreateAlignedStore(raw, place.pointer, place.align);
  }
}

DType BlockEmitter::DTypeOf(int buffer) const {
  return loop_.phases.buffers[static_cast<std::size_t>(buffer)].dtype;
}

// Buffers hold registers, bool as bytes. They are longer than a tile by one
// block, so a block at the end of a row needs no mask: what it writes too much
// is replaced by the next row. Those that are memory are only read here.
Value* BlockEmitter::BufferPlace(int buffer) {
  const DType dtype = DTypeOf(buffer);
  llvm::Type* element = types_.RegisterType(dtype);
  if (element->isIntegerTy(1)) element = b_.getInt8Ty();
  if (buffer_index_ == nullptr) {
    buffer_index_ = Plus(b_, row_.tile_offset, block_.index);
  }
  return ElementAt(b_, element, loop_.buffers[static_cast<std::size_t>(buffer)],
                   buffer_index_);
}

Value* BlockEmitter::LoadBuffer(int buffer) {
  const DType dtype = DTypeOf(buffer);
  const bool is_bool = dtype == DType::kBool;
  llvm::Type* element = is_bool ? b_.getInt8Ty() : types_.RegisterType(dtype);
  const auto& place = loop_.phases.buffers[static_cast<std::size_t>(buffer)];
  if (place.access >= 0 && block_.mask != nullptr) {
    llvm::Type* lanes = types_.Lanes(element);
    return b_.CreateMaskedLoad(lanes, BufferPlace(buffer), llvm::Align(4),
                               block_.mask,
                               llvm::Constant::getNullValue(lanes));
  }
  Value* raw = b_.CreateAlignedLoad(types_.Lanes(element), BufferPlace(buffer),
                                    llvm::Align(is_bool ? 1 : 4));
  return is_bool ? types_.FromMemory(dtype, raw) : raw;
}

void BlockEmitter::StoreBuffer(int buffer, Value* value) {
  const DType dtype = DTypeOf(buffer);
  const bool is_bool = dtype == DType::kBool;
  b_.CreateAlignedStore(is_bool ? types_.ToMemory(dtype, value) : value,
                        BufferPlace(buffer), llvm::Align(is_bool ? 1 : 4));
}

Value* BlockEmitter::CallOneVector(const Step& step,
                                   const std::vector<Value*>& arguments) {
  if (loop_.math.IsRoot(step.math)) {
    return EmitSqrt(b_, loop_.math.at(step.math).kind, arguments[0]);
  }
  llvm::Type* type = arguments[0]->getType();
  const std::vector<llvm::Type*> parameters(arguments.size(), type);
  llvm::Module* module = loop_.frame.function()->getParent();
  const llvm::FunctionCallee callee = module->getOrInsertFunction(
      loop_.math.SymbolOf(step.math),
      llvm::FunctionType::get(type, parameters, false));
  return b_.CreateCall(callee, arguments);
}

// Vectors of the function's own width: parts of the block's, or the block's
// repeated.
Value* BlockEmitter::CallVector(const Step& step, Value* const* x) {
  const int width = loop_.math.LanesOf(step.math);
  const LaneTypes wide(b_, width);
  const int lanes = block_.lanes;
  if (width == lanes) {
    return CallOneVector(step, {x, x + step.sources.size()});
  }
  Value* result = nullptr;
  for (int from = 0; from < lanes; from += width) {
    std::vector<int> part(static_cast<std::size_t>(width));
    for (int i = 0; i < width; ++i) {
      part[static_cast<std::size_t>(i)] = (from + i) % lanes;
    }
    std::vector<Value*> arguments;
    for (std::size_t k = 0; k < step.sources.size(); ++k) {
      arguments.push_back(lanes == 1 ? wide.Splat(x[k])
                                     : b_.CreateShuffleVector(x[k], part));
    }
    Value* out = CallOneVector(step, arguments);
    if (lanes == 1) return b_.CreateExtractElement(out, std::uint64_t{0});
    std::vector<int> joined(
        static_cast<std::size_t>(std::max(std::min(from + width, lanes), 1)));
    if (result == nullptr) {
      std::iota(joined.begin(), joined.end(), 0);
      result = b_.CreateShuffleVector(out, joined);
      continue;
    }
    // Both to the same width, then side by side.
    std::vector<int> widened(static_cast<std::size_t>(from), -1);
    std::iota(widened.begin(), widened.begin() + std::min(width, from), 0);
    std::iota(joined.begin(), joined.end(), 0);
    result = b_.CreateShuffleVector(
        result, b_.CreateShuffleVector(out, widened), joined);
  }
  return result;
}

}  // namespace tjit::llvm_backend
