// How elements live in registers: vectors of `lanes` elements (one lane: plain
// scalars), in the interpreter's compute type.
//
//   dtype            memory   register
//   bool             i8       i1
//   u8 ... i64       i8-i64   i64
//   f16, bf16, f32   16/32    float
//   f64              double   double
//
// A register of a narrow dtype always holds a value of that dtype: what an op
// computes goes through Round().
//
// Note [Rounding to bf16]. No instruction: AVX-512's makes 0 of denormals. It
// is an addition to the bits that carries into those that stay. A NaN whose
// bits are all set would overflow. Arithmetic on registers of bf16 gives none:
// its NaNs are operands, whose lower bits are 0, or the processor's own. So
// only what comes from elsewhere (conversions, functions) is looked at for NaN,
// and scalars where they become registers. Tested by:
// tests/compiler/llvm/llvm_kernel_test.cpp
#pragma once

#include "compiler/ir/ir.h"
#include "llvm/IR/IRBuilder.h"

namespace tjit::llvm_backend {

using Builder = llvm::IRBuilder<>;

class LaneTypes {
 public:
  LaneTypes(Builder& b, int lanes) : b_(b), lanes_(lanes) {}

  Builder& builder() const { return b_; }
  int lanes() const { return lanes_; }

  // `lanes` of a scalar type.
  llvm::Type* Lanes(llvm::Type* element) const;
  llvm::Type* MemoryType(ir::DType dtype) const;    // of one element
  llvm::Type* RegisterType(ir::DType dtype) const;  // of one element
  llvm::Value* Splat(llvm::Value* scalar) const;
  llvm::Value* Number(llvm::Type* element, double value) const;
  llvm::Value* Integer(std::int64_t value) const;  // i64

  // Between lanes of the memory type and registers. FromMemory also takes one
  // element (a scalar).
  llvm::Value* FromMemory(ir::DType dtype, llvm::Value* raw) const;
  llvm::Value* ToMemory(ir::DType dtype, llvm::Value* value) const;
  // The same of a register of this dtype: nothing is left to be rounded.
  llvm::Value* RegisterToMemory(ir::DType dtype, llvm::Value* value) const;
  // What storing as `dtype` and loading again gives.
  llvm::Value* Round(ir::DType dtype, llvm::Value* value) const;
  // The same of arithmetic on registers of this dtype and scalars.
  llvm::Value* RoundArithmetic(ir::DType dtype, llvm::Value* value) const;
  // A scalar for such arithmetic, not rounded.
  llvm::Value* ScalarForArithmetic(ir::DType dtype, llvm::Value* value) const;
  // A register of dtype `from` as one of `to`, as Store<T>(to, ...) does.
  llvm::Value* Convert(ir::DType from, ir::DType to, llvm::Value* value) const;

 private:
  llvm::Value* ToInteger(llvm::Value* value, int bits) const;
  llvm::Value* BFloat16Bits(llvm::Value* value) const;
  llvm::Value* BitsRoundedUp(llvm::Value* value) const;
  // `like` with another element type.
  static llvm::Type* Like(llvm::Value* like, llvm::Type* element);

  Builder& b_;
  int lanes_;
};

}  // namespace tjit::llvm_backend
