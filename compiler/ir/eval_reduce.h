// What each reduction and row op computes, over the elements in row-major
// order, in A: double for floats, int64_t for integers and bool.
// `p` is the scalar operand, if the op has one.
// Tested by: tests/compiler/ir_interpreter_test.cpp
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "compiler/ir/eval_pointwise.h"

namespace tjit::ir::eval {

#define TJIT_IR_EVAL_REDUCE(Name) \
  struct Name {                   \
    template <class A>            \
    static A Eval(const A* x, std::int64_t n, [[maybe_unused]] double p)

TJIT_IR_EVAL_REDUCE(Sum) {
  A sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum = Fma(x[i], A(1), sum);
  return sum;
}
};

TJIT_IR_EVAL_REDUCE(Prod) {
  A product = 1;
  for (std::int64_t i = 0; i < n; ++i) product = Times(product, x[i]);
  return product;
}
}
;

TJIT_IR_EVAL_REDUCE(Mean) { return Sum::Eval(x, n, p) / static_cast<A>(n); }
}
;

TJIT_IR_EVAL_REDUCE(Var) {
  const A mean = Mean::Eval(x, n, p);
  A sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum / static_cast<A>(std::max(0.0, static_cast<double>(n) - p));
}
}
;

TJIT_IR_EVAL_REDUCE(Norm) {
  A sum = p == -std::numeric_limits<double>::infinity()
              ? std::numeric_limits<A>::infinity()
              : A(0);
  for (std::int64_t i = 0; i < n; ++i) {
    const A magnitude = std::fabs(x[i]);
    if (p == 0) {
      sum += magnitude != A(0) ? A(1) : A(0);
    } else if (std::isinf(p)) {
      sum = p > 0 ? Greater(sum, magnitude) : Smaller(sum, magnitude);
    } else if (p == 2) {
      sum += magnitude * magnitude;
    } else {
      sum += p == 1 ? magnitude : std::pow(magnitude, p);
    }
  }
  if (p == 2) return std::sqrt(sum);
  return p == 0 || p == 1 || std::isinf(p) ? sum : std::pow(sum, 1 / p);
}
}
;

TJIT_IR_EVAL_REDUCE(Amax) {
  A best = x[0];
  for (std::int64_t i = 1; i < n; ++i) best = Greater(best, x[i]);
  return best;
}
}
;

TJIT_IR_EVAL_REDUCE(Amin) {
  A best = x[0];
  for (std::int64_t i = 1; i < n; ++i) best = Smaller(best, x[i]);
  return best;
}
}
;

TJIT_IR_EVAL_REDUCE(Any) {
  return std::any_of(x, x + n, [](A v) { return v != A(0); }) ? 1 : 0;
}
}
;

TJIT_IR_EVAL_REDUCE(AllOf) {
  return std::all_of(x, x + n, [](A v) { return v != A(0); }) ? 1 : 0;
}
}
;

TJIT_IR_EVAL_REDUCE(Argmax) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < n && !IsNanValue(x[best]); ++i) {
    if (x[i] > x[best] || IsNanValue(x[i])) best = i;
  }
  return static_cast<A>(best);
}
}
;

TJIT_IR_EVAL_REDUCE(Argmin) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < n && !IsNanValue(x[best]); ++i) {
    if (x[i] < x[best] || IsNanValue(x[i])) best = i;
  }
  return static_cast<A>(best);
}
}
;

#undef TJIT_IR_EVAL_REDUCE

// Row ops: `in[k]` is the row of operand k.
#define TJIT_IR_EVAL_ROW(Name) \
  struct Name {                \
    static void Eval(const double* const* in, double* out, std::int64_t n)

TJIT_IR_EVAL_ROW(Softmax) {
  if (n == 0) return;
  const double max = Amax::Eval(in[0], n, 0);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = std::exp(in[0][i] - max);
    sum += out[i];
  }
  for (std::int64_t i = 0; i < n; ++i) out[i] /= sum;
}
}
;

TJIT_IR_EVAL_ROW(LogSoftmax) {
  if (n == 0) return;
  const double max = Amax::Eval(in[0], n, 0);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(in[0][i] - max);
  const double log_sum = std::log(sum);
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[0][i] - max - log_sum;
}
}
;

TJIT_IR_EVAL_ROW(SoftmaxBackward) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += in[0][i] * in[1][i];
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = in[1][i] * (in[0][i] - sum);
  }
}
}
;

TJIT_IR_EVAL_ROW(LogSoftmaxBackward) {
  const double sum = Sum::Eval(in[0], n, 0);
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = in[0][i] - std::exp(in[1][i]) * sum;
  }
}
}
;

TJIT_IR_EVAL_ROW(Cumsum) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) out[i] = sum += in[0][i];
}
}
;

#undef TJIT_IR_EVAL_ROW

}  // namespace tjit::ir::eval
