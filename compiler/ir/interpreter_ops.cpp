#include "compiler/ir/interpreter_ops.h"

#include <type_traits>

#include "compiler/ir/eval_functions.h"
#include "compiler/ir/eval_pointwise.h"
#include "compiler/ir/eval_reduce.h"
#include "compiler/ir/eval_row.h"
#include "support/assert.h"

namespace tjit::ir {
namespace {

template <class T>
constexpr bool Supports(DTypeSet set) {
  return eval::kIsInt<T> ? set != DTypeSet::kFloat : set != DTypeSet::kIntBool;
}

template <class T>
using PointwiseFn = T (*)(const T*);

template <class F, DTypeSet kSet, class T>
constexpr PointwiseFn<T> MakePointwise() {
  if constexpr (Supports<T>(kSet)) {
    return &F::template Eval<T>;
  } else {
    return nullptr;
  }
}

// The functions of all ops, null for ops of other families.
template <class T>
constexpr PointwiseFn<T> kPointwise[] = {
#define TJIT_IR_OP(suffix, ...) nullptr,
#define TJIT_IR_POINTWISE(suffix, name, operands, dtypes, ...) \
  MakePointwise<eval::suffix, DTypeSet::k##dtypes, T>(),
#include "compiler/ir/ops.def"
};

template <class A>
using ReduceFn = A (*)(const A*, std::int64_t, double);

template <class F, DTypeSet kSet, class A>
constexpr ReduceFn<A> MakeReduce() {
  if constexpr (Supports<A>(kSet)) {
    return &F::template Eval<A>;
  } else {
    return nullptr;
  }
}

template <class A>
constexpr ReduceFn<A> kReduce[] = {
#define TJIT_IR_OP(suffix, ...) nullptr,
#define TJIT_IR_REDUCE(suffix, name, operands, dtypes, ...) \
  MakeReduce<eval::suffix, DTypeSet::k##dtypes, A>(),
#include "compiler/ir/ops.def"
};

using RowFn = void (*)(const double* const*, double*, std::int64_t);

constexpr RowFn kRow[] = {
#define TJIT_IR_OP(suffix, ...) nullptr,
#define TJIT_IR_ROW(suffix, ...) &eval::suffix::Eval,
#include "compiler/ir/ops.def"
};

template <class T>
bool Hooked(Op op, DType dtype, const T* const* in, const double* scalars,
            T* out, std::int64_t n, const Hooks& hooks) {
  if (eval::kIsInt<T> || !hooks.math) return false;
  const void* arrays[5];
  for (int i = 0; i < 5; ++i) arrays[i] = in[i];
  return hooks.math(op, dtype, arrays, scalars, out, n);
}

}  // namespace

template <class T>
void EvalPointwise(Op op, DType dtype, const T* const* in,
                   const double* scalars, int operands, T* out, std::int64_t n,
                   const Hooks& hooks) {
  if (Hooked(op, dtype, in, scalars, out, n, hooks)) return;
  const PointwiseFn<T> fn = kPointwise<T>[static_cast<int>(op)];
  T x[5] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < operands; ++k) x[k] = in[k][i];
    out[i] = fn(x);
  }
}

template <class A>
A EvalReduce(Op op, const A* x, std::int64_t n, double parameter) {
  TJIT_ASSERT(n > 0 || !NeedsElements(op));
  return kReduce<A>[static_cast<int>(op)](x, n, parameter);
}

bool NeedsElements(Op op) {
  return op == Op::kAmax || op == Op::kAmin || op == Op::kArgmax ||
         op == Op::kArgmin || op == Op::kMaxOfAll || op == Op::kMinOfAll ||
         op == Op::kAmaxOfHalves || op == Op::kAminOfHalves;
}

void EvalRow(Op op, const double* const* in, double* out, std::int64_t n) {
  kRow[static_cast<int>(op)](in, out, n);
}

template void EvalPointwise(Op, DType, const std::int64_t* const*,
                            const double*, int, std::int64_t*, std::int64_t,
                            const Hooks&);
template void EvalPointwise(Op, DType, const float* const*, const double*, int,
                            float*, std::int64_t, const Hooks&);
template void EvalPointwise(Op, DType, const double* const*, const double*, int,
                            double*, std::int64_t, const Hooks&);
template std::int64_t EvalReduce(Op, const std::int64_t*, std::int64_t, double);
template double EvalReduce(Op, const double*, std::int64_t, double);

}  // namespace tjit::ir
