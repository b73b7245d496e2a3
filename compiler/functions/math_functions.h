// The math functions of the process that have eager's bits. What eager computes
// for exp or tanh are the bits of one library's function, so kernels call that
// one, found and checked by whoever can call eager
// (runtime/bit_exact/math_probe.h).
// Tested by: tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/abi/kernel_abi.h"
#include "compiler/ir/axis.h"
#include "compiler/ir/ir.h"

namespace tjit {

class MathFunctions {
 public:
  virtual ~MathFunctions() = default;
  // Null if no function has the bits of eager for all inputs. The op is one
  // that IsFunction(). Lives as long as this.
  virtual const TjitMath* For(ir::Op op, ir::DType dtype) = 0;
  // The same for a reduction or a row op along an axis (AxisOf()): a TjitRowFn,
  // TjitColumnFn or TjitSlabFn.
  virtual const TjitMath* ForAxis(ir::Op op, ir::Axis axis,
                                  ir::DType dtype) = 0;
  // Computes n elements, all that there are, from one array of them per tensor
  // operand, and the scalar ones; halves are floats. Of an op with one operand,
  // in and out may be the same.
  virtual void Call(const TjitMath& function, const void* const* in,
                    const double* scalars, void* out, std::int64_t n) const = 0;
  // True for ops of this type that are computed by a function of a library.
  virtual bool IsFunction(ir::Op op, ir::DType dtype) const = 0;
};

// What the instruction goes along, if it is a reduction of floats, i64 or
// booleans or a row op of floats, and a function is to compute it; else
// nothing. kAll is of reductions that take elements as they come
// (IsOverWhole()).
std::optional<ir::Axis> AxisOf(const ir::Function& f,
                               const ir::Instruction& in);

// The function that the instruction needs, of those that it may need; null if
// it needs none.
const TjitMath* FunctionFor(const ir::Function& f, const ir::Instruction& in,
                            MathFunctions* functions);

// "" if each function that `f` needs is there; else which is not.
std::string MissingFunction(const ir::Function& f, MathFunctions* functions);

}  // namespace tjit
