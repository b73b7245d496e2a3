// Backward passes without libtorch's engine: which passes are taken, and that a
// program sees what it sees with libtorch's engine.
// Tests: runtime/intercept/backward/
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tjit {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::backward;
using torch::autograd::grad;
using Tensors = std::vector<at::Tensor>;

class BackwardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(1);
    ASSERT_TRUE(enable());
    before_ = stats();
  }
  void TearDown() override {
    disable();
    clear();
  }
  Stats Since() const { return stats() - before_; }
  // All passes so far were run without libtorch's engine.
  void ExpectOwn(std::int64_t passes) const {
    EXPECT_EQ(Since().backwards_own, passes) << Since().to_json();
    EXPECT_EQ(Since().backwards_libtorch, 0) << Since().to_json();
  }
  void ExpectLeft(const std::string& reason, std::int64_t passes = 1) const {
    EXPECT_EQ(Since().backward_left_count(reason), passes)
        << Since().to_json();
    EXPECT_EQ(Since().backwards_libtorch, passes) << Since().to_json();
  }

  at::Tensor weight_ = at::randn({4, 4}).requires_grad_(true);
  at::Tensor x_ = at::randn({3, 4});
  Stats before_;
};

at::Tensor Loss(const at::Tensor& x, const at::Tensor& w) {
  return at::mm(x, w).tanh().sum();
}

bool Same(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.sizes() == b.sizes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// Runs `pass` with each engine; the tensors it gives back have the same bits.
void ExpectSame(const std::function<Tensors()>& pass, std::int64_t own) {
  const Stats before = stats();
  at::manual_seed(2);
  const Tensors ours = pass();
  EXPECT_EQ((stats() - before).backwards_own, own)
      << (stats() - before).to_json();
  disable();
  Options options;
  options.own_backward = false;
  ASSERT_TRUE(enable(options));
  const Stats then = stats();
  at::manual_seed(2);
  const Tensors theirs = pass();
  EXPECT_EQ((stats() - then).backwards_own, 0);
  EXPECT_EQ((stats() - then).backward_left_count("switched_off"), own);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(Same(ours[i], theirs[i])) << i;
  }
}

TEST_F(BackwardTest, RunsAPlainGraph) {
  Loss(x_, weight_).backward();
  ExpectOwn(1);
  EXPECT_TRUE(weight_.grad().defined());
}

TEST_F(BackwardTest, GradientIsKeptAsItComes) {
  const at::Tensor leaf = at::randn({4}).requires_grad_(true);
  at::Tensor gradient = at::ones({4});
  (leaf * 2).backward(gradient);
  EXPECT_EQ(leaf.grad().storage().use_count(), 1);
  EXPECT_EQ(leaf.grad().use_count(), 1);
  ExpectOwn(1);
}

TEST_F(BackwardTest, AccumulatesInPlaceWhereLibtorchDoes) {
  ExpectSame(
      [] {
        const at::Tensor w = at::randn({4, 4}).requires_grad_(true);
        at::Tensor y = at::randn({3, 4});
        for (int i = 0; i < 10; ++i) y = y + at::mm(y, w).tanh() * 0.5;
        y.sum().backward({}, /*retain_graph=*/true);
        const at::Tensor first = w.grad().clone();
        y.sum().backward();
        return Tensors{first, w.grad()};
      },
      2);
}

TEST_F(BackwardTest, RetainGrad) {
  ExpectSame(
      [] {
        const at::Tensor w = at::randn({4, 4}).requires_grad_(true);
        const at::Tensor h = at::mm(at::randn({3, 4}), w);
        h.retain_grad();
        (h.tanh() + h).sum().backward();
        return Tensors{h.grad(), w.grad()};
      },
      1);
}

TEST_F(BackwardTest, WritesToViews) {
  ExpectSame(
      [] {
        const at::Tensor w = at::randn({4, 4}).requires_grad_(true);
        const at::Tensor y = w * 2;
        y.select(0, 1).copy_(w.select(0, 2) * 3);
        y.tanh().sum().backward();
        return Tensors{w.grad()};
      },
      1);
}

TEST_F(BackwardTest, SeveralRoots) {
  ExpectSame(
      [] {
        const at::Tensor w = at::randn({4, 4}).requires_grad_(true);
        const at::Tensor y = at::mm(w, w);
        backward({y.sum(), y.tanh().sum()}, {});
        return Tensors{w.grad()};
      },
      1);
}

