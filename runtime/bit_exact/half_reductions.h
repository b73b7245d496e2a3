// How reductions of halves (compiler/functions/row_functions/halves.h) are seen
// in eager, which has them rounded to bf16 or f16: sums nearly cancel, so that
// what is left of them is how they were rounded on the way. Numbers are bf16
// and f16 at once; a result is that of both types, as f32.
//
// Part of row_probe.h and its test.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "compiler/functions/row_functions.h"

namespace tjit::runtime {

// For eager: none is all.
inline std::vector<std::int64_t> DimsOf(Axis axis) {
  if (axis == Axis::kAll) return {};
  return {axis == Axis::kOuter ? 0 : -1};
}

// a, f32, as halves. `cancels`: with magnitudes of all kinds, and each number
// of a sum's first half with the other sign in its second half.
inline at::Tensor AsHalves(Axis axis, const at::Tensor& a, bool cancels) {
  const auto rounded = [](const at::Tensor& x) {
    return x.to(at::kBFloat16).to(at::kHalf).to(at::kFloat);
  };
  if (!cancels) return rounded(a);
  const at::Tensor exponents = at::arange(a.numel()).mul_(7).remainder_(23);
  const at::Tensor scale = at::exp2(exponents.to(at::kFloat).sub_(8));
  const at::Tensor x = rounded(a.clamp(-1, 1).mul(scale.view(a.sizes())));
  const at::Tensor line = axis == Axis::kAll ? x.view({-1}) : x;
  const std::int64_t dim = axis == Axis::kInner ? 1 : 0;
  const std::int64_t n = line.size(dim);
  line.narrow(dim, n - n / 2, n / 2)
      .copy_(line.narrow(dim, 0, n / 2).flip(dim).neg());
  return x;
}

inline at::Tensor Reduced(const AxisOp& what, const at::Tensor& x) {
  const std::vector<std::int64_t> dims = DimsOf(what.axis);
  if (what.op == RowOp::kSum) return at::sum(x, dims);
  return what.op == RowOp::kAmax ? at::amax(x, dims) : at::amin(x, dims);
}

inline at::Tensor EagerOfHalves(const AxisOp& what, const at::Tensor& a) {
  return at::stack({Reduced(what, a.to(at::kBFloat16)).to(at::kFloat),
                    Reduced(what, a.to(at::kHalf)).to(at::kFloat)});
}

// out: as EagerOfHalves().
inline void RunOfHalves(const RowFunction& f, const at::Tensor& a,
                        at::Tensor& out) {
  at::Tensor results = at::empty_like(out[0]);
  RunAlongAxis(f, a.size(0), a.size(1), a.const_data_ptr(), nullptr, 0,
               results.data_ptr());
  out[0].copy_(results.to(at::kBFloat16));
  out[1].copy_(results.to(at::kHalf));
}

}  // namespace tjit::runtime
