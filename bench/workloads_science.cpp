// Rows 13 to 17: simulation codes in f64 (row 17: f32), without gradients.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/fft_fftfreq.h>
#include <ATen/ops/fft_irfft2.h>
#include <ATen/ops/fft_rfft2.h>
#include <ATen/ops/fft_rfftfreq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>
#include <memory>

#include "bench/workloads.h"

namespace tjit::bench {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor Doubles(at::IntArrayRef sizes, std::uint64_t seed) {
  return Uniform(sizes, seed).to(at::kDouble);
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
  workload.step = [s] {
    const at::NoGradGuard no_grad;
    s->rates.clear();
    for (std::size_t i = 0; i < 3; ++i) {
      s->rates.push_back((s->now[i] - s->before[i]) / (s->t - s->tn));
    }
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
  };
  auto s = std::make_shared<State>();
  s->strain = 0.01 * Doubles({batch, 6}, 1);
  s->identity = at::cat({at::ones({3}, at::kDouble),
                         at::zeros({3}, at::kDouble)});
  Workload workload;
  workload.step = [s] {
    const at::NoGradGuard no_grad;
    for (int i = 1; i <= kRamp; ++i) {
      const at::Tensor strain = s->strain * (static_cast<double>(i) / kRamp);
      const at::Tensor trace = strain.narrow(-1, 0, 3).sum(-1, true);
      const at::Tensor volumetric = trace / 3 * s->identity;
      const at::Tensor deviatoric = strain - volumetric;
      s->stress = 3 * kBulk * volumetric + 2 * kShear * deviatoric;
    }
  };
  workload.result = [s] { return Tensors{s->stress}; };
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
  workload.step = [s] {
    const at::NoGradGuard no_grad;
    at::Tensor gamma = at::zeros_like(s->trial);
    for (int i = 0; i < 20; ++i) {
      const at::Tensor decay = at::exp(-kRate * gamma);
      const at::Tensor residual = s->trial - 3 * kShear * gamma - kYield -
                                  kSaturation * (1 - decay);
      if (residual.abs().max().item<double>() < 1e-8) break;
      const at::Tensor slope = -3 * kShear - kSaturation * kRate * decay;
      gamma = gamma - residual / slope;
    }
    s->gamma = gamma;
  };
  workload.result = [s] { return Tensors{s->gamma}; };
  return workload;
}

Workload CahnHilliard(std::int64_t side) {
  struct State {
    at::Tensor c, k2, k4;
    double dt = 0;
    int steps = 0;
  };
  constexpr int kGrowing = 40;  // steps until dt starts again
  auto s = std::make_shared<State>();
  s->c = 0.5 + 0.02 * (Doubles({side, side}, 1) - 0.5);
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor ky = at::fft_fftfreq(side, 1.0, options) * (2 * M_PI);
  const at::Tensor kx = at::fft_rfftfreq(side, 1.0, options) * (2 * M_PI);
  s->k2 = ky.pow(2).unsqueeze(1) + kx.pow(2).unsqueeze(0);
  s->k4 = s->k2.pow(2);
  Workload workload;
  workload.step = [s, side] {
    const at::NoGradGuard no_grad;
    s->dt = s->steps++ % kGrowing == 0 ? 1e-3 : 1.1 * s->dt;
    const at::Tensor low = s->c - 0.3, high = 0.7 - s->c;
    const at::Tensor mu = 10 * low * high.pow(2) - 10 * low.pow(2) * high;
    const at::Tensor change = -5 * s->k2 * at::fft_rfft2(mu);
    const at::Tensor next =
        (at::fft_rfft2(s->c) + s->dt * change) / (1 + 10 * s->dt * s->k4);
    s->c = at::fft_irfft2(next, at::IntArrayRef{side, side});
  };
  workload.result = [s] { return Tensors{s->c}; };
  return workload;
}

Workload LatticeBoltzmann(std::int64_t side) {
  static constexpr std::array<std::array<int, 2>, 9> kVelocities = {
      {{0, 0}, {1, 0}, {0, 1}, {-1, 0}, {0, -1}, {1, 1}, {-1, 1}, {-1, -1},
       {1, -1}}};
  constexpr double kOmega = 1.2;
  struct State {
    at::Tensor f, cx, cy, weights;
  };
  auto s = std::make_shared<State>();
  std::vector<float> cx, cy;
  for (const auto& v : kVelocities) {
    cx.push_back(static_cast<float>(v[0]));
    cy.push_back(static_cast<float>(v[1]));
  }
  s->cx = at::tensor(cx).view({9, 1, 1});
  s->cy = at::tensor(cy).view({9, 1, 1});
  const std::vector<float> weights = {4.f / 9,  1.f / 9,  1.f / 9,
                                      1.f / 9,  1.f / 9,  1.f / 36,
                                      1.f / 36, 1.f / 36, 1.f / 36};
  s->weights = at::tensor(weights).view({9, 1, 1});
  s->f = s->weights * (1 + 0.01 * Uniform({9, side, side}, 1));
  Workload workload;
  workload.step = [s] {
    const at::NoGradGuard no_grad;
    const at::Tensor rho = s->f.sum(0);
    const at::Tensor ux = (s->f * s->cx).sum(0) / rho;
    const at::Tensor uy = (s->f * s->cy).sum(0) / rho;
    const at::Tensor cu = s->cx * ux + s->cy * uy;
    const at::Tensor square = ux * ux + uy * uy;
    const at::Tensor equilibrium =
        s->weights * rho * (1 + 3 * cu + 4.5 * cu * cu - 1.5 * square);
    const at::Tensor collided = s->f - kOmega * (s->f - equilibrium);
    Tensors moved;
    for (std::size_t i = 0; i < kVelocities.size(); ++i) {
      moved.push_back(at::roll(collided[static_cast<std::int64_t>(i)],
                               {kVelocities[i][1], kVelocities[i][0]},
                               {0, 1}));
    }
    s->f = at::stack(moved);
  };
  workload.result = [s] { return Tensors{s->f}; };
  return workload;
}

std::vector<Row> ScienceRows() {
  return {
      {"row13/rate-triple-1", [] { return RateTriple(1); }, 600},
      {"row13/rate-triple-1024", [] { return RateTriple(1024); }, 600},
      {"row13/rate-triple-64k", [] { return RateTriple(65536); }, 600},
      {"row14/elasticity-1", [] { return Elasticity(1); }},
      {"row14/elasticity-1024", [] { return Elasticity(1024); }},
      {"row14/elasticity-32768", [] { return Elasticity(32768); }, 16},
      {"row15/radial-return-1024", [] { return RadialReturn(1024); }},
      {"row16/cahn-hilliard-200", [] { return CahnHilliard(200); }, 440},
      {"row17/lbm-10", [] { return LatticeBoltzmann(10); }, 200},
      {"row17/lbm-512", [] { return LatticeBoltzmann(512); }, 96},
  };
}

}  // namespace tjit::bench
