// Rows 18, 19, 24 and 25: training steps as a user of the C++ frontend writes
// them: zero_grad, forward, loss, backward, optimizer.
#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <vector>

#include "bench/engagement.h"
#include "bench/training.h"
#include "bench/workloads.h"

namespace tjit::bench {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

// A fully connected net with tanh between its layers, trained on one batch.
Workload TanhNet(const std::vector<std::int64_t>& widths, std::int64_t batch,
                 Rule rule, Optimizer optimizer) {
  torch::manual_seed(1);
  nn::Sequential net;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) net->push_back(nn::Tanh());
    net->push_back(nn::Linear(widths[i], widths[i + 1]));
  }
  const Tensor x = torch::randn({batch, widths.front()});
  const Tensor y = torch::randn({batch, widths.back()});
  return TrainingStep(net->parameters(), rule, optimizer, [=]() mutable {
    return torch::mse_loss(net->forward(x), y);
  });
}

// Sizes of a transformer. Activations are f32 [batch, length, width].
struct Dims {
  std::int64_t width, heads, batch, length;
};
constexpr Dims kDeep = {64, 4, 4, 32};
constexpr Dims kBlock = {128, 4, 8, 64};
constexpr std::int64_t kLayers = 24, kVocabulary = 128;

// Pre-norm transformer layer with attention from basic ops.
struct LayerImpl : nn::Module {
  explicit LayerImpl(const Dims& sizes) : dims(sizes) {
    const std::int64_t width = dims.width;
    const nn::LayerNormOptions widths({width});
    norm1 = register_module("norm1", nn::LayerNorm(widths));
    norm2 = register_module("norm2", nn::LayerNorm(widths));
    q = register_module("q", nn::Linear(width, width));
    k = register_module("k", nn::Linear(width, width));
    v = register_module("v", nn::Linear(width, width));
    out = register_module("out", nn::Linear(width, width));
    up = register_module("up", nn::Linear(width, 4 * width));
    down = register_module("down", nn::Linear(4 * width, width));
  }
  // x: f32 [B, L, D]; mask: f32 [L, L]. Returns f32 [B, L, D].
  Tensor forward(const Tensor& x, const Tensor& mask) {
    const std::int64_t head = dims.width / dims.heads;
    const auto heads = [&](const Tensor& t) {
      return t.view({dims.batch, dims.length, dims.heads, head})
          .transpose(1, 2);
    };
    Tensor h = norm1(x);
    Tensor scores = torch::matmul(heads(q(h)), heads(k(h)).transpose(2, 3));
    scores = scores / std::sqrt(static_cast<double>(head)) + mask;
    Tensor weights = torch::softmax(scores, -1);
    Tensor mixed = torch::matmul(weights, heads(v(h))).transpose(1, 2);
    Tensor y = x + out(mixed.reshape({dims.batch, dims.length, -1}));
    return y + down(torch::gelu(up(norm2(y))));
  }
  const Dims dims;
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  nn::Linear q{nullptr}, k{nullptr}, v{nullptr}, out{nullptr}, up{nullptr},
      down{nullptr};
};
TORCH_MODULE(Layer);

// f32 [length, length]: what lies ahead is not looked at.
Tensor CausalMask(std::int64_t length) {
  return torch::full({length, length}, -1e9).triu(1);
}

struct TransformerImpl : nn::Module {
  TransformerImpl() {
    tokens = register_module("tokens", nn::Embedding(kVocabulary, kDeep.width));
    places = register_parameter(
        "places", 0.02 * torch::randn({kDeep.length, kDeep.width}));
    for (std::int64_t i = 0; i < kLayers; ++i) {
      layers.push_back(
          register_module("layer" + std::to_string(i), Layer(kDeep)));
    }
    norm = register_module("norm",
                           nn::LayerNorm(nn::LayerNormOptions({kDeep.width})));
    head = register_module("head", nn::Linear(kDeep.width, kVocabulary));
    mask = register_buffer("mask", CausalMask(kDeep.length));
  }
  // ids: i64 [B, L]. Returns f32 [B * L, vocabulary].
  Tensor forward(const Tensor& ids) {
    Tensor x = tokens(ids) + places;
    for (Layer& layer : layers) x = layer(x, mask);
    return head(norm(x)).view({kDeep.batch * kDeep.length, kVocabulary});
  }
  nn::Embedding tokens{nullptr};
  Tensor places, mask;
  std::vector<Layer> layers;
  nn::LayerNorm norm{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Transformer);

}  // namespace