TEST_F(BackwardTest, GradOfGrad) {
  ExpectSame(
      [] {
        const at::Tensor w = at::randn({4, 4}).requires_grad_(true);
        const at::Tensor x = at::randn({3, 4}).requires_grad_(true);
        const at::Tensor y = at::mm(x, w).tanh();
        const Tensors first =
            grad({y.sum()}, {x}, {}, /*retain_graph=*/true,
                 /*create_graph=*/true);
        (first[0].square().sum() + y.sum()).backward();
        return Tensors{first[0].detach(), w.grad(), x.grad()};
      },
      2);
}

// A product of which one gradient is asked for computes that one alone.
TEST_F(BackwardTest, GradComputesWhatIsAskedFor) {
  const at::Tensor a = at::randn({4, 4}).requires_grad_(true);
  const at::Tensor y = at::mm(a, weight_).sum();
  const std::int64_t seen = stats().ops_seen;
  static_cast<void>(grad({y}, {a}, {}, /*retain_graph=*/true));
  const std::int64_t of_one = stats().ops_seen - seen;
  static_cast<void>(grad({y}, {a, weight_}));
  EXPECT_EQ(stats().ops_seen - seen, 2 * of_one + 1);
  EXPECT_FALSE(a.grad().defined());
  ExpectOwn(2);
}

TEST_F(BackwardTest, GradByWhatIsNotUsed) {
  const at::Tensor a = at::randn({4}).requires_grad_(true);
  const at::Tensor b = at::randn({4}).requires_grad_(true);
  const Tensors gradients = grad({(a * 2).sum()}, {a, b}, {}, false, false,
                                 /*allow_unused=*/true);
  EXPECT_TRUE(gradients[0].defined());
  EXPECT_FALSE(gradients[1].defined());
  EXPECT_THROW(static_cast<void>(grad({(a * 2).sum()}, {b})), c10::Error);
  ExpectOwn(2);
}

TEST_F(BackwardTest, InputsOfBackward) {
  const at::Tensor a = at::randn({4, 4}).requires_grad_(true);
  backward({at::mm(a, weight_).sum()}, {}, false, false, {a});
  EXPECT_TRUE(a.grad().defined());
  EXPECT_FALSE(weight_.grad().defined());
  ExpectOwn(1);
}

// A sum over the batch becomes the shape of the leaf; another shape is an error
// with libtorch's words.
TEST_F(BackwardTest, GradientsOfOtherShapes) {
  const at::Tensor bias = at::randn({4}).requires_grad_(true);
  (x_ + bias).sum().backward();
  EXPECT_EQ(bias.grad().sizes(), at::IntArrayRef({4}));
  std::string said;
  try {
    (bias * 2).backward(at::ones({3}));
  } catch (const std::exception& e) {
    said = e.what();
  }
  EXPECT_NE(said.find("invalid gradient at index 0 - got [3] but expected "
                      "shape compatible with [4]"), std::string::npos) << said;
}

TEST_F(BackwardTest, SecondPassOverAFreedGraph) {
  const at::Tensor loss = Loss(x_, weight_);
  loss.backward();
  const at::Tensor first = weight_.grad().clone();
  EXPECT_THROW(loss.backward(), c10::Error);
  EXPECT_TRUE(Same(weight_.grad(), first));
  Loss(x_, weight_).backward();  // and all goes on
  ExpectOwn(3);
}

TEST_F(BackwardTest, ThreadsShareAGraph) {
  const at::Tensor loss = Loss(x_, weight_);
  loss.backward({}, /*retain_graph=*/true);
  const at::Tensor one = weight_.grad().clone();
  weight_.mutable_grad().reset();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 25; ++k) {
        const Tensors g = grad({loss}, {weight_}, {}, /*retain_graph=*/true);
        EXPECT_TRUE(Same(g[0], one));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectOwn(101);
}

struct Twice : torch::autograd::Function<Twice> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& x) {
    return x * 2;
  }
  static Tensors backward(AutogradContext*, const Tensors& gradients) {
    if (inside) inside();
    return {gradients[0] * 2};
  }
  static std::function<void()> inside;
};
std::function<void()> Twice::inside;

TEST_F(BackwardTest, RunsACustomFunction) {
  ExpectSame(
      [] {
        const at::Tensor w = at::randn({4, 4}).requires_grad_(true);
        Twice::apply(at::mm(w, w)).sum().backward();
        return Tensors{w.grad()};
      },
      1);
}

