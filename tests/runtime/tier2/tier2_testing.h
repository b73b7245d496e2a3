// What tests of tier 2 share: programs of repeated steps, and a fixture that
// runs them eagerly and under tjit.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "runtime/testing.h"

namespace tjit {

inline constexpr int kSteps = 400;

inline Options WithInterpreter() {
  Options options;
  options.hot_threshold = 4;
  options.backend = Backend::kInterpreter;
  options.cache_dir = "off";  // what is compiled is counted
  return options;
}

// Machine code without a threshold, and without a comparison of times.
inline Options MachineCodeAtOnce() {
  Options options;
  options.hot_threshold = 2;
  options.backend = Backend::kLlvm;
  options.compile_all = true;
  options.cache_dir = "off";
  return options;
}

inline bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// How many of as many tensors differ.
inline int CountDifferences(const std::vector<at::Tensor>& a,
                            const std::vector<at::Tensor>& b) {
  int differences = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differences += SameBits(a[i], b[i]) ? 0 : 1;
  }
  return differences;
}

// Five pointwise ops with a matrix product among them, and one in place.
inline at::Tensor Step(const at::Tensor& x, const at::Tensor& w,
                       double alpha = 1) {
  at::Tensor a = at::add(x, w, alpha);
  at::Tensor m = at::mm(x, w);
  at::Tensor b = at::mul(a, m);
  b.sub_(x);
  return at::mul(at::add(b, a), w);
}

using Program = std::function<at::Tensor(int step)>;

// Runs the program's steps; each run of `make` starts it from the beginning.
inline std::vector<at::Tensor> RunSteps(const std::function<Program()>& make,
                                        int steps = kSteps, bool waits = true) {
  const Program program = make();
  std::vector<at::Tensor> results;
  for (int i = 0; i < steps; ++i) {
    results.push_back(program(i).clone());
    mark_step();
    if (waits) testing::WaitForCompiler();
  }
  return results;
}

class Tier2Test : public ::testing::Test {
 protected:
  void TearDown() override {
    testing::SetPlantedDefect("");
    testing::SetForcedDrainAt(-1);
    disable();
    clear();
  }

  // Runs the program eagerly and under tjit; counts steps whose bits differ.
  int Differences(const std::function<Program()>& make,
                  Backend backend = Backend::kInterpreter) {
    const std::vector<at::Tensor> eager = RunSteps(make);
    const Stats before = stats();
    Options options = WithInterpreter();
    options.backend = backend;
    options.compile_all = backend == Backend::kLlvm;  // without a threshold
    EXPECT_TRUE(enable(options));
    const std::vector<at::Tensor> ours = RunSteps(make);
    sync();
    stats_ = stats() - before;
    disable();
    return CountDifferences(eager, ours);
  }

  Stats stats_;
};

inline std::function<Program()> PlainLoop() {
  const at::Tensor x = at::rand({16, 16});
  const at::Tensor w = at::rand({16, 16});
  return [=] { return [=](int) { return Step(x, w); }; };
}

// State that lives from step to step and is written in place.
inline std::function<Program()> Momentum() {
  return [] {
    const at::Tensor state = at::full({32}, 1.0);
    const at::Tensor velocity = at::full({32}, 0.5);
    return [=](int) {
      velocity.mul_(at::full({32}, 0.75));
      velocity.add_(at::mul(state, state), -0.125);
      state.add_(velocity, 0.25);
      return at::add(state, velocity);
    };
  };
}

// Adam's update; MKL's square root differs from the processor's.
inline std::function<Program()> Adam() {
  at::manual_seed(2);
  const at::Tensor start = at::randn({50, 72}), gradient = at::randn({50, 72});
  return [=] {
    const at::Tensor p = start.clone();
    const at::Tensor m = at::zeros_like(p), v = at::zeros_like(p);
    return [=](int i) {
      const at::Tensor g = at::mul(p, gradient);
      m.mul_(0.9).add_(g, 0.1);
      v.mul_(0.999).addcmul_(g, g, 0.001);
      const double bias = 1 - std::pow(0.999, i + 1);
      p.addcdiv_(m, (v.sqrt() / std::sqrt(bias)).add_(1e-8), -0.01 / bias);
      return p;
    };
  };
}

// Math functions, broadcasting, views, other types, comparisons.
inline std::function<Program()> ManyOps() {
  at::manual_seed(1);
  const at::Tensor x = at::randn({37, 19});
  const at::Tensor row = at::randn({19});
  const at::Tensor d = at::randn({37, 19}, at::kDouble);
  return [=] {
    return [=](int) {
      at::Tensor a = at::tanh(at::add(x, row));
      a = at::mul(at::exp(at::mul(a, x)), at::gt(x, 0));
      const at::Tensor t = at::sub(a.t(), x.t()).t();
      at::Tensor b = at::sqrt(at::abs(at::add(d, t)));
      b.slice(0, 3, 20).mul_(2);
      return at::where(at::lt(b, 1), b, at::log(at::add(b, 1)));
    };
  };
}

}  // namespace tjit
