// How sequential sums and dots (compiler/functions/row_functions.h) are seen in
// eager: no op returns them, but the gradients of a layer norm without weight
// and bias, with mean 0 and deviation 1, show each bit that matters.
//
//   sum = sum_sequential(gradient), sum_x = dot(gradient, x)
//   of the input: gradient - sum_x / n * x - sum / n
//   of the weight and of the bias: dot and sum_sequential of the columns
//
// Part of row_probe.h and its test.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include "compiler/functions/row_functions.h"

namespace tjit::runtime {

constexpr bool IsSequential(RowOp op) {
  return op == RowOp::kSumSequential || op == RowOp::kDot;
}

// A sum of rows is seen without x: 0.
inline at::Tensor EagerSequential(const AxisOp& what,
                                  const at::Tensor& gradient,
                                  const at::Tensor& b) {
  const std::int64_t n = gradient.size(1);
  const bool is_row = what.axis == Axis::kInner;
  const bool is_dot = what.op == RowOp::kDot;
  const at::Tensor x = is_row && !is_dot ? at::zeros_like(b) : b;
  const at::Tensor mean = at::zeros({gradient.size(0), 1}, b.options());
  const at::Tensor weight = at::ones({n}, b.options());
  const auto [of_input, of_weight, of_bias] = at::native_layer_norm_backward(
      gradient, x, {n}, mean, at::ones_like(mean),
      is_row ? at::Tensor() : weight, is_row ? at::Tensor() : weight,
      {is_row, !is_row && is_dot, !is_row && !is_dot});
  if (is_row) return of_input.add_(0);  // 0 of one sign
  return is_dot ? of_weight : of_bias;
}

// The same by a function of rows, with one for the sum.
template <class T>
void InputGradient(const RowFunction& f, const at::Tensor& gradient,
                   const at::Tensor& b, at::Tensor& out) {
  const std::int64_t rows = gradient.size(0);
  const std::int64_t n = gradient.size(1);
  const auto count = static_cast<std::size_t>(rows);
  const std::vector<T> ones(static_cast<std::size_t>(rows * n), T(1));
  std::vector<T> sums(count), sums_x(count);
  f.run(rows, n, gradient.const_data_ptr(), ones.data(), sums.data());
  if (f.what.op == RowOp::kDot) {
    f.run(rows, n, gradient.const_data_ptr(), b.const_data_ptr(),
          sums_x.data());
  } else {  // 0 * infinity
    for (std::int64_t i = 0; i < rows * n; ++i) {
      sums_x[static_cast<std::size_t>(i / n)] +=
          gradient.const_data_ptr<T>()[i] * T(0);
    }
  }
  const T scale = T(1) / static_cast<T>(n);
  const T mean = 0;
  const T* g = gradient.const_data_ptr<T>();
  const T* x = b.const_data_ptr<T>();
  T* y = out.mutable_data_ptr<T>();
  for (std::int64_t i = 0; i < rows * n; ++i) {
    const auto row = static_cast<std::size_t>(i / n);
    const T slope = (sums[row] * mean - sums_x[row]) * scale;
    const T shift = -slope * mean - sums[row] * scale;
    const T factor = f.what.op == RowOp::kDot ? x[i] : T(0);
    const T scaled =
        f.contracts ? std::fma(slope, factor, g[i]) : T(slope * factor) + g[i];
    y[i] = scaled + shift + T(0);
  }
}

inline void RunSequential(const RowFunction& f, const at::Tensor& a,
                          const at::Tensor& b, at::Tensor& out) {
  if (f.what.axis == Axis::kOuter) {
    RunAlongAxis(f, a.size(0), a.size(1), a.const_data_ptr(),
                 b.const_data_ptr(), at::get_num_threads(),
                 out.mutable_data_ptr());
  } else if (f.is_double) {
    InputGradient<double>(f, a, b, out);
  } else {
    InputGradient<float>(f, a, b, out);
  }
}

}  // namespace tjit::runtime
