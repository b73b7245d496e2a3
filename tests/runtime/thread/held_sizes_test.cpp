// Sizes that stay for some steps and do not come back: a simulation makes its
// list of neighbours anew every so many steps. They are replayed, and run the
// code that was compiled for those before.
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "support/pseudo_random.h"
#include "tests/runtime/thread/run_both.h"

namespace tjit {
namespace {

using Tensors = std::vector<at::Tensor>;

class Sizes {
 public:
  // One of so many that hardly any comes twice.
  std::int64_t Next() {
    return 12000 + static_cast<std::int64_t>((random_.Next() >> 33) % 8000);
  }

 private:
  PseudoRandom random_;
};

constexpr int kSteps = 1200, kLearnt = 600;

double Share(std::int64_t part, std::int64_t all) {
  return static_cast<double>(part) / static_cast<double>(all);
}

// Forty ops over four times as many elements as pairs, one number of which is
// another one in each step. In one loop they take a fraction of the time on any
// machine: whether eight replays of a size pay is measured.
Tensors Relax(int steps_of_size, Stats* learnt) {
  const at::NoGradGuard no_grad;
  Sizes sizes;
  std::int64_t size = 0;
  Tensors results;
  for (int i = 0; i < kSteps; ++i) {
    if (i == kLearnt) *learnt = stats();
    if (i % steps_of_size == 0) size = 4 * sizes.Next();
    const at::Tensor x = torch::full({size}, 0.5f) + 0.001f * (i % 7);
    at::Tensor y = x;
    for (int k = 0; k < 5; ++k) {
      y = (y * 1.01f + x).abs() * 0.7f - y.square() * 0.1f;
      y = y.clamp(-3, 3);
    }
    const at::Tensor sum = y.sum();
    (void)sum.item<float>();
    if (i % 10 == 9) results.push_back(sum);
  }
  return results;
}

// Pairs of atoms and the forces between them. `item_every`: a value is read as
// often; 0: never.
Tensors Simulate(int steps_of_list, int item_every, Stats* learnt) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(1);
  constexpr std::int64_t kAtoms = 1000;
  at::Tensor at = torch::rand({kAtoms, 3}) * 10;
  const at::Tensor v = torch::zeros({kAtoms, 3});
  at::Tensor first, second;
  Sizes sizes;
  for (int i = 0; i < kSteps; ++i) {
    if (i == kLearnt) *learnt = stats();
    if (i % steps_of_list == 0) {
      const std::int64_t pairs = sizes.Next();
      first = torch::randint(0, kAtoms, {pairs});
      second = (first + torch::randint(1, kAtoms, {pairs})) % kAtoms;
    }
    at::Tensor d = at.index_select(0, first) - at.index_select(0, second);
    d = d - 10 * torch::round(d / 10);
    const at::Tensor r2 = d.square().sum(1).clamp_min(0.5);
    const at::Tensor ir6 = r2.pow(-3);
    const at::Tensor f =
        (ir6 * (2 * ir6 - 1) * 24 / r2).clamp(-10, 10).unsqueeze(1) * d;
    const at::Tensor force = torch::zeros({kAtoms, 3});
    force.index_add_(0, first, f);
    force.index_add_(0, second, -f);
    v.add_(force, 1e-4);
    at.add_(v, 1e-3);
    if (item_every != 0 && i % item_every == item_every - 1) {
      (void)v.square().sum().item<float>();
    }
  }
  return {at, v};
}

// With forces by autograd: a list of the pairs that are near, made anew each 15
// steps, and a value read each 50: nothing but a step comes twice in a row.
Tensors SimulateInTwoRhythms(Stats* learnt) {
  torch::manual_seed(2);
  at::Tensor at = torch::rand({300, 3}) * 8;
  at::Tensor v = torch::randn({300, 3}) * 0.1;
  at::Tensor first, second;
  Tensors results;
  for (int i = 0; i < kSteps; ++i) {
    if (i == kLearnt) *learnt = stats();
    if (i % 15 == 0) {
      at::Tensor d = at.unsqueeze(1) - at.unsqueeze(0);
      d = d - 8 * torch::round(d / 8);
      at::Tensor near = d.square().sum(-1).lt(4.0);
      near.fill_diagonal_(false);
      const at::Tensor pairs = near.nonzero();
      first = pairs.select(1, 0).contiguous();
      second = pairs.select(1, 1).contiguous();
    }
    at.requires_grad_();
    at::Tensor d = at.index_select(0, first) - at.index_select(0, second);
    d = d - 8 * torch::round(d / 8);
    const at::Tensor r2 = d.square().sum(1).clamp_min(0.8);
    const at::Tensor ir6 = (1 / r2).pow(3);
    const at::Tensor energy = (4 * (ir6 * ir6 - ir6)).sum() / 2;
    const at::Tensor force =
        torch::autograd::grad({-energy}, {at})[0].clamp(-20, 20);
    at = at.detach();
    v = (v + 0.001 * force) * 0.995;
    at = (at + 0.001 * v).remainder(8);
    if (i % 50 == 0) results.push_back(torch::full({1}, energy.item<float>()));
  }
  results.push_back(at);
  results.push_back(v);
  return results;
}

TEST(HeldSizesTest, RunTheCodeOfSizesBefore) {
  for (const int steps_of_size : {10, 30}) {
    SCOPED_TRACE(steps_of_size);
    const Stats did = RunBoth(Backend::kLlvm, [&](Stats* learnt) {
      return Relax(steps_of_size, learnt);
    });
    EXPECT_GE(Share(did.ops_replayed, did.ops_seen), 0.8) << did.to_json();
    EXPECT_GE(Share(did.steps_fused, did.ops_seen), 0.6) << did.to_json();
    // Numbers that vary are arguments in each size from the first run on.
    EXPECT_LE(did.kernels_compiled, 2) << did.to_json();
  }
}

TEST(HeldSizesTest, StepsOfASimulationAreReplayed) {
  for (const int item_every : {1, 10, 0}) {
    SCOPED_TRACE(item_every);
    const Stats did = RunBoth(Backend::kLlvm, [&](Stats* learnt) {
      return Simulate(20, item_every, learnt);
    });
    EXPECT_GE(Share(did.ops_replayed, did.ops_seen), 0.75) << did.to_json();
  }
}

TEST(HeldSizesTest, OnAnotherThread) {
  const Stats did = RunBoth(Backend::kLlvm, [](Stats* learnt) {
    Tensors results;
    std::thread([&] { results = Simulate(20, 10, learnt); }).join();
    return results;
  });
  EXPECT_GE(Share(did.ops_replayed, did.ops_seen), 0.75) << did.to_json();
}

TEST(HeldSizesTest, StepsAreFoundWhereListsAndValuesHaveOtherRhythms) {
  const Stats did = RunBoth(Backend::kLlvm, SimulateInTwoRhythms);
  EXPECT_GE(Share(did.ops_replayed, did.ops_seen), 0.5) << did.to_json();
  EXPECT_GE(Share(did.steps_fused, did.ops_seen), 0.1) << did.to_json();
}

}  // namespace
}  // namespace tjit
