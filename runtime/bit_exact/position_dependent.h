// Ops whose bits in eager depend on the position of an element, for kernels:
// part by part, with eager's bits (Note [Position-dependent functions] in
// compiler/schedule/math_table.h).
//
// How: eager's own kernel runs over the tile. What matters is only that it
// takes the same formula for each element as it would over the whole tensor:
// - eager cuts a tensor of `total` elements into chunks, one per thread;
// - of a chunk, whole blocks of two vectors are computed by the vector formula,
//   the less than one block that is left by the scalar one;
// - so a kernel that gets whole blocks alone takes the first formula, and one
//   that gets less than a block the second.
// A tile whose body ends within a block is filled up for one more call. A call
// costs some 30 ns beside what it computes.
// Thread: any; parts of one run may be computed on several threads.
// Tested by: tests/runtime/bit_exact/position_dependent_test.cpp
// Source: aten/src/ATen/native/cpu/Loops.h (vectorized_loop),
// TensorIterator.cpp (for_each), Parallel-inl.h, Activation.cpp (grain of gelu)
// of libtorch 2.13.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/abi/kernel_abi.h"
#include "compiler/functions/math_functions.h"
#include "runtime/bit_exact/verdicts.h"

namespace tjit::runtime {

// True if the op of this type is computed by a position-dependent function.
bool IsPositionDependent(ir::Op op, ir::DType dtype);

// Checked against eager, part by part; nothing if the bits differ.
// REQUIRES: not called inside a kernel; the thread takes no part in recording.
std::optional<TjitMath> FindPositionDependent(ir::Op op, ir::DType dtype,
                                              Verdicts* verdicts = nullptr);

// Runs over all n elements; operands as in MathFunctions::Call().
void CallPositionDependent(const TjitMath& function, const void* const* in,
                           const double* scalars, void* out, std::int64_t n);

}  // namespace tjit::runtime