// What a custom function may ask for, and a callback for the end of the pass.
TEST_F(BackwardTest, AnswersACustomFunction) {
  using torch::autograd::Engine;
  using torch::autograd::get_current_graph_task_id;
  int id = -1, id_of_callback = -1;
  bool is_last = false, knows_node = false;
  Twice::inside = [&] {
    id = get_current_graph_task_id();
    const auto node = torch::autograd::get_current_node();
    knows_node =
        node != nullptr &&
        torch::autograd::get_current_graph_task_nodes_in_graph()->contains(
            node.get());
    EXPECT_TRUE(torch::autograd::get_current_graph_task_exec_info()->empty());
    EXPECT_FALSE(torch::autograd::get_current_graph_task_keep_graph());
    EXPECT_TRUE(Engine::get_default_engine().is_checkpoint_valid());
    Engine::get_default_engine().queue_callback([&] {
      id_of_callback = get_current_graph_task_id();
      is_last = weight_.grad().defined();
    });
  };
  Twice::apply(at::mm(x_, weight_)).sum().backward();
  Twice::inside = nullptr;
  ExpectOwn(1);
  EXPECT_NE(id, -1);
  EXPECT_EQ(id_of_callback, id);
  EXPECT_TRUE(knows_node);
  EXPECT_TRUE(is_last);
  EXPECT_EQ(get_current_graph_task_id(), -1);
  EXPECT_THROW(Engine::get_default_engine().queue_callback([] {}), c10::Error);
}

// What code of the program changes of the thread's state ends with its node.
TEST_F(BackwardTest, KeepsTheThreadsState) {
  bool seen = true;
  const at::Tensor h = at::mm(x_, weight_);
  const at::Tensor y = h.tanh();
  y.register_hook([](const at::Tensor&) { at::GradMode::set_enabled(true); });
  h.register_hook(
      [&](const at::Tensor&) { seen = at::GradMode::is_enabled(); });
  y.sum().backward();
  EXPECT_FALSE(seen);
  EXPECT_TRUE(at::GradMode::is_enabled());
  ExpectOwn(1);
}

TEST_F(BackwardTest, WhatCodeOfTheProgramThrows) {
  Twice::inside = [] { throw std::domain_error("thrown"); };
  EXPECT_THROW(Twice::apply(at::mm(x_, weight_)).sum().backward(),
               std::domain_error);
  Twice::inside = nullptr;
  EXPECT_FALSE(weight_.grad().defined());
  Loss(x_, weight_).backward();
  EXPECT_TRUE(weight_.grad().defined());
  ExpectOwn(2);
}

TEST_F(BackwardTest, LeavesAPassWithinAnother) {
  const at::Tensor other = at::randn({4, 4}).requires_grad_(true);
  Twice::inside = [&] {
    const at::AutoGradMode on(true);
    Loss(x_, other).backward();
  };
  Twice::apply(at::mm(x_, weight_)).sum().backward();
  Twice::inside = nullptr;
  EXPECT_EQ(Since().backward_left_count("nested"), 1) << Since().to_json();
  EXPECT_TRUE(other.grad().defined());
}

TEST_F(BackwardTest, RunsHooks) {
  ExpectSame(
      [] {
        const at::Tensor w = at::randn({4, 4}).requires_grad_(true);
        w.register_hook([](const at::Tensor& g) { return g * 3; });
        const at::Tensor h = at::mm(at::randn({3, 4}), w);
        h.register_hook([](const at::Tensor& g) { return g * 2; });
        h.tanh().sum().backward({}, /*retain_graph=*/true);
        const Tensors of_grad = grad({h.sum()}, {w});
        return Tensors{w.grad(), of_grad[0]};
      },
      2);
}

TEST_F(BackwardTest, LeavesAnomalyMode) {
  torch::autograd::AnomalyMode::set_enabled(true);
  Loss(x_, weight_).backward();
  torch::autograd::AnomalyMode::set_enabled(false);
  ExpectLeft("anomaly");
}

TEST_F(BackwardTest, LeavesAProfiler) {
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
        return nullptr;
      }));
  Loss(x_, weight_).backward();
  at::removeCallback(handle);
  ExpectLeft("profiler");
}

TEST_F(BackwardTest, LeavesCreateGraphThatAccumulates) {
  Loss(x_, weight_).backward({}, true, /*create_graph=*/true);
  ExpectLeft("create_graph");
  weight_.mutable_grad().reset();  // a cycle
}

TEST_F(BackwardTest, LeavesGradThroughAWrittenView) {
  const at::Tensor y = weight_ * 2;
  y.select(0, 1).mul_(3);
  static_cast<void>(grad({y.sum()}, {weight_}));
  ExpectLeft("view_written");
}

