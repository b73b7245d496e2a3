// Rows 10 to 12: inference where products decide.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>
#include <memory>

#include "bench/engagement.h"
#include "bench/workloads.h"

namespace tjit::bench {
namespace {

using Tensors = std::vector<at::Tensor>;

// f32 around 0, scaled as an initialised weight of `sizes`.
at::Tensor Weight(at::IntArrayRef sizes, std::uint64_t seed) {
  return (Uniform(sizes, seed) - 0.5) *
         (2 / std::sqrt(static_cast<double>(sizes.back())));
}

}  // namespace

Workload MlpMnist(std::vector<std::int64_t> batches) {
  struct State {
    Tensors x;
    at::Tensor w1, b1, w2, b2, w3, b3;
    Tensors out;
  };
  auto s = std::make_shared<State>();
  for (const std::int64_t batch : batches) {
    s->x.push_back(Uniform({batch, 784}, 10));
  }
  s->w1 = Weight({512, 784}, 1);
  s->b1 = Uniform({512}, 2);
  s->w2 = Weight({512, 512}, 3);
  s->b2 = Uniform({512}, 4);
  s->w3 = Weight({10, 512}, 5);
  s->b3 = Uniform({10}, 6);
  Workload workload;
  const TensorsFunction net =
      Wrapped(TensorsFunction([s](const Tensors& batches_now, double) {
        Tensors made;
        for (const at::Tensor& x : batches_now) {
          at::Tensor h = at::relu(at::linear(x, s->w1, s->b1));
          h = at::relu(at::linear(h, s->w2, s->b2));
          made.push_back(at::linear(h, s->w3, s->b3));
        }
        return made;
      }));
  workload.step = [s, net] {
    const at::NoGradGuard no_grad;
    s->out.clear();
    s->out = net(s->x, 0);
  };
  workload.result = [s] { return s->out; };
  workload.uses_results = true;
  return workload;
}

Workload LstmOps() {
  constexpr std::int64_t kHidden = 128, kBatch = 16, kLength = 50;
  struct State {
    at::Tensor wx, wh, b;
    Tensors x, last;
  };
  auto s = std::make_shared<State>();
  s->x = {Uniform({kLength, kBatch, kHidden}, 1)};
  s->wx = Weight({kHidden, 4 * kHidden}, 2);
  s->wh = Weight({kHidden, 4 * kHidden}, 3);
  s->b = Uniform({4 * kHidden}, 4);
  Workload workload;
  const TensorsFunction cell =
      Wrapped(TensorsFunction([s](const Tensors& in, double) {
        at::Tensor h = at::zeros({kBatch, kHidden}), c = at::zeros_like(h);
        for (std::int64_t t = 0; t < kLength; ++t) {
          const at::Tensor gates =
              at::mm(in[0][t], s->wx) + at::mm(h, s->wh) + s->b;
          const Tensors part = gates.chunk(4, 1);
          c = at::sigmoid(part[1]) * c +
              at::sigmoid(part[0]) * at::tanh(part[2]);
          h = at::sigmoid(part[3]) * at::tanh(c);
        }
        return Tensors{h, c};
      }));
  workload.step = [s, cell] {
    const at::NoGradGuard no_grad;
    s->last = cell(s->x, 0);
  };
  workload.result = [s] { return s->last; };
  return workload;
}

namespace {

// A transformer that writes its keys and values into a cache.
struct Decoder {
  static constexpr std::int64_t kWidth = 128, kHeads = 4, kContext = 64;
  static constexpr std::int64_t kHead = kWidth / kHeads;
  static constexpr int kLayers = 4;
  struct Layer {
    at::Tensor norm1, norm2, qkv, out, up, down;
    at::Tensor keys, values;  // f32 [heads, context, head]
  };

