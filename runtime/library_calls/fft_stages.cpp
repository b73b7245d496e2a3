#include "runtime/library_calls/fft_stages.h"

#include <ATen/TensorUtils.h>
#include <c10/util/accumulate.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace tjit::runtime {
namespace {

// As _sort_dims: slowest first; the last `fixed` ones stay where they are.
at::DimVector SortedDims(const FftLayout& in, at::IntArrayRef dims,
                         std::int64_t fixed) {
  at::DimVector sorted(dims.begin(), dims.end());
  std::sort(sorted.begin(), sorted.end() - fixed,
            [&](std::int64_t a, std::int64_t b) {
              return in.strides[a] > in.strides[b];
            });
  return sorted;
}

// Batch dims first, slowest first, then `dims`. By the algorithms that
// _exec_fft uses: they are not stable, but always do the same.
at::DimVector Permutation(const FftLayout& in, at::IntArrayRef dims) {
  at::DimVector order(in.sizes.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto batch_end =
      std::partition(order.begin(), order.end(), [&](std::int64_t d) {
        return std::find(dims.begin(), dims.end(), d) == dims.end();
      });
  std::sort(order.begin(), batch_end, [&](std::int64_t a, std::int64_t b) {
    return in.strides[a] > in.strides[b];
  });
  std::copy(dims.begin(), dims.end(), batch_end);
  return order;
}

at::DimVector Pick(at::IntArrayRef values, at::IntArrayRef order) {
  at::DimVector picked;
  for (const std::int64_t d : order) picked.push_back(values[d]);
  return picked;
}

std::optional<double> Scale(std::int64_t normalization,
                            const std::vector<std::int64_t>& lengths) {
  const auto count = static_cast<double>(c10::multiply_integers(lengths));
  if (normalization == 1) return 1.0 / std::sqrt(count);
  if (normalization == 2) return 1.0 / count;
  return std::nullopt;
}

// How the result lies: dense, the batch first; then as the dims were.
at::DimVector ResultStrides(at::IntArrayRef sizes, at::IntArrayRef order,
                            at::IntArrayRef dense, std::size_t batch_dims) {
  at::DimVector strides(order.size());
  std::int64_t batch = 1;
  for (std::size_t i = batch_dims; i-- > 0;) {
    strides[order[i]] = batch * dense[0];
    batch *= sizes[order[i]];
  }
  for (std::size_t i = batch_dims; i < order.size(); ++i) {
    strides[order[i]] = dense[1 + i - batch_dims];
  }
  return strides;
}

// Of what lies so, over `dims` in this order.
FftStage PlanStage(const FftLayout& in, at::DimVector out_sizes,
                   at::IntArrayRef dims, std::int64_t normalization,
                   FftPlan plan) {
  const at::DimVector order = Permutation(in, dims);
  const std::size_t batch_dims = order.size() - dims.size();
  FftLayout permuted = {Pick(in.sizes, order), Pick(in.strides, order)};
  at::DimVector batched = {c10::multiply_integers(
      permuted.sizes.begin(), permuted.sizes.begin() + batch_dims)};
  plan.batch = batched[0];
  batched.append(permuted.sizes.begin() + batch_dims, permuted.sizes.end());
  const std::optional<at::DimVector> viewed =
      at::detail::computeStride(permuted.sizes, permuted.strides, batched);
  // MKL takes no numbers twice.
  const bool is_copied =
      !viewed || std::find(viewed->begin(), viewed->end(), 0) != viewed->end();
  const at::DimVector strides =
      is_copied ? c10::contiguous_strides(batched) : *viewed;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    plan.lengths.push_back(std::max(batched[i + 1], out_sizes[dims[i]]));
    batched[i + 1] = out_sizes[dims[i]];
  }
  const at::DimVector dense = c10::contiguous_strides(batched);
  plan.in_distance = strides[0];
  plan.out_distance = dense[0];
  plan.in_strides.assign(strides.begin() + 1, strides.end());
  plan.out_strides.assign(dense.begin() + 1, dense.end());
  plan.scale = Scale(normalization, plan.lengths);
  FftStage stage;
  stage.plan = std::move(plan);
  if (is_copied) stage.copied = std::move(permuted);
  stage.out.strides = ResultStrides(out_sizes, order, dense, batch_dims);
  stage.out.sizes = std::move(out_sizes);
  return stage;
}

}  // namespace

FftStage PlanRealToComplex(const FftLayout& in, const FftCall& call) {
  at::DimVector sizes = in.sizes;
  std::int64_t& half = sizes[call.dims.back()];
  half = half / 2 + 1;
  return PlanStage(
      in, sizes, SortedDims(in, call.dims, 1), call.normalization,
      {.is_double = call.is_double, .is_real = true, .is_forward = true});
}

FftStage PlanComplex(const FftLayout& in, const FftCall& call,
                     bool is_forward) {
  return PlanStage(in, in.sizes, SortedDims(in, call.dims, 0),
                   call.normalization,
                   {.is_double = call.is_double, .is_forward = is_forward});
}

// All dims but the last as a transform of complex numbers, then the last one.
std::vector<FftStage> PlanComplexToReal(const FftLayout& in,
                                        const FftCall& call,
                                        std::int64_t last_size) {
  std::vector<FftStage> stages;
  FftCall others = call;
  others.dims.pop_back();
  if (!others.dims.empty()) stages.push_back(PlanComplex(in, others, false));
  const FftLayout& between = stages.empty() ? in : stages[0].out;
  at::DimVector sizes = between.sizes;
  sizes[call.dims.back()] = last_size;
  stages.push_back(PlanStage(between, sizes, {call.dims.back()},
                             call.normalization,
                             {.is_double = call.is_double, .is_real = true}));
  return stages;
}

}  // namespace tjit::runtime
