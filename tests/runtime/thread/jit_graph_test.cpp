// Functions whose results keep a graph for gradients: Note [Results with a
// graph] in runtime/thread/functions/gradient_graph.h.
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/runtime/thread/jit_graph_testing.h"

namespace tjit {
namespace {

TEST_F(JitGraphTest, AForwardPassIsReplayedAndSoIsItsBackwardPass) {
  const Tensors leaves = {Leaf({4, 6}), Leaf({6}), Leaf({6, 2})};
  const Tensors copies = CopyOf(leaves);
  const auto forward = [](const Tensors& p, const at::Tensor& x) {
    return at::mm(at::tanh(at::mm(x, p[0]) + p[1]), p[2]);
  };
  const auto eager = [&](const at::Tensor& x) { return forward(copies, x); };
  const Tensors expected = Descend(eager, copies, 20);
  int runs = 0;
  auto fast = jit(
      [&](const at::Tensor& x) {
        ++runs;
        return forward(leaves, x);
      },
      WithGradients());
  const Tensors got = Descend(fast, leaves, 20);
  ExpectAllSame(got, expected);
  EXPECT_EQ(fast.stats().why, "");
  EXPECT_GE(fast.stats().replays, 14) << fast.stats().why;
  EXPECT_EQ(runs + fast.stats().replays, 20);
}

TEST_F(JitGraphTest, GradientsGoOnIntoTheGraphOfAnArgument) {
  const Tensors leaves = {Leaf({4, 4}), Leaf({4, 4})};
  const Tensors copies = CopyOf(leaves);
  // x is used twice inside, once before and once behind: the order in which
  // its gradients are added is eager's.
  const auto inner = [](const at::Tensor& x, const at::Tensor& w) {
    return at::sigmoid(at::mm(x, w)) * x + x.exp();
  };
  auto fast =
      jit([&](const at::Tensor& x, const at::Tensor& w) { return inner(x, w); },
          WithGradients());
  const auto around = [](const at::Tensor& input, const Tensors& p, auto& f) {
    const at::Tensor x = at::mm(input, p[0]);
    const at::Tensor before = x.cos();
    return f(x, p[1]) * x.sin() + before;
  };
  const Tensors got = Descend(
      [&](const at::Tensor& x) { return around(x, leaves, fast); }, leaves, 20);
  const Tensors expected =
      Descend([&](const at::Tensor& x) { return around(x, copies, inner); },
              copies, 20);
  ExpectAllSame(got, expected);
  EXPECT_GE(fast.stats().replays, 14) << fast.stats().why;
}

// Many calls are alive when the backward pass comes; that through the last one
// is of another kind, as nobody uses one of its results.
TEST_F(JitGraphTest, ACellIsCalledInALoop) {
  const Tensors leaves = {Leaf({4, 4}), Leaf({4, 4})};
  const Tensors copies = CopyOf(leaves);
  const auto cell = [](const at::Tensor& x, const at::Tensor& h,
                       const at::Tensor& c, const Tensors& p) {
    const at::Tensor gate = at::sigmoid(at::mm(x, p[0]) + at::mm(h, p[1]));
    const at::Tensor next = gate * c + (1 - gate) * at::tanh(x);
    return std::tuple(gate * next.tanh(), next);
  };
  auto fast = jit([&](const at::Tensor& x, const at::Tensor& h,
                      const at::Tensor& c) { return cell(x, h, c, leaves); },
                  WithGradients());
  const auto eager = [&](const at::Tensor& x, const at::Tensor& h,
                         const at::Tensor& c) { return cell(x, h, c, copies); };
  const auto loop = [](auto& f, const at::Tensor& x) {
    at::Tensor h = at::zeros({8, 4}), c = at::zeros({8, 4}), sum;
    for (int t = 0; t < 6; ++t) {
      const auto [next_h, next_c] = f(x + t, h, c);
      h = next_h;
      c = next_c;
      sum = t == 0 ? h : sum + h;
    }
    return sum;
  };
  const Tensors got =
      Descend([&](const at::Tensor& x) { return loop(fast, x); }, leaves, 60);
  const Tensors expected =
      Descend([&](const at::Tensor& x) { return loop(eager, x); }, copies, 60);
  ExpectAllSame(got, expected);
  EXPECT_GE(fast.stats().replays, 150) << fast.stats().why;
}

// A backward pass of another kind could not run it again: its results depend on
// what it writes.
TEST_F(JitGraphTest, AFunctionThatReadsWhatItWritesIsRefused) {
  const Tensors leaves = {Leaf({4, 6})};
  const Tensors copies = CopyOf(leaves);
  at::Tensor count = at::zeros({});
  const auto check = [&](const auto& forward) {
    count.zero_();
    const Tensors expected = Descend(
        [&](const at::Tensor& x) { return forward(copies, x); }, copies, 12);
    count.zero_();
    auto fast = jit([&](const at::Tensor& x) { return forward(leaves, x); },
                    WithGradients());
    ExpectAllSame(Descend(fast, leaves, 12), expected);
    EXPECT_EQ(fast.stats().replays, 0);
    EXPECT_NE(fast.stats().why.find("jit_graph_once"), std::string::npos)
        << fast.stats().why;
  };
  check([&](const Tensors& p, const at::Tensor& x) {
    count.add_(1);
    return at::mm(x, p[0]) * count;
  });
  check([&](const Tensors& p, const at::Tensor& x) {
    const at::Tensor y = at::mm(x, p[0]) * (count + 1);
    const at::NoGradGuard no_grad;
    count.add_(y.sum());
    return y;
  });
}

TEST_F(JitGraphTest, DropoutDrawsTheSameWhereItRunsAgain) {
  const Tensors leaves = {Leaf({4, 6}), Leaf({6, 2})};
  const Tensors copies = CopyOf(leaves);
  const auto forward = [](const Tensors& p, const at::Tensor& x) {
    const at::Tensor h = at::dropout(at::relu(at::mm(x, p[0])), 0.5, true);
    return at::dropout(at::mm(h, p[1]).tanh(), 0.25, true);
  };
  const auto eager = [&](const at::Tensor& x) { return forward(copies, x); };
  int runs = 0;
  auto fast = jit(
      [&](const at::Tensor& x) {
        ++runs;
        return forward(leaves, x);
      },
      WithGradients());
  ExpectAllSame(DescendWithPenalty(fast, leaves, 60, 20),
                DescendWithPenalty(eager, copies, 60, 20));
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
  EXPECT_GE(runs + fast.stats().replays, 62);  // it ran again
}

// Running statistics and counters are written once a call, however often the
// function runs.
TEST_F(JitGraphTest, BatchNormWritesOnceWhereItRunsAgain) {
  struct Net {
    Tensors leaves;
    at::Tensor mean = at::zeros({6}), variance = at::ones({6});
    at::Tensor count = at::zeros({}, at::kLong);

    at::Tensor operator()(const at::Tensor& x) const {
      count.add_(1);
      const at::Tensor h =
          at::batch_norm(at::mm(x, leaves[0]), leaves[1], leaves[2], mean,
                         variance, /*training=*/true, 0.1, 1e-5, false);
      return at::mm(h.tanh(), leaves[3]);
    }
  };
  Net net{{Leaf({4, 6}), Leaf({6}), Leaf({6}), Leaf({6, 2})}};
  Net copy{CopyOf(net.leaves)};
  int runs = 0;
  auto fast = jit(
      [&](const at::Tensor& x) {
        ++runs;
        return net(x);
      },
      WithGradients());
  ExpectAllSame(DescendWithPenalty(fast, net.leaves, 60, 20),
                DescendWithPenalty(copy, copy.leaves, 60, 20));
  ExpectAllSame({net.mean, net.variance, net.count},
                {copy.mean, copy.variance, copy.count});
  EXPECT_EQ(net.count._version(), copy.count._version());
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
  EXPECT_GE(runs + fast.stats().replays, 62);
}

// Another thread that draws while a function runs again, or is replayed, would
// change what that draws.
TEST_F(JitGraphTest, NumbersThatOthersDrewAreNoticed) {
  const at::Tensor w = Leaf({4, 4});
  bool draws_more = false;
  auto fast = jit(
      [&](const at::Tensor& x) {
        if (draws_more) at::rand({1});
        return at::dropout(at::mm(x, w), 0.5, true);
      },
      WithGradients());
  for (int i = 0; i < 12; ++i) fast(Leaf({4, 4})).sum().backward();
  const at::Tensor x = Leaf({4, 4});
  const std::int64_t replays = fast.stats().replays;
  const at::Tensor y = fast(x).sum();
  EXPECT_EQ(fast.stats().replays, replays + 1);
  draws_more = true;
  const at::Tensor before = GeneratorState();
  try {
    static_cast<void>(
        torch::autograd::grad({y}, {x}, {}, {}, /*create_graph=*/true));
    FAIL() << "it drew other numbers";
  } catch (const c10::Error& e) {
    EXPECT_NE(std::string(e.what()).find("draws other random numbers"),
              std::string::npos)
        << e.what();
  }
  EXPECT_TRUE(SameBits(GeneratorState(), before));
}

// Tensors that are made of numbers inside, and that the graph keeps.
TEST_F(JitGraphTest, NumbersThatTheGraphKeeps) {
  const at::Tensor w = Leaf({4, 4});
  const auto compare = [&](const auto& f, bool varies) {
    auto fast = jit(f, WithGradients());
    for (int i = 0; i < 24; ++i) {
      const at::Tensor x = at::randn({4, 4});
      const auto gradient = [&](const auto& function) {
        const at::Tensor y = function(x, varies ? 0.5 + i : 0.5);
        y.sum().backward();
        return Tensors{y.detach(), std::exchange(w.mutable_grad(), {})};
      };
      const auto call = [&](const at::Tensor& t, double a) {
        return fast(t, a);
      };
      ExpectAllSame(gradient(call), gradient(f));
    }
    EXPECT_GE(fast.stats().replays, 10) << fast.stats().why;
  };
  compare([&](const at::Tensor& x,
              double) { return (x * w) * at::scalar_tensor(0.75); },
          false);
  compare([&](const at::Tensor& x,
              double) { return (x * w) / at::tensor({0.5F, 1.F, 2.F, 3.F}); },
          false);
  compare(
      [&](const at::Tensor& x, double a) {
        return (x * w) * at::scalar_tensor(a) + at::scalar_tensor(1);
      },
      true);
}

// One that the function keeps is no number.
TEST_F(JitGraphTest, NumbersThatTheFunctionKeeps) {
  const at::Tensor w = Leaf({4, 4});
  at::Tensor kept;
  const auto f = [&](const at::Tensor& x) {
    kept = at::scalar_tensor(0.75);
    return (x * w) * kept;
  };
  auto fast = jit(f, WithGradients());
  for (int i = 0; i < 12; ++i) fast(at::randn({4, 4})).sum().backward();
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why, "");
}

// Steps run up to an index that is computed, and are looked at there.
TEST_F(JitGraphTest, IndicesThatAreComputed) {
  const Tensors leaves = {Leaf({4, 6}), Leaf({6, 3})};
  const Tensors copies = CopyOf(leaves);
  const auto forward = [](const Tensors& p, const at::Tensor& x) {
    const at::Tensor scores = at::mm(x, p[0]);
    const at::Tensor rows = at::embedding(p[1], scores.argmax(1));
    return rows.tanh() * scores.exp().gather(1, scores.argmin(1, true));
  };
  auto fast = jit([&](const at::Tensor& x) { return forward(leaves, x); },
                  WithGradients());
  ExpectAllSame(DescendWithPenalty(fast, leaves, 60, 20),
                DescendWithPenalty(
                    [&](const at::Tensor& x) { return forward(copies, x); },
                    copies, 60, 20));
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
}

// Each outcome of a read is a way with a graph of its own. What a call returned
// is pending still when the function runs again.
TEST_F(JitGraphTest, ValuesThatAreRead) {
  const Tensors leaves = {Leaf({4, 6}), Leaf({6, 2})};
  const Tensors copies = CopyOf(leaves);
  const auto forward = [](const Tensors& p, const at::Tensor& x) {
    at::Tensor h = at::mm(x, p[0]);
    const at::Tensor kept = h.tanh();
    if ((x.sum() > 0).item<bool>()) h = h.exp() * kept;
    TORCH_CHECK(h.isfinite().all().item<bool>(), "not finite");
    h = at::dropout(h.sigmoid() + kept, 0.25, /*train=*/true);
    return at::mm(h, p[1]);
  };
  auto fast = jit([&](const at::Tensor& x) { return forward(leaves, x); },
                  WithGradients());
  ExpectAllSame(DescendWithPenalty(fast, leaves, 120, 50),
                DescendWithPenalty(
                    [&](const at::Tensor& x) { return forward(copies, x); },
                    copies, 120, 50));
  EXPECT_GE(fast.stats().replays, 60) << fast.stats().why;
}

// What is drawn without a step, which changes the size of its tensor.
TEST_F(JitGraphTest, RangesThatTheGraphKeeps) {
  const at::Tensor w = Leaf({4, 4});
  const auto f = [&](const at::Tensor& x) {
    return at::mm(x, w).index_select(0, at::arange(3)).tanh();
  };
  auto fast = jit(f, WithGradients());
  for (int i = 0; i < 24; ++i) {
    const at::Tensor x = at::randn({6, 4});
    const auto gradient = [&](auto& function) {
      function(x).sum().backward();
      return std::exchange(w.mutable_grad(), at::Tensor());
    };
    EXPECT_TRUE(SameBits(gradient(fast), gradient(f))) << i;
  }
  EXPECT_GE(fast.stats().replays, 16) << fast.stats().why;
}

TEST_F(JitGraphTest, ANumberIsOneOfTheBackwardPassAsWell) {
  const at::Tensor w = Leaf({4, 4});
  const auto f = [&](const at::Tensor& x, double a) {
    return (x * w * a).sum();
  };
  auto fast = jit(f, WithGradients());
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::randn({4, 4});
    const double a = 0.5 + i;
    fast(x, a).backward();
    const at::Tensor got = std::exchange(w.mutable_grad(), at::Tensor());
    f(x, a).backward();
    const at::Tensor expected = std::exchange(w.mutable_grad(), at::Tensor());
    EXPECT_TRUE(SameBits(got, expected)) << i;
  }
  EXPECT_GE(fast.stats().replays, 10) << fast.stats().why;
}