  Decoder() {
    std::uint64_t seed = 1;
    for (Layer& l : layers) {
      l.norm1 = Uniform({kWidth}, seed++);
      l.norm2 = Uniform({kWidth}, seed++);
      l.qkv = Weight({3 * kWidth, kWidth}, seed++);
      l.out = Weight({kWidth, kWidth}, seed++);
      l.up = Weight({4 * kWidth, kWidth}, seed++);
      l.down = Weight({kWidth, 4 * kWidth}, seed++);
      l.keys = at::zeros({kHeads, kContext, kHead});
      l.values = at::zeros({kHeads, kContext, kHead});
    }
  }

  // x: f32 [tokens, width] at places [place, place + tokens) of the context.
  at::Tensor Forward(at::Tensor x, std::int64_t place) {
    const std::int64_t tokens = x.size(0), seen = place + tokens;
    for (Layer& l : layers) {
      const at::Tensor h = at::layer_norm(x, {kWidth}, l.norm1);
      const at::Tensor qkv = at::linear(h, l.qkv)
                                 .view({tokens, 3, kHeads, kHead})
                                 .permute({1, 2, 0, 3});
      l.keys.narrow(1, place, tokens).copy_(qkv[1]);
      l.values.narrow(1, place, tokens).copy_(qkv[2]);
      const at::Tensor scores =
          at::matmul(qkv[0], l.keys.narrow(1, 0, seen).transpose(1, 2)) /
          std::sqrt(static_cast<double>(kHead));
      const at::Tensor mixed =
          at::matmul(at::softmax(scores, -1), l.values.narrow(1, 0, seen))
              .transpose(0, 1)
              .reshape({tokens, kWidth});
      x = x + at::linear(mixed, l.out);
      const at::Tensor up =
          at::gelu(at::linear(at::layer_norm(x, {kWidth}, l.norm2), l.up));
      x = x + at::linear(up, l.down);
    }
    return x;
  }

  std::array<Layer, kLayers> layers;
};

}  // namespace

Workload DecodeToken() {
  constexpr std::int64_t kPrefill = 32;
  struct State {
    Decoder net;
    at::Tensor prompt, x;
    std::int64_t place = Decoder::kContext;
  };
  auto s = std::make_shared<State>();
  s->prompt = Uniform({kPrefill, Decoder::kWidth}, 100);
  Workload workload;
  const PlaceFunction forward =
      Wrapped(PlaceFunction([s](const at::Tensor& x, std::int64_t place) {
        return s->net.Forward(x, place);
      }));
  workload.step = [s, forward] {
    const at::NoGradGuard no_grad;
    if (s->place == Decoder::kContext) {
      s->x = forward(s->prompt, 0).narrow(0, kPrefill - 1, 1);
      s->place = kPrefill;
    }
    s->x = forward(s->x, s->place++);
  };
  workload.result = [s] { return Tensors{s->x}; };
  return workload;
}

Workload Prefill() {
  constexpr std::int64_t kTokens = 32;
  struct State {
    Decoder net;
    at::Tensor prompt, out;
  };
  auto s = std::make_shared<State>();
  s->prompt = Uniform({kTokens, Decoder::kWidth}, 100);
  Workload workload;
  const PlaceFunction forward =
      Wrapped(PlaceFunction([s](const at::Tensor& x, std::int64_t place) {
        return s->net.Forward(x, place);
      }));
  workload.step = [s, forward] {
    const at::NoGradGuard no_grad;
    s->out = forward(s->prompt, 0);
  };
  workload.result = [s] { return Tensors{s->out}; };
  workload.uses_results = true;
  return workload;
}

std::vector<Row> DenseRows() {
  return {
      {"row10/mlp-mnist-64", [] { return MlpMnist({64}); }},
      {"row10/mlp-mnist-sweep",
       [] {
         return MlpMnist({1, 8, 32, 128});
       }},
      {"row11/lstm-ops", LstmOps},
      {"row12/decode-tok", DecodeToken, 640},
      {"row12/prefill-32", Prefill, 64},
  };
}

}  // namespace tjit::bench
