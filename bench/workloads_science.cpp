// Rows 13 to 16: simulation codes in f64, without gradients.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/fft_fftfreq.h>
#include <ATen/ops/fft_irfftn.h>
#include <ATen/ops/fft_rfftfreq.h>
#include <ATen/ops/fft_rfftn.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <memory>
#include <optional>

#include "bench/engagement.h"
#include "bench/workloads.h"

namespace tjit::bench {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor Doubles(at::IntArrayRef sizes, std::uint64_t seed) {
  return Uniform(sizes, seed).to(at::kDouble);
}

// A number that is read is another one at each call: a function that is to be
// replayed decides by a bool.
bool IsBelow(const at::Tensor& value, double bound) {
  return WrapsFunctions() ? (value < bound).item<bool>()
                          : value.item<double>() < bound;
}

}  // namespace

Workload RateTriple(std::int64_t batch) {
  struct State {
    Tensors now, before, rates;
    at::Tensor t, tn;
  };
  auto s = std::make_shared<State>();
  for (std::uint64_t i = 0; i < 3; ++i) {
    s->now.push_back(Doubles({batch}, 2 * i + 1));
    s->before.push_back(Doubles({batch}, 2 * i + 2));
  }
  s->t = Doubles({batch}, 7) + 1;
  s->tn = Doubles({batch}, 8);
  Workload workload;
  const TensorsFunction rates =
      Wrapped(TensorsFunction([s](const Tensors& now, double) {
        Tensors made;
        for (std::size_t i = 0; i < 3; ++i) {
          made.push_back((now[i] - s->before[i]) / (s->t - s->tn));
        }
        return made;
      }));
  workload.step = [s, rates] {
    const at::NoGradGuard no_grad;
    s->rates.clear();
    s->rates = rates(s->now, 0);
  };
  workload.result = [s] { return s->rates; };
  workload.uses_results = true;
  return workload;
}

Workload Elasticity(std::int64_t batch) {
  constexpr double kYoung = 1e3, kPoisson = 0.3;
  constexpr double kBulk = kYoung / 3 / (1 - 2 * kPoisson);
  constexpr double kShear = kYoung / 2 / (1 + kPoisson);
  constexpr int kRamp = 100;
  struct State {
    at::Tensor strain, identity, stress;
    int increment = 0;
  };
  auto s = std::make_shared<State>();
  s->strain = 0.01 * Doubles({batch, 6}, 1);
  s->identity = at::cat({at::ones({3}, at::kDouble),
                         at::zeros({3}, at::kDouble)});
  Workload workload;
  const TensorsFunction stress =
      Wrapped(TensorsFunction([](const Tensors& in, double part) {
        const at::Tensor strain = in[0] * part;
        const at::Tensor trace = strain.narrow(-1, 0, 3).sum(-1, true);
        const at::Tensor volumetric = trace / 3 * in[1];
        const at::Tensor deviatoric = strain - volumetric;
        return Tensors{3 * kBulk * volumetric + 2 * kShear * deviatoric};
      }));
  workload.step = [s, stress, in = Tensors{s->strain, s->identity}] {
    const at::NoGradGuard no_grad;
    s->increment = s->increment % kRamp + 1;
    s->stress = stress(in, static_cast<double>(s->increment) / kRamp)[0];
  };
  workload.result = [s] { return Tensors{s->stress}; };
  workload.uses_results = true;
  return workload;
}

Workload RadialReturn(std::int64_t batch) {
  constexpr double kShear = 80e3, kYield = 200, kSaturation = 100, kRate = 10;
  struct State {
    at::Tensor trial, gamma;
  };
  auto s = std::make_shared<State>();
  s->trial = 250 + 400 * Doubles({batch}, 1);
  Workload workload;
  const TensorFunction solve =
      Wrapped(TensorFunction([](const at::Tensor& trial, const at::Tensor&) {
        at::Tensor gamma = at::zeros_like(trial);
        for (int i = 0; i < 20; ++i) {
          const at::Tensor decay = at::exp(-kRate * gamma);
          const at::Tensor residual =
              trial - 3 * kShear * gamma - kYield - kSaturation * (1 - decay);
          if (IsBelow(residual.abs().max(), 1e-8)) break;
          const at::Tensor slope = -3 * kShear - kSaturation * kRate * decay;
          gamma = gamma - residual / slope;
        }
        return gamma;
      }));
  workload.step = [s, solve] {
    const at::NoGradGuard no_grad;
    s->gamma = solve(s->trial, {});
  };
  workload.result = [s] { return Tensors{s->gamma}; };
  return workload;
}

