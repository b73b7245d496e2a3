// Reductions and row ops in compiled groups, end to end: programs whose steps
// all run in one kernel, by the counters, with eager's bits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/testing.h"

namespace tjit {
namespace {

using at::Tensor;
using Step = std::function<Tensor()>;

constexpr int kSteps = 120;

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

std::vector<Tensor> RunSteps(const Step& step) {
  std::vector<Tensor> results;
  for (int i = 0; i < kSteps; ++i) {
    results.push_back(step().clone());
    mark_step();
    testing::WaitForCompiler();
  }
  return results;
}

class Tier2RowsTest : public ::testing::TestWithParam<Backend> {
 protected:
  void TearDown() override {
    disable();
    clear();
  }

  // All `ops` of the step, and the copy of its result, are in each group that
  // runs.
  void ExpectFused(const Step& step, int ops) {
    const std::vector<Tensor> eager = RunSteps(step);
    Options options;
    options.hot_threshold = 4;
    options.backend = GetParam();
    options.compile_all = true;
    options.cache_dir = "off";
    const Stats before = stats();
    ASSERT_TRUE(enable(options));
    const std::vector<Tensor> ours = RunSteps(step);
    sync();
    const Stats d = stats() - before;
    disable();
    for (int i = 0; i < kSteps; ++i) {
      ASSERT_TRUE(SameBits(eager[i], ours[i])) << "step " << i;
    }
    EXPECT_GE(d.kernels_compiled, 1) << d.to_json();
    EXPECT_EQ(d.compiles_failed, 0) << d.to_json();
    // Compiled code that does not pay is given up.
    EXPECT_GT(d.groups_run, 10) << d.to_json();
    EXPECT_EQ(d.steps_fused, (ops + 1) * d.groups_run) << d.to_json();
    clear();
  }
};

TEST_P(Tier2RowsTest, SoftmaxOfMaskedScores) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({64, 100}, type);
    const Tensor mask = at::rand({100}, type).gt(0.7).to(type).mul(-1e9);
    ExpectFused([=] { return at::softmax(x / 8 + mask, -1) * 2; }, 4);
  }
}

TEST_P(Tier2RowsTest, SumsOfRows) {
  const Tensor x = at::randn({96, 70});
  ExpectFused([=] { return (x * x).sum(-1); }, 2);
  ExpectFused([=] { return (x * x).mean(-1, true).add(1e-5).rsqrt() * x; }, 5);
}

TEST_P(Tier2RowsTest, ShortRowsOfALongerOne) {
  const Tensor x = at::randn({500, 6}, at::kDouble);
  const Tensor identity = at::rand({6}, at::kDouble);
  ExpectFused(
      [=] {
        const Tensor strain = x * 0.25;
        const Tensor trace = strain.narrow(-1, 0, 3).sum(-1, true);
        return strain - trace / 3 * identity;
      },
      5);
}

TEST_P(Tier2RowsTest, SeveralReductionsOfTheSameRows) {
  const Tensor x = at::randn({50, 33});
  ExpectFused(
      [=] {
        const Tensor e = at::exp(x - at::amax(x, {-1}, true));
        return e / e.sum(-1, true);
      },
      5);
}

INSTANTIATE_TEST_SUITE_P(Engines, Tier2RowsTest,
                         ::testing::Values(Backend::kInterpreter,
                                           Backend::kLlvm),
                         [](const auto& engine) {
                           return std::string(engine.param == Backend::kLlvm
                                                  ? "Llvm"
                                                  : "Interpreter");
                         });

}  // namespace
}  // namespace tjit