Workload Pinn(Optimizer optimizer) {
  return TanhNet({8, 16, 1}, 4, Rule::kSgd, optimizer);
}

Workload MlpAdam(Optimizer optimizer) {
  return TanhNet({8, 32, 32, 32, 1}, 32, Rule::kAdam, optimizer);
}

Workload Block(Optimizer optimizer) {
  struct State {
    Layer layer{kBlock};
    std::unique_ptr<Updater> updater;
    Tensor inputs, targets, mask, loss;
    double validation = 0;

    // Batch `i` of `all`: f32 [batch, length, width].
    static Tensor Batch(const Tensor& all, std::int64_t i) {
      return all.narrow(0, i * kBlock.batch, kBlock.batch);
    }
    Tensor Loss(const Tensor& x, const Tensor& y) {
      return torch::mse_loss(layer(x, mask), y);
    }
    Tensor Train(const Tensor& x, const Tensor& y) {
      updater->ZeroGrad();
      const Tensor loss_now = Loss(x, y);
      loss_now.backward();
      updater->Step();
      return loss_now.detach();
    }
  };
  constexpr std::int64_t kTrainingSteps = 10;
  torch::manual_seed(1);
  auto s = std::make_shared<State>();
  s->updater = MakeUpdater(s->layer->parameters(), Rule::kAdamW, optimizer);
  // The last batch is for validation.
  const std::int64_t count = (kTrainingSteps + 1) * kBlock.batch;
  s->inputs = torch::randn({count, kBlock.length, kBlock.width});
  s->targets = torch::randn({count, kBlock.length, kBlock.width});
  s->mask = CausalMask(kBlock.length);
  Workload workload;
  const BatchFunction train =
      Wrapped(BatchFunction([s](torch::optim::Optimizer&, const Tensor& x,
                                const Tensor& y) { return s->Train(x, y); }));
  const TensorFunction validate = Wrapped(TensorFunction(
      [s](const Tensor& x, const Tensor& y) { return s->Loss(x, y); }));
  workload.step = [s, train, validate] {
    torch::optim::Optimizer* const o = s->updater->optimizer();
    for (std::int64_t i = 0; i < kTrainingSteps; ++i) {
      const Tensor x = State::Batch(s->inputs, i);
      const Tensor y = State::Batch(s->targets, i);
      s->loss = o != nullptr ? train(*o, x, y) : s->Train(x, y);
    }
    const torch::NoGradGuard no_grad;
    s->validation = validate(State::Batch(s->inputs, kTrainingSteps),
                             State::Batch(s->targets, kTrainingSteps))
                        .item<double>();
  };
  workload.result = [s] {
    std::vector<Tensor> out = s->layer->parameters();
    out.push_back(s->loss);
    out.push_back(torch::scalar_tensor(s->validation, torch::kDouble));
    return out;
  };
  return workload;
}

Workload Deep(Optimizer optimizer) {
  torch::manual_seed(1);
  Transformer net;
  const std::int64_t places = kDeep.batch * kDeep.length;
  const Tensor ids =
      torch::randint(kVocabulary, {kDeep.batch, kDeep.length}, torch::kLong);
  const Tensor next = torch::randint(kVocabulary, {places}, torch::kLong);
  return TrainingStep(
      net->parameters(), Rule::kAdamW, optimizer, [=]() mutable {
        return torch::cross_entropy_loss(net->forward(ids), next);
      });
}

std::vector<Row> TrainingRows() {
  std::vector<Row> rows;
  for (const Optimizer optimizer :
       {Optimizer::kTorchOptim, Optimizer::kFusedByHand}) {
    const std::string tail = NameOf(optimizer);
    rows.push_back({"row18/pinn" + tail, [=] { return Pinn(optimizer); }});
    rows.push_back(
        {"row19/mlp-adam" + tail, [=] { return MlpAdam(optimizer); }});
    rows.push_back(
        {"row24/block" + tail, [=] { return Block(optimizer); }, 14});
    rows.push_back({"row25/deep" + tail, [=] { return Deep(optimizer); }, 24});
  }
  return rows;
}

}  // namespace tjit::bench
