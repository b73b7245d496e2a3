// Functions whose steps run at once, in a program that does not switch tjit on.
// Tests: Note [At once] in runtime/thread/functions/run_at_once.h
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <tjit/jit.h>
#include <tjit/stats.h>
#include <tjit/tjit.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace tjit {
namespace {

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Pending ops arm what they use (deferred_storage.h).
bool IsArmed(const at::Tensor& t) {
  return t.storage().unsafeGetStorageImpl()->has_materializer();
}

at::Tensor Chain(const at::Tensor& x, const at::Tensor& y) {
  at::Tensor z = x;
  for (int i = 0; i < 3; ++i) z = (z + y) * x;
  return z;
}

class JitAtOnceTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(1); }
  void TearDown() override { EXPECT_FALSE(is_enabled()); }

  // Calls until its machine code is there and is what runs.
  template <class Call>
  static void WarmUp(const Call& call) {
    for (int i = 0; i < 100; ++i) call();
    ASSERT_TRUE(wait_until_compiled(std::chrono::seconds(60)));
    for (int i = 0; i < 100; ++i) call();
  }

  const at::NoGradGuard no_grad_;
};

constexpr JitOptions kNeverVerified{.verify_every = 0};

// No step is pending in between: what it takes is as it was.
TEST_F(JitAtOnceTest, NothingIsPending) {
  auto fast = jit(Chain, kNeverVerified);
  WarmUp([&] { fast(at::rand({64}), at::rand({64})); });
  const Stats before = stats();
  for (int i = 0; i < 50; ++i) {
    const at::Tensor x = at::rand({64}), y = at::rand({64});
    const at::Tensor z = fast(x, y);
    EXPECT_FALSE(IsArmed(x) || IsArmed(y)) << i;
    EXPECT_TRUE(IsArmed(z)) << i;
    EXPECT_TRUE(SameBits(z, Chain(x, y))) << i;
  }
  const Stats since = stats() - before;
  EXPECT_EQ(since.jit_replays, 50) << fast.stats().why;
  EXPECT_EQ(since.replays_alone, 50);
  EXPECT_EQ(since.segments, 50);
  EXPECT_EQ(since.ops_seen, 50 * 6);
  EXPECT_EQ(since.ops_replayed, 50 * 6);
  EXPECT_EQ(since.steps_fused, 50 * 6);
  EXPECT_EQ(since.ops_eager, 0);
}

// The same of library calls, and of these and machine code in turn.
TEST_F(JitAtOnceTest, LibraryCallsRunAtOnceToo) {
  const at::Tensor w = at::rand({32, 16}), b = at::rand({32});
  const auto layer = [&](const at::Tensor& x) {
    return at::relu(at::linear(x, w, b));
  };
  const auto mixed = [&](const at::Tensor& x) {
    return at::cumsum((layer(x) * 0.5 + b) * b, 1).mul(b).add(b).sub(1);
  };
  const auto expect_at_once = [&](const auto& f) {
    auto fast = jit(f, kNeverVerified);
    for (int n = 0; n < 20; ++n) WarmUp([&] { fast(at::rand({8, 16})); });
    const Stats before = stats();
    for (int i = 0; i < 50; ++i) {
      const at::Tensor x = at::rand({8, 16});
      const at::Tensor y = fast(x);
      EXPECT_FALSE(IsArmed(x)) << i;
      EXPECT_TRUE(SameBits(y, f(x))) << i;
    }
    const Stats since = stats() - before;
    EXPECT_EQ(since.jit_replays, 50) << fast.stats().why;
    EXPECT_EQ(since.replays_tier1 + since.replays_tier2, 50);
    EXPECT_EQ(since.ops_replayed, since.ops_seen);
    EXPECT_EQ(since.ops_eager, 0);
    EXPECT_EQ(since.replays_alone, 0);
  };
  expect_at_once(layer);
  expect_at_once(mixed);
}

