// Steps whose data are drawn from lists of tensors, as those of a shuffled data
// set are: which tensor comes differs each time, and all else repeats.
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/thread/run_both.h"

namespace tjit {
namespace {

enum class End { kNone, kSync, kMark };

void EndStep(End end, const at::Tensor& x) {
  if (end == End::kSync) (void)x.sum().item<float>();
  if (end == End::kMark) mark_step();
}

// Steps behind which the share of replayed ops is asked for. Without ends a
// period over drawn samples is found after 8,192 ops.
int LearntBy(End end) { return end == End::kNone ? 250 : 40; }

class DrawnBatches : public ::testing::TestWithParam<End> {
 protected:
  // The share of ops that are replayed from LearntBy() on.
  static double ShareOf(
      const std::function<std::vector<at::Tensor>(Stats*)>& run) {
    const Stats did = RunBoth(Backend::kReplay, run);
    last_ = did.to_json();
    return static_cast<double>(did.ops_replayed) /
           static_cast<double>(did.ops_seen);
  }
  static std::string last_;
};
std::string DrawnBatches::last_;

// Training as the first page of each tutorial has it.
std::vector<at::Tensor> Train(End end, Stats* learnt) {
  torch::manual_seed(1);
  std::vector<at::Tensor> samples, wanted, results;
  for (int i = 0; i < 50; ++i) {
    samples.push_back(torch::rand({8, 4}));
    wanted.push_back(torch::rand({8, 2}));
  }
  torch::nn::Sequential net(torch::nn::Linear(4, 16), torch::nn::Tanh(),
                            torch::nn::Linear(16, 2));
  torch::optim::Adam adam(net->parameters());
  std::mt19937_64 rng(1);
  for (int i = 0; i < 400; ++i) {
    if (i == LearntBy(end)) *learnt = stats();
    const std::size_t k = rng() % samples.size();
    adam.zero_grad();
    const at::Tensor loss =
        torch::mse_loss(net->forward(samples[k]), wanted[k]);
    loss.backward();
    adam.step();
    results.push_back(loss.detach());
    EndStep(end, results.back());
  }
  for (const at::Tensor& p : net->parameters()) results.push_back(p.detach());
  return results;
}

TEST_P(DrawnBatches, OfOneSizeAreNoReasonToRunEagerly) {
  EXPECT_GE(ShareOf([](Stats* learnt) { return Train(GetParam(), learnt); }),
            0.93)
      << last_;
}

TEST_P(DrawnBatches, AreReplayedOnAnotherThread) {
  const double share = ShareOf([](Stats* learnt) {
    std::vector<at::Tensor> results;
    std::thread([&] { results = Train(GetParam(), learnt); }).join();
    return results;
  });
  EXPECT_GE(share, 0.93) << last_;
}

// A batch is put together from parts of other sizes: 12 ops and one that joins
// them. What is done with it, 49 ops, is a stretch that repeats.
std::vector<at::Tensor> PutTogether(End end, int steps, Stats* learnt) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(1);
  std::vector<at::Tensor> parts, results;
  for (int i = 0; i < 30; ++i) parts.push_back(torch::rand({3 + i % 3, 8}));
  at::Tensor w = torch::rand({8, 8}) / 8;
  std::mt19937_64 rng(1);
  for (int step = 0; step < steps; ++step) {
    if (step == 400) *learnt = stats();
    std::vector<at::Tensor> drawn;
    for (int i = 0; i < 6; ++i) {
      drawn.push_back((parts[rng() % parts.size()] + 0.5 * (i + 1)).sin());
    }
    const at::Tensor x = torch::cat(drawn);
    at::Tensor y = x;
    for (int i = 0; i < 15; ++i) y = torch::mm(y, w).tanh() + x;
    const at::Tensor change = torch::mm(x.t(), y);
    w = w * 0.99 + change.tanh() * 0.001;
    results.push_back(y);
    results.push_back(w);
    EndStep(end, y);
  }
  return results;
}

TEST_P(DrawnBatches, OfOwnSizesAreFollowedByAStretch) {
  const double share = ShareOf(
      [](Stats* learnt) { return PutTogether(GetParam(), 700, learnt); });
  // 50 of 63 ops, two more where a step ends with a sync point.
  EXPECT_GE(share, 0.72) << last_;
}

// What lies between the stretches, 13 ops, is new each time. No sequences are
// recorded of it, however long the stream goes on without a period.
TEST(DrawnBatchesTest, WhatLiesBetweenStretchesIsNotRecorded) {
  const Stats did = RunBoth(Backend::kReplay, [](Stats* learnt) {
    return PutTogether(End::kMark, 6000, learnt);
  });
  EXPECT_GE(did.ops_replayed, did.ops_seen * 72 / 100) << did.to_json();
  EXPECT_EQ(did.traces, 0) << did.to_json();
}

INSTANTIATE_TEST_SUITE_P(Ends, DrawnBatches,
                         ::testing::Values(End::kNone, End::kSync, End::kMark),
                         [](const auto& ends) {
                           return ends.param == End::kNone   ? "None"
                                  : ends.param == End::kSync ? "Sync"
                                                             : "Mark";
                         });

}  // namespace
}  // namespace tjit
