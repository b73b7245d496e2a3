// Row 17: lattice Boltzmann in two dimensions with nine velocities, f32.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <memory>
#include <utility>

#include "bench/engagement.h"
#include "bench/workloads.h"

namespace tjit::bench {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kDirections = 9;
constexpr std::array<std::array<int, 2>, kDirections> kVelocities = {{{0, 0},
                                                                      {1, 0},
                                                                      {0, 1},
                                                                      {-1, 0},
                                                                      {0, -1},
                                                                      {1, 1},
                                                                      {-1, 1},
                                                                      {-1, -1},
                                                                      {1, -1}}};

// The moments of d'Humieres and others, a row each: density, energy, its
// square, momentum and heat flux in both directions, two stresses. Rows are
// orthogonal, so the inverse is the transpose over their lengths.
constexpr std::array<std::array<int, kDirections>, kDirections> kMoments = {
    {{1, 1, 1, 1, 1, 1, 1, 1, 1},
     {-4, -1, -1, -1, -1, 2, 2, 2, 2},
     {4, -2, -2, -2, -2, 1, 1, 1, 1},
     {0, 1, 0, -1, 0, 1, -1, -1, 1},
     {0, -2, 0, 2, 0, 1, -1, -1, 1},
     {0, 0, 1, 0, -1, 1, 1, -1, -1},
     {0, 0, -2, 0, 2, 1, 1, -1, -1},
     {0, 1, -1, 1, -1, 0, 0, 0, 0},
     {0, 0, 0, 0, 0, 1, -1, 1, -1}}};

struct Lattice {
  explicit Lattice(std::int64_t side) {
    std::vector<float> x, y;
    for (const auto& v : kVelocities) {
      x.push_back(static_cast<float>(v[0]));
      y.push_back(static_cast<float>(v[1]));
    }
    cx = at::tensor(x).view({kDirections, 1, 1});
    cy = at::tensor(y).view({kDirections, 1, 1});
    const std::vector<float> w = {4.f / 9,  1.f / 9,  1.f / 9,
                                  1.f / 9,  1.f / 9,  1.f / 36,
                                  1.f / 36, 1.f / 36, 1.f / 36};
    weights = at::tensor(w).view({kDirections, 1, 1});
    now = weights * (1 + 0.01 * Uniform({kDirections, side, side}, 1));
  }

  at::Tensor Equilibrium(const at::Tensor& f) const {
    const at::Tensor rho = f.sum(0);
    const at::Tensor ux = (f * cx).sum(0) / rho;
    const at::Tensor uy = (f * cy).sum(0) / rho;
    const at::Tensor cu = cx * ux + cy * uy;
    const at::Tensor square = ux * ux + uy * uy;
    return weights * rho * (1 + 3 * cu + 4.5 * cu * cu - 1.5 * square);
  }

  // Each direction moves on by its velocity.
  static at::Tensor Streamed(const at::Tensor& collided) {
    Tensors moved;
    for (std::size_t i = 0; i < kVelocities.size(); ++i) {
      moved.push_back(at::roll(collided[static_cast<std::int64_t>(i)],
                               {kVelocities[i][1], kVelocities[i][0]}, {0, 1}));
    }
    return at::stack(moved);
  }

  at::Tensor now, cx, cy, weights;
};

// The next state of a lattice is that function of the present one.
Workload StepsOf(std::shared_ptr<Lattice> lattice, TensorFunction next) {
  Workload workload;
  workload.step = [lattice, next = Wrapped(std::move(next))] {
    const at::NoGradGuard no_grad;
    lattice->now = next(lattice->now, {});
  };
  workload.result = [lattice] { return Tensors{lattice->now}; };
  return workload;
}

// f32 [9, 9], row by row.
at::Tensor Matrix(const std::vector<float>& values) {
  return at::tensor(values).view({kDirections, kDirections});
}

}  // namespace

Workload LatticeBoltzmann(std::int64_t side) {
  constexpr double kOmega = 1.2;
  auto s = std::make_shared<Lattice>(side);
  return StepsOf(s, [s](const at::Tensor& f, const at::Tensor&) {
    return Lattice::Streamed(f - kOmega * (f - s->Equilibrium(f)));
  });
}

Workload LatticeBoltzmannMrt(std::int64_t side) {
  struct State : Lattice {
    using Lattice::Lattice;
    at::Tensor to_moments, rates, to_directions;
  };
  auto s = std::make_shared<State>(side);
  const std::array<float, kDirections> relaxed = {0.f, 1.4f, 1.4f, 0.f, 1.2f,
                                                  0.f, 1.2f, 1.2f, 1.2f};
  std::vector<float> to, rates(kDirections * kDirections), back(rates.size());
  for (std::size_t m = 0; m < kMoments.size(); ++m) {
    float length = 0;
    for (const int k : kMoments[m]) length += static_cast<float>(k * k);
    for (std::size_t i = 0; i < kMoments.size(); ++i) {
      const auto value = static_cast<float>(kMoments[m][i]);
      to.push_back(value);
      back[i * kDirections + m] = value / length;
    }
    rates[m * kDirections + m] = relaxed[m];
  }
  s->to_moments = Matrix(to);
  s->rates = Matrix(rates);
  s->to_directions = Matrix(back);
  return StepsOf(s, [s](const at::Tensor& f, const at::Tensor&) {
    const auto apply = [](const at::Tensor& matrix, const at::Tensor& x) {
      return at::einsum("ij,jyx->iyx", {matrix, x});
    };
    const at::Tensor moments = apply(s->to_moments, f - s->Equilibrium(f));
    const at::Tensor change = apply(s->to_directions, apply(s->rates, moments));
    return Lattice::Streamed(f - change);
  });
}

}  // namespace tjit::bench