// Each call has results of its own.
TEST_F(JitAtOnceTest, ResultsLiveOn) {
  const auto both = [](const at::Tensor& x, const at::Tensor& y) {
    const at::Tensor sum = x + y;
    return std::vector<at::Tensor>{sum * x, sum};
  };
  auto fast = jit(both, kNeverVerified);
  WarmUp([&] { fast(at::rand({32}), at::rand({32})); });
  const at::Tensor y = at::rand({32});
  std::vector<at::Tensor> inputs;
  std::vector<std::vector<at::Tensor>> outputs;
  for (int i = 0; i < 20; ++i) {
    inputs.push_back(at::rand({32}));
    outputs.push_back(fast(inputs.back(), y));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<at::Tensor> expected = both(inputs[i], y);
    EXPECT_TRUE(SameBits(outputs[i][0], expected[0])) << i;
    EXPECT_TRUE(SameBits(outputs[i][1], expected[1])) << i;
  }
}

// What it writes is there, with its version counter.
TEST_F(JitAtOnceTest, StateIsUpdatedInPlace) {
  at::Tensor state = at::zeros({64}), other = at::zeros({64});
  const auto update = [](at::Tensor& s, const at::Tensor& x) {
    s.mul_(0.5).add_(x);
    return s * x;
  };
  auto fast = jit([&](const at::Tensor& x) { return update(state, x); },
                  kNeverVerified);
  const auto step = [&](bool is_armed) {
    const at::Tensor x = at::rand({64});
    const at::Tensor a = fast(x);
    EXPECT_LE(IsArmed(x), is_armed);
    EXPECT_TRUE(SameBits(a, update(other, x)));
    EXPECT_TRUE(SameBits(state, other));
    EXPECT_EQ(state._version(), other._version());
  };
  WarmUp([&] { step(true); });
  for (int i = 0; i < 20; ++i) step(false);
}

// Two slots of the plan over one storage: another function.
TEST_F(JitAtOnceTest, AliasesAreSeen) {
  at::Tensor w = at::rand({64}), v = w.clone();
  const auto update = [](at::Tensor& state, const at::Tensor& x) {
    state.mul_(x).add_(x);
    return state * x;
  };
  auto fast =
      jit([&](const at::Tensor& x) { return update(w, x); }, kNeverVerified);
  WarmUp([&] {
    const at::Tensor x = at::rand({64});
    EXPECT_TRUE(SameBits(fast(x), update(v, x)));
  });
  EXPECT_TRUE(SameBits(fast(w), update(v, v)));
  EXPECT_TRUE(SameBits(w, v));
  const at::Tensor view = w.view({64});
  EXPECT_TRUE(SameBits(fast(view), update(v, v.view({64}))));
  EXPECT_TRUE(SameBits(w, v));
}

// A storage of which each call has another part, read and written.
TEST_F(JitAtOnceTest, PartsOfAStorage) {
  at::Tensor rows = at::rand({16, 64}), other = rows.clone();
  const auto update = [](at::Tensor row, const at::Tensor& x) {
    row.mul_(x).add_(x);
    return row + x;
  };
  auto fast = jit(update, kNeverVerified);
  int i = 0;
  const auto step = [&] {
    const at::Tensor a = rows[i % 16], b = other[i % 16];
    const at::Tensor x = other[(i + 5) % 16] * 0.25;
    EXPECT_TRUE(SameBits(fast(a, x), update(b, x))) << i;
    EXPECT_TRUE(SameBits(rows, other)) << i;
    ++i;
  };
  WarmUp(step);
  for (int n = 0; n < 40; ++n) step();
  auto read = jit(Chain, kNeverVerified);
  const auto look = [&] {
    const at::Tensor a = rows[i % 16], b = rows[(i + 3) % 16].clone();
    EXPECT_TRUE(SameBits(read(a, b), Chain(a, b))) << i;
    ++i;
  };
  WarmUp(look);
  for (int n = 0; n < 40; ++n) look();
}

