#include "compiler/llvm/frame.h"

#include <cstddef>

#include "compiler/ir/dtype.h"
#include "compiler/schedule/bind_loop.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

namespace tjit::llvm_backend {
namespace {

constexpr std::size_t kMany = 3;  // pointers and scalars

}  // namespace

using ir::DType;
using ir::ScalarType;
using llvm::Value;

Frame::Frame(llvm::Module& module, const std::string& name,
             const SharedLoop& loop)
    : function_(nullptr),
      entry_(module.getContext()),
      body_(module.getContext()),
      pointer_count_(loop.memory.size()),
      scalar_count_(loop.scalars.size()) {
  llvm::Type* pointer = entry_.getPtrTy();
  llvm::Type* index = entry_.getInt64Ty();
  auto* type = llvm::FunctionType::get(
      entry_.getVoidTy(), {pointer, pointer, pointer, index, index}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage,
                                     name, module);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  function_->addFnAttr("prefer-vector-width", "512");
  function_->addFnAttr("min-legal-vector-width", "512");
  entry_.SetInsertPoint(NewBlock());
  llvm::BasicBlock* body = NewBlock();
  entry_.SetInsertPoint(entry_.CreateBr(body));
  body_.SetInsertPoint(body);
  if (pointer_count_ + scalar_count_ >= kMany) Bind();
}

void Frame::Return() {
  body_.CreateRetVoid();
  llvm::MergeBlockIntoPredecessor(
      function_->getEntryBlock().getSingleSuccessor());
}

void Frame::Bind() {
  llvm::Type* pointer = entry_.getPtrTy();
  llvm::Type* index = entry_.getInt64Ty();
  bound_ = entry_.CreateAlloca(
      llvm::ArrayType::get(index, pointer_count_ + scalar_count_));
  const llvm::FunctionCallee bind = function_->getParent()->getOrInsertFunction(
      kBindLoopName, entry_.getVoidTy(), pointer, pointer, pointer, pointer,
      index, index);
  entry_.CreateCall(
      bind,
      {bound_, function_->getArg(0), function_->getArg(1), function_->getArg(2),
       entry_.getInt64(pointer_count_), entry_.getInt64(scalar_count_)});
}

Value* Frame::Load(llvm::Type* type, Value* array, std::size_t index) {
  return entry_.CreateLoad(type, entry_.CreateConstInBoundsGEP1_64(
                                     entry_.getInt64Ty(), array, index));
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
  llvm::AllocaInst* array = entry_.CreateAlloca(type);
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
    value = Load(entry_.getInt64Ty(), function_->getArg(1), index);
  }
  return value;
}

Value* Frame::Memory(int index) {
  Value*& pointer = memory_[index];
  if (pointer != nullptr) return pointer;
  const auto i = static_cast<std::size_t>(index);
  if (bound_ != nullptr) return pointer = Load(entry_.getPtrTy(), bound_, i);
  Value* memory = entry_.CreateInBoundsGEP(
      entry_.getPtrTy(), function_->getArg(0), LoopNumber(2 * i));
  pointer = entry_.CreateInBoundsGEP(
      entry_.getInt8Ty(), entry_.CreateLoad(entry_.getPtrTy(), memory),
      LoopNumber(2 * i + 1));
  return pointer;
}

Value* Frame::Number(const ir::Size& size) {
  if (size.is_constant()) return entry_.getInt64(size.constant());
  return LoopNumber(2 * pointer_count_ + scalar_count_ +
                    static_cast<std::size_t>(size.max_symbol()));
}

Value* Frame::Bits(const ir::Scalar& scalar) {
  const bool is_float = scalar.type == ScalarType::kF64;
  if (scalar.is_constant()) {
    Value* bits = entry_.getInt64(scalar.bits);
    return is_float ? entry_.CreateBitCast(bits, entry_.getDoubleTy()) : bits;
  }
  Value*& value = arguments_[scalar.argument];
  if (value == nullptr) {
    llvm::Type* type = is_float ? entry_.getDoubleTy() : entry_.getInt64Ty();
    const auto index = static_cast<std::size_t>(scalar.argument);
    value = bound_ != nullptr
                ? Load(type, bound_, pointer_count_ + index)
                : entry_.CreateLoad(
                      type, ScalarAt(LoopNumber(2 * pointer_count_ + index)));
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
  number = rounded ? one.Round(dtype, number)
                   : one.ScalarForArithmetic(dtype, number);
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
