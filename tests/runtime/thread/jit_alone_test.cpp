// tjit::jit() in a program that does not switch tjit on.
// Tests: runtime/include/tjit/jit.h
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <tjit/jit.h>
#include <tjit/tjit.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <semaphore>
#include <thread>
#include <utility>

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

// Runs what it is given, one after the other, on a thread that takes no part.
class Bystander {
 public:
  ~Bystander() {
    work_ = nullptr;
    asked_.release();
    thread_.join();
  }
  void Run(std::function<void()> work) {
    work_ = std::move(work);
    asked_.release();
    done_.acquire();
  }

 private:
  void Serve() {
    for (asked_.acquire(); work_ != nullptr; asked_.acquire()) {
      work_();
      done_.release();
    }
  }

  std::function<void()> work_;
  std::binary_semaphore asked_{0}, done_{0};
  std::thread thread_{[this] { Serve(); }};
};

TEST(JitAloneTest, OpsOfOtherThreadsInterruptNothing) {
  const at::NoGradGuard no_grad;
  Bystander other;
  at::Tensor theirs = at::ones({8});
  const auto f = [](const at::Tensor& x) { return (x * 2 + 1).relu(); };
  auto fast = jit(
      [&](const at::Tensor& x) {
        const at::Tensor y = x * 2;
        other.Run([&] { theirs.mul_(0.5); });
        return (y + 1).relu();
      },
      {.verify_every = 0});
  const std::int64_t before = stats().flush_count("other_thread");
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({8});
    const at::Tensor a = fast(x);
    other.Run([&] { theirs.add_(1); });
    const at::Tensor b = f(x);
    EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()),
              0);
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
  EXPECT_EQ(stats().flush_count("other_thread"), before);
}

// What it reads and writes is right all the same: results of the function, and
// what that reads while it is pending.
TEST(JitAloneTest, OpsOfOtherThreadsWaitForWhatTheyNeed) {
  const at::NoGradGuard no_grad;
  Bystander other;
  const auto f = [](const at::Tensor& x) { return (x * 2 + 1).relu(); };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({8}), b = f(x) + 1;
    const at::Tensor a = fast(x);
    at::Tensor c;
    if (i % 2 == 0) {
      other.Run([&] { c = a + 1; });
    } else {
      other.Run([&] { x.zero_(); });
      c = a + 1;
    }
    EXPECT_EQ(std::memcmp(c.const_data_ptr(), b.const_data_ptr(), c.nbytes()),
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