// The program writes by a raw pointer that it has kept.
TEST_F(JitAtOnceTest, RawPointersAreSeen) {
  auto fast = jit(Chain, kNeverVerified);
  at::Tensor x = at::rand({64});
  const at::Tensor y = at::rand({64});
  WarmUp([&] { fast(x, y); });
  auto* const data = x.data_ptr<float>();
  for (int i = 0; i < 10; ++i) {
    data[i] = 0.5f + static_cast<float>(i);
    EXPECT_TRUE(SameBits(fast(x, y), Chain(x, y))) << i;
  }
}

// The function runs and is compared now and then.
TEST_F(JitAtOnceTest, IsVerified) {
  auto fast = jit(Chain, {.verify_every = 8});
  WarmUp([&] { fast(at::rand({64}), at::rand({64})); });
  const JitStats before = fast.stats();
  for (int i = 0; i < 64; ++i) {
    const at::Tensor x = at::rand({64}), y = at::rand({64});
    EXPECT_TRUE(SameBits(fast(x, y), Chain(x, y))) << i;
  }
  const JitStats s = fast.stats();
  EXPECT_EQ(s.verified - before.verified, 8);
  EXPECT_EQ(s.replays - before.replays, 56);
  EXPECT_EQ(s.not_same, 0);
}

// Another thread's ops that are pending run first.
TEST_F(JitAtOnceTest, OpsOfOthersRunFirst) {
  auto fast = jit(Chain, kNeverVerified);
  const at::Tensor y = at::rand({64});
  WarmUp([&] { fast(at::rand({64}), y); });
  std::promise<at::Tensor> made;
  std::promise<void> is_done;
  std::thread other([&] {
    const at::NoGradGuard no_grad;
    const AutoCompile scope(AutoCompile::Scope::kThread);
    at::Tensor z;
    for (int i = 0; i < 100; ++i) {
      mark_step();
      z = (at::full({64}, 0.25 * i) + y) * y;
    }
    made.set_value(std::move(z));
    is_done.get_future().wait();  // the last two ops are pending
  });
  const at::Tensor theirs = made.get_future().get();
  const at::Tensor result = fast(theirs, y);
  is_done.set_value();
  other.join();
  const at::Tensor z = (at::full({64}, 0.25 * 99) + y) * y;
  EXPECT_TRUE(SameBits(result, Chain(z, y)));
  EXPECT_TRUE(SameBits(theirs, z));
}

// Many threads call one object with one weight.
TEST_F(JitAtOnceTest, ManyThreads) {
  const at::Tensor w = at::rand({64});
  auto fast =
      jit([&](const at::Tensor& x) { return Chain(x, w); }, kNeverVerified);
  std::vector<int> differences(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const at::NoGradGuard no_grad;
      for (int i = 0; i < 400; ++i) {
        const at::Tensor x = at::full({64}, 0.01 * i + t);
        differences[static_cast<std::size_t>(t)] +=
            !SameBits(fast(x), Chain(x, w));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(differences.begin(), differences.end(), 0), 4);
  EXPECT_GT(fast.stats().replays, 800) << fast.stats().why;
}

// A weight that is replaced, and one that is gone.
TEST_F(JitAtOnceTest, CapturedTensorsAreLookedAt) {
  at::Tensor w = at::rand({64});
  const auto scale = [&](const at::Tensor& x) { return Chain(x, w); };
  auto fast = jit(scale, kNeverVerified);
  WarmUp([&] { fast(at::rand({64})); });
  const at::Tensor x = at::rand({64});
  w.add_(1);
  EXPECT_TRUE(SameBits(fast(x), scale(x)));
  w.set_data(at::rand({64}));
  EXPECT_TRUE(SameBits(fast(x), scale(x)));
  w = at::rand({64});
  EXPECT_TRUE(SameBits(fast(x), scale(x)));
  EXPECT_TRUE(SameBits(fast(x), scale(x)));
}

}  // namespace
}  // namespace tjit