// Which of two results a backward pass is of may change: the node of a replayed
// call runs the function again.
TEST_F(JitGraphTest, AnotherBackwardPassRunsTheFunctionAgain) {
  const at::Tensor w = Leaf({4, 4});
  int runs = 0;
  const auto f = [&](const at::Tensor& x) {
    ++runs;
    const at::Tensor h = at::mm(x, w);
    return std::tuple(h.tanh(), h.exp().sum());
  };
  auto fast = jit(f, WithGradients());
  const auto gradient = [&](auto& function, const at::Tensor& x, bool both) {
    const auto [a, b] = function(x);
    (both ? a.sum() + b : b).backward();
    return std::exchange(w.mutable_grad(), at::Tensor());
  };
  for (int i = 0; i < 60; ++i) {
    const at::Tensor x = at::randn({4, 4});
    const bool both = i < 12 || i % 3 == 0;
    EXPECT_TRUE(SameBits(gradient(fast, x, both), gradient(f, x, both))) << i;
  }
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
  EXPECT_EQ(fast.stats().plans, 1);
}

TEST_F(JitGraphTest, ADoubleBackwardPassIsEagers) {
  const Tensors leaves = {Leaf({4, 4})};
  const at::Tensor& w = leaves[0];
  const auto f = [&](const at::Tensor& x) {
    const at::Tensor h = at::mm(x, w);
    return (h.tanh() * h * x).sum();
  };
  auto fast = jit(f, WithGradients());
  const auto penalty = [&](auto& function, const at::Tensor& data) {
    const at::Tensor x = data.detach().requires_grad_(true);
    const at::Tensor y = function(x.cos());
    const at::Tensor g =
        torch::autograd::grad({y}, {x}, {}, {}, /*create_graph=*/true)[0];
    (y + g.pow(2).sum()).backward();
    return std::tuple(std::exchange(w.mutable_grad(), at::Tensor()), x.grad());
  };
  for (int i = 0; i < 16; ++i) {
    const at::Tensor x = at::randn({4, 4});
    if (i < 10) {
      fast(x).backward();
      w.mutable_grad().reset();
      continue;
    }
    const auto [dw, dx] = penalty(fast, x);
    const auto [ew, ex] = penalty(f, x);
    EXPECT_TRUE(SameBits(dw, ew)) << i;
    EXPECT_TRUE(SameBits(dx, ex)) << i;
  }
}

