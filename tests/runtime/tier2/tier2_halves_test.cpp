// Reductions of bf16 and f16 in compiled groups, end to end: no library call is
// left, by the counters, and every step has eager's bits.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/runtime/against_eager/lower_test_inputs.h"
#include "tests/runtime/tier2/engines_testing.h"

namespace tjit {
namespace {

using at::Tensor;
using testing::CancellingInputs;

constexpr at::ScalarType kHalves[] = {at::kBFloat16, at::kHalf};

class Tier2HalvesTest : public EnginesTest {
 protected:
  Tier2HalvesTest() : EnginesTest(/*steps=*/30) {}
  ~Tier2HalvesTest() override { at::set_num_threads(1); }
};

TEST_P(Tier2HalvesTest, Rows) {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const at::ScalarType type : kHalves) {
      for (const std::int64_t n : {7, 64, 300, 1024, 2041}) {
        const Tensor x = CancellingInputs({70, n}, type, 3);
        ExpectFused([=] { return (-x).sum(-1); }, 2);
        ExpectFused([=] { return x.sum(-1, true) * x; }, 2);
        ExpectFused([=] { return (x * x).mean(-1, true) * x; }, 3);
        ExpectFused([=] { return (-x).amax(-1) - (x * x).amin(-1); }, 5);
      }
    }
  }
}

// A program in f16 whose sums are of f32.
TEST_P(Tier2HalvesTest, SumsInF32) {
  for (const at::ScalarType type : kHalves) {
    const Tensor x = CancellingInputs({70, 300}, type, 3);
    ExpectFused([=] { return (-x).sum({-1}, false, at::kFloat); }, 2);
    ExpectFused([=] { return (-x).sum({0}, false, at::kFloat); }, 2);
  }
}

// The gradient of a bias.
TEST_P(Tier2HalvesTest, Columns) {
  for (const at::ScalarType type : kHalves) {
    for (const std::int64_t n : {7, 16, 100, 513}) {
      const Tensor x = CancellingInputs({60, n}, type, 4);
      const Tensor y = at::relu(at::randn({60, n}).to(type));
      ExpectFused([=] { return at::threshold_backward(x, y, 0).sum(0); }, 2);
      ExpectFused([=] { return (-x).mean(0) * x; }, 3);
      ExpectFused([=] { return (-x).amax(0) - (x * x).amin(0); }, 5);
    }
  }
}

// A loss.
TEST_P(Tier2HalvesTest, All) {
  for (const at::ScalarType type : kHalves) {
    for (const std::int64_t n : {3, 100, 700}) {
      const Tensor x = CancellingInputs({90, n}, type, 5);
      ExpectFused([=] { return (-x).sum() * x; }, 3);
      ExpectFused([=] { return (x * x).mean(); }, 2);
      ExpectFused([=] { return (-x).amax({0, 1}) - x.amin({0, 1}); }, 4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, Tier2HalvesTest, kEngines, EngineName);

}  // namespace
}  // namespace tjit
