// Whole training steps as functions: parameters, optimizer states and losses
// are eager's. Tests: runtime/include/tjit/optim.h
#include <tjit/optim.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

torch::nn::Sequential MakeNetwork() {
  at::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(4, 16), torch::nn::Tanh(),
                               torch::nn::Linear(16, 1));
}

// A network with its optimizer, and one step of training.
template <class Optimizer>
struct Trainer {
  using Options = decltype([] {
    if constexpr (std::is_same_v<Optimizer, torch::optim::SGD>) {
      return torch::optim::SGDOptions(0.1);
    } else if constexpr (std::is_same_v<Optimizer, torch::optim::Adam>) {
      return torch::optim::AdamOptions();
    } else if constexpr (std::is_same_v<Optimizer, torch::optim::AdamW>) {
      return torch::optim::AdamWOptions();
    } else if constexpr (std::is_same_v<Optimizer, torch::optim::RMSprop>) {
      return torch::optim::RMSpropOptions();
    } else {
      return torch::optim::AdagradOptions();
    }
  }());

  explicit Trainer(const Options& options)
      : net(MakeNetwork()), optimizer(net->parameters(), options) {}

  at::Tensor Step(torch::optim::Optimizer& o, const at::Tensor& x,
                  const at::Tensor& y) {
    o.zero_grad();
    const at::Tensor loss = at::mse_loss(net->forward(x), y);
    loss.backward();
    o.step();
    return loss.detach();
  }
  void SetRate(double rate) {
    for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
  }

  torch::nn::Sequential net;
  Optimizer optimizer;
};

template <class Optimizer>
void ExpectSameState(const Trainer<Optimizer>& a, const Trainer<Optimizer>& b) {
  const Tensors p = a.net->parameters(), q = b.net->parameters();
  for (std::size_t i = 0; i < p.size(); ++i) {
    EXPECT_TRUE(SameBits(p[i], q[i])) << i;
    EXPECT_TRUE(SameBits(p[i].grad(), q[i].grad())) << i;
    EXPECT_EQ(p[i]._version(), q[i]._version()) << i;
  }
  EXPECT_EQ(a.optimizer.state().size(), b.optimizer.state().size());
}

// Trains with a schedule of the rate, replayed and eagerly.
template <class Optimizer>
void ExpectSameTraining(const typename Trainer<Optimizer>::Options& options) {
  const at::AutoGradMode with_gradients(true);
  Trainer<Optimizer> replayed(options), eager(options);
  auto fast = jit([&](Optimizer& o, const at::Tensor& x, const at::Tensor& y) {
    return replayed.Step(o, x, y);
  });
  for (int i = 0; i < 60; ++i) {
    if (i >= 30 && i % 5 == 0) {
      replayed.SetRate(0.05 / i);
      eager.SetRate(0.05 / i);
    }
    const at::Tensor x = at::rand({8, 4}), y = at::rand({8, 1});
    const at::Tensor a = fast(replayed.optimizer, x, y);
    EXPECT_TRUE(SameBits(a, eager.Step(eager.optimizer, x, y))) << i;
    ExpectSameState(replayed, eager);
  }
  EXPECT_GE(fast.stats().replays, 35) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
  // What the state counts, and not the number of calls, decides the next step.
  const at::Tensor x = at::rand({8, 4}), y = at::rand({8, 1});
  replayed.Step(replayed.optimizer, x, y);
  eager.Step(eager.optimizer, x, y);
  EXPECT_TRUE(SameBits(fast(replayed.optimizer, x, y),
                       eager.Step(eager.optimizer, x, y)));
  ExpectSameState(replayed, eager);
}

TEST_F(JitTest, TrainingWithSgd) {
  using torch::optim::SGDOptions;
  ExpectSameTraining<torch::optim::SGD>(SGDOptions(0.1));
  ExpectSameTraining<torch::optim::SGD>(
      SGDOptions(0.1).momentum(0.9).weight_decay(1e-3));
  ExpectSameTraining<torch::optim::SGD>(
      SGDOptions(0.1).momentum(0.9).nesterov(true));
  ExpectSameTraining<torch::optim::SGD>(
      SGDOptions(0.1).momentum(0.9).dampening(0.25));
}

