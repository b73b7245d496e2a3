// The nodes of 500 random graphs run in the order of libtorch's engine, without
// it. Each node multiplies by a number of its own, and a kernel of mul that the
// test registers writes down the numbers.
// Tests: runtime/intercept/backward/backward_engine.cpp
#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace tjit {
namespace {

using Tensors = std::vector<at::Tensor>;

std::vector<float>* g_factors = nullptr;

at::Tensor RecordingMul(const at::Tensor& a, const at::Tensor& b) {
  if (g_factors != nullptr) {
    const at::Tensor& factor = a.dim() == 0 ? a : b;
    g_factors->push_back(*factor.const_data_ptr<float>());
  }
  return at::cpu::mul(a, b);
}

TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl("mul.Tensor", &RecordingMul); }

// A graph of `count` nodes over some leaves, made by this thread and another
// one, whose sequence numbers are the same.
struct RandomGraph {
  explicit RandomGraph(std::uint32_t seed) : dice(seed) {
    at::manual_seed(seed);
    for (int i = 0; i < 3; ++i) {
      leaves.push_back(at::randn({4}).requires_grad_(true));
    }
    values = leaves;
    AddNodes(Below(15) + 1);
    std::thread([this] { AddNodes(Below(15) + 1); }).join();
    AddNodes(Below(15) + 1);
    for (int i = 0; i < 1 + Below(3); ++i) {
      roots.push_back(values[values.size() - 1 - static_cast<std::size_t>(i)]);
    }
  }
  int Below(int n) { return static_cast<int>(dice() % unsigned(n)); }
  const at::Tensor& Any() {
    return values[static_cast<std::size_t>(
        Below(static_cast<int>(values.size())))];
  }
  void AddNodes(int count) {
    for (int i = 0; i < count; ++i) {
      at::Tensor sum = Any();
      for (int k = Below(3); k > 0; --k) sum = sum + Any();
      values.push_back(sum * at::tensor(static_cast<float>(++numbers)));
    }
  }
  // Gradients of the roots.
  Tensors Ones() const {
    Tensors ones;
    for (const at::Tensor& root : roots) ones.push_back(at::ones_like(root));
    return ones;
  }

  std::mt19937 dice;
  int numbers = 0;
  Tensors leaves, values, roots;
};

struct Outcome {
  std::vector<float> factors;
  std::vector<float> gradients;
};

void Append(const at::Tensor& t, std::vector<float>* out) {
  if (!t.defined()) return out->push_back(-1);
  const at::Tensor values = t.contiguous();
  const float* data = values.const_data_ptr<float>();
  out->insert(out->end(), data, data + values.numel());
}

// backward(), twice as the graph is kept, and then grad() by a few values.
Outcome RunPasses(std::uint32_t seed) {
  RandomGraph graph(seed);
  Outcome out;
  g_factors = &out.factors;
  for (const bool keeps : {true, false}) {
    torch::autograd::backward(graph.roots, graph.Ones(), keeps);
  }
  g_factors = nullptr;
  for (const at::Tensor& leaf : graph.leaves) {
    Append(leaf.grad(), &out.gradients);
  }
  RandomGraph again(seed);
  Tensors by = {again.leaves[0], again.Any(), again.Any()};
  by.erase(std::remove_if(by.begin(), by.end(),
                          [](const at::Tensor& t) { return !t.requires_grad(); }),
           by.end());
  g_factors = &out.factors;
  const Tensors gradients = torch::autograd::grad(
      again.roots, by, again.Ones(), /*retain_graph=*/false,
      /*create_graph=*/seed % 2 == 0, /*allow_unused=*/true);
  g_factors = nullptr;
  for (const at::Tensor& gradient : gradients) {
    Append(gradient.defined() ? gradient.detach() : gradient, &out.gradients);
  }
  return out;
}

TEST(BackwardOrder, IsThatOfLibtorchsEngine) {
  constexpr std::uint32_t kGraphs = 500;
  std::vector<Outcome> theirs;
  for (std::uint32_t seed = 0; seed < kGraphs; ++seed) {
    theirs.push_back(RunPasses(seed));
  }
  ASSERT_TRUE(enable());
  const Stats before = stats();
  for (std::uint32_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    const Outcome ours = RunPasses(seed);
    ASSERT_GE(ours.factors.size(), 2u);
    EXPECT_EQ(ours.factors, theirs[seed].factors);
    EXPECT_EQ(ours.gradients, theirs[seed].gradients);
  }
  const Stats since = stats() - before;
  disable();
  EXPECT_GT(since.backwards_own, 29 * since.backwards_libtorch)
      << since.to_json();
  EXPECT_EQ(since.backwards_own + since.backwards_libtorch, 3 * kGraphs);
}

}  // namespace
}  // namespace tjit
