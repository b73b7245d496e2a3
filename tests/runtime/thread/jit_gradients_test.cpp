// Backward passes inside of functions: parameters get eager's gradients.
// Tests: Note [Functions] in runtime/thread/functions/function_plan.h
#include <torch/csrc/autograd/autograd.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

// A small network, its gradients by a wrapped function, SGD by the program.
class Training {
 public:
  enum class Zero : std::uint8_t { kInside, kOutside, kInPlace };
  explicit Training(Zero zero) : zero_(zero) {
    at::manual_seed(3);
    for (const std::vector<std::int64_t>& sizes :
         std::vector<std::vector<std::int64_t>>{{16, 4}, {16}, {1, 16}}) {
      parameters_.push_back(at::randn(sizes).mul_(0.5).requires_grad_());
    }
  }
  at::Tensor Loss(const at::Tensor& x, const at::Tensor& y) {
    if (zero_ == Zero::kInside) ZeroGradients();
    const at::Tensor h =
        at::tanh(at::linear(x, parameters_[0], parameters_[1]));
    const at::Tensor loss = at::mse_loss(at::linear(h, parameters_[2]), y);
    loss.backward();
    return loss.detach();
  }
  void Update() {
    const at::NoGradGuard no_grad;
    for (at::Tensor& p : parameters_) p.sub_(p.grad() * 0.1);
    if (zero_ == Zero::kOutside) ZeroGradients();
    if (zero_ == Zero::kInPlace) {
      for (at::Tensor& p : parameters_) p.mutable_grad().zero_();
    }
  }
  Tensors parameters() const { return parameters_; }

 private:
  void ZeroGradients() {
    for (at::Tensor& p : parameters_) p.mutable_grad().reset();
  }
  const Zero zero_;
  Tensors parameters_;
};