TEST_F(JitTest, TrainingWithAdam) {
  using torch::optim::AdamOptions;
  ExpectSameTraining<torch::optim::Adam>(AdamOptions(0.01));
  ExpectSameTraining<torch::optim::Adam>(
      AdamOptions(0.01).weight_decay(1e-3).amsgrad(true));
}

TEST_F(JitTest, TrainingWithAdamW) {
  ExpectSameTraining<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01));
}

TEST_F(JitTest, TrainingWithRmsprop) {
  using torch::optim::RMSpropOptions;
  ExpectSameTraining<torch::optim::RMSprop>(RMSpropOptions(0.01));
  ExpectSameTraining<torch::optim::RMSprop>(
      RMSpropOptions(0.01).centered(true).momentum(0.5).weight_decay(1e-3));
}

TEST_F(JitTest, TrainingWithAdagrad) {
  using torch::optim::AdagradOptions;
  ExpectSameTraining<torch::optim::Adagrad>(AdagradOptions(0.01));
  ExpectSameTraining<torch::optim::Adagrad>(
      AdagradOptions(0.01).lr_decay(1e-3).weight_decay(1e-3));
}

// Two groups with options of their own, passed as what it derives from.
TEST_F(JitTest, GroupsOfParameters) {
  const at::AutoGradMode with_gradients(true);
  using torch::optim::AdamOptions;
  const auto make = [](const torch::nn::Sequential& net) {
    const Tensors p = net->parameters();
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(Tensors{p[0], p[1]},
                        std::make_unique<AdamOptions>(0.01));
    groups.emplace_back(Tensors{p[2], p[3]},
                        std::make_unique<AdamOptions>(0.002));
    return torch::optim::Adam(groups, AdamOptions(0.01));
  };
  const torch::nn::Sequential a = MakeNetwork(), b = MakeNetwork();
  torch::optim::Adam adam_a = make(a), adam_b = make(b);
  const auto step = [](torch::nn::Sequential net, torch::optim::Optimizer& o,
                       const at::Tensor& x) {
    const at::Tensor loss = net->forward(x).square().mean();
    loss.backward();
    o.step();
    o.zero_grad();
    return loss.detach();
  };
  auto fast = jit([&](torch::optim::Optimizer& o, const at::Tensor& x) {
    return step(a, o, x);
  });
  torch::optim::Optimizer& passed = adam_a;
  for (int i = 0; i < 40; ++i) {
    const at::Tensor x = at::rand({8, 4});
    EXPECT_TRUE(SameBits(fast(passed, x), step(b, adam_b, x))) << i;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(SameBits(a->parameters()[i], b->parameters()[i])) << i;
  }
  EXPECT_GE(fast.stats().replays, 25) << fast.stats().why;
}

// The networks of a game, with optimizers of the same options and steps.
TEST_F(JitTest, TwoOptimizers) {
  const at::AutoGradMode with_gradients(true);
  using torch::optim::Adam, torch::optim::AdamOptions;
  struct Game {
    torch::nn::Sequential maker = MakeNetwork(),
                          judge =
                              torch::nn::Sequential(torch::nn::Linear(1, 1));
    Adam of_maker{maker->parameters(), AdamOptions(0.01)},
        of_judge{judge->parameters(), AdamOptions(0.01)};
  };
  const auto play = [](Game& g, Adam& a, Adam& b, const at::Tensor& real) {
    b.zero_grad();
    const at::Tensor fake = g.maker->forward(at::randn({8, 4}));
    const at::Tensor loss =
        at::softplus(-g.judge->forward(real)).mean() +
        at::softplus(g.judge->forward(fake.detach())).mean();
    loss.backward();
    b.step();
    a.zero_grad();
    at::softplus(-g.judge->forward(fake)).mean().backward();
    a.step();
    return loss.detach();
  };
  Game replayed, eager;
  eager.judge->parameters()[0].set_data(
      replayed.judge->parameters()[0].detach().clone());
  eager.judge->parameters()[1].set_data(
      replayed.judge->parameters()[1].detach().clone());
  auto fast = jit([&](Adam& a, Adam& b, const at::Tensor& real) {
    return play(replayed, a, b, real);
  });
  for (int i = 0; i < 60; ++i) {
    if (i == 40) {
      replayed.of_judge.param_groups()[0].options().set_lr(0.002);
      eager.of_judge.param_groups()[0].options().set_lr(0.002);
    }
    const at::Tensor real = at::rand({8, 1});
    at::manual_seed(i);
    const at::Tensor a = fast(replayed.of_maker, replayed.of_judge, real);
    at::manual_seed(i);
    EXPECT_TRUE(SameBits(a, play(eager, eager.of_maker, eager.of_judge, real)))
        << i;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(SameBits(replayed.maker->parameters()[i],
                         eager.maker->parameters()[i]));
  }
  EXPECT_GE(fast.stats().replays, 40) << fast.stats().why;
}

