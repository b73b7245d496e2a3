#include "compiler/llvm/frame.h"

#include <cstddef>
#include <functional>

#include "compiler/ir/dtype.h"
#include "compiler/llvm/abi.h"

namespace tjit::llvm_backend {
namespace {

constexpr std::size_t kMany = 3;  // pointers or scalars

}  // namespace

using ir::DType;
using ir::ScalarType;
using llvm::Value;

Frame::Frame(llvm::Module& module, const std::string& name,
             const SharedLoop& loop)
    : function_(nullptr),
      first_(module.getContext()),
      entry_(module.getContext()),
      body_(module.getContext()),
      first_scalar_(2 * loop.memory.size()),
      first_size_(first_scalar_ + loop.scalars.size()) {
  llvm::Type* pointer = entry_.getPtrTy();
  llvm::Type* index = entry_.getInt64Ty();
  auto* type = llvm::FunctionType::get(
      entry_.getVoidTy(), {pointer, pointer, pointer, index, index}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage,
                                     name, module);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  function_->addFnAttr("prefer-vector-width", "512");
  function_->addFnAttr("min-legal-vector-width", "512");
  auto& context = module.getContext();
  auto* entry = llvm::BasicBlock::Create(context, "", function_);
  entry_.SetInsertPoint(entry);
  if (loop.memory.size() >= kMany) {
    pointers_ = Resolve(loop.memory.size(), pointer, [&](Value* i) {
      Value* at = entry_.CreateShl(i, 1);
      return MemoryAt(NumberAt(at),
                      NumberAt(entry_.CreateOr(at, entry_.getInt64(1))));
    });
  }
  if (loop.scalars.size() >= kMany) {
    scalar_bits_ = Resolve(loop.scalars.size(), index, [&](Value* i) {
      Value* at = entry_.CreateAdd(i, entry_.getInt64(first_scalar_));
      return entry_.CreateLoad(index, ScalarAt(NumberAt(at)));
    });
  }
  llvm::BasicBlock* body = NewBlock();
  entry_.SetInsertPoint(entry_.CreateBr(body));
  first_.SetInsertPoint(entry->getTerminator());
  body_.SetInsertPoint(body);
}

// entries[0] ... entries[count - 1], filled by a loop: less code than one by
// one.
Value* Frame::Resolve(std::size_t count, llvm::Type* type,
                      const std::function<Value*(Value*)>& entry) {
  Value* entries = entry_.CreateAlloca(llvm::ArrayType::get(type, count));
  llvm::BasicBlock* before = entry_.GetInsertBlock();
  llvm::BasicBlock* each = NewBlock();
  llvm::BasicBlock* done = NewBlock();
  entry_.CreateBr(each);
  entry_.SetInsertPoint(each);
  llvm::PHINode* i = entry_.CreatePHI(entry_.getInt64Ty(), 2);
  entry_.CreateStore(entry(i), entry_.CreateInBoundsGEP(type, entries, i));
  Value* next = entry_.CreateAdd(i, entry_.getInt64(1));
  i->addIncoming(entry_.getInt64(0), before);
  i->addIncoming(next, each);
  entry_.CreateCondBr(entry_.CreateICmpULT(next, entry_.getInt64(count)), each,
                      done);
  entry_.SetInsertPoint(done);
  return entries;
}

Value* Frame::NumberAt(Value* index) {
  return entry_.CreateLoad(
      entry_.getInt64Ty(),
      entry_.CreateInBoundsGEP(entry_.getInt64Ty(), function_->getArg(1),
                               index));
}

Value* Frame::MemoryAt(Value* index, Value* bytes) {
  Value* pointer = entry_.CreateLoad(
      entry_.getPtrTy(),
      entry_.CreateInBoundsGEP(entry_.getPtrTy(), function_->getArg(0), index));
  return entry_.CreateInBoundsGEP(entry_.getInt8Ty(), pointer, bytes);
}

// Note [Shared loops] in shared_loop.h.
Value* Frame::ScalarAt(Value* place) {
  Value* is_constant = entry_.CreateICmpSLT(place, entry_.getInt64(0));
  Value* base = entry_.CreateSelect(is_constant, function_->getArg(1),
                                    function_->getArg(2));
  Value* bytes =
      entry_.CreateSelect(is_constant, entry_.CreateNot(place), place);
  return entry_.CreateInBoundsGEP(entry_.getInt8Ty(), base, bytes);
}

llvm::BasicBlock* Frame::NewBlock() {
  return llvm::BasicBlock::Create(function_->getContext(), "", function_);
}

Frame::LoopBlocks Frame::BeginFor(Value* from, Value* to) {
  LoopBlocks blocks{NewBlock(), NewBlock(), nullptr, to};
  llvm::BasicBlock* before = body_.GetInsertBlock();
  body_.CreateCondBr(body_.CreateICmpSLT(from, to), blocks.body, blocks.done);
  body_.SetInsertPoint(blocks.body);
  blocks.index = body_.CreatePHI(body_.getInt64Ty(), 2);
  blocks.index->addIncoming(from, before);
  return blocks;
}

void Frame::EndFor(const LoopBlocks& blocks, Value* step) {
  Value* next = body_.CreateNSWAdd(blocks.index, step);
  blocks.index->addIncoming(next, body_.GetInsertBlock());
  body_.CreateCondBr(body_.CreateICmpSLT(next, blocks.to), blocks.body,
                     blocks.done);
  body_.SetInsertPoint(blocks.done);
}

Value* Frame::Array(int bytes) {
  auto* type = llvm::ArrayType::get(entry_.getInt8Ty(),
                                    static_cast<std::uint64_t>(bytes));
  llvm::AllocaInst* array = first_.CreateAlloca(type);
  array->setAlignment(llvm::Align(64));
  return array;
}

Value* Frame::Array(Value* bytes) {
  // More than a page: touched in order, so that a stack's guard is met.
  function_->addFnAttr("probe-stack", "inline-asm");
  llvm::AllocaInst* array = body_.CreateAlloca(body_.getInt8Ty(), bytes);
  array->setAlignment(llvm::Align(64));
  return array;
}

Value* Frame::LoopNumber(std::size_t index) {
  Value*& value = numbers_[index];
  if (value == nullptr) {
    value = entry_.CreateLoad(
        entry_.getInt64Ty(),
        entry_.CreateConstInBoundsGEP1_64(entry_.getInt64Ty(),
                                          function_->getArg(1), index));
  }
  return value;
}

Value* Frame::Memory(int index) {
  Value*& pointer = memory_[index];
  if (pointer == nullptr) {
    const auto i = static_cast<std::size_t>(index);
    pointer = pointers_ == nullptr
                  ? MemoryAt(LoopNumber(2 * i), LoopNumber(2 * i + 1))
                  : entry_.CreateLoad(entry_.getPtrTy(),
                                      entry_.CreateConstInBoundsGEP1_64(
                                          entry_.getPtrTy(), pointers_, i));
  }
  return pointer;
}

Value* Frame::Number(const ir::Size& size) {
  if (size.is_constant()) return entry_.getInt64(size.constant());
  return LoopNumber(first_size_ + static_cast<std::size_t>(size.max_symbol()));
}

Value* Frame::Bits(const ir::Scalar& scalar) {
  const bool is_float = scalar.type == ScalarType::kF64;
  if (scalar.is_constant()) {
    Value* bits = entry_.getInt64(scalar.bits);
    return is_float ? entry_.CreateBitCast(bits, entry_.getDoubleTy()) : bits;
  }
  Value*& value = arguments_[scalar.argument];
  if (value == nullptr) {
    const auto index = static_cast<std::size_t>(scalar.argument);
    Value* pointer = scalar_bits_ == nullptr
                         ? ScalarAt(LoopNumber(first_scalar_ + index))
                         : entry_.CreateConstInBoundsGEP1_64(
                               entry_.getInt64Ty(), scalar_bits_, index);
    value = entry_.CreateLoad(
        is_float ? entry_.getDoubleTy() : entry_.getInt64Ty(), pointer);
  }
  return value;
}

Value* Frame::Scalar(const ir::Scalar& scalar, DType dtype, bool rounded,
                     int lanes) {
  Value*& value = scalars_[{scalar.argument, scalar.bits, int(scalar.type),
                            int(dtype), rounded, lanes}];
  if (value != nullptr) return value;
  const LaneTypes one(entry_, 1);
  const bool is_float = scalar.type == ScalarType::kF64;
  DType compute = dtype;
  switch (InfoOf(dtype).kind) {
    case ir::DTypeKind::kBool:
      break;
    case ir::DTypeKind::kInt:
      compute = DType::kI64;
      break;
    case ir::DTypeKind::kFloat:
      if (dtype != DType::kF64) compute = DType::kF32;
      break;
  }
  Value* number =
      one.Convert(is_float ? DType::kF64 : DType::kI64, compute, Bits(scalar));
  if (rounded) number = one.Round(dtype, number);
  value = LaneTypes(entry_, lanes).Splat(number);
  return value;
}

Value* Frame::Fill(const ir::Scalar& scalar, DType dtype, int lanes) {
  const LaneTypes one(entry_, 1);
  const bool is_float = scalar.type == ScalarType::kF64;
  return LaneTypes(entry_, lanes)
      .Splat(one.Convert(is_float ? DType::kF64 : DType::kI64, dtype,
                         Bits(scalar)));
}

}  // namespace tjit::llvm_backend