// The optimizer outside goes on where the function has read a number.
TEST_F(JitTest, GradientsBeforeAHostRead) {
  const at::AutoGradMode with_gradients(true);
  Training eager(Training::Zero::kInside), replayed(Training::Zero::kInside);
  const auto step = [](Training& net, const at::Tensor& x,
                       const at::Tensor& y) {
    const at::Tensor loss = net.Loss(x, y);
    return (loss < 0.2).item<bool>() ? loss * 2 : loss;
  };
  auto fast = jit([&](const at::Tensor& x, const at::Tensor& y) {
    return step(replayed, x, y);
  });
  for (int i = 0; i < 100; ++i) {
    const at::Tensor x = at::rand({8, 4}), y = at::rand({8, 1});
    const at::Tensor a = fast(x, y);
    EXPECT_TRUE(SameBits(a, step(eager, x, y))) << i;
    for (std::size_t p = 0; p < 3; ++p) {
      EXPECT_TRUE(SameBits(replayed.parameters()[p].grad(),
                           eager.parameters()[p].grad()))
          << i << " " << p;
    }
    replayed.Update();
    eager.Update();
  }
  EXPECT_GE(fast.stats().replays, 60) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

TEST_F(JitTest, GradientsOfParameters) {
  const at::AutoGradMode with_gradients(true);
  for (const auto zero : {Training::Zero::kInside, Training::Zero::kOutside,
                          Training::Zero::kInPlace}) {
    Training eager(zero), replayed(zero);
    auto fast = jit([&](const at::Tensor& x, const at::Tensor& y) {
      return replayed.Loss(x, y);
    });
    for (int i = 0; i < 60; ++i) {
      const at::Tensor x = at::rand({8, 4}), y = at::rand({8, 1});
      const at::Tensor a = fast(x, y);
      const at::Tensor b = eager.Loss(x, y);
      EXPECT_TRUE(SameBits(a, b)) << i;
      for (std::size_t p = 0; p < 3; ++p) {
        const at::Tensor ga = replayed.parameters()[p].grad();
        const at::Tensor gb = eager.parameters()[p].grad();
        EXPECT_TRUE(SameBits(ga, gb)) << i << " " << p;
        EXPECT_EQ(ga._version(), gb._version()) << i << " " << p;
        EXPECT_EQ(ga.is_view(), gb.is_view()) << i << " " << p;
        EXPECT_EQ(ga.use_count(), gb.use_count()) << i << " " << p;
      }
      replayed.Update();
      eager.Update();
    }
    for (std::size_t p = 0; p < 3; ++p) {
      EXPECT_TRUE(SameBits(replayed.parameters()[p], eager.parameters()[p]));
    }
    EXPECT_GE(fast.stats().replays, 40)
        << static_cast<int>(zero) << " " << fast.stats().why;
    EXPECT_EQ(fast.stats().not_same, 0);
  }
}

// A gradient that is there, a frozen parameter, a hook: the function runs.
TEST_F(JitTest, GradientsAreGuarded) {
  const at::AutoGradMode with_gradients(true);
  Training eager(Training::Zero::kOutside), replayed(Training::Zero::kOutside);
  auto fast = jit([&](const at::Tensor& x, const at::Tensor& y) {
    return replayed.Loss(x, y);
  });
  int hooks = 0, eager_hooks = 0;
  for (int i = 0; i < 80; ++i) {
    const at::Tensor x = at::rand({8, 4}), y = at::rand({8, 1});
    if (i == 40) {
      replayed.parameters()[1].requires_grad_(false);
      eager.parameters()[1].requires_grad_(false);
    }
    if (i == 50) {
      replayed.parameters()[1].requires_grad_(true);
      eager.parameters()[1].requires_grad_(true);
    }
    if (i == 60) {
      replayed.parameters()[0].register_hook([&](const at::Tensor& g) {
        ++hooks;
        return g * 2;
      });
      eager.parameters()[0].register_hook([&](const at::Tensor& g) {
        ++eager_hooks;
        return g * 2;
      });
    }
    EXPECT_TRUE(SameBits(fast(x, y), eager.Loss(x, y))) << i;
    for (std::size_t p = 0; p < 3; ++p) {
      EXPECT_TRUE(SameBits(replayed.parameters()[p].grad(),
                           eager.parameters()[p].grad()))
          << i << " " << p;
    }
    if (i % 3 == 0) continue;  // the next one adds to the gradients
    const at::NoGradGuard no_grad;
    for (const Training* t : {&replayed, &eager}) {
      for (at::Tensor& p : t->parameters()) {
        if (p.grad().defined()) p.sub_(p.grad() * 0.1);
        p.mutable_grad().reset();
      }
    }
  }
  EXPECT_EQ(hooks, eager_hooks);
  EXPECT_GE(fast.stats().replays, 20) << fast.stats().why;
}

TEST_F(JitTest, OptimizersInsideAreRefused) {
  const at::AutoGradMode with_gradients(true);
  at::Tensor w = at::rand({8}).requires_grad_();
  auto fast = jit([&](const at::Tensor& x) {
    const at::Tensor loss = (x * w).sum();
    loss.backward();
    const at::NoGradGuard no_grad;
    w.sub_(w.grad() * 0.1);
    w.mutable_grad().reset();
    return loss.detach();
  });
  for (int i = 0; i < 10; ++i) fast(at::rand({8}));
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_updates_parameter"), std::string::npos)
      << fast.stats().why;
}

// Forces from an energy: a gradient that is a result.
TEST_F(JitTest, GradientsAsResults) {
  const at::AutoGradMode with_gradients(true);
  const at::Tensor w = at::rand({3, 8});
  const auto forces = [&](const at::Tensor& x) {
    const at::Tensor position = x.detach().requires_grad_();
    const at::Tensor energy = at::tanh(at::mm(position, w)).sum();
    return -torch::autograd::grad({energy}, {position})[0];
  };
  auto fast = jit(forces, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({5, 3});
    EXPECT_TRUE(SameBits(fast(x), forces(x))) << i;
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

TEST_F(JitTest, GraphsOfArgumentsAreRefused) {
  const at::AutoGradMode with_gradients(true);
  const auto f = [](const at::Tensor& x, const at::Tensor& y) {
    const at::Tensor loss = at::mse_loss(x, y);
    loss.backward();
    return loss.detach();
  };
  auto fast = jit(f);
  const at::Tensor a = at::rand({8}).requires_grad_(),
                   b = at::rand({8}).requires_grad_();
  for (int i = 0; i < 6; ++i) fast(i % 2 == 0 ? a * 2 : b * 3, at::rand({8}));
  EXPECT_TRUE(a.grad().defined());
  EXPECT_TRUE(b.grad().defined());
  EXPECT_EQ(fast.stats().replays, 0);
}

TEST_F(JitTest, DetachedResults) {
  const at::AutoGradMode with_gradients(true);
  const at::Tensor w = at::rand({8}).requires_grad_();
  const auto f = [&](const at::Tensor& x) {
    const at::NoGradGuard no_grad;
    return Tensors{x * w + 1, w.detach()};
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 10; ++i) {
    const at::Tensor x = at::rand({8});
    const Tensors a = fast(x), b = f(x);
    for (int r = 0; r < 2; ++r) {
      EXPECT_TRUE(SameBits(a[r], b[r])) << r;
      EXPECT_FALSE(a[r].requires_grad()) << r;
      EXPECT_EQ(a[r].is_view(), b[r].is_view()) << r;
    }
  }
  EXPECT_GE(fast.stats().replays, 6) << fast.stats().why;
}

// Parameters over one storage: each is asked.
TEST_F(JitTest, FlattenedParameters) {
  const at::AutoGradMode with_gradients(true);
  const at::Tensor flat = at::rand({16});
  at::Tensor w1 = flat.narrow(0, 0, 8).detach().requires_grad_();
  at::Tensor w2 = flat.narrow(0, 8, 8).detach().requires_grad_();
  const auto f = [&](const at::Tensor& x) {
    const at::Tensor loss = (x * w1 + (x * w2).tanh()).sum();
    loss.backward();
    return loss.detach();
  };
  auto fast = jit(f, {.verify_every = 0});
  const auto step = [&] {
    const at::Tensor x = at::rand({8});
    const at::Tensor y = fast(x);
    const Tensors gradients = {w1.grad(), w2.grad()};
    w1.mutable_grad().reset();
    w2.mutable_grad().reset();
    EXPECT_TRUE(SameBits(y, f(x)));
    EXPECT_TRUE(SameBits(gradients[0], w1.grad()));
    EXPECT_TRUE(SameBits(gradients[1], w2.grad()));
    w1.mutable_grad().reset();
    w2.mutable_grad().reset();
  };
  for (int i = 0; i < 8; ++i) step();
  EXPECT_GE(fast.stats().replays, 4) << fast.stats().why;
  w2.requires_grad_(false);
  for (int i = 0; i < 6; ++i) step();
  w2.requires_grad_(true);
  for (int i = 0; i < 6; ++i) step();
  w2.set_data(at::rand({8}));
  for (int i = 0; i < 6; ++i) step();
}

// A leaf that is made inside, and is gone with its gradient.
TEST_F(JitTest, LeavesInside) {
  const at::AutoGradMode with_gradients(true);
  const at::Tensor w = at::rand({3, 8});
  const auto forces = [&](const at::Tensor& x) {
    const at::Tensor p = x.detach().requires_grad_();
    at::tanh(at::mm(p, w)).sum().backward();
    return -p.grad();
  };
  auto fast = jit(forces, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({5, 3});
    EXPECT_TRUE(SameBits(fast(x), forces(x))) << i;
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

}  // namespace
}  // namespace tjit
