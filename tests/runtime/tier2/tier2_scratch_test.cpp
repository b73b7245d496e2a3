// Scratch of kernels in the memory plan, end to end: convolutions have theirs
// placed, beside compiled groups, and every step has eager's bits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "runtime/testing.h"
#include "tests/runtime/tier2/engines_testing.h"

namespace tjit {
namespace {

using at::Tensor;

constexpr std::int64_t kBatch = 8, kChannels = 32, kSide = 32;

Tensor Convolved(const Tensor& x, const Tensor& weight) {
  return at::conv2d(x, weight, {}, 1, 1);
}

class Tier2ScratchTest : public EnginesTest {
 protected:
  Tier2ScratchTest() : EnginesTest(/*steps=*/60) {}

  const Tensor x_ = at::randn({kBatch, 1, kSide, kSide});
  const Tensor narrow_ = at::randn({kChannels, 1, 3, 3});
  const Tensor wide_ = at::randn({kChannels, kChannels, 3, 3});
};

TEST_P(Tier2ScratchTest, Convolutions) {
  constexpr std::int64_t kResult = kBatch * kChannels * kSide * kSide * 4;
  const std::int64_t before = testing::PlacedScratchBytes();
  Stats did;
  ExpectSame(
      [this] {
        const Tensor y = at::relu(Convolved(x_, narrow_)) * 0.5;
        const Tensor z = at::relu(Convolved(y, wide_) + y);
        return at::tanh(Convolved(z, wide_)) - 1;
      },
      &did);
  // The first asks for as much as its result beside it, the others for twice
  // that, in each of the steps after the first ones.
  const std::int64_t placed = testing::PlacedScratchBytes() - before;
  EXPECT_GE(placed, 5 * kResult * (steps_ - 20)) << did.to_json();
}

// A kernel that allocates what its values ask for: more terms for large ones.
TEST_P(Tier2ScratchTest, OfValues) {
  constexpr int kEach = 300;
  const Tensor small = at::randn({128, 128}) * 1e-4;
  const auto placed_by = [&](const Tensor& x, int steps) {
    const std::int64_t before = testing::PlacedScratchBytes();
    for (int i = 0; i < steps; ++i) {
      const Tensor y = at::relu(at::matrix_exp(x) * 0.5) + 1;
      mark_step();
    }
    return testing::PlacedScratchBytes() - before;
  };
  Options options = WithInterpreter();
  options.backend = GetParam();
  options.compile_all = true;
  ASSERT_TRUE(enable(options));
  const Tensor x = small * 1;
  placed_by(x, 40);
  const std::int64_t usual = placed_by(x, 10);
  EXPECT_GT(usual, 0);
  x.mul_(1e5);
  placed_by(x, kEach);
  const std::int64_t of_large = placed_by(x, 10);
  EXPECT_GT(of_large, usual);
  // The smaller pieces are planned again, too.
  x.mul_(1e-5);
  placed_by(x, 10);
  const std::int64_t plans = stats().memory_plans;
  placed_by(x, kEach);
  EXPECT_GT(stats().memory_plans, plans);
  EXPECT_GT(placed_by(x, 10), 0);
  disable();
}

INSTANTIATE_TEST_SUITE_P(, Tier2ScratchTest, kEngines, EngineName);

}  // namespace
}  // namespace tjit
