// Symbolic sizes, end to end: what was compiled at the first size of a batch
// serves every other one, a batch of 1 included, by the counters, with eager's
// bits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/testing.h"
#include "tests/runtime/tier2/engines_testing.h"

namespace tjit {
namespace {

constexpr int kRuns = 40;

using Sizes = std::vector<std::int64_t>;
// A program of batches of this size.
using MakeSized = std::function<Program(std::int64_t batch)>;

Stats RunUnder(Backend backend, const Program& program,
               const std::vector<at::Tensor>& eager) {
  Options options = WithInterpreter();
  options.backend = backend;
  options.compile_all = true;  // without a threshold
  const Stats before = stats();
  EXPECT_TRUE(enable(options));
  const auto ours = RunSteps([&] { return program; }, kRuns);
  sync();
  disable();
  for (int i = 0; i < kRuns; ++i) {
    EXPECT_TRUE(SameBits(eager[i], ours[i])) << "step " << i;
  }
  return stats() - before;
}

class Tier2SizesTest : public ::testing::TestWithParam<Backend> {
 protected:
  ~Tier2SizesTest() override {
    disable();
    clear();
  }

  // The first size has kernels compiled, the others find them.
  void ExpectOneCompile(const MakeSized& make, const Sizes& sizes) {
    std::int64_t reused = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      SCOPED_TRACE(sizes[i]);
      const Program program = make(sizes[i]);
      const auto eager = RunSteps([&] { return program; }, kRuns);
      const Stats did = RunUnder(GetParam(), program, eager);
      EXPECT_EQ(did.compiles_failed, 0) << did.to_json();
      EXPECT_GT(did.groups_run, 10) << did.to_json();
      if (i == 0) {
        EXPECT_GT(did.kernels_compiled, 0) << did.to_json();
        continue;
      }
      EXPECT_EQ(did.kernels_compiled, 0) << did.to_json();
      EXPECT_GT(did.kernels_reused, reused) << did.to_json();
    }
    clear();
  }
};

// Row 13 of the benchmark.
Program RateTriple(std::int64_t batch) {
  at::manual_seed(5);
  const auto values = [batch] { return at::rand({batch}, at::kDouble); };
  std::vector<at::Tensor> now, before;
  for (int i = 0; i < 3; ++i) {
    now.push_back(values());
    before.push_back(values());
  }
  const at::Tensor t = values() + 1, tn = values();
  return [=](int) {
    std::vector<at::Tensor> rates;
    for (std::size_t i = 0; i < 3; ++i) {
      rates.push_back((now[i] - before[i]) / (t - tn));
    }
    return at::stack(rates, 1);
  };
}

TEST_P(Tier2SizesTest, RatesOfABatch) {
  ExpectOneCompile(&RateTriple, {1024, 1, 65536});
  ExpectOneCompile(&RateTriple, {1, 65536, 1024});
}

// Row 10's net; the biases are added by ops of their own, as a group has two.
Program Mlp(std::int64_t batch) {
  at::manual_seed(6);
  const at::Tensor x = at::randn({batch, 784});
  const at::Tensor w1 = at::randn({512, 784}) * 0.05, b1 = at::randn({512});
  const at::Tensor w2 = at::randn({512, 512}) * 0.05, b2 = at::randn({512});
  const at::Tensor w3 = at::randn({10, 512}) * 0.05, b3 = at::randn({10});
  return [=](int) {
    const at::Tensor a = at::relu(at::linear(x, w1) + b1);
    const at::Tensor b = at::relu(at::linear(a, w2) + b2);
    return at::linear(b, w3) + b3;
  };
}

TEST_P(Tier2SizesTest, BatchesOfANet) {
  ExpectOneCompile(&Mlp, {64, 1, 8, 32, 128});
  ExpectOneCompile(&Mlp, {1, 8, 32, 128});
}

// Rows, broadcasts of a row and of a column, a sum over each row.
Program Rows(std::int64_t batch) {
  at::manual_seed(7);
  const at::Tensor x = at::randn({batch, 24}), row = at::randn({24});
  return [=](int) {
    const at::Tensor y = x * row + 1;
    const at::Tensor mean = y.mean(-1, /*keepdim=*/true);
    return at::softmax((y - mean) * 0.5, -1);
  };
}

TEST_P(Tier2SizesTest, RowsOfABatch) {
  ExpectOneCompile(&Rows, {64, 1, 7, 1000});
  ExpectOneCompile(&Rows, {1, 64});
}

// A row of its own that is no batch: for one row the two look alike.
Program RowOfItsOwn(std::int64_t batch) {
  at::manual_seed(8);
  const at::Tensor x = at::randn({batch, 24}), row = at::randn({1, 24});
  return [=](int) { return (x * row + row) * x; };
}

TEST_P(Tier2SizesTest, ABatchOfOneThatLooksLikeAnother) {
  std::int64_t compiled = 0;
  for (const std::int64_t batch : {1, 64, 7, 1}) {
    SCOPED_TRACE(batch);
    const Program program = RowOfItsOwn(batch);
    const auto eager = RunSteps([&] { return program; }, kRuns);
    const Stats did = RunUnder(GetParam(), program, eager);
    EXPECT_GT(did.groups_run, 10) << did.to_json();
    compiled += did.kernels_compiled;
  }
  EXPECT_EQ(compiled, 2);
  clear();
}

INSTANTIATE_TEST_SUITE_P(Engines, Tier2SizesTest, kEngines, EngineName);

}  // namespace
}  // namespace tjit
