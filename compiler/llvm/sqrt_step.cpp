#include "compiler/llvm/sqrt_step.h"

#include <limits>

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace tjit::llvm_backend {

using llvm::Value;

Value* EmitSqrtStep(Builder& b, Value* x) {
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

}  // namespace tjit::llvm_backend
