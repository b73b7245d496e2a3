#include "compiler/llvm/quotients.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"

namespace tjit::llvm_backend {

using llvm::Value;

// So many are divided: where operands are unusual, 0 say, the reciprocal comes
// on top of the quotients.
constexpr std::ptrdiff_t kFewQuotients = 2;

bool SharesDivisor(const LoopCode& code, const Step& step) {
  const auto divides = [](const Step& s) {
    return s.op == ir::Op::kDiv && s.dtype == ir::DType::kF64;
  };
  if (!divides(step)) return false;
  const Source& divisor = step.sources[1];
  if (divisor.kind == Source::Kind::kScalar) return true;
  return std::count_if(code.steps.begin(), code.steps.end(),
                       [&](const Step& s) {
                         return divides(s) && s.is_of_row == step.is_of_row &&
                                s.sources[1].kind == divisor.kind &&
                                s.sources[1].value == divisor.value &&
                                s.sources[1].access == divisor.access;
                       }) > kFewQuotients;
}

// Exponents of -400 to 400. Twice the bits have no sign.
Value* Quotients::IsUsual(Value* x) {
  constexpr std::uint64_t kFirst = (1023 - 400ull) << 53;
  constexpr std::uint64_t kCount = 801ull << 53;
  auto* type = llvm::cast<llvm::VectorType>(x->getType());
  llvm::Type* integers =
      llvm::VectorType::get(b_.getInt64Ty(), type->getElementCount());
  const auto number = [&](std::uint64_t n) {
    return llvm::ConstantInt::get(integers, n);
  };
  Value* bits = b_.CreateShl(b_.CreateBitCast(x, integers), number(1));
  return b_.CreateICmpULT(b_.CreateSub(bits, number(kFirst)), number(kCount));
}

Value* Quotients::Multiply(Value* x, const Divisor& divisor) {
  llvm::Type* type = x->getType();
  const auto fma = [&](Value* p, Value* q, Value* s) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {p, q, s});
  };
  Value* const r = divisor.reciprocal;
  Value* q = b_.CreateFMul(x, r);
  for (int i = 0; i < 2; ++i) q = fma(fma(q, divisor.negated, x), r, q);
  return q;
}

Value* Quotients::Divide(Value* x, Value* y) {
  llvm::LLVMContext& context = b_.getContext();
  Divisor& divisor = divisors_[y];
  if (divisor.reciprocal == nullptr) {
    Value* one = llvm::ConstantFP::get(y->getType(), 1.0);
    divisor = {b_.CreateFDiv(one, y), b_.CreateFNeg(y), IsUsual(y)};
  }
  const auto lanes = llvm::cast<llvm::FixedVectorType>(x->getType());
  llvm::Type* mask = llvm::IntegerType::get(context, lanes->getNumElements());
  Value* usual =
      b_.CreateBitCast(b_.CreateAnd(IsUsual(x), divisor.is_usual), mask);
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  llvm::BasicBlock* blocks[3];
  for (auto*& block : blocks) {
    block = llvm::BasicBlock::Create(context, "", function);
  }
  auto [quick, slow, done] = blocks;
  b_.CreateCondBr(b_.CreateICmpEQ(usual, llvm::Constant::getAllOnesValue(mask)),
                  quick, slow,
                  llvm::MDBuilder(context).createBranchWeights(1000, 1));
  b_.SetInsertPoint(quick);
  Value* product = Multiply(x, divisor);
  b_.CreateBr(done);
  b_.SetInsertPoint(slow);
  Value* quotient = b_.CreateFDiv(x, y);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  llvm::PHINode* result = b_.CreatePHI(x->getType(), 2);
  result->addIncoming(product, quick);
  result->addIncoming(quotient, slow);
  return result;
}

}  // namespace tjit::llvm_backend