TEST_F(BackwardTest, GradByWhatLiesDeeper) {
  const at::Tensor deep = weight_.tanh().tanh().tanh();
  const at::Tensor y = (weight_ * 2).sum();
  const Tensors gradients = grad({y}, {deep}, {}, /*retain_graph=*/false, false,
                                 /*allow_unused=*/true);
  EXPECT_FALSE(gradients[0].defined());
  y.backward();  // nothing ran, nothing was released
  EXPECT_TRUE(weight_.grad().defined());
  ExpectOwn(2);
}

TEST_F(BackwardTest, LeavesGradByNothing) {
  EXPECT_THROW(static_cast<void>(grad({Loss(x_, weight_)}, {})), c10::Error);
  ExpectLeft("refused");
  EXPECT_FALSE(weight_.grad().defined());
}

// What a node was given is let go when it throws, and the next pass has nothing
// of it.
TEST_F(BackwardTest, NothingStaysOfAPassThatThrew) {
  Twice::inside = [] { throw std::domain_error("thrown"); };
  at::Tensor gradient = at::ones({3, 4});
  EXPECT_THROW(Twice::apply(at::mm(x_, weight_)).backward(gradient),
               std::domain_error);
  Twice::inside = nullptr;
  EXPECT_EQ(gradient.use_count(), 1);
  const Tensors parts = at::mm(x_, weight_).split(2);
  const at::Tensor sum = parts[1].sum();
  sum.backward({}, /*retain_graph=*/true);
  const at::Tensor first = weight_.grad().clone();
  weight_.mutable_grad().reset();
  sum.backward();
  EXPECT_TRUE(Same(weight_.grad(), first));
  ExpectOwn(3);
}

// Each node is read once, however many roots lead to it: reading the graph once
// for each would take minutes here.
TEST_F(BackwardTest, ManyRoots) {
  ExpectSame(
      [] {
        const at::Tensor w = at::randn({4, 4}).requires_grad_(true);
        at::Tensor h = at::randn({1, 4});
        Tensors losses;
        for (int i = 0; i < 20000; ++i) {
          h = at::mm(h, w).tanh();
          losses.push_back(h.sum());
        }
        backward(losses, {});
        return Tensors{w.grad()};
      },
      1);
}

TEST_F(BackwardTest, LeavesSparseGradients) {
  const at::Tensor leaf = at::randn({4}).requires_grad_(true);
  (leaf * 2).backward(at::ones({4}).to_sparse());
  ExpectLeft("not_plain");
}

// What a pass warns of comes out where it ends, and once.
TEST_F(BackwardTest, WarningsComeAtTheEnd) {
  struct Handler : at::WarningHandler {
    void process(const c10::Warning& w) override { said.push_back(w.msg()); }
    std::vector<std::string> said;
  } handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);
  Twice::inside = [&] {
    TORCH_WARN("from a node");
    EXPECT_TRUE(handler.said.empty());
  };
  Twice::apply(weight_).sum().backward();
  Twice::inside = nullptr;
  ASSERT_EQ(handler.said.size(), 1u);
  handler.said.clear();
  const at::Tensor leaf = at::randn({4, 3}).requires_grad_(true);
  leaf.mutable_grad() = at::zeros({3, 4}).t();  // not laid out as the leaf
  (leaf * 2).sum().backward();
  ExpectOwn(2);
  EXPECT_EQ(c10::WarningUtils::get_warning_handler(), &handler);
  ASSERT_EQ(handler.said.size(), 1u);
  EXPECT_NE(handler.said[0].find("gradient layout contract"),
            std::string::npos);
}

class KeepsIt : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override { kept_ = tensor; }
  at::Tensor call_unpack_hook() override { return kept_; }
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>>
  retrieve_unpack_hook_data() const override {
    return std::nullopt;
  }

 private:
  at::Tensor kept_;
};

TEST_F(BackwardTest, RunsHooksOfSavedTensors) {
  const at::Tensor loss = Loss(x_, weight_);
  auto* sum = loss.grad_fn()->next_edge(0).function.get();
  auto* tanh = dynamic_cast<torch::autograd::generated::TanhBackward0*>(sum);
  ASSERT_NE(tanh, nullptr);
  tanh->result_.register_hooks(std::make_unique<KeepsIt>());
  loss.backward();
  ExpectOwn(1);
  EXPECT_TRUE(weight_.grad().defined());
}

}  // namespace
}  // namespace tjit
