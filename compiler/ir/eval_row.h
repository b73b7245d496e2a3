// What each row op computes along one dim, in double: in[k] is the row of
// operand k. Rounded to the element type afterwards.
// Tested by: tests/compiler/ir/ir_interpreter_test.cpp
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "compiler/ir/eval_reduce.h"

namespace tjit::ir::eval {

struct Softmax {
  static void Eval(const double* const* in, double* out, std::int64_t n) {
    if (n == 0) return;
    const double max = Amax::Eval(in[0], n, 0);
    for (std::int64_t i = 0; i < n; ++i) out[i] = std::exp(in[0][i] - max);
    const double sum = Sum::Eval(out, n, 0);
    for (std::int64_t i = 0; i < n; ++i) out[i] /= sum;
  }
};

struct LogSoftmax {
  static void Eval(const double* const* in, double* out, std::int64_t n) {
    if (n == 0) return;
    const double max = Amax::Eval(in[0], n, 0);
    for (std::int64_t i = 0; i < n; ++i) out[i] = std::exp(in[0][i] - max);
    const double log_sum = std::log(Sum::Eval(out, n, 0));
    for (std::int64_t i = 0; i < n; ++i) out[i] = in[0][i] - max - log_sum;
  }
};

struct SoftmaxBackward {
  static void Eval(const double* const* in, double* out, std::int64_t n) {
    const double sum = std::inner_product(in[0], in[0] + n, in[1], 0.0);
    for (std::int64_t i = 0; i < n; ++i) out[i] = in[1][i] * (in[0][i] - sum);
  }
};

struct LogSoftmaxBackward {
  static void Eval(const double* const* in, double* out, std::int64_t n) {
    const double sum = Sum::Eval(in[0], n, 0);
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] = in[0][i] - std::exp(in[1][i]) * sum;
    }
  }
};

struct IsIndex {
  static void Eval(const double* const* in, double* out, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] = in[0][i] == static_cast<double>(i) ? 1 : 0;
    }
  }
};

struct Cumsum {
  static void Eval(const double* const* in, double* out, std::int64_t n) {
    std::partial_sum(in[0], in[0] + n, out);
  }
};

}  // namespace tjit::ir::eval
