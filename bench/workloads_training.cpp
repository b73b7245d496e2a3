// Rows 18, 19 and 25: training steps as a user of the C++ frontend writes
// them: zero_grad, forward, loss, backward, optimizer.
#include <torch/torch.h>

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

constexpr std::int64_t kLayers = 24, kWidth = 64, kHeads = 4;
constexpr std::int64_t kBatch = 4, kLength = 32, kVocabulary = 128;

// Pre-norm transformer layer with attention from basic ops.
struct LayerImpl : nn::Module {
  LayerImpl() {
    norm1 = register_module("norm1", nn::LayerNorm(Widths()));
    norm2 = register_module("norm2", nn::LayerNorm(Widths()));
    q = register_module("q", nn::Linear(kWidth, kWidth));
    k = register_module("k", nn::Linear(kWidth, kWidth));
    v = register_module("v", nn::Linear(kWidth, kWidth));
    out = register_module("out", nn::Linear(kWidth, kWidth));
    up = register_module("up", nn::Linear(kWidth, 4 * kWidth));
    down = register_module("down", nn::Linear(4 * kWidth, kWidth));
  }
  // x: f32 [B, L, D]; mask: f32 [L, L]. Returns f32 [B, L, D].
  Tensor forward(const Tensor& x, const Tensor& mask) {
    const auto heads = [](const Tensor& t) {
      return t.view({kBatch, kLength, kHeads, kWidth / kHeads})
          .transpose(1, 2);
    };
    Tensor h = norm1(x);
    Tensor scores = torch::matmul(heads(q(h)), heads(k(h)).transpose(2, 3));
    Tensor weights = torch::softmax(scores / 4.0 + mask, -1);
    Tensor mixed = torch::matmul(weights, heads(v(h)));
    Tensor y = x + out(mixed.transpose(1, 2).reshape({kBatch, kLength, -1}));
    return y + down(torch::gelu(up(norm2(y))));
  }
  static nn::LayerNormOptions Widths() {
    return nn::LayerNormOptions({kWidth});
  }
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  nn::Linear q{nullptr}, k{nullptr}, v{nullptr}, out{nullptr}, up{nullptr},
      down{nullptr};
};
TORCH_MODULE(Layer);

struct TransformerImpl : nn::Module {
  TransformerImpl() {
    tokens = register_module("tokens", nn::Embedding(kVocabulary, kWidth));
    places = register_parameter("places",
                                0.02 * torch::randn({kLength, kWidth}));
    for (std::int64_t i = 0; i < kLayers; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), Layer()));
    }
    norm = register_module("norm", nn::LayerNorm(LayerImpl::Widths()));
    head = register_module("head", nn::Linear(kWidth, kVocabulary));
    mask = register_buffer(
        "mask", torch::full({kLength, kLength}, -1e9).triu(1));
  }
  // ids: i64 [B, L]. Returns f32 [B * L, vocabulary].
  Tensor forward(const Tensor& ids) {
    Tensor x = tokens(ids) + places;
    for (Layer& layer : layers) x = layer(x, mask);
    return head(norm(x)).view({kBatch * kLength, kVocabulary});
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

Workload Deep(Optimizer optimizer) {
  struct State {
    Transformer net;
    std::unique_ptr<Updater> updater;
    Tensor ids, next, loss;
  };
  torch::manual_seed(1);
  auto s = std::make_shared<State>();
  s->updater = MakeUpdater(s->net->parameters(), Rule::kAdamW, optimizer);
  s->ids = torch::randint(kVocabulary, {kBatch, kLength}, torch::kLong);
  s->next = torch::randint(kVocabulary, {kBatch * kLength}, torch::kLong);
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
    rows.push_back({"row25/deep" + tail, [=] { return Deep(optimizer); }, 24});
  }
  return rows;
}

}  // namespace tjit::bench