// What the program does with a result before a pass that creates a graph.
TEST_F(JitGraphTest, ResultsThatWereChangedHaveTheirOwnHistory) {
  const at::Tensor w = Leaf({4, 4});
  const auto f = [&](const at::Tensor& x) { return at::mm(x, w).tanh() * 2; };
  const auto compare = [&](const auto& change) {
    auto fast = jit(f, WithGradients());
    for (int i = 0; i < 8; ++i) fast(Leaf({4, 4})).pow(2).sum().backward();
    w.mutable_grad().reset();
    const at::Tensor data = at::randn({4, 4});
    const auto run = [&](auto& function) {
      const at::Tensor x = data.clone().requires_grad_(true);
      const at::Tensor y = function(x.sin());
      change(x, y);
      const at::Tensor g = torch::autograd::grad({(y * x).sum()}, {x}, {}, {},
                                                 /*create_graph=*/true)[0];
      (g.pow(2).sum() + y.sum()).backward();
      return Tensors{g.detach(), x.grad(),
                     std::exchange(w.mutable_grad(), at::Tensor()),
                     y.retains_grad() ? y.grad().detach() : at::Tensor()};
    };
    const std::int64_t replays = fast.stats().replays;
    const Tensors got = run(fast);
    EXPECT_EQ(fast.stats().replays, replays + 1);
    ExpectAllSame(got, run(f));
  };
  compare([](const at::Tensor& x, const at::Tensor& y) { y.mul_(x); });
  compare([](const at::Tensor&, const at::Tensor& y) {
    y.register_hook([](const at::Tensor& g) { return g * 3; });
  });
  compare([](const at::Tensor&, const at::Tensor& y) { y.retain_grad(); });
}

