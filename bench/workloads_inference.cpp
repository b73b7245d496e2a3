// Rows 1 and 9: no gradients, a handful of ops.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sub.h>
#include <c10/core/InferenceMode.h>

#include <memory>
#include <utility>

#include "bench/workloads.h"

namespace tjit::bench {
Workload Chain10(std::int64_t n) {
  struct State {
    at::Tensor a, b, out;
  };
  const c10::InferenceMode inference;
  auto s = std::make_shared<State>();
  s->a = Uniform({n}, 1);
  s->b = Uniform({n}, 2);
  Workload workload;
  workload.step = [s] {
    const c10::InferenceMode inference;
    at::Tensor x = s->a + s->b;
    x = x * s->b;
    x = x - s->a;
    x = x + s->a;
    x = x * s->a;
    x = x - s->b;
    x = x + s->b;
    x = x * s->b;
    x = x - s->a;
    s->out = x + s->b;
  };
  workload.result = [s] { return std::vector<at::Tensor>{s->out}; };
  workload.uses_results = true;
  return workload;
}

Workload MlpTiny() {
  struct State {
    at::Tensor x, w1, b1, w2, b2, w3, b3, out;
  };
  auto s = std::make_shared<State>();
  s->x = Uniform({8, 16}, 1);
  s->w1 = Uniform({32, 16}, 2).sub_(0.5);
  s->b1 = Uniform({32}, 3);
  s->w2 = Uniform({32, 32}, 4).sub_(0.5);
  s->b2 = Uniform({32}, 5);
  s->w3 = Uniform({4, 32}, 6).sub_(0.5);
  s->b3 = Uniform({4}, 7);
  Workload workload;
  workload.step = [s] {
    const at::NoGradGuard no_grad;
    at::Tensor h = at::relu(at::linear(s->x, s->w1, s->b1));
    h = at::relu(at::linear(h, s->w2, s->b2));
    s->out = at::linear(h, s->w3, s->b3);
  };
  workload.result = [s] { return std::vector<at::Tensor>{s->out}; };
  return workload;
}

std::vector<Row> InferenceRows() {
  return {
      {"row1/chain10-64", [] { return Chain10(64); }, 500},
      {"row1/chain10-64k", [] { return Chain10(65536); }, 500},
      {"row1/chain10-4M", [] { return Chain10(4194304); }, 64},
      {"row9/mlp-tiny", MlpTiny, 1000},
  };
}

}  // namespace tjit::bench
