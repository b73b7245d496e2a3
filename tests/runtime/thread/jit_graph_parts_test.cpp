// Results with a graph where the function writes into views, calls ops at the
// call, or has several results: Note [Results with a graph] in
// runtime/thread/functions/gradient_graph.h.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>

#include "tests/runtime/thread/jit_graph_testing.h"

namespace tjit {
namespace {

// 60 steps with `forward`, three of which have a penalty on the gradients, have
// eager's gradients, and half of them are replays.
template <class F>
void ExpectReplayed(const F& forward, const Tensors& leaves) {
  const Tensors copies = CopyOf(leaves);
  const auto eager = [&](const at::Tensor& x) { return forward(copies, x); };
  auto fast = jit([&](const at::Tensor& x) { return forward(leaves, x); },
                  WithGradients());
  ExpectAllSame(DescendWithPenalty(fast, leaves, 60, 20),
                DescendWithPenalty(eager, copies, 60, 20));
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
}

// `out[:, 0:2] = ...`, a mask, and a view that is changed in place.
TEST_F(JitGraphTest, WritesIntoViews) {
  const Tensors leaves = {Leaf({4, 6}), Leaf({6, 2})};
  const auto forward = [](const Tensors& p, const at::Tensor& x) {
    const at::Tensor h = at::mm(x, p[0]);
    h.select(1, 0).mul_(2);
    at::Tensor out = at::zeros({8, 4});
    out.narrow(1, 0, 2).copy_(at::mm(h.tanh(), p[1]));
    out.slice(1, 2, 4).copy_(h.narrow(1, 1, 2));
    out.select(1, 3).masked_fill_(out.select(1, 2) > 0, 0.5);
    return out;
  };
  ExpectReplayed(forward, leaves);
}

// What is written has no node between: the write's edge leaves the graph.
TEST_F(JitGraphTest, WritesIntoViewsOfWhatComesFromOutside) {
  const Tensors leaves = {Leaf({4, 6}), Leaf({8, 3}), Leaf({8})};
  const Tensors copies = CopyOf(leaves);
  const auto forward = [](const Tensors& p, const at::Tensor& x) {
    const at::Tensor h = at::mm(x, p[0]);
    h.narrow(1, 0, 3).add_(p[1]);
    h.narrow(1, 3, 3).mul_(p[1]);
    const at::Tensor out = at::zeros({8, 8});
    out.diagonal().copy_(p[2]);
    out.narrow(1, 1, 4).copy_(x);
    return out.cumsum(1).narrow(1, 0, 6) * h;
  };
  const auto run = [&](auto& f, const Tensors& p) {
    at::manual_seed(7);
    Tensors seen;
    for (int i = 0; i < 60; ++i) {
      const at::Tensor x = at::randn({8, 4}).requires_grad_(true);
      at::Tensor loss = f(x).pow(2).mean();
      if (i % 20 == 19) {  // another pass than before
        const at::Tensor g =
            torch::autograd::grad({loss}, {p[0]}, {}, /*retain_graph=*/true,
                                  /*create_graph=*/true)[0];
        loss = loss + g.pow(2).sum();
      }
      StepDown(loss, p, &seen);
      seen.push_back(x.grad().clone());
    }
    return seen;
  };
  auto fast = jit([&](const at::Tensor& x) { return forward(leaves, x); },
                  WithGradients());
  auto eager = [&](const at::Tensor& x) { return forward(copies, x); };
  ExpectAllSame(run(fast, leaves), run(eager, copies));
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
}

// Of graphs that share no node eager releases each behind its own pass, with
// steps of an optimizer in between. A call has one node for both.
TEST_F(JitGraphTest, SeparatePassesThroughSeparateGraphs) {
  const Tensors leaves = {Leaf({4, 2}), Leaf({4, 3})};
  const Tensors copies = CopyOf(leaves);
  const auto heads = [](const Tensors& p, const at::Tensor& h) {
    return Tensors{at::mm(h, p[0]).tanh(), at::mm(h, p[1]).exp()};
  };
  // `together` steps of one pass through both come first.
  const auto run = [&](auto& f, const Tensors& p, int together) {
    at::manual_seed(3);
    Tensors seen;
    for (int i = 0; i < together + 20; ++i) {
      const at::Tensor h = at::randn({8, 4}).requires_grad_(true);
      const Tensors both = f(h);
      if (i < together) {
        StepDown(both[0].sum() + both[1].sum(), p, &seen);
      } else {
        StepDown(both[0].sum(), {p[0]}, &seen);
        StepDown(both[1].sum(), {p[1]}, &seen);
        EXPECT_THROW(both[0].sum().backward(), c10::Error) << i;
      }
      seen.push_back(h.grad().clone());
    }
    return seen;
  };
  for (const int together : {0, 1, 12}) {
    auto fast = jit([&](const at::Tensor& h) { return heads(leaves, h); },
                    WithGradients());
    auto eager = [&](const at::Tensor& h) { return heads(copies, h); };
    ExpectAllSame(run(fast, leaves, together), run(eager, copies, together));
    EXPECT_GE(fast.stats().replays, together == 12 ? 4 : 0);
    EXPECT_THAT(fast.stats().why, ::testing::HasSubstr("jit_graph_parts"));
  }
}

// They are parts of their own, in the backward pass as well.
TEST_F(JitGraphTest, OpsAtTheCall) {
  const Tensors leaves = {Leaf({4, 4}), Leaf({10, 4})};
  const at::Tensor indices = at::randint(10, {20});
  const at::Tensor offsets = at::arange(8) * 2;
  const at::Tensor count = at::zeros({}, at::kLong);  // nothing depends on it
  const auto forward = [&](const Tensors& p, const at::Tensor& x) {
    count.add_(1);
    const at::Tensor m = at::mm(p[0], p[0].t()) + 4 * at::eye(4);
    const at::Tensor y = at::linalg_solve(m, x.t().tanh() * 2).t();
    const at::Tensor bag =
        std::get<0>(at::embedding_bag(p[1], indices, offsets));
    return at::linalg_solve(m, (y + bag).t()).t() * at::logdet(m);
  };
  const Stats before = stats();
  ExpectReplayed(forward, leaves);
  EXPECT_GT((stats() - before).ops_replayed, 30 * 8);
  EXPECT_EQ(count.item<std::int64_t>(), 120);  // once a call
}

// The solver reads what the function writes, before or behind the write, and
// would find something else where it runs again.
TEST_F(JitGraphTest, OpsAtTheCallThatReadWhatIsWrittenAreRefused) {
  const at::Tensor w = Leaf({4, 4});
  for (const bool reads_first : {false, true}) {
    const auto forward = [&](at::Tensor& state, const at::Tensor& x) {
      at::Tensor inverse;
      if (reads_first) inverse = at::linalg_inv(state);
      state.mul_(1.01);
      if (!reads_first) inverse = at::linalg_inv(state);
      return at::mm(inverse, at::mm(x, w).t());
    };
    at::Tensor mine = at::eye(4) * 4, others = at::eye(4) * 4;
    auto fast = jit([&](const at::Tensor& x) { return forward(mine, x); },
                    WithGradients());
    for (int i = 0; i < 12; ++i) {
      const at::Tensor x = at::randn({8, 4});
      const at::Tensor got = fast(x);
      EXPECT_TRUE(SameBits(got, forward(others, x)));
      got.sum().backward();
    }
    EXPECT_THAT(fast.stats().why, ::testing::HasSubstr("jit_graph_once"));
  }
}

// The call has made the base of the result, and what runs again gives a view.
TEST_F(JitGraphTest, ResultsThatAreViewsOfWhatIsMadeRunAgain) {
  const at::Tensor w = Leaf({8, 8});
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> views = {
      [](const at::Tensor& y) { return y.t(); },
      [](const at::Tensor& y) { return y.slice(0, 1); },
      [](const at::Tensor& y) { return y.slice(1, 2, 6); },
      [](const at::Tensor& y) { return y.view({4, 2, 4}).permute({2, 0, 1}); },
      [](const at::Tensor& y) { return y[2].expand({3, 8}); },
      [](const at::Tensor& y) { return y.t().contiguous().t(); }};
  for (std::size_t v = 0; v < views.size(); ++v) {
    const auto forward = [&](const at::Tensor& x) {
      return views[v](at::mm(x, w).tanh());
    };
    auto fast = jit(forward, WithGradients());
    const auto gradient_of = [&](auto& f, const at::Tensor& x, bool is_other) {
      w.mutable_grad() = at::Tensor();
      const at::Tensor y = f(x);
      (is_other ? y.sum() : y.pow(2).sum()).backward();
      return w.grad().clone();
    };
    for (int i = 0; i < 16; ++i) {
      const at::Tensor x = at::randn({4, 8});
      EXPECT_TRUE(SameBits(gradient_of(fast, x, i == 12),
                           gradient_of(forward, x, i == 12)))
          << v << ": " << i;
    }
    EXPECT_GT(fast.stats().replays, 4) << v << ": " << fast.stats().why;
  }
}

// A backward pass that was not seen before runs the function again, whose
// results nobody has written into.
TEST_F(JitGraphTest, AWriteIntoAResultThatTheGraphKeepsIsAnError) {
  const at::Tensor w = Leaf({8, 8});
  auto fast = jit([&](const at::Tensor& x) { return at::mm(x, w).tanh(); },
                  WithGradients());
  for (int i = 0; i < 30; ++i) {
    const at::Tensor x = at::randn({3, 8}).requires_grad_();
    at::Tensor y = fast(x);
    if (i % 10 == 9) y.mul_(2);
    if (i % 10 != 9) {
      y.sum().backward();
      continue;
    }
    EXPECT_THAT([&] { y.sum().backward(); },
                ::testing::ThrowsMessage<c10::Error>(
                    ::testing::HasSubstr("modified by an inplace operation")))
        << i;
  }
  EXPECT_GT(fast.stats().replays, 0) << fast.stats().why;
}

// Nothing is returned that has a graph, but what was passed, or was there, has
// one when the function has returned.
TEST_F(JitGraphTest, GraphsThatArgumentsGainAreRefused) {
  const at::Tensor w = Leaf({4, 4});
  at::Tensor outside = at::zeros({4, 4});
  std::vector<std::function<at::Tensor(at::Tensor)>> functions = {
      [&](at::Tensor x) { return x.add_(w); },
      [&](at::Tensor x) { return x.sub_(w, 0.5), x.detach() * 2; },
      [&](at::Tensor x) { return x[0].copy_(w[0]), at::ones({2}); },
      [&](at::Tensor x) { return x.lerp_(w, 0.25), x.detach().sum(); },
      [&](at::Tensor x) { return outside.copy_(at::add(x, w)), x * 2; },
      [&](at::Tensor x) { return x.requires_grad_(), x.detach() * 2; }};
  for (const bool has_gradients : {false, true}) {
    for (auto& f : functions) {
      auto fast = jit(f, has_gradients ? WithGradients() : JitOptions());
      for (int i = 0; i < 8; ++i) {
        const at::Tensor x = at::randn({4, 4});
        const auto run = [&](auto& any) {
          outside.detach_().zero_();
          const at::Tensor mine = x.clone();
          w.mutable_grad() = at::Tensor();
          const at::Tensor got = any(mine);
          (mine.sum() + outside.sum() + w.sum()).backward();
          EXPECT_TRUE(mine.requires_grad() || outside.requires_grad());
          return Tensors{got.detach(), mine.detach(), w.grad().clone()};
        };
        const Tensors want = run(f), got = run(fast);
        for (std::size_t k = 0; k < want.size(); ++k) {
          EXPECT_TRUE(SameBits(want[k], got[k])) << i << ": " << k;
        }
      }
      EXPECT_THAT(fast.stats().why, ::testing::HasSubstr("jit_graph_gained"));
    }
  }
}

TEST_F(JitGraphTest, HooksThatArgumentsGainAreRefused) {
  for (const bool has_one : {false, true}) {
    int calls = 0;
    auto fast = jit([&](const at::Tensor& x) {
      x.register_hook([&](const at::Tensor&) { ++calls; });
      return x.detach() * 2;
    });
    for (int i = 1; i <= 8; ++i) {
      const at::Tensor x = Leaf({4});
      if (has_one) x.register_hook([](const at::Tensor&) {});
      fast(x);
      x.sum().backward();
      EXPECT_EQ(calls, i);
    }
    EXPECT_THAT(fast.stats().why, ::testing::HasSubstr("jit_graph_node"));
  }
}

TEST_F(JitGraphTest, GradientsThatArgumentsKeepAreRefused) {
  auto fast = jit([](const at::Tensor& x) {
    x.retain_grad();
    return x.detach() * 2;
  });
  for (int i = 0; i < 8; ++i) {
    const at::Tensor x = Leaf({4}) * 1;
    fast(x);
    x.sum().backward();
    EXPECT_TRUE(x.retains_grad()) << i;
    EXPECT_TRUE(x.grad().defined()) << i;
  }
  EXPECT_THAT(fast.stats().why, ::testing::HasSubstr("jit_graph_node"));
}

// As models with a cache of keys are trained. cat() makes zeros of no elements
// in its backward pass.
TEST_F(JitGraphTest, CachesThatBeginEmpty) {
  const Tensors leaves = {Leaf({4, 4})};
  const auto forward = [](const Tensors& p, const at::Tensor& x) {
    const at::Tensor keys = at::mm(x, p[0]);
    const at::Tensor cached = at::cat({at::empty({0}), keys}, 0);
    return at::mm(at::softmax(at::mm(x, cached.t()), -1), cached * keys);
  };
  ExpectReplayed(forward, leaves);
}

// A result that an op at the call has made, beside others.
TEST_F(JitGraphTest, ResultsOfOpsAtTheCall) {
  const Tensors leaves = {Leaf({4, 4})};
  const auto forward = [](const Tensors& p, const at::Tensor& x) {
    return at::linalg_solve(at::mm(p[0], p[0].t()) + 4 * at::eye(4), x.t());
  };
  ExpectReplayed(forward, leaves);
}

// What is outside gets a history by it, which no replay would give it.
TEST_F(JitGraphTest, WritesIntoViewsOfWhatIsOutsideAreRefused) {
  const at::Tensor w = Leaf({4, 2});
  const auto forward = [&](const at::Tensor& buffer, const at::Tensor& x) {
    buffer.narrow(1, 0, 2).copy_(at::mm(x, w));
    return (buffer * 2).sum();
  };
  at::Tensor captured = at::zeros({8, 4}), expected_buffer = at::zeros({8, 4});
  auto fast = jit([&](const at::Tensor& x) { return forward(captured, x); },
                  WithGradients());
  for (int i = 0; i < 12; ++i) {
    const at::Tensor x = at::randn({8, 4});
    captured.detach_();
    expected_buffer.detach_();
    const at::Tensor expected = forward(expected_buffer, x), got = fast(x);
    EXPECT_TRUE(SameBits(got, expected)) << i;
    EXPECT_TRUE(captured.requires_grad()) << i;
    EXPECT_EQ(captured.grad_fn()->name(), expected_buffer.grad_fn()->name());
  }
  EXPECT_EQ(fast.stats().replays, 0);
}

// Two heads over what a graph outside has made, and passes through one of them.
TEST_F(JitGraphTest, TwoResultsUseOneArgument) {
  const Tensors leaves = {Leaf({4, 4}), Leaf({4, 2}), Leaf({4, 3})};
  const Tensors copies = CopyOf(leaves);
  const auto heads = [](const Tensors& p, const at::Tensor& h) {
    return Tensors{at::mm(h.tanh(), p[1]), at::mm(h, p[2]).exp()};
  };
  const auto run = [&](auto& f, const Tensors& p) {
    at::manual_seed(3);
    Tensors seen;
    for (int i = 0; i < 60; ++i) {
      const at::Tensor x = at::randn({8, 4});
      const Tensors both = f(at::mm(x, p[0]).sin());
      at::Tensor loss = both[static_cast<std::size_t>(i % 3 == 2)].sum();
      if (i % 3 == 0) loss = loss + both[1].mean();
      StepDown(loss, p, &seen);
    }
    return seen;
  };
  auto fast = jit([&](const at::Tensor& h) { return heads(leaves, h); },
                  WithGradients());
  auto eager = [&](const at::Tensor& h) { return heads(copies, h); };
  ExpectAllSame(run(fast, leaves), run(eager, copies));
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
}

}  // namespace
}  // namespace tjit
