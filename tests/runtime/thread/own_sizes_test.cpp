// Sequences in which several sizes vary on their own: experts that get as many
// tokens each as a router says. No path comes again, but each part has few
// sizes, which do. See Note [Sizes that vary on their own] in
// recorder/size_cuts.h.
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cstdint>
#include <random>
#include <vector>

#include "runtime/testing.h"
#include "tests/runtime/thread/run_both.h"

namespace tjit {
namespace {

constexpr int kExperts = 5, kSizes = 12, kSteps = 900, kLearnt = 600;
constexpr int kOpsOfExpert = 12, kOpsOfUpdate = 24;
// The first expert has a second layer.
constexpr double kOpsOfStep = (kExperts + 1) * kOpsOfExpert + 1 + kOpsOfUpdate;

// kOpsOfExpert ops over x: f32 [N, 8].
at::Tensor Expert(const at::Tensor& x, const at::Tensor& w) {
  at::Tensor y = x;
  for (int i = 0; i < 3; ++i) y = (torch::mm(y, w).tanh() + x) * 0.5;
  return y;
}

// Steps, which end at mark_step() if `marks`. Each expert gets one of kSizes
// sizes, drawn anew, or all get the same one.
std::vector<at::Tensor> Route(bool marks, bool is_one_size, int update_ops,
                              Stats* learnt) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(1);
  const at::Tensor tokens = torch::rand({64, 8}), w = torch::rand({8, 8}) / 8;
  at::Tensor state = torch::zeros({8, 8});
  std::mt19937_64 rng(1);
  std::vector<at::Tensor> results;
  for (int step = 0; step < kSteps; ++step) {
    if (step == kLearnt) *learnt = stats();
    const auto draw = [&] {
      return 20 + static_cast<std::int64_t>(rng() % kSizes);
    };
    const std::int64_t first = draw();
    std::vector<at::Tensor> made;
    for (int e = 0; e < kExperts; ++e) {
      const std::int64_t size = e == 0 || is_one_size ? first : draw();
      made.push_back(Expert(tokens.narrow(0, 0, size), w));
      if (e == 0) made[0] = Expert(made[0].abs(), w);
    }
    for (int i = 0; i < update_ops / 4; ++i) {
      state = (state.mul(0.5).add(w).sin() - w);
    }
    results.push_back(made[static_cast<std::size_t>(step % kExperts)]);
    results.push_back(state);
    if (marks) mark_step();
  }
  return results;
}

struct Outcome {
  Stats did;  // behind kLearnt steps
  Stats all;  // behind all of them
  std::int64_t trims = 0, evictions = 0;
};

Outcome RunRoutes(bool marks, bool is_one_size, int update_ops) {
  Outcome outcome;
  const Stats before = stats();
  outcome.did = RunBoth(Backend::kReplay, [&](Stats* learnt) {
    std::vector<at::Tensor> results =
        Route(marks, is_one_size, update_ops, learnt);
    testing::WaitForCompiler();
    outcome.all = stats();
    return results;
  });
  outcome.trims = outcome.all.trims - before.trims;
  outcome.evictions = outcome.all.evictions - before.evictions;
  return outcome;
}

class OwnSizes : public ::testing::TestWithParam<bool> {};

TEST_P(OwnSizes, AreReplayedInParts) {
  const Outcome outcome =
      RunRoutes(GetParam(), /*is_one_size=*/false, kOpsOfUpdate);
  const auto ops = static_cast<double>(outcome.did.ops_seen);
  EXPECT_EQ(ops, (kSteps - kLearnt) * kOpsOfStep);
  EXPECT_GE(static_cast<double>(outcome.did.ops_replayed), 0.85 * ops)
      << outcome.did.to_json();
  // A path for each size of an expert, not for each of 12^5 ways to combine
  // them, and what was recorded until that was clear.
  EXPECT_LE(outcome.all.trace_steps, 60 * kOpsOfStep);
}

// Without marks a period may lie across two steps, and has two sizes then.
TEST_P(OwnSizes, ThatAreOneAreReplayed) {
  const Outcome outcome =
      RunRoutes(GetParam(), /*is_one_size=*/true, kOpsOfUpdate);
  const auto ops = static_cast<double>(outcome.did.ops_seen);
  EXPECT_GE(static_cast<double>(outcome.did.ops_replayed), 0.85 * ops)
      << outcome.did.to_json();
  EXPECT_LE(outcome.all.trace_steps, 2 * kSizes * kOpsOfStep);
}

// A long step, recorded whole some times, is worth forgetting. No limit is
// near.
TEST(OwnSizesTest, WhatWasRecordedWholeIsForgotten) {
  constexpr int kManyOps = 1000;
  const Outcome outcome =
      RunRoutes(/*marks=*/true, /*is_one_size=*/false, kManyOps);
  EXPECT_GE(outcome.did.ops_replayed, outcome.did.ops_seen * 85 / 100)
      << outcome.did.to_json();
  EXPECT_EQ(outcome.trims, 1) << outcome.all.to_json();
  EXPECT_EQ(outcome.evictions, 0) << outcome.all.to_json();
  // The whole four times, the update, sizes of experts, and what came behind a
  // size at which no part ends, two to four times; not behind each size.
  EXPECT_LE(outcome.all.trace_steps, 11 * kManyOps);
}

INSTANTIATE_TEST_SUITE_P(Ends, OwnSizes, ::testing::Bool(),
                         [](const auto& ends) {
                           return ends.param ? "Marked" : "Unmarked";
                         });

}  // namespace
}  // namespace tjit