// Two steps a call, one that is not taken, a rate that the function changes.
TEST_F(JitTest, OtherUsesOfOptimizersAreRefused) {
  const at::AutoGradMode with_gradients(true);
  using Body = std::function<void(Trainer<torch::optim::Adam>&)>;
  const std::vector<Body> bodies = {
      [](auto& t) {
        t.optimizer.step();
        t.optimizer.step();
      },
      [](auto&) {},
      [](auto& t) {
        t.optimizer.step();
        t.SetRate(t.optimizer.param_groups()[0].options().get_lr() * 0.9);
      },
  };
  for (const Body& body : bodies) {
    Trainer<torch::optim::Adam> replayed({}), eager({});
    const auto step = [&](Trainer<torch::optim::Adam>& t, const at::Tensor& x) {
      t.optimizer.zero_grad();
      const at::Tensor loss = t.net->forward(x).square().mean();
      loss.backward();
      body(t);
      return loss.detach();
    };
    auto fast = jit([&](torch::optim::Adam&, const at::Tensor& x) {
      return step(replayed, x);
    });
    for (int i = 0; i < 12; ++i) {
      const at::Tensor x = at::rand({8, 4});
      const at::Tensor a = fast(replayed.optimizer, x);
      EXPECT_TRUE(SameBits(a, step(eager, x))) << i;
      ExpectSameState(replayed, eager);
    }
    EXPECT_EQ(fast.stats().replays, 0);
    EXPECT_NE(fast.stats().why.find("jit_"), std::string::npos);
  }
}

// An optimizer that the program wrote does what nobody knows.
class Halving : public torch::optim::SGD {
 public:
  using SGD::SGD;
  torch::Tensor step(LossClosure closure) override {
    for (auto& group : param_groups()) {
      group.options().set_lr(group.options().get_lr() / 2);
    }
    return SGD::step(closure);
  }
};

