// Sizes that come one after another, each some time, of a program that is
// hot: each is recorded where it first comes, replayed from then on, and has
// the code of the others.
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/testing.h"
#include "support/policy.h"
#include "tests/runtime/thread/run_both.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

constexpr int kWarm = 60;        // steps of the first size
constexpr int kNewSizes = 60;    // behind them
constexpr int kRunsOfEach = 30;  // in a row

enum class End { kSync, kMark };

// One step over a batch of `x`'s rows.
using SizedStep = std::function<at::Tensor(const at::Tensor& x)>;

struct Plan {
  End end = End::kMark;
  int warm = kWarm;
  int new_sizes = kNewSizes;
  int runs_of_each = kRunsOfEach;
  int runs_of_last = 0;  // more of these
  bool in_turns = false;  // one run of each size at a time
  Backend backend = Backend::kReplay;
  bool waits = false;  // for the compiler, behind each run
};

// What tjit did with the sizes behind the first one.
Stats RunSizes(const Plan& plan, const SizedStep& step) {
  torch::manual_seed(1);
  const at::Tensor data = torch::rand({64 + plan.new_sizes, 8});
  return RunBoth(plan.backend, [&](Stats* at_warm) {
    std::vector<at::Tensor> results;
    const auto one = [&](std::int64_t rows) {
      const at::NoGradGuard no_grad;
      results.push_back(step(data.narrow(0, 0, rows)));
      if (plan.end == End::kSync) (void)results.back().max().item<float>();
      if (plan.end == End::kMark) mark_step();
      if (plan.waits) testing::WaitForCompiler();
    };
    for (int i = 0; i < plan.warm; ++i) one(64);
    *at_warm = stats();
    const int in_a_row = plan.in_turns ? 1 : plan.runs_of_each;
    for (int i = 0; i < plan.runs_of_each; i += in_a_row) {
      for (int n = 1; n <= plan.new_sizes; ++n) {
        for (int k = 0; k < in_a_row; ++k) one(64 + n);
      }
    }
    for (int i = 0; i < plan.runs_of_last; ++i) one(64 + plan.new_sizes);
    return results;
  });
}

// All runs of a size but the first; a sync point is never replayed.
void ExpectReplayedFromTheSecondRun(const Stats& did) {
  const auto runs = static_cast<double>(kNewSizes * kRunsOfEach);
  const auto ops = static_cast<double>(did.ops_seen) - 2 * runs;
  constexpr double kShare = (kRunsOfEach - 1.0) / kRunsOfEach;
  EXPECT_GE(static_cast<double>(did.ops_replayed) / ops, 0.95 * kShare)
      << did.to_json();
}

// 13 ops; the first one has the new size.
SizedStep Products() {
  torch::manual_seed(2);
  return [w = torch::rand({8, 8})](const at::Tensor& x) {
    at::Tensor y = x * 0.5;
    for (int i = 0; i < 4; ++i) y = torch::mm(y, w).tanh() + x;
    return y;
  };
}

class NewSizes : public ::testing::TestWithParam<End> {};

TEST_P(NewSizes, AtTheFirstOp) {
  ExpectReplayedFromTheSecondRun(RunSizes({GetParam()}, Products()));
}

// The first ops are the same for all sizes.
TEST_P(NewSizes, BehindTheFirstOps) {
  torch::manual_seed(2);
  const at::Tensor w = torch::rand({8, 8});
  ExpectReplayedFromTheSecondRun(RunSizes({GetParam()}, [w](const auto& x) {
    const at::Tensor v = (w * 0.5).sin() + 0.25;
    at::Tensor y = x;
    for (int i = 0; i < 4; ++i) y = torch::mm(y, v).tanh() + x;
    return y;
  }));
}

// Sizes that come a few times each: what recording and preparing takes is not
// won back, so after some of them hardly any more are recorded.
TEST_P(NewSizes, ThatDoNotStay) {
  Plan plan{GetParam()};
  plan.new_sizes = 400;
  for (const int runs : {1, 4}) {
    SCOPED_TRACE(runs);
    plan.runs_of_each = runs;
    const Stats did = RunSizes(plan, Products());
    // A step has 13 ops, and two more where it ends with a sync point.
    EXPECT_GE(did.trace_steps, 8 * 13) << did.to_json();
    EXPECT_LE(did.trace_steps, 30 * 15) << did.to_json();
  }
}

