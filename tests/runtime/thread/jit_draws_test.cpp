// Functions that draw random numbers: eager's numbers, and the generator is
// where eager leaves it.
// Tests: Note [Draws] in runtime/thread/functions/draws.h
#include <ATen/CPUGeneratorImpl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

// Calls both from the same state of the generator.
template <class F, class... Args>
void ExpectSameDraws(Jit<F>& fast, const F& f, const Args&... args) {
  const at::Tensor before = GeneratorState();
  const Tensors a = fast(args...);
  const at::Tensor after = GeneratorState();
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(before);
  const Tensors b = f(args...);
  EXPECT_TRUE(SameBits(after, GeneratorState()));
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(SameBits(a[i], b[i])) << i;
    if (!a[i].is_inference()) {
      EXPECT_EQ(a[i]._version(), b[i]._version()) << i;
    }
    EXPECT_EQ(a[i].is_view(), b[i].is_view()) << i;
    EXPECT_EQ(a[i].is_inference(), b[i].is_inference()) << i;
  }
}

TEST_F(JitTest, DrawsOfAllKinds) {
  const auto f = [](const at::Tensor& x) {
    const at::Tensor a = x + at::rand({8}), b = x * at::randn({8});
    return Tensors{a,
                   b,
                   at::rand_like(b) - at::randn_like(a),
                   x + at::randint(5, {8}),
                   x + at::normal(0.5, 2.0, {8}),
                   at::empty({8}).exponential_() * x,
                   at::dropout(x, 0.25, /*train=*/true)};
  };
  auto fast = jit(f);
  for (int i = 0; i < 40; ++i) ExpectSameDraws(fast, f, at::rand({8}));
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

// Indices that are drawn, or computed beside draws, are looked at by a replay.
TEST_F(JitTest, IndicesBesideDraws) {
  const at::Tensor table = at::rand({8, 3});
  const auto f = [&](const at::Tensor& x) {
    const at::Tensor drawn = table.index_select(0, at::randint(8, {5}));
    const at::Tensor kept = at::dropout(x, 0.25, /*train=*/true);
    const at::Tensor indices = (x * 8).to(at::kLong);
    return Tensors{drawn * 2, at::embedding(table, indices), kept + 1};
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 40; ++i) ExpectSameDraws(fast, f, at::rand({8}));
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
  // One that is out of range: the error of eager, behind what eager has drawn.
  const std::int64_t replays = fast.stats().replays;
  const at::Tensor wrong = at::rand({8}) + 1;
  const at::Tensor before = GeneratorState();
  const auto error_of = [&](auto& function) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_state(before);
    try {
      function(wrong);
    } catch (const c10::Error& e) {
      return std::string(e.what_without_backtrace());
    }
    return std::string();
  };
  const std::string error = error_of(fast);
  const at::Tensor after = GeneratorState();
  EXPECT_EQ(error, error_of(f));
  EXPECT_NE(error, "");
  EXPECT_TRUE(SameBits(after, GeneratorState()));
  for (int i = 0; i < 4; ++i) ExpectSameDraws(fast, f, at::rand({8}));
  EXPECT_GE(fast.stats().replays, replays + 3) << fast.stats().why;
}

// The numbers of a loop that is seeded once.
TEST_F(JitTest, TheStreamGoesOn) {
  const auto f = [](const at::Tensor& x) {
    return (x * 0.9 + at::randn({16}) * 0.1).tanh();
  };
  auto fast = jit(f);
  at::Tensor a = at::zeros({16}), b = at::zeros({16});
  at::manual_seed(5);
  for (int i = 0; i < 50; ++i) a = fast(a) + at::rand({16});
  at::manual_seed(5);
  for (int i = 0; i < 50; ++i) b = f(b) + at::rand({16});
  EXPECT_TRUE(SameBits(a, b));
  EXPECT_GE(fast.stats().replays, 35) << fast.stats().why;
}

TEST_F(JitTest, TrainingWithDropout) {
  const at::AutoGradMode with_gradients(true);
  at::Tensor w = at::rand({16, 8}).requires_grad_(), v = at::rand({2, 16});
  const auto f = [&](const at::Tensor& x) {
    const at::Tensor h = at::dropout(at::linear(x, w).relu(), 0.5, true);
    const at::Tensor loss = at::linear(h, v).square().mean();
    loss.backward();
    return Tensors{loss.detach()};
  };
  auto fast = jit(f);
  for (int i = 0; i < 40; ++i) {
    ExpectSameDraws(fast, f, at::rand({4, 8}));
    w.mutable_grad().reset();
    if (i == 20) w.set_data(at::rand({16, 8}));
  }
  EXPECT_GE(fast.stats().replays, 20) << fast.stats().why;
  std::vector<at::Tensor> gradients;
  for (const bool is_fast : {true, false}) {
    at::manual_seed(9);
    is_fast ? fast(at::ones({4, 8})) : f(at::ones({4, 8}));
    gradients.push_back(w.grad());
    w.mutable_grad().reset();
  }
  EXPECT_TRUE(SameBits(gradients[0], gradients[1]));
}

