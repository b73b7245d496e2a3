// Functions that read whole numbers on the host and decide by them: Note [Host
// reads] in function_plan.h.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

// Solves x * x = a for each element by Newton's method, until all have
// converged.
at::Tensor Root(const at::Tensor& a) {
  at::Tensor x = at::ones_like(a);
  for (int i = 0; i < 30; ++i) {
    const at::Tensor residual = x * x - a;
    if ((residual.abs().max() < 1e-4).item<bool>()) break;
    x = x - residual / (2 * x);
  }
  return x;
}

// An argument from which Root() takes about `steps` steps.
at::Tensor FarBy(int steps) {
  return at::full({16}, 1 + std::ldexp(1.0, 2 * steps)) + at::rand({16});
}

TEST_F(JitTest, ALoopThatConvergesIsReplayed) {
  int runs = 0;
  auto fast = jit([&](const at::Tensor& a) {
    ++runs;
    return Root(a);
  });
  for (int i = 0; i < 20; ++i) {
    const at::Tensor a = FarBy(3);
    EXPECT_TRUE(SameBits(fast(a), Root(a))) << i;
  }
  const int before = runs;
  for (int i = 0; i < 20; ++i) {
    const at::Tensor a = FarBy(3);
    EXPECT_TRUE(SameBits(fast(a), Root(a))) << i;
  }
  EXPECT_LE(runs - before, 2) << fast.stats().why;  // checks
  EXPECT_GE(fast.stats().replays, 18) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

TEST_F(JitTest, EachNumberOfStepsIsAWay) {
  auto fast = jit(&Root);
  constexpr int kWays[] = {1, 3, 2, 4, 1, 2, 2, 5, 3, 1};
  for (int i = 0; i < 200; ++i) {
    const at::Tensor a = FarBy(kWays[i % 10]);
    EXPECT_TRUE(SameBits(fast(a), Root(a))) << i;
  }
  const std::int64_t before = fast.stats().replays;
  for (int i = 0; i < 100; ++i) {
    const at::Tensor a = FarBy(kWays[i % 10]);
    EXPECT_TRUE(SameBits(fast(a), Root(a))) << i;
  }
  EXPECT_GE(fast.stats().replays - before, 90) << fast.stats().why;
  EXPECT_GE(fast.stats().plans, 4);
  EXPECT_EQ(fast.stats().not_same, 0);
}

TEST_F(JitTest, AReplayThatGoesOnRunsNoStepTwice) {
  auto fast = jit(&Root);
  for (int i = 0; i < 100; ++i) fast(FarBy(1 + i % 3));
  const auto ops_of = [](const auto& call) {
    sync();
    const std::int64_t before = stats().ops_seen;
    call();
    sync();
    return stats().ops_seen - before;
  };
  for (int i = 0; i < 30; ++i) {
    const at::Tensor a = FarBy(1 + i % 3);
    at::Tensor expected, y;
    const std::int64_t ops = ops_of([&] { expected = Root(a); });
    const std::int64_t replays = fast.stats().replays;
    const std::int64_t replayed = ops_of([&] { y = fast(a); });
    EXPECT_TRUE(SameBits(y, expected)) << i;
    if (fast.stats().replays != replays) {
      EXPECT_LE(replayed, ops) << i;
    }
  }
}

TEST_F(JitTest, WholeNumbersAreReadToo) {
  const auto f = [](const at::Tensor& x) {
    const auto many = (x > 0.5).sum().item<std::int64_t>();
    return many > 4 ? x * 2 + many : x - 1;
  };
  auto fast = jit(f);
  for (int i = 0; i < 300; ++i) ExpectSame(fast, f, at::rand({8}));
  EXPECT_GE(fast.stats().replays, 200) << fast.stats().why;
}

TEST_F(JitTest, AReadAtTheEndOfAFunction) {
  const auto f = [](const at::Tensor& x) {
    const at::Tensor y = x + 1;
    return std::make_pair(y, (y.sum() > 9).item<bool>());
  };
  auto fast = jit(f);
  for (int i = 0; i < 40; ++i) {
    const at::Tensor x = at::full({4}, i % 3);
    const auto [y, is_large] = fast(x);
    const auto [expected, expected_large] = f(x);
    EXPECT_TRUE(SameBits(y, expected));
    EXPECT_EQ(is_large, expected_large) << i;
  }
  EXPECT_GE(fast.stats().replays, 25) << fast.stats().why;
}

TEST_F(JitTest, TwoReadsInARow) {
  const auto f = [](const at::Tensor& x) {
    const at::Tensor y = x.exp();
    const at::Tensor low = y.min() < 1.2, high = y.max() > 2.2;
    if (low.item<bool>() && high.item<bool>()) return y * 2;
    return y + 3;
  };
  auto fast = jit(f);
  for (int i = 0; i < 200; ++i) ExpectSame(fast, f, at::rand({4}));
  EXPECT_GE(fast.stats().replays, 150) << fast.stats().why;
}

TEST_F(JitTest, WritesBehindTheLastRead) {
  at::Tensor state = at::zeros({8});
  at::Tensor twin = at::zeros({8});
  const auto f = [](at::Tensor& to, const at::Tensor& x) {
    at::Tensor y = x * 2;
    if ((y.sum() > 8).item<bool>()) y = y - 1;
    to.add_(y);
    return y.sum();
  };
  auto fast = jit([&](const at::Tensor& x) { return f(state, x); });
  for (int i = 0; i < 60; ++i) {
    const at::Tensor x = at::rand({8});
    EXPECT_TRUE(SameBits(fast(x), f(twin, x))) << i;
    EXPECT_TRUE(SameBits(state, twin)) << i;
    EXPECT_EQ(state._version(), twin._version()) << i;
  }
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
}

TEST_F(JitTest, ReadsBehindAWriteAreRefused) {
  at::Tensor state = at::zeros({8});
  auto fast = jit([&](const at::Tensor& x) {
    state.add_(x);
    return (state.sum() > 8).item<bool>() ? x * 2 : x + 1;
  });
  for (int i = 0; i < 8; ++i) fast(at::rand({8}));
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_read_after_write"), std::string::npos)
      << fast.stats().why;
}

// Each outcome is a way, which may draw others; what was drawn for a replay
// that ends at the read is drawn again.
TEST_F(JitTest, ReadsWithRandomNumbers) {
  const auto f = [](const at::Tensor& x) {
    at::Tensor y = x + at::rand({8});
    if ((y.sum() > 4).item<bool>()) y = y * at::randn({8});
    if ((y.sum() > 3.5).item<bool>()) y = at::dropout(y, 0.5, /*train=*/true);
    return y + at::rand({8});
  };
  auto fast = jit(f, {.verify_every = 0});
  int drawn = 0;
  for (int i = 0; i < 120; ++i) {
    const at::Tensor x = at::rand({8}) - 0.5;
    at::manual_seed(i);
    const at::Tensor a = fast(x), mine = at::rand({4});
    at::manual_seed(i);
    EXPECT_TRUE(SameBits(a, f(x))) << i;
    EXPECT_TRUE(SameBits(mine, at::rand({4}))) << i;
    drawn += (x.sum() > 0).item<bool>();
  }
  EXPECT_GE(drawn, 20);
  EXPECT_GE(fast.stats().replays, 60) << fast.stats().why;
  EXPECT_GE(fast.stats().plans, 3);
}

TEST_F(JitTest, FloatingNumbersAreRefusedWithTheRemedy) {
  auto fast = jit([](const at::Tensor& x) {
    return x.sum().item<float>() > 2 ? x * 2 : x + 1;
  });
  for (int i = 0; i < 8; ++i) fast(at::rand({8}));
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("(a < b).item<bool>()"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, AnArgumentIsReadOnlyBehindAnOp) {
  const auto f = [](const at::Tensor& x, const at::Tensor& flag) {
    const at::Tensor y = x * 2;
    return flag.item<bool>() ? y : y + 1;
  };
  auto fast = jit(f);
  for (int i = 0; i < 10; ++i) {
    ExpectSame(fast, f, at::rand({8}), at::full({}, i % 2 == 0, at::kBool));
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_host_read"), std::string::npos);
}

TEST_F(JitTest, ValuesAcrossAReadThatLiveOnAreRefused) {
  at::Tensor kept;
  auto fast = jit([&](const at::Tensor& x) {
    const at::Tensor y = x * 2;
    const bool is_large = (y.sum() > 100).item<bool>();
    kept = y;
    return is_large ? x : x + 1;
  });
  for (int i = 0; i < 8; ++i) fast(at::rand({8}));
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_value_escapes"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, NumbersAreArgumentsOfFunctionsThatRead) {
  const auto f = [](const at::Tensor& x, double dt) {
    at::Tensor y = x * dt;
    if ((y.sum() > 4).item<bool>()) y = y * 0.5;
    return y + dt;
  };
  auto fast = jit(f);
  for (int i = 0; i < 100; ++i) {
    ExpectSame(fast, f, at::rand({8}), 0.5 + 0.01 * i);
  }
  EXPECT_GE(fast.stats().replays, 60) << fast.stats().why;
}

TEST_F(JitTest, ArgumentsOfFunctionsThatReadAreBoundAnew) {
  const at::Tensor whole = at::rand({64, 8});
  auto fast = jit(&Root);
  for (int i = 0; i < 64; ++i) {
    ExpectSame(fast, &Root, whole[i] * 9 + 1);
    const at::Tensor row = whole[i];
    ExpectSame(fast, &Root, row);
  }
  EXPECT_GE(fast.stats().replays, 60) << fast.stats().why;
}

TEST_F(JitTest, TwoThreadsCallOneThatReads) {
  auto fast = jit(&Root);
  const auto calls = [&](int from) {
    const at::NoGradGuard no_grad;
    int wrong = 0;
    for (int i = 0; i < 200; ++i) {
      const at::Tensor a =
          at::full({16}, 1 + std::ldexp(1.0, 2 * (1 + (from + i) % 3)));
      wrong += !SameBits(fast(a), Root(a));
    }
    EXPECT_EQ(wrong, 0);
  };
  std::thread other(calls, 1);
  calls(0);
  other.join();
  EXPECT_GE(fast.stats().replays, 100) << fast.stats().why;
}

TEST_F(JitTest, ACheckThatGoesAnotherWayIsNoMismatch) {
  auto fast = jit(&Root, {.verify_every = 2});
  for (int i = 0; i < 200; ++i) ExpectSame(fast, &Root, FarBy(1 + i % 4));
  EXPECT_EQ(fast.stats().not_same, 0);
  EXPECT_GE(fast.stats().replays, 40) << fast.stats().why;
  EXPECT_GE(fast.stats().verified, 5);
}

// A random function over f32 [6, 5] with one to three tests on the host, behind
// which it may write into its argument and into a tensor of its own. It does
// the same for the same outcomes.
class Decider : public RandomFunction {
 public:
  explicit Decider(std::uint32_t seed) : RandomFunction(seed, {6, 5}) {}

  Tensors operator()(const at::Tensor& x, const at::Tensor& w, double k) {
    Begin(x, w);
    AddOps(3 + Below(5));
    for (std::uint32_t tests = 1 + Below(3); tests != 0; --tests) {
      const double bound = 0.1 * Below(100) - 5;
      const bool is_above = (One().sum() > bound).item<bool>();
      random_.seed(2 * static_cast<std::uint32_t>(random_()) + is_above);
      AddOps(1 + Below(4), k);
    }
    switch (Below(3)) {
      case 0:
        state_.add_(One() * 0.01);
        break;
      case 1:
        x.mul_(0.9);
        break;
      default:
        break;
    }
    return Results();
  }

 private:
  void AddOps(std::uint32_t count, double k = 0.5) {
    for (; count != 0; --count) {
      const at::Tensor a = One(), b = One();
      switch (Below(7)) {
        case 0:
          pool_.push_back(a + b);
          break;
        case 1:
          pool_.push_back(a * k - b);
          break;
        case 2:
          pool_.push_back(at::tanh(a));
          break;
        case 3:
          pool_.push_back(at::zeros({6, 5}).add_(a));
          break;
        case 4:
          pool_.push_back(a + at::arange(5));
          break;
        case 5:
          pool_.push_back(a.index_select(0, b.sum(1).argsort()));
          break;
        case 6:
          pool_.push_back(at::empty({6, 5}).copy_(a));
          break;
      }
    }
  }
};

// Differences from eager in 60 calls of the function with this seed.
int DifferencesOf(std::uint32_t seed, std::int64_t* replays) {
  Decider wrapped(seed), eager(seed);
  auto fast = jit([&](const at::Tensor& x, const at::Tensor& w, double k) {
    return wrapped(x, w, k);
  });
  int differences = 0;
  for (int i = 0; i < 60; ++i) {
    const at::Tensor x = at::randn({6, 5}), w = at::randn({6, 5}),
                     twin = x.clone();
    if (i % 16 == 15) static_cast<void>(x.data_ptr());
    const Tensors a = fast(x, w, 0.25 * (i % 4));
    const Tensors b = eager(twin, w, 0.25 * (i % 4));
    bool is_same =
        SameBits(x, twin) && SameBits(wrapped.state(), eager.state());
    for (std::size_t r = 0; r < a.size(); ++r) is_same &= SameBits(a[r], b[r]);
    differences += !is_same;
  }
  *replays += fast.stats().replays;
  return differences;
}

TEST_F(JitTest, RandomFunctionsThatDecide) {
  std::int64_t replays = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    EXPECT_EQ(DifferencesOf(seed, &replays), 0) << seed;
  }
  EXPECT_GE(replays, 60 * 15);
}

TEST_F(JitTest, RandomFunctionsFindAStaleRead) {
  ASSERT_TRUE(testing::SetPlantedDefect("stale_read"));
  std::int64_t replays = 0;
  int differences = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    differences += DifferencesOf(seed, &replays);
  }
  testing::SetPlantedDefect("");
  EXPECT_GT(differences, 0);
}

// What a way fills with numbers is its own, although all is made at once.
TEST_F(JitTest, WaysThatFillOtherTensors) {
  const auto f = [](const at::Tensor& x) {
    const at::Tensor y = x * 2;
    if ((y.sum() > 8).item<bool>()) return y + at::arange(8);
    return y.narrow(0, 0, 4) + at::arange(100, 104) + at::zeros({2, 4});
  };
  auto fast = jit(f);
  for (int i = 0; i < 200; ++i) ExpectSame(fast, f, at::rand({8}));
  EXPECT_GE(fast.stats().replays, 150) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

// An argument that one way reads alone would be copied, and another one writes
// into it.
TEST_F(JitTest, OneWayWritesIntoAnExposedArgument) {
  const auto f = [](const at::Tensor& x, const at::Tensor& to) {
    const at::Tensor y = x * 2 + to;
    if ((x.sum() > 4).item<bool>()) to.add_(1);
    return y;
  };
  auto fast = jit(f);
  at::Tensor a = at::zeros({8}), b = at::zeros({8});
  const auto calls = [&](int n) {
    for (int i = 0; i < n; ++i) {
      const at::Tensor x = at::rand({8});
      EXPECT_TRUE(SameBits(fast(x, a), f(x, b))) << i;
      EXPECT_TRUE(SameBits(a, b)) << i;
      EXPECT_EQ(a._version(), b._version()) << i;
    }
  };
  calls(100);
  EXPECT_GE(fast.stats().replays, 60) << fast.stats().why;
  static_cast<void>(a.data_ptr());
  calls(50);
  a = at::zeros({8});
  b = at::zeros({8});
  static_cast<void>(a.data_ptr());
  calls(50);
}

// Each call is a check: other outcomes are learnt all the same.
TEST_F(JitTest, FollowedFunctionsLearnEachWay) {
  for (const JitOptions& options :
       {JitOptions{.follow = true}, JitOptions{.verify_every = 1}}) {
    auto fast = jit(&Root, options);
    for (int i = 0; i < 100; ++i) ExpectSame(fast, &Root, FarBy(1 + i % 3));
    EXPECT_EQ(fast.stats().replays, 0);
    EXPECT_GE(fast.stats().plans, 3) << fast.stats().why;
    EXPECT_GE(fast.stats().verified, 50) << fast.stats().why;
    EXPECT_EQ(fast.stats().not_same, 0);
  }
}

TEST_F(JitTest, ANumberThatIsNewEachTimeIsGivenUp) {
  const auto f = [](const at::Tensor& x) {
    const at::Tensor y = x * 2;
    return y + static_cast<double>(y.sum().to(at::kLong).item<std::int64_t>());
  };
  auto fast = jit(f);
  int i = 0;
  for (; i < 4; ++i) {
    ExpectSame(fast, f, at::full({8}, 3.0));  // a plan
  }
  for (; i < 700; ++i) ExpectSame(fast, f, at::full({8}, 10.0 * i));
  EXPECT_NE(fast.stats().why, "");
  const at::Tensor x = at::full({8}, 1e5);
  const auto ops_of = [&](auto& call) {
    sync();
    const std::int64_t before = stats().ops_seen;
    call(x);
    sync();
    return stats().ops_seen - before;
  };
  EXPECT_EQ(ops_of(fast), ops_of(f));  // no step runs in vain
}

TEST_F(JitTest, AStaleReadIsFound) {
  auto fast = jit(&Root, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) fast(FarBy(2));
  const at::Tensor a = FarBy(5);
  const Tensors y = UnderDefect("stale_read", [&] { return Tensors{fast(a)}; });
  EXPECT_FALSE(SameBits(y[0], Root(a)));
}

TEST_F(JitTest, AnErrorBehindAReadIsTheFunctions) {
  const auto f = [](const at::Tensor& x, const at::Tensor& index) {
    const at::Tensor y = x * 2;
    if ((y.sum() > 1000).item<bool>()) return y;
    return y.index_select(0, index);
  };
  auto fast = jit(f);
  for (int i = 0; i < 20; ++i) {
    ExpectSame(fast, f, at::rand({8}), at::tensor({1, 2, 3}));
  }
  EXPECT_GE(fast.stats().replays, 5) << fast.stats().why;
  EXPECT_THROW(fast(at::rand({8}), at::tensor({1, 2, 8})), c10::Error);
  ExpectSame(fast, f, at::rand({8}), at::tensor({1, 2, 7}));
}

}  // namespace
}  // namespace tjit
