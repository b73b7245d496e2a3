// The math functions of the process that have eager's bits. What eager computes
// for exp or tanh are the bits of one library's function, so kernels call that
// one, found and checked by whoever can call eager (runtime/bit_exact/math_probe.h).
// Tested by: tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <cstdint>
#include <string>

#include "compiler/abi/kernel_abi.h"
#include "compiler/ir/ir.h"

namespace tjit {

class MathFunctions {
 public:
  virtual ~MathFunctions() = default;
  // Null if no function has the bits of eager for all inputs. The op is one
  // that IsFunction(), or one of rows (IsOfRows(); the function is a
  // TjitRowFn). Lives as long as this.
  virtual const TjitMath* For(ir::Op op, ir::DType dtype) = 0;
  // The same for a reduction of columns (IsOfColumns()): a TjitColumnFn.
  virtual const TjitMath* ForColumns(ir::Op op, ir::DType dtype) = 0;
  // The same for one of all elements (IsOfWhole()).
  virtual const TjitMath* ForWhole(ir::Op op, ir::DType dtype) = 0;
  // The same for a row op of slabs (IsOfSlabs()): a TjitSlabFn.
  virtual const TjitMath* ForSlabs(ir::Op op, ir::DType dtype) = 0;
  // Computes n elements, all that there are, from one array of them per tensor
  // operand, and the scalar ones; halves are floats. Of an op with one operand,
  // in and out may be the same.
  virtual void Call(const TjitMath& function, const void* const* in,
                    const double* scalars, void* out, std::int64_t n) const = 0;
  // True for ops of this type that are computed by a function of a library.
  virtual bool IsFunction(ir::Op op, ir::DType dtype) const = 0;
};

// The op is a reduction or a row op that a function of whole rows computes.
bool IsOfRows(const ir::Function& f, const ir::Instruction& in);
// The op is a reduction of floats, i64 or booleans over all dims but the last.
bool IsOfColumns(const ir::Function& f, const ir::Instruction& in);
// The op is a reduction of the same types over all dims that takes elements as
// they come (IsOverWhole()); it is none of rows then.
bool IsOfWhole(const ir::Function& f, const ir::Instruction& in);
// The op is a row op of floats along a dim that is not the last.
bool IsOfSlabs(const ir::Function& f, const ir::Instruction& in);

// The function that the instruction needs, of those that it may need; null if
// it needs none.
const TjitMath* FunctionFor(const ir::Function& f, const ir::Instruction& in,
                            MathFunctions* functions);

// "" if each function that `f` needs is there; else which is not.
std::string MissingFunction(const ir::Function& f, MathFunctions* functions);

}  // namespace tjit