// Sizes that grow and begin anew, as the cache of a decoder does: no size comes
// twice in a row, and all are recorded when they have come back.
TEST_P(NewSizes, ThatComeBack) {
  constexpr int kSizes = 50, kRounds = 30;
  torch::manual_seed(1);
  const at::Tensor data = torch::rand({kSizes, 8});
  const SizedStep step = [products = Products()](const at::Tensor& x) {
    return products(products(x));
  };
  const Stats did = RunBoth(Backend::kReplay, [&](Stats* late) {
    std::vector<at::Tensor> results;
    for (int round = 0; round < kRounds; ++round) {
      if (round == kRounds / 2) *late = stats();
      for (int n = 1; n <= kSizes; ++n) {
        const at::NoGradGuard no_grad;
        results.push_back(step(data.narrow(0, 0, n)));
        if (GetParam() == End::kSync) (void)results.back().max().item<float>();
        if (GetParam() == End::kMark) mark_step();
      }
    }
    return results;
  });
  EXPECT_GE(static_cast<double>(did.ops_replayed),
            0.85 * static_cast<double>(did.ops_seen))
      << did.to_json();
}

std::string NameOf(const ::testing::TestParamInfo<End>& end) {
  return end.param == End::kSync ? "Sync" : "Mark";
}

INSTANTIATE_TEST_SUITE_P(Ends, NewSizes,
                         ::testing::Values(End::kSync, End::kMark), NameOf);

// Nothing is compiled for a new size, and nobody waits until it has taken as
// long as compiling would: its third run has code. (The second asks.)
TEST(NewSizesCode, IsThatOfTheOthers) {
  Plan plan;
  plan.warm = 2000;
  plan.new_sizes = 20;
  plan.runs_of_each = 24;
  plan.backend = Backend::kLlvm;
  plan.waits = true;
  const Stats did = RunSizes(plan, [](const auto& x) {
    at::Tensor y = x;
    for (int i = 0; i < 20; ++i) y = (y * 0.5 + x).abs();
    return y;
  });
  EXPECT_EQ(did.kernels_compiled, 0) << did.to_json();
  EXPECT_EQ(did.kernels_reused, 20) << did.to_json();
  // A size may come that takes its turns with library calls.
  EXPECT_GE(did.replays_tier2, 20 * 22) << did.to_json();
}

// A size that stays, behind many that did not.
TEST_P(NewSizes, OneThatStaysAtLast) {
  Plan plan{GetParam()};
  plan.new_sizes = 400;
  plan.runs_of_each = 1;
  plan.runs_of_last = 300;
  const Stats did = RunSizes(plan, Products());
  EXPECT_GE(did.ops_replayed, 250 * 13) << did.to_json();
}

// Each test has `columns` of its own: what is known of a product is not tried.
SizedStep OneProduct(std::int64_t columns) {
  torch::manual_seed(3);
  return [w = torch::rand({8, columns})](const auto& x) {
    return torch::mm(x, w).tanh() + 1;
  };
}

// A trial of a product takes as long as a hundred runs save.
TEST(NewSizesTrials, ComeWhenASizeHasStayed) {
  const SizedStep step = OneProduct(8);
  Plan plan;
  plan.new_sizes = 10;
  plan.runs_of_each = 90;
  EXPECT_EQ(RunSizes(plan, step).steps_tried, 0);
  plan.runs_of_each = 500;
  EXPECT_EQ(RunSizes(plan, step).steps_tried, plan.new_sizes);
}

// A trial takes more than what is left of such a size saves: the first ones are
// tried, the others would have to stay longer.
TEST(NewSizesTrials, EndWhereSizesAreGoneSoon) {
  const SizedStep step = OneProduct(16);
  Plan plan;
  plan.new_sizes = 10;
  plan.runs_of_each = 110;
  EXPECT_EQ(RunSizes(plan, step).steps_tried, policy::kSizesTriedInVain);
}

