#include "compiler/llvm/sqrt_step.h"

#include <limits>

#include "compiler/abi/kernel_abi.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace tjit::llvm_backend {

using llvm::Value;

namespace {

Value* OneStep(Builder& b, Value* x) {
  llvm::Type* type = x->getType();
  const bool is_double = type->getScalarType()->isDoubleTy();
  const auto number = [&](double v) { return llvm::ConstantFP::get(type, v); };
  const auto fma = [&](Value* p, Value* q, Value* r) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {p, q, r});
  };
  Value* is_small = b.CreateFCmpOLT(x, number(is_double ? 0x1p-700 : 0x1p-80));
  Value* is_itself = b.CreateOr(
      b.CreateFCmpOEQ(x, number(0)),
      b.CreateFCmpOEQ(x, number(std::numeric_limits<double>::infinity())));
  Value* up = b.CreateFMul(x, number(is_double ? 0x1p512 : 0x1p64));
  Value* a = b.CreateSelect(is_small, up, x);
  Value* none = llvm::Constant::getNullValue(type);
  Value* y = b.CreateIntrinsic(
      is_double ? llvm::Intrinsic::x86_avx512_rsqrt14_pd_512
                : llvm::Intrinsic::x86_avx512_rsqrt14_ps_512,
      {}, {a, none, is_double ? b.getInt8(0xff) : b.getInt16(0xffff)});
  Value* g = b.CreateFMul(a, y);
  Value* h = b.CreateFMul(y, number(0.5));
  if (is_double) {
    Value* r = fma(b.CreateFNeg(g), h, number(0.5));
    g = fma(g, r, g);
    h = fma(h, r, h);
  }
  Value* root = fma(fma(b.CreateFNeg(g), g, a), h, g);
  Value* down = b.CreateUnaryIntrinsic(
      llvm::Intrinsic::fabs,
      b.CreateFMul(root, number(is_double ? 0x1p-256 : 0x1p-32)));
  root = b.CreateSelect(is_small, down, root);
  return b.CreateSelect(is_itself, x, root);
}

// 1 / sqrt(x), good to 12 bits: the processor has it for eight lanes.
Value* Estimate(Builder& b, Value* x) {
  const auto of_eight = [&](Value* v) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx_rsqrt_ps_256, {}, {v});
  };
  const auto* const type = llvm::cast<llvm::FixedVectorType>(x->getType());
  if (type->getNumElements() == 8) return of_eight(x);
  const int low[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const int high[] = {8, 9, 10, 11, 12, 13, 14, 15};
  const int both[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return b.CreateShuffleVector(of_eight(b.CreateShuffleVector(x, low)),
                               of_eight(b.CreateShuffleVector(x, high)), both);
}

Value* TwoSteps(Builder& b, Value* x) {
  llvm::Type* type = x->getType();
  const auto number = [&](double v) { return llvm::ConstantFP::get(type, v); };
  Value* y = Estimate(b, x);
  Value* g = b.CreateFMul(x, y);
  Value* h = b.CreateFMul(y, number(0.5));
  Value* r = b.CreateFSub(number(0.5), b.CreateFMul(g, h));
  g = b.CreateFAdd(g, b.CreateFMul(g, r));
  h = b.CreateFAdd(h, b.CreateFMul(h, r));
  Value* rest = b.CreateFSub(x, b.CreateFMul(g, g));
  Value* root = b.CreateFAdd(g, b.CreateFMul(rest, h));
  Value* exact = b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
  Value* none = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, exact);
  exact = b.CreateSelect(b.CreateFCmpOLT(x, number(0)), none, exact);
  Value* is_usual = b.CreateAnd(b.CreateFCmpOGE(x, number(0x1p-126)),
                                b.CreateFCmpOLE(x, number(0x1.ffep+127)));
  return b.CreateSelect(is_usual, root, exact);
}

}  // namespace

Value* EmitSqrt(Builder& b, std::int32_t kind, Value* x) {
  const bool is_one = kind == kTjitSqrtStepF32 || kind == kTjitSqrtStepF64;
  return is_one ? OneStep(b, x) : TwoSteps(b, x);
}

}  // namespace tjit::llvm_backend
