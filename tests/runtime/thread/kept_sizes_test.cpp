// Steps a part of which has other sizes each time, as batches of graphs,
// sentences or neighbours have: what keeps its sizes, such as the optimizer, is
// replayed; the rest runs as it would eagerly, and nothing is left half-way.
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

constexpr int kSteps = 1600, kWarm = 1000;
constexpr int kSized = 20, kOpsOfUpdate = 8;  // ops

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
  for (int step = 0; step < kSteps; ++step) {
    if (step == kWarm) *at_warm = stats();
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
  Stats warm;
  disable();
  const std::vector<at::Tensor> eager = Train(GetParam(), &warm);
  clear();
  Options options;
  options.hot_threshold = 4;
  options.backend = Backend::kReplay;
  ASSERT_TRUE(enable(options));
  const std::vector<at::Tensor> ours = Train(GetParam(), &warm);
  sync();
  const Stats did = stats() - warm;
  disable();
  clear();
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(SameBits(eager[i], ours[i])) << "parameter " << i;
  }
  constexpr double kUpdates = 6 * kOpsOfUpdate;
  EXPECT_NEAR(static_cast<double>(did.ops_seen),
              (kSteps - kWarm) * (kSized + kUpdates), 1);
  // The first ops of the update tell that sizes are the usual ones again.
  EXPECT_GE(static_cast<double>(did.ops_replayed),
            0.85 * (kSteps - kWarm) * kUpdates)
      << did.to_json();
  EXPECT_LE(did.ops_drained, did.ops_seen / 100) << did.to_json();
}

std::string NameOf(const ::testing::TestParamInfo<Data>& data) {
  return data.param == Data::kOneStorage ? "OfAPeriod" : "OfNoPeriod";
}

INSTANTIATE_TEST_SUITE_P(Streams, KeptSizes,
                         ::testing::Values(Data::kOneStorage,
                                           Data::kManyTensors),
                         NameOf);

}  // namespace
}  // namespace tjit