TEST_F(JitGraphTest, TheBackwardPassThatComesSaysWhatItReads) {
  const at::Tensor w = Leaf({4, 4});
  const auto f = [&](const at::Tensor& a, const at::Tensor& b) {
    return std::tuple(a * w, b * w + a);
  };
  auto fast = jit(f, WithGradients());
  const auto one_of = [&](int i, bool changes_b) {
    const at::Tensor a = at::randn({4, 4}), b = at::randn({4, 4});
    const auto [first, second] = fast(a, b);
    if (changes_b) b.mul_(2);
    (i % 2 == 0 ? first : second).sum().backward();
  };
  for (int i = 0; i < 80; ++i) one_of(i, false);
  const std::int64_t replays = fast.stats().replays;
  ASSERT_GE(replays, 4) << fast.stats().why;
  EXPECT_NO_THROW(one_of(0, true));
  EXPECT_NO_THROW(one_of(1, false));
  EXPECT_THROW(one_of(1, true), c10::Error);
  EXPECT_NO_THROW(one_of(0, true));
  EXPECT_EQ(fast.stats().replays, replays + 4);
}

// Another thread counts its nodes by itself.
TEST_F(JitGraphTest, ArgumentsComeFromOtherThreads) {
  const at::Tensor w = Leaf({4, 4}), v = Leaf({4, 4}), u = Leaf({4, 4});
  const auto f = [&](const at::Tensor& x) { return at::mm(x, w).tanh(); };
  auto fast = jit(f, WithGradients());
  for (int i = 0; i < 20; ++i) {
    at::Tensor x;
    std::thread([&] {
      for (int n = 0; n < 300; ++n) x = v * 2;
      x = i < 10 ? v * 2 : u * 5;
      sync();
    }).join();
    const auto gradients = [&](auto& function) {
      function(x).sum().backward({}, /*retain_graph=*/true);
      Tensors all;
      for (const at::Tensor& leaf : {w, v, u}) {
        all.push_back(std::exchange(leaf.mutable_grad(), at::Tensor()));
      }
      return all;
    };
    ExpectAllSame(gradients(fast), gradients(f));
  }
}