// What is drawn is returned, viewed, changed in place, or not used at all.
TEST_F(JitTest, DrawsAsResults) {
  const auto f = [](const at::Tensor& x) {
    const at::Tensor unused = at::rand({3});
    at::Tensor noise = at::randn({2, 4}), other = at::rand({4}),
               twice = at::empty({4}).uniform_().normal_();
    noise.mul_(2).add_(1);
    return Tensors{noise, noise[1],  noise.t(),        noise * x,
                   other, other + x, at::rand({5})[2], twice};
  };
  auto fast = jit(f);
  for (int i = 0; i < 40; ++i) ExpectSameDraws(fast, f, at::rand({4}));
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
}

TEST_F(JitTest, DrawsInInferenceMode) {
  const c10::InferenceMode inference;
  const auto f = [](const at::Tensor& x) {
    const at::Tensor noise = at::randn({8});
    return Tensors{x + noise, noise};
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 10; ++i) ExpectSameDraws(fast, f, at::rand({8}));
  EXPECT_GE(fast.stats().replays, 6) << fast.stats().why;
}

// Results of earlier calls keep their numbers.
TEST_F(JitTest, EachCallDrawsAnew) {
  auto fast = jit(
      [](const at::Tensor& x) {
        const at::Tensor noise = at::rand({8});
        return Tensors{noise, noise + x};
      },
      {.verify_every = 0});
  std::vector<Tensors> results;
  const at::Tensor x = at::ones({8});
  for (int i = 0; i < 12; ++i) results.push_back(fast(x));
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(SameBits(results[i][1], results[i][0] + x)) << i;
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(SameBits(results[i][0], results[j][0])) << i << " " << j;
    }
  }
  EXPECT_GE(fast.stats().replays, 8) << fast.stats().why;
}

// A probability that is passed is one more way.
TEST_F(JitTest, ProbabilitiesAreNotFrozen) {
  const auto f = [](const at::Tensor& x, double p) {
    return Tensors{at::dropout(x, p, /*train=*/true) * 2};
  };
  auto fast = jit(f);
  for (int i = 0; i < 90; ++i) {
    ExpectSameDraws(fast, f, at::rand({8}), 0.25 * (1 + i % 3));
  }
  EXPECT_GE(fast.stats().replays, 60) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

TEST_F(JitTest, KeptDrawsAreRefused) {
  at::Tensor kept;
  auto fast = jit([&](const at::Tensor& x) {
    kept = at::rand({8});
    return kept + x;
  });
  for (int i = 0; i < 10; ++i) {
    const at::Tensor x = at::rand({8}), y = fast(x);
    EXPECT_TRUE(SameBits(y, kept + x)) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_value_escapes"), std::string::npos)
      << fast.stats().why;
}

// What is filled from numbers alone is drawn as well.
TEST_F(JitTest, RangesAndUnitMatrices) {
  const at::Tensor table = at::rand({8, 4});
  const auto f = [&](const at::Tensor& x, int n) {
    const at::Tensor range = at::arange(n);
    return Tensors{at::mm(x, at::eye(4)) + at::embedding(table, range).sum(0),
                   range, at::arange(4, at::kFloat) * 0.5 + x,
                   at::div(x, 0.3, "floor")};
  };
  auto fast = jit(f);
  for (int i = 0; i < 60; ++i) {
    ExpectSameDraws(fast, f, at::rand({3, 4}), 2 + i % 2);
  }
  EXPECT_GE(fast.stats().replays, 40) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

// Two tensors over one draw, and a version that eager's kernel does not raise.
TEST_F(JitTest, TensorsOverOneDraw) {
  const auto f = [](const at::Tensor& x) {
    const at::Tensor noise = at::rand({8}), unit = at::eye(3);
    return Tensors{noise, noise.detach(), x + noise, unit, at::mm(unit, unit)};
  };
  auto fast = jit(f);
  for (int i = 0; i < 20; ++i) {
    ExpectSameDraws(fast, f, at::rand({8}));
    const Tensors r = fast(at::rand({8}));
    EXPECT_FALSE(r[0].is_same(r[1])) << i;
    r[1].set_requires_grad(true);
    EXPECT_FALSE(r[0].requires_grad()) << i;
  }
  EXPECT_GE(fast.stats().replays, 25) << fast.stats().why;
}

// Draws count as ops that ran at the call, as they do without jit().
TEST_F(JitTest, DrawsAreCounted) {
  auto fast = jit([](const at::Tensor& x) { return x + at::rand({8}) * 2; },
                  {.verify_every = 0});
  const at::Tensor x = at::rand({8});
  for (int i = 0; i < 4; ++i) fast(x);
  sync();
  const Stats before = stats();
  for (int i = 0; i < 10; ++i) fast(x);
  sync();
  const Stats since = stats() - before;
  EXPECT_EQ(since.jit_replays, 10) << fast.stats().why;
  EXPECT_EQ(since.ops_seen, 30);
  EXPECT_EQ(since.ops_eager, 10);
  EXPECT_EQ(since.ops_replayed, 20);
}

}  // namespace
}  // namespace tjit
