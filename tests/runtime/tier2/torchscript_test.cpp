// Tier 2 with groups as graphs of TorchScript: whole segments become graphs,
// give eager's bits, and keep views, in-place changes, lists, contexts and
// varying scalars what they are.
#include <ATen/ATen.h>
#include <ATen/ops/_fused_adam.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <thread>
#include <vector>

#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

class TorchscriptTest : public Tier2Test {
 protected:
  int DifferencesOf(const std::function<Program()>& make) {
    return Differences(make, Backend::kTorchscript);
  }
  // All `steps` of the segments that ran at tier 2 ran in `graphs` graphs.
  void ExpectWholeSegments(int steps, int graphs = 1) const {
    EXPECT_GT(stats_.replays_tier2, kSteps / 2) << stats_.to_json();
    EXPECT_EQ(stats_.steps_fused, steps * stats_.replays_tier2);
    EXPECT_EQ(stats_.groups_run, graphs * stats_.replays_tier2);
    EXPECT_EQ(stats_.compiles_failed, 0) << explain();
    EXPECT_GT(stats_.kernels_compiled, 0);
  }
};

// Of six steps with a matrix product, and the copy of what they give.
TEST_F(TorchscriptTest, ASegmentIsOneGraph) {
  EXPECT_EQ(DifferencesOf(PlainLoop()), 0);
  ExpectWholeSegments(7);
  EXPECT_EQ(stats_.recompiles, 0);
}

TEST_F(TorchscriptTest, StateThatIsWrittenInPlace) {
  EXPECT_EQ(DifferencesOf(Momentum()), 0);
  ExpectWholeSegments(7);
}

// addcdiv_ and a division take numbers that differ at every step.
TEST_F(TorchscriptTest, ScalarsThatVaryAreInputs) {
  EXPECT_EQ(DifferencesOf(Adam()), 0);
  ExpectWholeSegments(10);
  EXPECT_LE(stats_.recompiles, 1);
}

TEST_F(TorchscriptTest, ManyOps) {
  EXPECT_EQ(DifferencesOf(ManyOps()), 0);
  ExpectWholeSegments(16);
}

// Views of a result: written to, read transposed, broadcast, as another type.
TEST_F(TorchscriptTest, ViewsOfResults) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({6, 8});
  const auto program = [=](int) {
    at::Tensor a = at::mul(x, x);
    a.select(0, 2).add_(1);
    a.slice(1, 0, 8, 2).mul_(a.slice(1, 1, 8, 2));
    const at::Tensor b = at::add(a.t(), a.t().select(1, 0).unsqueeze(1));
    const at::Tensor bits = at::bitwise_and(a.view(at::kInt), 0x7fffff00);
    return at::cat({b.t(), bits.view(at::kFloat)}, 1);
  };
  EXPECT_EQ(DifferencesOf([=] { return program; }), 0);
  ExpectWholeSegments(7, 4);
}

TEST_F(TorchscriptTest, ComplexNumbersAndTheirParts) {
  at::manual_seed(4);
  const at::Tensor z = at::randn({5, 4}, at::kComplexFloat);
  const auto program = [=](int) {
    const at::Tensor square = at::mul(z, z);
    const at::Tensor parts = at::view_as_real(square);
    return at::add(parts, at::sin(parts.select(2, 1)).unsqueeze(2));
  };
  EXPECT_EQ(DifferencesOf([=] { return program; }), 0);
  ExpectWholeSegments(4, 3);
}

// A view that negates when it is read is no input of a graph.
TEST_F(TorchscriptTest, WhatCannotBeEmittedStaysALibraryCall) {
  at::manual_seed(5);
  const at::Tensor z = at::randn({5, 4}, at::kComplexFloat);
  const auto program = [=](int) {
    const at::Tensor a = at::mul(at::add(z, 1), z);
    const at::Tensor b = at::mul(a.conj(), a);
    return at::mul(at::sub(b, z), z);
  };
  EXPECT_EQ(DifferencesOf([=] { return program; }), 0);
  EXPECT_GT(stats_.groups_run, kSteps / 2) << stats_.to_json();
  EXPECT_EQ(stats_.compiles_failed, 1);
  EXPECT_THAT(explain(),
              ::testing::HasSubstr(" aten::copy_: an argument is a conjugated "
                                   "or negated view\n"));
}

// The update has a context of its own.
TEST_F(TorchscriptTest, ListsAndSeveralResults) {
  at::manual_seed(6);
  const at::Tensor x = at::randn({7, 2}), w = at::randn({2});
  const auto make = [=]() -> Program {
    const at::Tensor p = w.clone();
    const std::vector<at::Tensor> lists[] = {
        {p}, {at::zeros_like(w)}, {at::zeros_like(w)}, {at::ones({})}};
    return [=](int) {
      const auto [norm, mean, rstd] = at::native_layer_norm(x, {2}, p, p, 1e-5);
      const auto [largest, where] = at::max(norm, 1);
      at::_fused_adam_(lists[0], {x[2]}, lists[1], lists[2], {}, lists[3], 0.01,
                       0.9, 0.999, 0, 1e-8, false, false);
      return at::stack(
          {largest, where.to(at::kFloat), mean.view({7}), p[0].expand({7})});
    };
  };
  EXPECT_EQ(DifferencesOf(make), 0);
  ExpectWholeSegments(6, 3);
}

// Forward, backward and update have contexts of their own.
TEST_F(TorchscriptTest, ATrainingStep) {
  at::manual_seed(7);
  const at::Tensor x = at::randn({8, 6}), start = at::randn({6, 3});
  const auto make = [=]() -> Program {
    const at::Tensor w = start.clone().requires_grad_();
    return [=](int) {
      const at::Tensor loss = at::tanh(at::mm(x, w)).pow(2).sum();
      const auto grads = torch::autograd::grad({loss}, {w});
      const at::NoGradGuard no_grad;
      w.sub_(at::mul(grads[0], 0.01));
      return at::cat({w.detach().view({-1}), loss.detach().view({1})});
    };
  };
  EXPECT_EQ(DifferencesOf(make), 0);
  EXPECT_GT(stats_.groups_run, stats_.replays_tier2) << stats_.to_json();
  EXPECT_EQ(stats_.compiles_failed, 0);
}

TEST_F(TorchscriptTest, PlantedDefectsShow) {
  testing::SetPlantedDefect("lost_write_back");
  EXPECT_GT(DifferencesOf(Momentum()), 0);
  clear();
  testing::SetPlantedDefect("stale_kernel_scalar");
  EXPECT_GT(DifferencesOf(Adam()), 0);
}

TEST_F(TorchscriptTest, DrainsAndThreads) {
  testing::SetForcedDrainAt(3);
  EXPECT_EQ(DifferencesOf(PlainLoop()), 0);
  EXPECT_GT(stats_.ops_drained, 100);
  testing::SetForcedDrainAt(-1);
  clear();
  Options options = WithInterpreter();
  options.backend = Backend::kTorchscript;
  const auto program = PlainLoop();
  const at::Tensor eager = RunSteps(program, 1, false).back();
  EXPECT_TRUE(enable(options));
  const Stats before = stats();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back(
        [&] { EXPECT_TRUE(SameBits(RunSteps(program).back(), eager)); });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT((stats() - before).groups_run, 400);
}

}  // namespace
}  // namespace tjit
