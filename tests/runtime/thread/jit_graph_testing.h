// What the tests of functions share whose results keep a graph for gradients.
#pragma once

#include <torch/csrc/autograd/autograd.h>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {

inline JitOptions WithGradients() {
  JitOptions options;
  options.gradients = true;
  options.verify_every = 0;
  return options;
}

class JitGraphTest : public JitTest {
 protected:
  const at::AutoGradMode grad_{true};
};

inline at::Tensor Leaf(at::IntArrayRef sizes) {
  return at::randn(sizes).requires_grad_(true);
}

inline void ExpectAllSame(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(SameBits(a[i], b[i])) << i;
  }
}

// One step of gradient descent. Loss and gradients come to `seen`.
inline void StepDown(const at::Tensor& loss, const Tensors& leaves,
                     Tensors* seen) {
  loss.backward();
  seen->push_back(loss.detach().clone());
  const at::NoGradGuard no_grad;
  for (const at::Tensor& leaf : leaves) {
    seen->emplace_back();
    if (!leaf.grad().defined()) continue;
    seen->back() = leaf.grad().clone();
    leaf.sub_(leaf.grad(), 0.01);
    leaf.mutable_grad().reset();
  }
}

// The gradients of `leaves` after `steps` steps of gradient descent, one row a
// step, with the forward function `f`.
template <class F>
Tensors Descend(F&& f, const Tensors& leaves, int steps) {
  at::manual_seed(7);
  Tensors seen;
  for (int i = 0; i < steps; ++i) {
    const at::Tensor x = at::randn({8, 4});
    const at::Tensor loss = f(x).pow(2).mean();
    StepDown(loss, leaves, &seen);
  }
  return seen;
}

// Copies of the leaves, for eager.
inline Tensors CopyOf(const Tensors& leaves) {
  Tensors copies;
  for (const at::Tensor& leaf : leaves) {
    copies.push_back(leaf.detach().clone().requires_grad_(true));
  }
  return copies;
}

// What a step of a regularised network gives: each `every` steps a penalty on
// the gradients, whose backward pass runs the function again.
template <class F>
Tensors DescendWithPenalty(F&& f, const Tensors& leaves, int steps, int every) {
  at::manual_seed(7);
  Tensors seen;
  for (int i = 0; i < steps; ++i) {
    const at::Tensor x = at::randn({8, 4}).requires_grad_(true);
    at::Tensor loss = f(x).pow(2).mean();
    if (i % every == every - 1) {
      seen.push_back(at::randn({2}));  // the program draws as well
      loss = loss + torch::autograd::grad({loss}, {x}, {}, {},
                                          /*create_graph=*/true)[0]
                        .pow(2)
                        .sum();
    }
    StepDown(loss, leaves, &seen);
    seen.push_back(GeneratorState());
  }
  return seen;
}

}  // namespace tjit
