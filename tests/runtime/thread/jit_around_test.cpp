// What a program does around its calls of functions that are replayed: Note
// [Named regions] in region_edge.cpp.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

using Function = std::function<at::Tensor(const at::Tensor&)>;

at::Tensor Inner(const at::Tensor& x) { return at::tanh(x * 1.5 + 0.1) - 0.2; }

// Steps of a program with `calls` calls of `inner` and ops around each.
at::Tensor RunSteps(int steps, int calls, bool marks, const Function& inner) {
  const at::Tensor w = at::linspace(-1, 1, 256).reshape({16, 16});
  at::Tensor state = at::zeros({16, 16});
  for (int i = 0; i < steps; ++i) {
    at::Tensor x = at::sigmoid(w * 0.5 + state * 0.1);
    for (int c = 0; c < calls; ++c) {
      const at::Tensor y = inner(x - 0.5);
      x = at::relu(y * 2 - 1) + y;
      for (int k = 0; k <= c; ++k) x = x * 0.75 + w;
    }
    state = x * 0.9 + 0.1;
    if (marks) mark_step();
  }
  return state;
}

// What is replayed of 100 steps, in hundredths of all ops.
std::int64_t SharePer100(int calls, bool marks, const Function& inner) {
  RunSteps(100, calls, marks, inner);
  sync();
  const Stats before = stats();
  const at::Tensor state = RunSteps(100, calls, marks, inner);
  sync();
  const Stats since = stats() - before;
  disable();
  EXPECT_TRUE(SameBits(state, RunSteps(100, calls, marks, &Inner)));
  enable();
  return 100 * since.ops_replayed / since.ops_seen;
}

TEST_F(JitTest, OpsAroundAFunctionAreReplayed) {
  for (const int calls : {1, 2, 3}) {
    for (const bool marks : {false, true}) {
      auto fast = jit(&Inner, {.verify_every = 0});
      EXPECT_GE(SharePer100(calls, marks, std::ref(fast)), 97)
          << calls << " calls, marks " << marks;
      EXPECT_EQ(fast.stats().calls - fast.stats().replays, 2);
      clear();
    }
  }
}

TEST_F(JitTest, OpsAroundFunctionsOnAFreshThreadAreReplayed) {
  auto fast = jit(&Inner);  // it is verified now and then
  std::thread([&] {
    const at::NoGradGuard no_grad;
    EXPECT_GE(SharePer100(2, false, std::ref(fast)), 90);
  }).join();
  EXPECT_EQ(fast.stats().not_same, 0);
}

// It runs at each call, so its ops are some of those around the other one.
TEST_F(JitTest, OpsOfARefusedFunctionBesideAReplayedOneAreReplayed) {
  auto fast = jit(&Inner, {.verify_every = 0});
  auto refused = jit([](const at::Tensor& x) {
    const at::Tensor y = x * 0.5;
    return y * (y.sum().item<double>() > 1e9 ? 2 : 1) + 0.25;
  });
  const auto steps = [&] {
    at::Tensor x = at::ones({16, 16});
    for (int i = 0; i < 100; ++i) x = at::sigmoid(refused(fast(x) + 0.5)) - x;
    return x;
  };
  const at::Tensor first = steps();
  sync();
  const Stats before = stats();
  EXPECT_TRUE(SameBits(first, steps()));
  sync();
  const Stats since = stats() - before;
  EXPECT_EQ(refused.stats().replays, 0);
  EXPECT_GE(100 * since.ops_replayed, 85 * since.ops_seen);  // not item()
}

// One op of a program: 0 calls the function, others are ops.
at::Tensor Apply(int op, const at::Tensor& x, const at::Tensor& w,
                 const Function& inner) {
  switch (op) {
    case 0:
      return inner(x);
    case 1:
      return x * 0.5;
    case 2:
      return x + w;
    case 3:
      return at::tanh(x);
    case 4:
      return at::mm(x, w);
    default:
      return x - x.mean();
  }
}

// Random programs with calls in random places, whose length is another one
// every few steps.
TEST_F(JitTest, RandomProgramsAroundFunctionsKeepTheirBits) {
  std::int64_t replayed = 0;
  for (int seed = 0; seed < 40; ++seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    std::vector<int> ops;
    const auto count = 3 + random() % 20;
    for (std::size_t i = 0; i < count; ++i) {
      ops.push_back(static_cast<int>(random() % 6));
    }
    const std::size_t varied = random() % 3;
    const bool marks = random() % 2 != 0;
    const auto run = [&](const Function& inner) {
      const at::Tensor w = at::linspace(-0.5, 0.5, 64).reshape({8, 8});
      at::Tensor total = at::zeros({8, 8});
      for (std::size_t step = 0; step < 60; ++step) {
        at::Tensor x = w + 0.01 * static_cast<double>(step % 7);
        const std::size_t less = varied == 0 ? 0 : step % (varied + 1);
        for (std::size_t i = 0; i + less < ops.size(); ++i) {
          x = Apply(ops[i], x, w, inner);
          if (i % 4 == 3) total.add_(x);
        }
        if (marks) mark_step();
      }
      return total;
    };
    auto fast = jit(&Inner);
    const Stats before = stats();
    const at::Tensor result = run(std::ref(fast));
    sync();
    replayed += (stats() - before).ops_replayed;
    disable();
    EXPECT_TRUE(SameBits(result, run(&Inner))) << "seed " << seed;
    enable();
    if (seed % 4 == 3) clear();
  }
  EXPECT_GT(replayed, 5000);
}

// The end of a call that is looked at finds its constants whatever other
// threads do.
TEST_F(JitTest, AnotherThreadRunsWhatIsPendingAtTheEndOfACall) {
  auto fast = jit([](const at::Tensor& x,
                     double k) { return at::tanh(x * at::full({4}, 0.5)) * k; },
                  {.follow = true});
  std::atomic<bool> ends = false;
  std::thread other([&] {
    while (!ends) sync();
  });
  for (int i = 0; i < 3000; ++i) {
    const at::Tensor x = at::rand({4});
    const at::Tensor y = fast(x, 0.1 * i);
    if (i % 100 == 0) {
      EXPECT_TRUE(SameBits(y, at::tanh(x * at::full({4}, 0.5)) * (0.1 * i)));
    }
  }
  ends = true;
  other.join();
}

}  // namespace
}  // namespace tjit