Workload CahnHilliard(std::vector<std::int64_t> sizes) {
  struct State {
    at::Tensor c, k2, k4;
    double dt = 0;
    int steps = 0;
  };
  constexpr int kGrowing = 40;  // steps until dt starts again
  auto s = std::make_shared<State>();
  s->c = 0.5 + 0.02 * (Doubles(sizes, 1) - 0.5);
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor last =
      at::fft_rfftfreq(sizes.back(), 1.0, options) * (2 * M_PI);
  s->k2 = last.pow(2);
  std::vector<std::int64_t> dims = {static_cast<std::int64_t>(sizes.size()) -
                                    1};
  for (std::int64_t d = dims[0]; d-- > 0;) {
    at::Tensor k =
        at::fft_fftfreq(sizes[static_cast<std::size_t>(d)], 1.0, options) *
        (2 * M_PI);
    for (std::size_t i = 0; i < dims.size(); ++i) k = k.unsqueeze(-1);
    s->k2 = k.pow(2) + s->k2;
    dims.insert(dims.begin(), d);
  }
  s->k4 = s->k2.pow(2);
  Workload workload;
  const NumbersFunction next_of = Wrapped(NumbersFunction(
      [s, sizes, dims](const at::Tensor& c, double dt, double ten_dt) {
        const at::Tensor low = c - 0.3, high = 0.7 - c;
        const at::Tensor mu = 10 * low * high.pow(2) - 10 * low.pow(2) * high;
        const at::Tensor change =
            -5 * s->k2 * at::fft_rfftn(mu, std::nullopt, dims);
        const at::Tensor next =
            (at::fft_rfftn(c, std::nullopt, dims) + dt * change) /
            (1 + ten_dt * s->k4);
        return at::fft_irfftn(next, at::IntArrayRef(sizes), dims);
      }));
  workload.step = [s, next_of] {
    const at::NoGradGuard no_grad;
    s->dt = s->steps++ % kGrowing == 0 ? 1e-3 : 1.1 * s->dt;
    s->c = next_of(s->c, s->dt, 10 * s->dt);
  };
  workload.result = [s] { return Tensors{s->c}; };
  workload.uses_results = true;
  return workload;
}

std::vector<Row> ScienceRows() {
  return {
      {"row13/rate-triple-1", [] { return RateTriple(1); }, 600},
      {"row13/rate-triple-1024", [] { return RateTriple(1024); }, 600},
      {"row13/rate-triple-64k", [] { return RateTriple(65536); }, 600},
      {"row14/elasticity-1", [] { return Elasticity(1); }},
      {"row14/elasticity-1024", [] { return Elasticity(1024); }},
      {"row14/elasticity-32768", [] { return Elasticity(32768); }},
      {"row15/radial-return-1024", [] { return RadialReturn(1024); }},
      {"row16/cahn-hilliard-20",
       [] {
         return CahnHilliard({20, 20});
       }},
      {"row16/cahn-hilliard-200",
       [] {
         return CahnHilliard({200, 200});
       }},
      {"row16/cahn-hilliard-100^3",
       [] {
         return CahnHilliard({100, 100, 100});
       },
       32},
      {"row17/lbm-10", [] { return LatticeBoltzmann(10); }, 200},
      {"row17/lbm-512", [] { return LatticeBoltzmann(512); }, 96},
      {"row17/lbm-mrt-10", [] { return LatticeBoltzmannMrt(10); }, 240},
      {"row17/lbm-mrt-512", [] { return LatticeBoltzmannMrt(512); }, 96},
  };
}

}  // namespace tjit::bench
