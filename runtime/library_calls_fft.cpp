// Transforms (_fft_r2c, _fft_c2r, _fft_c2c) as calls of MKL with descriptors
// that are kept (kept_fft.h).
//
// Mirrors mkl/SpectralOps.cpp: which dims are one batch and in which order, and
// how the result lies, decide what MKL is asked for, and so the bits. What
// libtorch copies first (batch dims that are no single one) or fills in
// afterwards (both halves of a transform of real numbers) stays its own call,
// and so do large ones, which take longer than a descriptor by far (512x512
// doubles: 15 of 986 us). Each is tried on random data against that call.
#include <ATen/TensorUtils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "runtime/block.h"
#include "runtime/kept_fft.h"
#include "runtime/library_calls_trial.h"

namespace tjit::runtime {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 18;
constexpr std::uintptr_t kAlignment = 64;  // of what libtorch allocates

// How a tensor lies, in elements.
struct Layout {
  at::DimVector sizes, strides;
};

// One call of MKL.
struct Stage {
  FftPlan plan;
  Layout out;
};

// The call as the program made it.
struct Transform {
  at::DimVector dims;
  std::int64_t normalization = 0;  // 0: none, 1: by the root of n, 2: by n
  bool is_double = false;
};

// As _sort_dims: slowest first; the last `fixed` ones stay where they are.
at::DimVector SortedDims(const Layout& in, at::IntArrayRef dims,
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
at::DimVector Permutation(const Layout& in, at::IntArrayRef dims) {
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

at::DimVector ContiguousStrides(at::IntArrayRef sizes) {
  at::DimVector strides(sizes.size(), 1);
  for (std::size_t d = sizes.size() - 1; d-- > 0;) {
    strides[d] = strides[d + 1] * std::max<std::int64_t>(sizes[d + 1], 1);
  }
  return strides;
}

std::optional<double> Scale(std::int64_t normalization,
                            const std::vector<std::int64_t>& lengths) {
  const auto count = static_cast<double>(
      std::accumulate(lengths.begin(), lengths.end(), std::int64_t{1},
                      std::multiplies<std::int64_t>()));
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

// Over `dims` in this order. nullopt: libtorch copies the operand first.
std::optional<Stage> PlanStage(const Layout& in, at::DimVector out_sizes,
                               at::IntArrayRef dims, const Transform& t,
                               FftPlan plan) {
  const at::DimVector order = Permutation(in, dims);
  const std::size_t batch_dims = order.size() - dims.size();
  const at::DimVector in_sizes = Pick(in.sizes, order);
  at::DimVector batched = {
      std::accumulate(in_sizes.begin(), in_sizes.begin() + batch_dims,
                      std::int64_t{1}, std::multiplies<std::int64_t>())};
  plan.batch = batched[0];
  batched.append(in_sizes.begin() + batch_dims, in_sizes.end());
  const std::optional<at::DimVector> strides =
      at::detail::computeStride(in_sizes, Pick(in.strides, order), batched);
  if (!strides) return std::nullopt;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    plan.lengths.push_back(std::max(batched[i + 1], out_sizes[dims[i]]));
    batched[i + 1] = out_sizes[dims[i]];
  }
  const at::DimVector dense = ContiguousStrides(batched);
  plan.in_distance = (*strides)[0];
  plan.out_distance = dense[0];
  plan.in_strides.assign(strides->begin() + 1, strides->end());
  plan.out_strides.assign(dense.begin() + 1, dense.end());
  plan.scale = Scale(t.normalization, plan.lengths);
  Layout out = {std::move(out_sizes), {}};
  out.strides = ResultStrides(out.sizes, order, dense, batch_dims);
  return Stage{std::move(plan), std::move(out)};
}

using Stages = std::vector<Stage>;  // one or two; none: libtorch's own call

Stages PlanRealToComplex(const Layout& in, const Transform& t) {
  at::DimVector sizes = in.sizes;
  std::int64_t& half = sizes[t.dims.back()];
  half = half / 2 + 1;
  const auto stage = PlanStage(
      in, sizes, SortedDims(in, t.dims, 1), t,
      {.is_double = t.is_double, .is_real = true, .is_forward = true});
  return stage ? Stages{*stage} : Stages{};
}

Stages PlanComplex(const Layout& in, at::IntArrayRef dims, const Transform& t,
                   bool is_forward) {
  const auto stage =
      PlanStage(in, in.sizes, SortedDims(in, dims, 0), t,
                {.is_double = t.is_double, .is_forward = is_forward});
  return stage ? Stages{*stage} : Stages{};
}

// All dims but the last as a transform of complex numbers, then the last one.
Stages PlanComplexToReal(const Layout& in, const Transform& t,
                         std::int64_t last_size) {
  Stages stages;
  const at::IntArrayRef dims(t.dims);
  if (dims.size() > 1) {
    stages = PlanComplex(in, dims.slice(0, dims.size() - 1), t, false);
    if (stages.empty()) return {};
  }
  const Layout& between = stages.empty() ? in : stages[0].out;
  at::DimVector sizes = between.sizes;
  sizes[dims.back()] = last_size;
  const auto stage = PlanStage(between, sizes, dims.slice(dims.size() - 1), t,
                               {.is_double = t.is_double, .is_real = true});
  if (!stage) return {};
  stages.push_back(*stage);
  return stages;
}

class FftStep final : public PreparedStep {
 public:
  FftStep(const Request& request, const Stages& stages)
      : from_(request.arg_address(0)),
        to_(request.result_address(0)),
        last_(stages.back().plan),
        libtorch_(PrepareBoxed(request.step, request.call, request.slot_bytes,
                               request.tensors)) {
    if (stages.size() == 1) return;
    first_.emplace(stages[0].plan);
    between_bytes_ =
        static_cast<std::size_t>(c10::multiply_integers(stages[0].out.sizes)) *
        request.args[0].itemsize();
  }

  void Run(char* const* slots, const ScalarValue* scalars) override {
    if (Transforms(from_.In(slots), to_.In(slots))) return;
    has_refused_ = true;
    libtorch_->Run(slots, scalars);
  }
  // A trial: true if no run was libtorch's own.
  bool HasBitsOfLibtorch(const Request& request) {
    return HaveSameBits(request, this, libtorch_.get()) && !has_refused_;
  }

 private:
  bool Transforms(const char* from, char* to) {
    // The `out` of a program; libtorch's result would be copied there.
    if (reinterpret_cast<std::uintptr_t>(to) % kAlignment != 0) return false;
    if (!first_) return last_.Run(from, to);
    const at::DataPtr between = BlockAllocator()->allocate(between_bytes_);
    return first_->Run(from, between.get()) && last_.Run(between.get(), to);
  }

  SlotAddress from_, to_;
  std::optional<KeptFft> first_;
  std::size_t between_bytes_ = 0;  // what the first one gives
  KeptFft last_;
  std::unique_ptr<PreparedStep> libtorch_;
  bool has_refused_ = false;
};

// The numbers of the call in its schema's order, behind self, dims and
// normalization: (onesided), (last_dim_size) or (forward).
Stages Plan(const Request& request, const Layout& in, const Transform& t) {
  const c10::IValue& last = request.call.arguments[3];
  const bool is_complex = request.args[0].is_complex();
  if (request.results[0].is_complex()) {
    if (is_complex) return PlanComplex(in, t.dims, t, last.toBool());
    return last.toBool() ? PlanRealToComplex(in, t) : Stages{};
  }
  return is_complex ? PlanComplexToReal(in, t, last.toInt()) : Stages{};
}

bool AreDims(at::IntArrayRef dims, std::int64_t count) {
  std::uint64_t seen = 0;
  for (const std::int64_t d : dims) {
    if (d < 0 || d >= std::min<std::int64_t>(count, 64)) return false;
    if ((seen >> d & 1) != 0) return false;
    seen |= std::uint64_t{1} << d;
  }
  return !dims.empty();
}

std::unique_ptr<PreparedStep> PrepareFft(const Request& request) {
  const at::Tensor& self = request.args[0];
  const at::Tensor& result = request.results[0];
  Transform t;
  t.dims = request.call.arguments[1].toDimVector();
  t.normalization = request.call.arguments[2].toInt();
  const at::ScalarType type = c10::toRealValueType(self.scalar_type());
  t.is_double = type == at::kDouble;
  if ((!t.is_double && type != at::kFloat) ||
      type != c10::toRealValueType(result.scalar_type()) || !HasDfti() ||
      std::max(self.numel(), result.numel()) > kMostElements ||
      request.arg_address(0).slot == request.result_address(0).slot ||
      !AreDims(t.dims, self.dim())) {
    return nullptr;
  }
  const Stages stages = Plan(
      request, {at::DimVector(self.sizes()), at::DimVector(self.strides())}, t);
  if (stages.empty() || stages.back().out.sizes != result.sizes() ||
      stages.back().out.strides != result.strides()) {
    return nullptr;
  }
  auto step = std::make_unique<FftStep>(request, stages);
  std::vector<FftPlan> key;
  for (const Stage& stage : stages) key.push_back(stage.plan);
  // Never destroyed, as op tables.
  static auto& verdicts = *new Verdicts<std::vector<FftPlan>>;
  if (!verdicts.Of(key, [&] { return step->HasBitsOfLibtorch(request); })) {
    return nullptr;
  }
  return step;
}

constexpr FactoryRow kRows[] = {
    {"aten::_fft_c2c", PrepareFft}, {"aten::_fft_c2c.out", PrepareFft},
    {"aten::_fft_c2r", PrepareFft}, {"aten::_fft_c2r.out", PrepareFft},
    {"aten::_fft_r2c", PrepareFft}, {"aten::_fft_r2c.out", PrepareFft},
};

}  // namespace

c10::ArrayRef<FactoryRow> FftRows() { return kRows; }

}  // namespace tjit::runtime
