// Scratch of kernels in the memory plan, end to end: convolutions have theirs
// placed, beside compiled groups, and every step has eager's bits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "runtime/testing.h"
#include "tests/runtime/engines_testing.h"

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
  // Each asks for as much as its result beside it, in each of the steps after
  // the first ones.
  const std::int64_t placed = testing::PlacedScratchBytes() - before;
  EXPECT_GE(placed, 3 * kResult * (steps_ - 20)) << did.to_json();
}

INSTANTIATE_TEST_SUITE_P(, Tier2ScratchTest, kEngines, EngineName);

}  // namespace
}  // namespace tjit
