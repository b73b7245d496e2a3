// Row 26: what one small op costs in each state of tjit. A step is ten adds
// of f32 [8, 8], so that a per-op figure is a tenth of the reported time.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>

#include <memory>
#include <vector>

#include "bench/workloads.h"

namespace tjit::bench {
namespace {

using at::Tensor;
constexpr int kOps = 10;

// Ten dependent adds, alive until the next step: one segment.
Workload TenAdds() {
  struct State {
    Tensor a, b, out;
  };
  auto s = std::make_shared<State>();
  s->a = Uniform({8, 8}, 1);
  s->b = Uniform({8, 8}, 2);
  Workload workload;
  workload.step = [s] {
    const at::NoGradGuard no_grad;
    Tensor x = s->a;
    for (int i = 0; i < kOps; ++i) x = at::add(x, s->b);
    s->out = x;
  };
  workload.result = [s] { return std::vector<Tensor>{s->out}; };
  return workload;
}

// Ten adds whose operands are drawn from 64 tensors: the stream never
// repeats, so that tjit records it and never gets hot.
Workload RandomAdds() {
  struct State {
    std::vector<Tensor> pool;
    Tensor out;
    std::uint64_t random = 88172645463325252ull;
  };
  auto s = std::make_shared<State>();
  for (int i = 0; i < 64; ++i) s->pool.push_back(Uniform({8, 8}, i));
  Workload workload;
  workload.step = [s] {
    const at::NoGradGuard no_grad;
    for (int i = 0; i < kOps; ++i) {
      s->random ^= s->random << 13;
      s->random ^= s->random >> 7;
      s->random ^= s->random << 17;
      s->out = at::add(s->pool[s->random % 64], s->pool[(s->random >> 8) % 64]);
    }
  };
  workload.result = [s] { return std::vector<Tensor>{s->out}; };
  return workload;
}

// Ten addmm, for the second op whose overhead is bounded.
Workload TenAddmm() {
  struct State {
    Tensor a, b, out;
  };
  auto s = std::make_shared<State>();
  s->a = Uniform({8, 8}, 1);
  s->b = Uniform({8, 8}, 2);
  Workload workload;
  workload.step = [s] {
    const at::NoGradGuard no_grad;
    for (int i = 0; i < kOps; ++i) s->out = at::addmm(s->a, s->a, s->b);
  };
  workload.result = [s] { return std::vector<Tensor>{s->out}; };
  return workload;
}

}  // namespace

std::vector<Row> OverheadRows() {
  return {
      {"row26/ten-adds", TenAdds, 500},
      {"row26/random-adds", RandomAdds},
      {"row26/ten-addmm", TenAddmm, 500},
  };
}

}  // namespace tjit::bench
