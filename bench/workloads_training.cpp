// Rows 18, 19, 24 and 25: training steps as a user of the C++ frontend writes
// them: zero_grad, forward, loss, backward, optimizer.
#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <vector>

#include "bench/workloads.h"

namespace tjit::bench {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

// The update rules of the three rows, each by torch::optim and by the fused
// kernel called by hand.
class Updater {
 public:
  virtual ~Updater() = default;
  virtual void ZeroGrad() = 0;
  virtual void Step() = 0;
};

class TorchOptim : public Updater {
 public:
  explicit TorchOptim(std::unique_ptr<torch::optim::Optimizer> optimizer)
      : optimizer_(std::move(optimizer)) {}
  void ZeroGrad() override { optimizer_->zero_grad(); }
  void Step() override { optimizer_->step(); }

 private:
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

enum class Rule : std::uint8_t { kSgd, kAdam, kAdamW };

class FusedByHand : public Updater {
 public:
  FusedByHand(std::vector<Tensor> parameters, Rule rule)
      : parameters_(std::move(parameters)), rule_(rule) {
    for (const Tensor& p : parameters_) {
      if (rule_ == Rule::kSgd) break;
      averages_.push_back(torch::zeros_like(p));
      squares_.push_back(torch::zeros_like(p));
      steps_.push_back(torch::zeros({}));
    }
  }
  void ZeroGrad() override {
    for (Tensor& p : parameters_) p.mutable_grad().reset();
  }
  void Step() override {
    const torch::NoGradGuard no_grad;
    std::vector<Tensor> grads;
    grads.reserve(parameters_.size());
    for (const Tensor& p : parameters_) grads.push_back(p.grad());
    if (rule_ == Rule::kSgd) {
      at::_fused_sgd_(parameters_, grads, {}, 0.0, 0.0, 0.01, 0.0, false,
                      false, true);
      return;
    }
    at::_foreach_add_(steps_, 1);
    if (rule_ == Rule::kAdam) {
      at::_fused_adam_(parameters_, grads, averages_, squares_, {}, steps_,
                       1e-3, 0.9, 0.999, 0.0, 1e-8, false, false);
    } else {
      at::_fused_adamw_(parameters_, grads, averages_, squares_, {}, steps_,
                        1e-3, 0.9, 0.999, 1e-2, 1e-8, false, false);
    }
  }

 private:
  std::vector<Tensor> parameters_, averages_, squares_, steps_;
  Rule rule_;
};

std::unique_ptr<Updater> MakeUpdater(std::vector<Tensor> parameters, Rule rule,
                                     Optimizer optimizer) {
  if (optimizer == Optimizer::kFusedByHand) {
    return std::make_unique<FusedByHand>(std::move(parameters), rule);
  }
  namespace optim = torch::optim;
  std::unique_ptr<optim::Optimizer> made;
  switch (rule) {
    case Rule::kSgd:
      made = std::make_unique<optim::SGD>(parameters, optim::SGDOptions(0.01));
      break;
    case Rule::kAdam:
      made =
          std::make_unique<optim::Adam>(parameters, optim::AdamOptions(1e-3));
      break;
    case Rule::kAdamW:
      made =
          std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(1e-3));
      break;
  }
  return std::make_unique<TorchOptim>(std::move(made));
}

// A fully connected net with tanh between its layers, trained on one batch.
Workload TanhNet(const std::vector<std::int64_t>& widths, std::int64_t batch,
                 Rule rule, Optimizer optimizer) {
  struct State {
    nn::Sequential net;
    std::unique_ptr<Updater> updater;
    Tensor x, y, loss;
  };
  torch::manual_seed(1);
  auto s = std::make_shared<State>();
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) s->net->push_back(nn::Tanh());
    s->net->push_back(nn::Linear(widths[i], widths[i + 1]));
  }
  s->updater = MakeUpdater(s->net->parameters(), rule, optimizer);
  s->x = torch::randn({batch, widths.front()});
  s->y = torch::randn({batch, widths.back()});
  Workload workload;
  workload.step = [s] {
    s->updater->ZeroGrad();
    s->loss = torch::mse_loss(s->net->forward(s->x), s->y);
    s->loss.backward();
    s->updater->Step();
  };
  workload.result = [s] {
    std::vector<Tensor> out = s->net->parameters();
    out.push_back(s->loss);
    return out;
  };
  return workload;
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
    norm = register_module(
        "norm", nn::LayerNorm(nn::LayerNormOptions({kDeep.width})));
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
    Tensor Loss(std::int64_t i) {
      return torch::mse_loss(layer(Batch(inputs, i), mask), Batch(targets, i));
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
  workload.step = [s] {
    for (std::int64_t i = 0; i < kTrainingSteps; ++i) {
      s->updater->ZeroGrad();
      s->loss = s->Loss(i);
      s->loss.backward();
      s->updater->Step();
    }
    const torch::NoGradGuard no_grad;
    s->validation = s->Loss(kTrainingSteps).item<double>();
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
  struct State {
    Transformer net;
    std::unique_ptr<Updater> updater;
    Tensor ids, next, loss;
  };
  torch::manual_seed(1);
  auto s = std::make_shared<State>();
  s->updater = MakeUpdater(s->net->parameters(), Rule::kAdamW, optimizer);
  const std::int64_t places = kDeep.batch * kDeep.length;
  s->ids = torch::randint(kVocabulary, {kDeep.batch, kDeep.length},
                          torch::kLong);
  s->next = torch::randint(kVocabulary, {places}, torch::kLong);
  Workload workload;
  workload.step = [s] {
    s->updater->ZeroGrad();
    s->loss = torch::cross_entropy_loss(s->net->forward(s->ids), s->next);
    s->loss.backward();
    s->updater->Step();
  };
  workload.result = [s] {
    std::vector<Tensor> out = s->net->parameters();
    out.push_back(s->loss);
    return out;
  };
  return workload;
}

std::vector<Row> TrainingRows() {
  std::vector<Row> rows;
  for (const Optimizer optimizer :
       {Optimizer::kTorchOptim, Optimizer::kFusedByHand}) {
    const std::string tail =
        optimizer == Optimizer::kTorchOptim ? "/optim" : "/fused";
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
