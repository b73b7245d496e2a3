// Row 26: what one small op costs in each state of tjit. A step is ten calls
// of one op, so that a per-op figure is a tenth of the reported time.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_convert_indices_from_coo_to_csr.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/fmax.h>
#include <ATen/ops/linalg_inv_ex.h>
#include <ATen/ops/median.h>
#include <ATen/ops/reflection_pad1d.h>
#include <ATen/ops/triangular_solve.h>

#include <memory>
#include <tuple>
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

using BinaryOp = Tensor (*)(const Tensor&, const Tensor&);

// Ten calls whose operands are drawn from 64 tensors: the stream never
// repeats, so that tjit records it and never gets hot.
Workload RandomCalls(BinaryOp op, at::IntArrayRef sizes,
                     at::ScalarType type = at::kFloat) {
  struct State {
    std::vector<Tensor> pool;
    Tensor out;
    std::uint64_t random = 88172645463325252ull;
  };
  auto s = std::make_shared<State>();
  for (int i = 0; i < 64; ++i) s->pool.push_back(Uniform(sizes, i).to(type));
  Workload workload;
  workload.step = [s, op] {
    const at::NoGradGuard no_grad;
    for (int i = 0; i < kOps; ++i) {
      s->random ^= s->random << 13;
      s->random ^= s->random >> 7;
      s->random ^= s->random << 17;
      s->out = op(s->pool[s->random % 64], s->pool[(s->random >> 8) % 64]);
    }
  };
  workload.result = [s] { return std::vector<Tensor>{s->out}; };
  return workload;
}

Workload RandomAdds() {
  return RandomCalls(
      [](const Tensor& a, const Tensor& b) { return at::add(a, b); }, {8, 8});
}

// Ops with an unboxed wrapper, cheap ones first.
Workload RandomFmax() {
  return RandomCalls(
      [](const Tensor& a, const Tensor& b) { return at::fmax(a, b); }, {8, 8});
}
Workload RandomPad() {
  return RandomCalls(
      [](const Tensor& a, const Tensor&) {
        return at::reflection_pad1d(a, {2, 2});
      },
      {8, 8});
}
Workload RandomMedian() {
  return RandomCalls(
      [](const Tensor& a, const Tensor&) {
        return std::get<0>(at::median(a, 1));
      },
      {8, 8});
}
Workload RandomInverse() {
  return RandomCalls(
      [](const Tensor& a, const Tensor&) {
        return std::get<0>(at::linalg_inv_ex(a));
      },
      {32, 32});
}

// Ops that have a boxed wrapper only.
Workload RandomCooToCsr() {
  return RandomCalls(
      [](const Tensor& a, const Tensor&) {
        return at::_convert_indices_from_coo_to_csr(a, 8);
      },
      {64}, at::kLong);
}
Workload RandomTriangularSolve() {
  return RandomCalls(
      [](const Tensor& a, const Tensor& b) {
        return std::get<0>(at::triangular_solve(b, a));
      },
      {64, 64});
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
      {"row26/typed-fmax", RandomFmax},
      {"row26/typed-pad", RandomPad},
      {"row26/typed-median", RandomMedian},
      {"row26/typed-inverse", RandomInverse},
      {"row26/boxed-coo-to-csr", RandomCooToCsr},
      {"row26/boxed-triangular-solve", RandomTriangularSolve},
  };
}

}  // namespace tjit::bench