// Sizes that take turns are not gone: all are tried when each has run as often.
TEST(NewSizesTrials, ComeWhereSizesTakeTurns) {
  const SizedStep step = OneProduct(24);
  Plan plan;
  plan.in_turns = true;
  plan.new_sizes = 6;
  plan.runs_of_each = 110;
  EXPECT_EQ(RunSizes(plan, step).steps_tried, plan.new_sizes);
}

// Steps a part of which has other sizes each time, as batches of graphs,
// sentences or neighbours have: what keeps its sizes, such as the optimizer, is
// replayed; the rest runs as it would eagerly, and nothing is left half-way.
constexpr int kTrained = 4000, kLearnt = 1000;  // steps
constexpr int kSized = 20, kOpsOfUpdate = 8;    // ops

// Where the data of a step comes from.
enum class Data {
  kOneStorage,   // its first rows, so that the ops have a period
  kManyTensors,  // drawn at random, so that they have none
};

struct Parameter {
  at::Tensor value, mean, square;
};

// f32 of all sizes that a small network has, some of them equal.
std::vector<Parameter> MakeParameters() {
  std::vector<Parameter> parameters;
  for (const std::int64_t n : {512, 32, 1024, 32, 32, 1}) {
    parameters.push_back(
        {torch::rand({n}), torch::zeros({n}), torch::zeros({n})});
  }
  return parameters;
}

// kSized ops over x: f32 [N, 8]. Returns f32 [1].
at::Tensor OverNewSize(const at::Tensor& x) {
  at::Tensor y = x;
  for (int i = 0; i < (kSized - 2) / 2; ++i) y = (y * 0.5).sin();
  return y.sum().reshape({1}) * 1e-3;
}

void Update(Parameter& p, const at::Tensor& slope) {
  p.mean.mul_(0.9).add_(slope * p.value, 0.1);
  p.square.mul_(0.99).addcmul_(p.mean, p.mean, 0.01);
  p.value.addcdiv_(p.mean, p.square.sqrt().add_(1e-3), -1e-2);
}

std::vector<at::Tensor> Train(Data kind, Stats* at_warm) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(1);
  std::vector<Parameter> parameters = MakeParameters();
  constexpr std::int64_t kLongest = 400;
  const at::Tensor all = torch::rand({kLongest, 8});
  std::vector<at::Tensor> many;
  std::mt19937_64 rng(1);
  const auto draw = [&] {
    return 1 + static_cast<std::int64_t>(rng() % (kLongest - 1));
  };
  if (kind == Data::kManyTensors) {
    for (int i = 0; i < 500; ++i) many.push_back(torch::rand({draw(), 8}));
  }
  for (int step = 0; step < kTrained; ++step) {
    if (step == kLearnt) *at_warm = stats();
    const at::Tensor slope =
        OverNewSize(kind == Data::kOneStorage ? all.narrow(0, 0, draw())
                                              : many[rng() % many.size()]);
    for (Parameter& p : parameters) Update(p, slope);
  }
  std::vector<at::Tensor> results;
  for (const Parameter& p : parameters) results.push_back(p.value);
  return results;
}

class KeptSizes : public ::testing::TestWithParam<Data> {};

TEST_P(KeptSizes, AreReplayed) {
  const Stats did = RunBoth(Backend::kReplay, [](Stats* at_warm) {
    return Train(GetParam(), at_warm);
  });
  constexpr double kUpdates = 6 * kOpsOfUpdate;
  EXPECT_NEAR(static_cast<double>(did.ops_seen),
              (kTrained - kLearnt) * (kSized + kUpdates), 1);
  // The first ops of the update tell that sizes are the usual ones again.
  EXPECT_GE(static_cast<double>(did.ops_replayed),
            0.85 * (kTrained - kLearnt) * kUpdates)
      << did.to_json();
  EXPECT_LE(did.ops_drained, did.ops_seen / 100) << did.to_json();
}

std::string NameOfData(const ::testing::TestParamInfo<Data>& data) {
  return data.param == Data::kOneStorage ? "OfAPeriod" : "OfNoPeriod";
}

INSTANTIATE_TEST_SUITE_P(Streams, KeptSizes,
                         ::testing::Values(Data::kOneStorage,
                                           Data::kManyTensors),
                         NameOfData);

}  // namespace
}  // namespace tjit
