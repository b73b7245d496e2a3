// Random functions whose results keep a graph, against eager: Note [Results
// with a graph] in runtime/thread/functions/gradient_graph.h.
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "tests/runtime/thread/jit_graph_testing.h"

namespace tjit {
namespace {

// A random function of x and w, both of which ask for gradients.
class RandomGraph : public RandomFunction {
 public:
  RandomGraph(std::uint32_t seed, int calls)
      : RandomFunction(seed, {4, 4}), calls_(calls) {}

  // Of batch norm, and how often that ran.
  Tensors Statistics() const { return {state_.clone(), count_.clone()}; }
  void Reset() {
    state_.fill_(1);
    count_.zero_();
  }
  // The parameter, then one or two results.
  Tensors operator()(const at::Tensor& x, const at::Tensor& w, double a) {
    Begin(x, w);
    pool_.push_back(at::mm(x, w) * a);
    for (int c = 0; c < calls_; ++c) pool_.push_back(Next(a));
    const Tensors pool = std::move(pool_);
    const at::Tensor& other =
        pool[2 + Below(static_cast<std::uint32_t>(pool.size() - 2))];
    Tensors results = {pool.back()};
    if (!other.is_same(results[0])) results.push_back(other * 2);
    // Results that depend on different arguments are refused.
    if (seed_ % 4 == 1) return results;
    for (at::Tensor& result : results) result = result + 0.25 * pool[2];
    return results;
  }

 private:
  at::Tensor Next(double a) {
    const at::Tensor one = One(), two = One();
    switch (Below(seed_ % 8 == 3 || seed_ % 8 == 5 ? 24 : 23)) {
      case 0:
        return one + two;
      case 1:
        return one * two;
      case 2:
        return one.tanh();
      case 3:
        return one.sigmoid() * a;
      case 4:
        return at::mm(one, two) / 4;
      case 5:
        return at::relu(one);
      case 6:
        return (one - two).cos();
      case 7:
        return at::softmax(one, 1);
      case 8:
        return one.t() + 1;
      case 9:
        return at::where(one > 0, two, one);
      case 10:
        return one.sum(0, /*keepdim=*/true).expand({4, 4}) * 0.25;
      case 11:
        return at::cat({one.narrow(0, 0, 2), two.narrow(0, 2, 2)});
      case 12:
        return one.detach() * two;
      case 13:
        return at::dropout(one, 0.5, /*train=*/true);
      case 14:
        return one + at::randn({4, 4}) * 0.1;
      case 15:
        return two / at::scalar_tensor(a);
      case 16:
        return at::where(one > 0, at::scalar_tensor(0.5), two);
      case 17:
        return one.index_select(0, two.argmax(1));
      case 18:
        return one.gather(1, at::arange(4).expand({4, 4}));
      case 19:
        return one * at::tensor({1.F, 0.5F, 2.F, 0.25F});
      case 20:
        count_.add_(1);
        return at::batch_norm(one, {}, {}, state_[0], state_[1],
                              /*training=*/true, 0.1, 1e-5, false);
      case 21: {
        at::Tensor whole = one * 2;
        whole.narrow(1, Below(3), 2).copy_(two.narrow(0, 0, 2).t());
        whole.select(0, 1).mul_(a).add_(two.select(1, 0));
        whole.t().add_(One());  // from outside of the graph, perhaps
        return whole;
      }
      case 23:  // of some programs
        if (seed_ % 8 == 5) {
          return at::linalg_solve(one * 0.1 + 4 * at::eye(4), two);
        }
        return (one.sum() > 0).item<bool>() ? two * 2 : one + two;
      default:
        return one.reshape({16}).flip(0).view({4, 4}) * 0.5;
    }
  }
  const int calls_;
  at::Tensor count_ = at::zeros({}, at::kLong);
};

// What the program does with a call's results, drawn anew for each call.
Tensors Use(const Tensors& results, const at::Tensor& x, const at::Tensor& w,
            std::uint32_t how) {
  const bool both = results.size() > 1 && how % 3 != 0;
  at::Tensor loss = (results[0] * x.sin()).sum();
  if (both) loss = loss + results[1].cos().sum();
  if (!loss.requires_grad()) return {loss};
  Tensors seen = {loss.detach()};
  if (how % 5 == 1) {
    loss.backward({}, /*retain_graph=*/true);
    seen.push_back(w.grad().defined() ? w.grad().clone() : at::Tensor());
  }
  if (how % 11 == 7) {
    const auto g = torch::autograd::grad({loss}, {x, w}, {}, {}, true, true);
    at::Tensor more = loss;
    for (const at::Tensor& one : g) {
      if (one.defined() && one.requires_grad()) more = more + one.pow(2).sum();
    }
    more.backward();
  } else if (how % 7 == 3) {
    const auto g = torch::autograd::grad({loss}, {w}, {}, {}, false, true);
    seen.push_back(g[0]);
  } else {
    loss.backward();
  }
  return seen;
}

// The same with an inner function in its place in a graph around it. `rare`:
// backward passes of other kinds come seldom.
template <class F>
Tensors RunRandom(F& f, std::uint32_t seed, int calls, bool rare) {
  std::mt19937 random(seed);
  at::manual_seed(seed);
  const at::Tensor w = Leaf({4, 4}), v = Leaf({4, 4});
  Tensors seen;
  for (int i = 0; i < calls; ++i) {
    const at::Tensor x = at::mm(at::randn({4, 4}), v).cos();
    const double a = random() % 4 == 0 ? 0.5 : 0.25 + i;
    std::uint32_t how = static_cast<std::uint32_t>(random());
    if (rare && i % 8 != 7) how = 2;
    const Tensors results = f(x, w, a);
    for (const at::Tensor& r : results) seen.push_back(r.detach().clone());
    for (at::Tensor& t : Use(results, x, w, how)) seen.push_back(t);
    for (const at::Tensor& leaf : {w, v}) {
      seen.push_back(leaf.grad().defined() ? leaf.grad().clone()
                                           : at::Tensor());
      leaf.mutable_grad().reset();
      const at::NoGradGuard no_grad;
      if (random() % 4 == 0) leaf.mul_(0.99);
    }
  }
  return seen;
}

TEST_F(JitGraphTest, RandomFunctionsHaveEagersGradients) {
  const char* const more = std::getenv("PROVE");
  const std::uint32_t programs =
      more == nullptr ? 40 : static_cast<std::uint32_t>(std::atoi(more));
  std::int64_t replays = 0;
  for (std::uint32_t seed = 0; seed < programs; ++seed) {
    RandomGraph f(seed, 4 + static_cast<int>(seed % 12));
    auto fast = jit(f, WithGradients());
    const auto run = [&](auto& function) {
      f.Reset();
      Tensors seen = RunRandom(function, seed, 24, seed % 2 == 0);
      for (const at::Tensor& t : f.Statistics()) seen.push_back(t);
      seen.push_back(GeneratorState());
      return seen;
    };
    const Tensors got = run(fast), expected = run(f);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(SameBits(got[i], expected[i])) << seed << ": " << i;
    }
    replays += fast.stats().replays;
    if (seed % 20 == 19) clear();  // the store has room for so many
  }
  EXPECT_GE(replays, 8 * static_cast<std::int64_t>(programs));
}

}  // namespace
}  // namespace tjit
