// Rows 2 to 8 and 29: a few ops over large tensors, where memory traffic or
// random numbers decide.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/log.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/var.h>
#include <c10/core/InferenceMode.h>

#include <functional>
#include <memory>
#include <utility>

#include "bench/engagement.h"
#include "bench/workloads.h"

namespace tjit::bench {
namespace {

using Tensors = std::vector<at::Tensor>;

// A function of fixed inputs, in inference mode.
Workload Function(Tensors inputs,
                  std::function<Tensors(const Tensors&)> compute) {
  struct State {
    Tensors in, out;
  };
  auto s = std::make_shared<State>();
  s->in = std::move(inputs);
  Workload workload;
  workload.step =
      [s, compute = Wrapped(TensorsFunction(
              [compute = std::move(compute)](const Tensors& in, double) {
                return compute(in);
              }))] {
        const c10::InferenceMode inference;
        s->out = compute(s->in, 0);
      };
  workload.result = [s] { return s->out; };
  workload.uses_results = true;
  return workload;
}

}  // namespace

Workload Add4() {
  return Function({Uniform({100, 100}, 1), Uniform({100, 100}, 2)},
                  [](const Tensors& in) {
                    const at::Tensor c = in[0] + in[1];
                    const at::Tensor d = c + in[1];
                    const at::Tensor e = d + c;
                    return Tensors{in[0] + e};
                  });
}

Workload Poly() {
  const std::vector<std::int64_t> sizes = {2000, 2000};
  return Function({Uniform(sizes, 1), Uniform(sizes, 2), Uniform(sizes, 3)},
                  [](const Tensors& in) {
                    const at::Tensor &a = in[0], &b = in[1], &c = in[2];
                    return Tensors{a * b + c + at::log(a + 0.1) +
                                   at::pow(a, 4) - at::pow(b, 3)};
                  });
}

Workload Transcendental(std::int64_t n) {
  return Function({Uniform({n}, 1), Uniform({n}, 2)}, [](const Tensors& in) {
    const at::Tensor &a = in[0], &b = in[1];
    return Tensors{at::tanh(a * b + 1) * at::sigmoid(b) + at::exp(-a * a)};
  });
}

Workload Bf16Gelu() {
  const auto make = [](std::uint64_t seed) {
    return Uniform({1024, 1024}, seed).to(at::kBFloat16);
  };
  return Function({make(1), make(2), make(3), make(4)},
                  [](const Tensors& in) {
                    return Tensors{at::gelu(in[0] * in[1] + in[2]) * in[3]};
                  });
}

Workload SoftmaxMask(std::vector<std::int64_t> sizes) {
  const at::IntArrayRef rows = at::IntArrayRef(sizes).slice(sizes.size() - 2);
  const at::Tensor mask =
      Uniform(rows, 2).gt(0.9).to(at::kFloat).mul(-1e9);
  return Function({Uniform(sizes, 1), mask}, [](const Tensors& in) {
    return Tensors{at::softmax(in[0] / 8 + in[1], -1)};
  });
}

Workload NormGeluResidual(std::int64_t rows) {
  constexpr std::int64_t kWidth = 768;
  return Function(
      {Uniform({rows, kWidth}, 1), Uniform({kWidth}, 2), Uniform({kWidth}, 3)},
      [](const Tensors& in) {
        const at::Tensor y = at::layer_norm(in[0], {kWidth}, in[1], in[2]);
        return Tensors{at::gelu(y) + in[0]};
      });
}

Workload ReduceSum() {
  return Function({Uniform({1024, 1024}, 1)}, [](const Tensors& in) {
    return Tensors{(in[0] * in[0]).sum(-1)};
  });
}

Workload MeanVar() {
  return Function({Uniform({4096, 512}, 1)}, [](const Tensors& in) {
    return Tensors{in[0].mean(0), in[0].var(0)};
  });
}

// A step of Langevin dynamics in a quadratic potential.
Workload Langevin(std::int64_t n) {
  at::manual_seed(1);
  const auto x = std::make_shared<at::Tensor>(Uniform({n}, 1));
  Workload workload;
  workload.step = [x] {
    const c10::InferenceMode inference;
    *x = *x - *x * 0.01 + at::randn_like(*x) * 0.1;
  };
  workload.result = [x] { return Tensors{*x}; };
  workload.uses_results = true;
  return workload;
}

Workload Dropout(std::vector<std::int64_t> sizes) {
  at::manual_seed(1);
  return Function({Uniform(sizes, 1), Uniform(sizes, 2)},
                  [](const Tensors& in) {
                    return Tensors{at::dropout(in[0], 0.1, true) * in[1]};
                  });
}

std::vector<Row> KernelRows() {
  return {
      {"row2/add4", Add4, 1100},
      {"row3/poly", Poly, 64},
      {"row4/transc-64k", [] { return Transcendental(65536); }, 600},
      {"row4/transc-1M", [] { return Transcendental(1048576); }, 16},
      {"row5/bf16-gelu", Bf16Gelu},
      {"row6/softmax-mask-s", [] { return SoftmaxMask({128, 1024}); }, 1400},
      {"row6/softmax-mask-l", [] { return SoftmaxMask({8, 12, 128, 128}); }},
      {"row7/ln-gelu-res-128", [] { return NormGeluResidual(128); }, 1400},
      {"row7/ln-gelu-res-4096", [] { return NormGeluResidual(4096); }},
      {"row8/reduce-sum", ReduceSum, 2100},
      {"row8/reduce-meanvar", MeanVar},
      {"row29/langevin-64k", [] { return Langevin(65536); }, 600},
      {"row29/dropout", [] { return Dropout({128, 64, 7, 7}); }, 64},
  };
}

}  // namespace tjit::bench
