// Several quotients by one divisor, in f64: one division, and five products
// for each quotient, which are done in a third of the time of a division.
//
//   r = 1 / y                              rounded to nearest, once
//   q0 = x * r                             some units in the last place off
//   q1 = fma(fma(-q0, y, x), r, q0)        less than one off
//   q = fma(fma(-q1, y, x), r, q1)         x / y, rounded to nearest
//
// The last line is Markstein's theorem: from a q1 within one unit of x / y and
// the correctly rounded 1 / y it gives the correctly rounded quotient, as long
// as nothing overflows or becomes subnormal. So it is for x and y between
// 2^-400 and 2^401; registers with any other lane (0 among them) are divided.
// Tested by: tests/compiler/llvm/llvm_quotients_test.cpp
// Source: Markstein, Computation of elementary functions on the IBM RISC
// System/6000 processor, 1990, theorem 8.
#pragma once

#include <map>

#include "compiler/llvm/lane_types.h"
#include "compiler/schedule/loop_code.h"

namespace tjit::llvm_backend {

// The step divides by a scalar, or by what some others divide by as well.
bool SharesDivisor(const LoopCode& code, const Step& step);

class Quotients {
 public:
  explicit Quotients(Builder& b) : b_(b) {}

  // x / y: vectors of f64. REQUIRES: the target has vector FMA.
  llvm::Value* Divide(llvm::Value* x, llvm::Value* y);

 private:
  struct Divisor {
    llvm::Value* reciprocal = nullptr;
    llvm::Value* negated = nullptr;   // the divisor with another sign
    llvm::Value* is_usual = nullptr;  // by lane
  };

  llvm::Value* IsUsual(llvm::Value* x);
  llvm::Value* Multiply(llvm::Value* x, const Divisor& divisor);

  Builder& b_;
  std::map<llvm::Value*, Divisor> divisors_;
};

}  // namespace tjit::llvm_backend
