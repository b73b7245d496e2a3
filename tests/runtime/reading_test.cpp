// tjit::Reading: who only reads through a pointer does not change what is
// replayed.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <tjit/reading.h>
#include <tjit/region.h>
#include <tjit/tjit.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

namespace tjit {
namespace {

constexpr std::int64_t kFloats = 64;

// Steps that update a weight, and look at it through a pointer every ten; the
// sums that were read.
std::vector<double> Train(int steps,
                          const std::function<double(at::Tensor*)>& look) {
  std::vector<double> sums;
  at::Tensor weight = at::linspace(-1, 1, kFloats);
  const at::Tensor target = at::ones({kFloats});
  for (int i = 0; i < steps; ++i) {
    const at::Tensor gradient = at::tanh(weight - target) * 0.5;
    weight.sub_(gradient, 0.1);
    if (i % 10 == 9) sums.push_back(look(&weight));
    mark_step();
  }
  sync();
  return sums;
}

double SumThrough(at::Tensor* t) {
  const float* const data = t->data_ptr<float>();
  return std::accumulate(data, data + kFloats, 0.0);
}

double Read(at::Tensor* t) {
  const Reading reading;
  return SumThrough(t);
}

// What is replayed of the last 100 steps of 200, in ops.
std::int64_t ReplayedOps(const std::function<double(at::Tensor*)>& look) {
  disable();
  const std::vector<double> eager = Train(200, look);
  clear();
  EXPECT_TRUE(enable());
  std::int64_t at_half = 0;
  int looks = 0;
  const std::vector<double> ours = Train(200, [&](at::Tensor* t) {
    if (++looks == 10) at_half = stats().ops_replayed;
    return look(t);
  });
  const std::int64_t replayed = stats().ops_replayed - at_half;
  disable();
  EXPECT_EQ(ours, eager);
  return replayed;
}

constexpr std::int64_t kOpsOfAStep = 4;

TEST(ReadingTest, APointerThatIsReadLeavesTheTensorAsItWas) {
  const Stats before = stats();
  EXPECT_GE(ReplayedOps(&Read), 100 * kOpsOfAStep);
  EXPECT_EQ((stats() - before).blocks_exposed, 0);
}

TEST(ReadingTest, AnyOtherPointerExposesIt) {
  const Stats before = stats();
  EXPECT_LE(ReplayedOps(&SumThrough), 100 * (kOpsOfAStep - 1));
  EXPECT_GE((stats() - before).blocks_exposed, 1);
}

TEST(ReadingTest, ScopesNestAndEnd) {
  const Stats before = stats();
  ReplayedOps([](at::Tensor* t) {
    const Reading outer;
    {
      const Reading inner;
    }
    return SumThrough(t);
  });
  EXPECT_EQ((stats() - before).blocks_exposed, 0);
  ReplayedOps([](at::Tensor* t) {
    const double sum = Read(t);
    return sum + SumThrough(t);  // behind the scope
  });
  EXPECT_GE((stats() - before).blocks_exposed, 1);
}

// The kernel of an op lets go of its pointers, also where tjit is paused.
TEST(ReadingTest, OpsOfAPauseExposeNothing) {
  const Stats before = stats();
  const auto look = [](at::Tensor* t) {
    const Pause pause;
    t->mul_(0.5);
    EXPECT_THROW(t->add_(at::ones({3})), c10::Error);
    return t->sum().item<double>();
  };
  EXPECT_GE(ReplayedOps(look), 100 * kOpsOfAStep);
  EXPECT_EQ((stats() - before).blocks_exposed, 0);
  // It is over with the op.
  EXPECT_LE(ReplayedOps([](at::Tensor* t) {
              const Pause pause;
              t->mul_(0.5);
              return SumThrough(t);
            }),
            100 * (kOpsOfAStep - 1));
  EXPECT_GE((stats() - before).blocks_exposed, 1);
}

// A pointer from before the scope is as exposed as ever.
TEST(ReadingTest, WhatIsWrittenThroughAnOlderPointerIsSeen) {
  float* kept = nullptr;
  ReplayedOps([&](at::Tensor* t) {
    if (kept != t->const_data_ptr<float>()) kept = t->data_ptr<float>();
    kept[3] = 0.25F;
    return Read(t);
  });
}

}  // namespace
}  // namespace tjit