// A pass of another kind runs the function again: a number that it reads by
// ref() has to be the same.
TEST_F(JitGraphTest, WhatRunsAgainFindsTheSameNumbers) {
  const at::Tensor w = Leaf({4, 4});
  double dt = 1;
  auto fast =
      jit([&](const at::Tensor& x) { return at::mm(x, w).tanh() * ref(dt); },
          WithGradients());
  const auto penalty = [&](double then) {
    for (int i = 0; i < 8; ++i) {
      dt = 1 + i;
      fast(at::randn({4, 4})).sum().backward();
    }
    const std::int64_t replays = fast.stats().replays;
    const at::Tensor y = fast(at::randn({4, 4}));
    EXPECT_EQ(fast.stats().replays, replays + 1) << fast.stats().why;
    dt = then;
    torch::autograd::grad({y.sum()}, {w}, {}, {}, /*create_graph=*/true);
  };
  EXPECT_NO_THROW(penalty(8));
  fast.reset();
  EXPECT_THROW(penalty(9), c10::Error);
}

TEST_F(JitGraphTest, WhatIsKeptInsideIsFoundWhenTheGraphIsGone) {
  const at::Tensor w = Leaf({4, 4});
  at::Tensor kept;
  const auto keep_value = [&](const at::Tensor& x) {
    kept = at::mm(x, w).tanh();
    return (kept * 2).sum();
  };
  const auto keep_result = [&](const at::Tensor& x) {
    kept = at::mm(x, w).tanh();
    return kept;
  };
  const auto keep_view = [&](const at::Tensor& x) {
    const at::Tensor h = at::mm(x, w).tanh();
    kept = h.detach();
    return h;
  };
  const auto check = [&](auto fast, const auto& f) {
    for (int i = 0; i < 12; ++i) {
      const at::Tensor x = at::randn({4, 4});
      const at::Tensor y = fast(x);
      const at::Tensor seen = kept.detach().clone();
      y.sum().backward();
      w.mutable_grad().reset();
      f(x);
      EXPECT_TRUE(SameBits(seen, kept.detach())) << i;
    }
    EXPECT_EQ(fast.stats().replays, 0);
    EXPECT_NE(fast.stats().why.find("jit_value_escapes"), std::string::npos)
        << fast.stats().why;
  };
  check(jit(keep_value, WithGradients()), keep_value);
  check(jit(keep_result, WithGradients()), keep_result);
  check(jit(keep_view, WithGradients()), keep_view);
}