TEST_F(JitTest, UnknownOptimizersAreRefused) {
  const at::AutoGradMode with_gradients(true);
  const torch::nn::Sequential a = MakeNetwork(), b = MakeNetwork();
  Halving of_a(a->parameters(), torch::optim::SGDOptions(0.5)),
      of_b(b->parameters(), torch::optim::SGDOptions(0.5));
  const auto step = [](torch::nn::Sequential net, Halving& o,
                       const at::Tensor& x) {
    o.zero_grad();
    net->forward(x).square().mean().backward();
    o.step(nullptr);
    return x + 1;
  };
  auto fast =
      jit([&](Halving& o, const at::Tensor& x) { return step(a, o, x); });
  for (int i = 0; i < 10; ++i) {
    const at::Tensor x = at::rand({8, 4});
    fast(of_a, x);
    step(b, of_b, x);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(SameBits(a->parameters()[i], b->parameters()[i])) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_optimizer"), std::string::npos)
      << fast.stats().why;
}

// Parameters of another optimizer than the one that is passed are not updated
// by a replay, and neither is what no optimizer has.
TEST_F(JitTest, ParametersOfOthersAreRefused) {
  const at::AutoGradMode with_gradients(true);
  const at::Tensor w = at::rand({8}).requires_grad_(),
                   v = at::rand({8}).requires_grad_();
  torch::optim::SGD of_w({w}, torch::optim::SGDOptions(0.1)),
      of_v({v}, torch::optim::SGDOptions(0.1));
  auto fast = jit([&](torch::optim::SGD& o, const at::Tensor& x) {
    o.zero_grad();
    of_v.zero_grad();
    (x * w * v).sum().backward();
    o.step();
    of_v.step();
  });
  for (int i = 0; i < 10; ++i) fast(of_w, at::rand({8}));
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_updates_parameter"), std::string::npos)
      << fast.stats().why;
}

// Trains two networks by one step, replayed and eagerly; before call 20
// `change` meets both. Returns what is known of the replayed function.
template <class Optimizer>
JitStats ExpectSameThrough(
    const typename Trainer<Optimizer>::Options& options,
    const std::function<void(Trainer<Optimizer>&)>& change) {
  const at::AutoGradMode with_gradients(true);
  Trainer<Optimizer> replayed(options), eager(options);
  auto fast = jit([&](Optimizer& o, const at::Tensor& x, const at::Tensor& y) {
    return replayed.Step(o, x, y);
  });
  for (int i = 0; i < 40; ++i) {
    if (i == 20) {
      change(replayed);
      change(eager);
    }
    const at::Tensor x = at::rand({8, 4}), y = at::rand({8, 1});
    const at::Tensor a = fast(replayed.optimizer, x, y);
    EXPECT_TRUE(SameBits(a, eager.Step(eager.optimizer, x, y))) << i;
    ExpectSameState(replayed, eager);
  }
  EXPECT_GE(fast.stats().replays, 12) << fast.stats().why;
  return fast.stats();
}

// One layer takes a step more than the others.
TEST_F(JitTest, NumbersOfStepsThatDiffer) {
  const auto step_the_head = [](auto& t) {
    t.optimizer.zero_grad();
    t.net[2]
        ->template as<torch::nn::Linear>()
        ->forward(at::ones({1, 16}))
        .sum()
        .backward();
    t.optimizer.step();
  };
  ExpectSameThrough<torch::optim::AdamW>({}, step_the_head);
  ExpectSameThrough<torch::optim::Adam>(
      torch::optim::AdamOptions(0.01).weight_decay(1e-3), step_the_head);
  ExpectSameThrough<torch::optim::Adagrad>(
      torch::optim::AdagradOptions(0.01).lr_decay(0.1), step_the_head);
}

// What a state, a parameter or a group holds is another tensor, while the old
// one lives.
TEST_F(JitTest, TensorsThatAreReplaced) {
  Tensors kept;
  const auto replace_states = [&](Trainer<torch::optim::Adam>& t) {
    for (auto& [key, state] : t.optimizer.state()) {
      auto& its = static_cast<torch::optim::AdamParamState&>(*state);
      kept.push_back(its.exp_avg());
      its.exp_avg(its.exp_avg() * 0.5);
    }
  };
  ExpectSameThrough<torch::optim::Adam>({}, replace_states);
  const Tensors then = {kept[0].clone(), kept[1].clone()};
  const auto set_data = [&](Trainer<torch::optim::Adam>& t) {
    for (at::Tensor& p : t.net->parameters()) {
      kept.push_back(p.detach());
      p.set_data(p.detach() * 0.5);
    }
  };
  ExpectSameThrough<torch::optim::Adam>({}, set_data);
  EXPECT_TRUE(SameBits(kept[0], then[0]));
  EXPECT_TRUE(SameBits(kept[1], then[1]));
}

// A function that only steps: it takes the gradient that is there.
TEST_F(JitTest, StepsAlone) {
  const at::AutoGradMode with_gradients(true);
  for (const std::int64_t size : {1, 8}) {
    at::Tensor a = at::ones({size}).requires_grad_(),
               b = at::ones({size}).requires_grad_();
    torch::optim::SGD of_a({a}, torch::optim::SGDOptions(0.1)),
        of_b({b}, torch::optim::SGDOptions(0.1));
    auto fast = jit([](torch::optim::SGD& o) {
      o.step();
      o.zero_grad();
    });
    Tensors kept;
    for (int i = 0; i < 40; ++i) {
      if (i % 4 != 3) {
        const at::Tensor gradient = at::rand({size});
        kept.push_back(gradient);
        a.mutable_grad() = gradient;
        b.mutable_grad() = gradient.clone();
      }
      if (i == 20) {
        a.set_data(a.detach() * 2);
        b.set_data(b.detach() * 2);
      }
      fast(of_a);
      of_b.step();
      of_b.zero_grad();
      EXPECT_TRUE(SameBits(a, b)) << size << " " << i;
      EXPECT_EQ(a.grad().defined(), b.grad().defined()) << size << " " << i;
    }
    EXPECT_GE(fast.stats().replays, 15) << size << fast.stats().why;
  }
}

// Gradients of several calls are added up, then one call steps.
TEST_F(JitTest, GradientsThatAddUp) {
  const at::AutoGradMode with_gradients(true);
  Trainer<torch::optim::SGD> replayed(torch::optim::SGDOptions(0.1)),
      eager(torch::optim::SGDOptions(0.1));
  const auto step = [](auto& t, torch::optim::SGD& o, const at::Tensor& x,
                       bool is_last) {
    const at::Tensor loss = t.net->forward(x).square().mean();
    loss.backward();
    if (is_last) {
      o.step();
      o.zero_grad();
    }
    return loss.detach();
  };
  auto fast = jit([&](torch::optim::SGD& o, const at::Tensor& x, bool is_last) {
    return step(replayed, o, x, is_last);
  });
  for (int i = 0; i < 400; ++i) {
    const at::Tensor x = at::rand({8, 4});
    const at::Tensor a = fast(replayed.optimizer, x, i % 4 == 3);
    EXPECT_TRUE(SameBits(a, step(eager, eager.optimizer, x, i % 4 == 3))) << i;
  }
  ExpectSameState(replayed, eager);
  EXPECT_GE(fast.stats().replays, 350) << fast.stats().why;
  EXPECT_LE(fast.stats().plans, 8);
}

// A parameter that the pass does not reach gets a gradient from elsewhere.
TEST_F(JitTest, AGradientThatAppears) {
  const at::AutoGradMode with_gradients(true);
  const auto make = [] { return at::ones({4}).requires_grad_(); };
  Tensors a = {make(), make()}, b = {make(), make()};
  torch::optim::SGD of_a(a, torch::optim::SGDOptions(0.1)),
      of_b(b, torch::optim::SGDOptions(0.1));
  const auto step = [](const Tensors& p, torch::optim::SGD& o,
                       const at::Tensor& x) {
    (p[0] * x).sum().backward();
    o.step();
    return x + 1;
  };
  auto fast = jit(
      [&](torch::optim::SGD& o, const at::Tensor& x) { return step(a, o, x); });
  for (int i = 0; i < 40; ++i) {
    of_a.zero_grad();
    of_b.zero_grad();
    if (i >= 8 && i % 3 == 0) {
      a[1].mutable_grad() = at::ones({4});
      b[1].mutable_grad() = at::ones({4});
    }
    const at::Tensor x = at::rand({4});
    fast(of_a, x);
    step(b, of_b, x);
    EXPECT_TRUE(SameBits(a[0], b[0])) << i;
    EXPECT_TRUE(SameBits(a[1], b[1])) << i;
  }
  EXPECT_GE(fast.stats().replays, 20) << fast.stats().why;
}

// Options that come to be equal, and others that stop to be.
TEST_F(JitTest, OptionsOfEqualValues) {
  const at::AutoGradMode with_gradients(true);
  using torch::optim::SGDOptions;
  const auto make = [](const torch::nn::Sequential& net) {
    const Tensors p = net->parameters();
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (int g = 0; g < 2; ++g) {
      groups.emplace_back(
          Tensors{p[2 * g], p[2 * g + 1]},
          std::make_unique<SGDOptions>(SGDOptions(0.1).momentum(0.9)));
    }
    return torch::optim::SGD(groups, SGDOptions(0.1));
  };
  const torch::nn::Sequential a = MakeNetwork(), b = MakeNetwork();
  torch::optim::SGD of_a = make(a), of_b = make(b);
  const auto step = [](torch::nn::Sequential net, torch::optim::SGD& o,
                       const at::Tensor& x) {
    o.zero_grad();
    net->forward(x).square().mean().backward();
    o.step();
    return x + 1;
  };
  auto fast = jit(
      [&](torch::optim::SGD& o, const at::Tensor& x) { return step(a, o, x); });
  for (int i = 0; i < 60; ++i) {
    for (torch::optim::SGD* o : {&of_a, &of_b}) {
      auto& options = static_cast<SGDOptions&>(o->param_groups()[1].options());
      options.lr(i < 20 ? 0.2 / (1 + i % 4) : 0.1);
      options.momentum(i < 20 ? 0.9 : 0.8);
    }
    const at::Tensor x = at::rand({8, 4});
    fast(of_a, x);
    step(b, of_b, x);
    for (std::size_t p = 0; p < 4; ++p) {
      EXPECT_TRUE(SameBits(a->parameters()[p], b->parameters()[p])) << i;
    }
  }
  EXPECT_GE(fast.stats().replays, 35) << fast.stats().why;
}

// One step is one step, however often the optimizer is passed.
TEST_F(JitTest, AnOptimizerThatIsPassedTwice) {
  const at::AutoGradMode with_gradients(true);
  Trainer<torch::optim::RMSprop> t({});
  auto fast = jit([&](torch::optim::RMSprop& o, torch::optim::RMSprop&,
                      const at::Tensor& x,
                      const at::Tensor& y) { return t.Step(o, x, y); });
  for (int i = 0; i < 30; ++i) {
    fast(t.optimizer, t.optimizer, at::rand({8, 4}), at::rand({8, 1}));
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
  for (const auto& [key, state] : t.optimizer.state()) {
    EXPECT_EQ(static_cast<torch::optim::RMSpropParamState&>(*state).step(), 30);
  }
}

// A checkpoint is loaded, a parameter is frozen, a group is added.
TEST_F(JitTest, OptimizersThatChange) {
  const at::AutoGradMode with_gradients(true);
  using Adam = torch::optim::Adam;
  Trainer<Adam> replayed(torch::optim::AdamOptions(0.01)),
      eager(torch::optim::AdamOptions(0.01));
  auto fast = jit([&](Adam& o, const at::Tensor& x, const at::Tensor& y) {
    return replayed.Step(o, x, y);
  });
  const at::Tensor extra = at::rand({2}), other = extra.clone();
  const auto load = [](Adam& o) {
    for (auto& [key, state] : o.state()) {
      auto& its = static_cast<torch::optim::AdamParamState&>(*state);
      its.step(100);
      its.exp_avg(its.exp_avg() * 0.5);
    }
  };
  for (int i = 0; i < 80; ++i) {
    if (i == 20) {
      load(replayed.optimizer);
      load(eager.optimizer);
    }
    if (i == 40) {
      replayed.optimizer.add_param_group({{extra}});
      eager.optimizer.add_param_group({{other}});
    }
    if (i == 60) {
      replayed.net->parameters()[0].set_requires_grad(false);
      eager.net->parameters()[0].set_requires_grad(false);
    }
    const at::Tensor x = at::rand({8, 4}), y = at::rand({8, 1});
    const at::Tensor a = fast(replayed.optimizer, x, y);
    EXPECT_TRUE(SameBits(a, eager.Step(eager.optimizer, x, y))) << i;
    ExpectSameState(replayed, eager);
  }
  EXPECT_GE(fast.stats().replays, 35) << fast.stats().why;
  // The frozen parameter has a state that does not step.
  EXPECT_NE(fast.stats().why.find("jit_optimizer"), std::string::npos)
      << fast.stats().why;
}

}  // namespace
}  // namespace tjit
