// The arithmetic of the interpreter over arrays; interpreter.cpp brings the
// operands here and stores what comes out.
#pragma once

#include <cstdint>

#include "compiler/ir/run_arguments.h"

namespace tjit::ir {

// out[i] = op(in[0][i], in[1][i], ...). T is int64_t, float or double.
// `scalars`: as in Hooks::math.
// REQUIRES: the op is pointwise and for the dtypes behind T.
template <class T>
void EvalPointwise(Op op, DType dtype, const T* const* in,
                   const double* scalars, int operands, T* out, std::int64_t n,
                   const Hooks& hooks);

// One group of a reduction. A is int64_t or double. REQUIRES: n > 0 if
// NeedsElements(op).
template <class A>
A EvalReduce(Op op, const A* x, std::int64_t n, double parameter);
bool NeedsElements(Op op);

// One row.
void EvalRow(Op op, const double* const* in, double* out, std::int64_t n);

}  // namespace tjit::ir