TEST_F(JitGraphTest, WhatTheBackwardPassReadsMayNotBeChanged) {
  const at::Tensor w = Leaf({4, 4});
  auto fast = jit([&](const at::Tensor& x) { return at::mm(x, w).exp(); },
                  WithGradients());
  for (int i = 0; i < 10; ++i) fast(at::randn({4, 4})).sum().backward();
  ASSERT_GE(fast.stats().replays, 4) << fast.stats().why;
  const auto fails = [&](const auto& change) {
    const std::int64_t replays = fast.stats().replays;
    const at::Tensor x = at::randn({4, 4});
    const at::Tensor y = fast(x);
    const at::Tensor loss = y.sum();
    EXPECT_EQ(fast.stats().replays, replays + 1);
    {
      const at::NoGradGuard no_grad;
      change(x, y);
    }
    try {
      loss.backward();
    } catch (const c10::Error& e) {
      return std::string(e.what()).find("modified by an inplace operation") !=
             std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(fails([](const at::Tensor& x, const at::Tensor&) { x.mul_(2); }));
  EXPECT_TRUE(fails([](const at::Tensor&, const at::Tensor& y) { y.mul_(2); }));
  // The parameter is not read where no argument asks for a gradient.
  EXPECT_FALSE(fails([&](const at::Tensor&, const at::Tensor&) { w.mul_(2); }));
}

TEST_F(JitGraphTest, BackwardTwiceAndRetainedGraphs) {
  const at::Tensor w = Leaf({4, 4});
  const auto f = [&](const at::Tensor& x) { return at::mm(x, w).tanh().sum(); };
  auto fast = jit(f, WithGradients());
  for (int i = 0; i < 10; ++i) fast(at::randn({4, 4})).backward();
  ASSERT_GE(fast.stats().replays, 4) << fast.stats().why;
  w.mutable_grad().reset();
  const at::Tensor x = at::randn({4, 4});
  const auto twice = [&](auto& function) {
    const at::Tensor y = function(x);
    y.backward({}, /*retain_graph=*/true);
    y.backward();
    EXPECT_THROW(y.backward(), c10::Error);
    return std::exchange(w.mutable_grad(), at::Tensor());
  };
  EXPECT_TRUE(SameBits(twice(fast), twice(f)));
}

// A leaf that is not trained any more, and a call without a graph.
TEST_F(JitGraphTest, OtherModesAreOtherWays) {
  const at::Tensor w = Leaf({4, 4}), b = Leaf({4});
  const auto f = [&](const at::Tensor& x) { return at::mm(x, w) + b; };
  auto fast = jit(f, WithGradients());
  for (int i = 0; i < 40; ++i) {
    if (i == 20) b.requires_grad_(false);
    const at::Tensor x = at::randn({4, 4});
    const auto gradients = [&](auto& function) {
      function(x).pow(2).sum().backward();
      return Tensors{std::exchange(w.mutable_grad(), at::Tensor()),
                     std::exchange(b.mutable_grad(), at::Tensor())};
    };
    ExpectAllSame(gradients(fast), gradients(f));
    const at::NoGradGuard no_grad;
    const at::Tensor y = fast(x);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(SameBits(y, f(x)));
  }
  EXPECT_GE(fast.stats().replays, 60) << fast.stats().why;
}

TEST_F(JitGraphTest, NothingIsReplayedWithoutTheOption) {
  const at::Tensor w = Leaf({4, 4});
  auto fast = jit([&](const at::Tensor& x) { return at::mm(x, w).tanh(); });
  for (int i = 0; i < 10; ++i) fast(at::randn({4, 4})).sum().backward();
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("JitOptions::gradients"), std::string::npos);
}

TEST_F(JitGraphTest, NoCallKeepsAnythingAlive) {
  const at::Tensor w = Leaf({4, 4});
  auto fast = jit(
      [&](const at::Tensor& x) {
        const at::Tensor h = at::mm(x, w).tanh();
        return std::tuple(h, (h * h).sum());
      },
      WithGradients());
  for (int i = 0; i < 30; ++i) {
    const at::Tensor x = at::randn({4, 4});
    c10::weak_intrusive_ptr<c10::StorageImpl> weak(
        x.storage().getWeakStorageImpl());
    {
      const auto [h, loss] = fast(x);
      if (i % 3 != 2) loss.backward();  // some graphs die as they are
    }
    sync();
    EXPECT_EQ(weak.use_count(), 1) << i;
  }
  EXPECT_GE(fast.stats().replays, 10) << fast.stats().why;
}

}  // namespace
}  // namespace tjit
