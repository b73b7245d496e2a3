// An implicit material update with Newton's method: the residual and its
// derivative are one function of tjit::jit(), the loop around it with its test
// on the host is not.
//
//   build/release/bin/implicit_update
//
// For each of 4,096 points it solves  s - s0 - dt * rate(s) = 0  with
// rate(s) = (a / (1 + |s|)) * tanh(s), f64.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <tjit/jit.h>
#include <tjit/tjit.h>

#include <chrono>
#include <cstdio>
#include <cstring>

namespace {

struct Newton {
  at::Tensor residual, step, norm;
};

}  // namespace
TJIT_FIELDS(Newton, residual, step, norm);

namespace {

Newton Residual(const at::Tensor& s, const at::Tensor& s0, const at::Tensor& a,
                double dt) {
  const at::Tensor size = at::abs(s) + 1;
  const at::Tensor tanh = at::tanh(s);
  const at::Tensor rate = a / size * tanh;
  const at::Tensor slope =
      a / size * (1 - tanh * tanh) - rate / size * at::sign(s);
  Newton newton;
  newton.residual = s - s0 - rate * dt;
  newton.step = newton.residual / (1 - slope * dt);
  newton.norm = at::max(at::abs(newton.residual));
  return newton;
}

// One step of time; the number of iterations is added to *iterations.
template <class F>
at::Tensor Solve(F& residual, const at::Tensor& s0, const at::Tensor& a,
                 double dt, int* iterations) {
  at::Tensor s = s0;
  for (int i = 0; i < 20; ++i) {
    const Newton newton = residual(s, s0, a, dt);
    ++*iterations;
    if (newton.norm.item<double>() < 1e-12) break;
    s = s - newton.step;
  }
  return s;
}

template <class F>
at::Tensor Simulate(F& residual, double* us_an_iteration) {
  at::manual_seed(7);
  const at::Tensor a = at::rand({4096}, at::kDouble) + 0.5;
  at::Tensor s = at::rand({4096}, at::kDouble);
  int iterations = 0;
  const auto began = std::chrono::steady_clock::now();
  for (int step = 0; step < 12000; ++step) {
    s = Solve(residual, s, a, 0.01 + 1e-5 * step, &iterations);
  }
  const std::chrono::duration<double, std::micro> took =
      std::chrono::steady_clock::now() - began;
  *us_an_iteration = took.count() / iterations;
  return s;
}

}  // namespace

int main() {
  const at::NoGradGuard no_grad;
  double eager_us = 0, jit_us = 0;
  const at::Tensor eager = Simulate(Residual, &eager_us);
  auto residual = tjit::jit(Residual, {.name = "residual"});
  const at::Tensor replayed = Simulate(residual, &jit_us);
  tjit::sync();
  const bool same = std::memcmp(eager.const_data_ptr(),
                                replayed.const_data_ptr(), eager.nbytes()) == 0;
  const tjit::JitStats stats = residual.stats();
  std::printf(
      "%lld of %lld calls replayed; %s bits; %.1f us an iteration "
      "instead of %.1f%s%s\n",
      static_cast<long long>(stats.replays),
      static_cast<long long>(stats.calls), same ? "same" : "OTHER", jit_us,
      eager_us, stats.why.empty() ? "" : "; ", stats.why.c_str());
  return same && stats.replays > stats.calls * 9 / 10 ? 0 : 1;
}
