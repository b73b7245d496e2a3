// Numbers of functions that are neither constants nor arguments: made of sizes,
// or read by tjit::ref(). Tests: runtime/thread/functions/jit_match.cpp,
// runtime/thread/functions/plan_builder.cpp
#include <string>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

// Another size is another way, so that a number made of sizes is never stale.
TEST_F(JitTest, NumbersMadeOfSizes) {
  const auto mean = [](const at::Tensor& x) {
    return x.sum(0) / x.size(0) + 0.5 * static_cast<double>(x.size(1));
  };
  auto fast = jit(mean);
  for (int i = 0; i < 240; ++i) {
    ExpectSame(fast, mean, at::rand({1 + i % 5, 1 + i % 3}));
  }
  EXPECT_GE(fast.stats().replays, 100) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

TEST_F(JitTest, NumbersByRefAreReadAtEachReplay) {
  struct {
    double dt = 0.5, decay = 2;
  } options;
  const auto step = [&](const at::Tensor& x, double scale) {
    return at::tanh(x * ref(options.dt)) * scale + ref(options.decay) * x;
  };
  auto fast = jit(step);
  for (int i = 0; i < 40; ++i) {
    options.dt = 0.5 + 0.125 * i;
    options.decay = 2 - 0.25 * i;
    ExpectSame(fast, step, at::rand({16}), 0.75 * i);
  }
  EXPECT_GE(fast.stats().replays, 25) << fast.stats().why;
  EXPECT_EQ(fast.stats().plans, 1);
}

TEST_F(JitTest, ANumberByRefThatStaysAndMovesLater) {
  double t = 2;
  const auto step = [&](const at::Tensor& x) { return x * ref(t) + 1; };
  auto fast = jit(step);
  for (int i = 0; i < 20; ++i) ExpectSame(fast, step, at::rand({16}));
  EXPECT_GE(fast.stats().replays, 10) << fast.stats().why;
  for (int i = 0; i < 20; ++i) {
    t = 0.125 * i;
    ExpectSame(fast, step, at::rand({16}));
  }
  EXPECT_GE(fast.stats().replays, 20) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

TEST_F(JitTest, ANumberByRefInAFormulaIsAnotherWay) {
  double t = 2;
  const auto step = [&](const at::Tensor& x) {
    return x * (1 + ref(t)) + (ref(t) > 3 ? 1 : 2);
  };
  auto fast = jit(step);
  for (int i = 0; i < 60; ++i) {
    t = 1.5 + i % 4;
    ExpectSame(fast, step, at::rand({16}));
  }
  EXPECT_GE(fast.stats().replays, 20) << fast.stats().why;
}

TEST_F(JitTest, ANumberByRefThatTheFunctionChangesIsRefused) {
  double t = 2;
  auto fast = jit([&](const at::Tensor& x) {
    const at::Tensor y = x * ref(t);
    t += 1;
    return y + ref(t);
  });
  for (int i = 0; i < 8; ++i) fast(at::rand({16}));
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_number"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, RefOutsideOfAFunctionIsTheNumber) {
  const double t = 2.5;
  EXPECT_EQ(ref(t), 2.5);
}

}  // namespace
}  // namespace tjit
