// Arithmetic on indices that leaves out what changes nothing: the builder folds
// constants alone, and what it emits for nothing costs time in every pass.
// Tested by: tests/compiler/llvm/llvm_kernel_test.cpp
#pragma once

#include "compiler/llvm/lane_types.h"

namespace tjit::llvm_backend {

inline bool IsNumber(const llvm::Value* value, std::uint64_t number) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant != nullptr && constant->equalsInt(number);
}

inline llvm::Value* Times(Builder& b, llvm::Value* x, llvm::Value* y) {
  if (IsNumber(x, 0) || IsNumber(y, 1)) return x;
  if (IsNumber(y, 0) || IsNumber(x, 1)) return y;
  return b.CreateMul(x, y);
}

inline llvm::Value* Plus(Builder& b, llvm::Value* x, llvm::Value* y) {
  if (IsNumber(x, 0)) return y;
  return IsNumber(y, 0) ? x : b.CreateAdd(x, y);
}

inline llvm::Value* Minus(Builder& b, llvm::Value* x, llvm::Value* y) {
  return IsNumber(y, 0) ? x : b.CreateSub(x, y);
}

// Of signed numbers.
inline llvm::Value* Min(Builder& b, llvm::Value* x, llvm::Value* y) {
  return b.CreateSelect(b.CreateICmpSLT(y, x), y, x);
}
inline llvm::Value* Max(Builder& b, llvm::Value* x, llvm::Value* y) {
  return b.CreateSelect(b.CreateICmpSLT(x, y), y, x);
}

inline llvm::Value* ElementAt(Builder& b, llvm::Type* element,
                              llvm::Value* array, llvm::Value* index) {
  return IsNumber(index, 0) ? array
                            : b.CreateInBoundsGEP(element, array, index);
}

}  // namespace tjit::llvm_backend
