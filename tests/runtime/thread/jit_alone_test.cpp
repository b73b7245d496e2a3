// tjit::jit() in a program that does not switch tjit on.
// Tests: runtime/include/tjit/jit.h
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <tjit/jit.h>
#include <tjit/tjit.h>

#include <cstdint>
#include <cstring>

namespace tjit {
namespace {

// The program's own ops between the calls are eager, and take no pointers away.
TEST(JitAloneTest, OpsBetweenTheCallsMayWriteWhatItWrites) {
  const at::NoGradGuard no_grad;
  at::Tensor mine = at::zeros({8}), others = at::zeros({8});
  const auto f = [](at::Tensor& sum, const at::Tensor& x) {
    sum.add_(x);
    return sum * 2;
  };
  auto fast = jit([&](const at::Tensor& x) { return f(mine, x); },
                  {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({8});
    mine.mul_(0.5);
    others.mul_(0.5);
    const at::Tensor a = fast(x), b = f(others, x);
    EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()),
              0);
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

TEST(JitAloneTest, TjitIsOnForTheFunction) {
  const at::NoGradGuard no_grad;
  const auto f = [](const at::Tensor& x) { return (x * 2 + 1).relu(); };
  auto fast = jit(f, {.verify_every = 0});
  EXPECT_FALSE(is_enabled());
  const std::int64_t before = stats().ops_seen;
  const auto expect_same = [&] {
    const at::Tensor x = at::rand({8});
    const at::Tensor a = fast(x), b = f(x);
    EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()),
              0);
  };
  for (int i = 0; i < 20; ++i) expect_same();
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
  // The program's own ops are not looked at.
  EXPECT_LE(stats().ops_seen - before, 20 * 3);
  // Who switches tjit off switches it off for functions, too.
  disable();
  const std::int64_t replays = fast.stats().replays;
  for (int i = 0; i < 5; ++i) expect_same();
  EXPECT_EQ(fast.stats().replays, replays);
}

}  // namespace
}  // namespace tjit
