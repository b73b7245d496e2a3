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

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bench/engagement.h"
#include "bench/workloads.h"

namespace tjit::bench {
namespace {

at::Tensor TenOps(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor x = a + b;
  x = x * b;
  x = x - a;
  x = x + a;
  x = x * a;
  x = x - b;
  x = x + b;
  x = x * b;
  x = x - a;
  return x + b;
}

// One size for as long as the warm-up is, then one after the other.
class NewSizes {
 public:
  static constexpr std::int64_t kWarmUp = 20000;
  static constexpr std::int64_t kSteps = 6400;
  static constexpr std::int64_t kMost = 64 + kSteps / 8;

  explicit NewSizes(std::int64_t steps_of_each) : of_each_(steps_of_each) {}
  std::int64_t Next() {
    const std::int64_t step = steps_++ - kWarmUp;
    return step < 0 ? 64 : std::min(65 + step / of_each_, kMost);
  }

 private:
  const std::int64_t of_each_;
  std::int64_t steps_ = 0;
};

}  // namespace

Workload Chain10(std::int64_t n) {
  struct State {
    at::Tensor a, b, out;
  };
  const c10::InferenceMode inference;
  auto s = std::make_shared<State>();
  s->a = Uniform({n}, 1);
  s->b = Uniform({n}, 2);
  Workload workload;
  workload.step = [s, ten_ops = Wrapped(TensorFunction(TenOps))] {
    const c10::InferenceMode inference;
    s->out = ten_ops(s->a, s->b);
  };
  workload.result = [s] { return std::vector<at::Tensor>{s->out}; };
  workload.uses_results = true;
  return workload;
}

namespace {

// 16-32-32-4 with ReLU.
struct TinyNet {
  explicit TinyNet(std::int64_t most) : x(Uniform({most, 16}, 1)) {}

  at::Tensor Of(const at::Tensor& batch) const {
    const at::NoGradGuard no_grad;
    at::Tensor h = at::relu(at::linear(batch, w1, b1));
    h = at::relu(at::linear(h, w2, b2));
    return at::linear(h, w3, b3);
  }

  at::Tensor x;
  at::Tensor w1 = Uniform({32, 16}, 2).sub_(0.5), b1 = Uniform({32}, 3);
  at::Tensor w2 = Uniform({32, 32}, 4).sub_(0.5), b2 = Uniform({32}, 5);
  at::Tensor w3 = Uniform({4, 32}, 6).sub_(0.5), b3 = Uniform({4}, 7);
  at::Tensor out;
};

}  // namespace

Workload MlpTiny() {
  auto s = std::make_shared<TinyNet>(8);
  Workload workload;
  const TensorFunction net = Wrapped(TensorFunction(
      [s](const at::Tensor& x, const at::Tensor&) { return s->Of(x); }));
  workload.step = [s, net] { s->out = net(s->x, {}); };
  workload.result = [s] { return std::vector<at::Tensor>{s->out}; };
  return workload;
}

Workload MlpTinySizes(std::int64_t steps_of_each) {
  auto s = std::make_shared<TinyNet>(NewSizes::kMost);
  Workload workload;
  workload.step = [s, sizes = NewSizes(steps_of_each)]() mutable {
    s->out = s->Of(s->x.narrow(0, 0, sizes.Next()));
  };
  workload.result = [s] { return std::vector<at::Tensor>{s->out}; };
  workload.uses_results = true;
  return workload;
}

Workload Chain10Sizes(std::int64_t steps_of_each) {
  struct State {
    at::Tensor a = Uniform({16 * NewSizes::kMost}, 1);
    at::Tensor b = Uniform({16 * NewSizes::kMost}, 2);
    at::Tensor out;
  };
  auto s = std::make_shared<State>();
  Workload workload;
  workload.step = [s, sizes = NewSizes(steps_of_each)]() mutable {
    const at::NoGradGuard no_grad;
    const std::int64_t n = 16 * sizes.Next();
    s->out = TenOps(s->a.narrow(0, 0, n), s->b.narrow(0, 0, n));
  };
  workload.result = [s] { return std::vector<at::Tensor>{s->out}; };
  workload.uses_results = true;
  return workload;
}

namespace {

Row OfSizes(std::string name, std::function<Workload()> make) {
  Row row{std::move(name), std::move(make), NewSizes::kWarmUp,
          NewSizes::kSteps};
  row.settles = false;
  return row;
}

}  // namespace

std::vector<Row> InferenceRows() {
  return {
      {"row1/chain10-64", [] { return Chain10(64); }, 500},
      {"row1/chain10-64k", [] { return Chain10(65536); }, 500},
      {"row1/chain10-4M", [] { return Chain10(4194304); }, 64},
      {"row9/mlp-tiny", MlpTiny, 1000},
      OfSizes("rowK2/chain10-sizes-100", [] { return Chain10Sizes(100); }),
      OfSizes("rowK2/chain10-sizes-8", [] { return Chain10Sizes(8); }),
      OfSizes("rowK2/mlp-tiny-sizes-100", [] { return MlpTinySizes(100); }),
      OfSizes("rowK2/mlp-tiny-sizes-8", [] { return MlpTinySizes(8); }),
  };
}

}  // namespace tjit::bench
