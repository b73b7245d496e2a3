#include "bench/training.h"

#include <utility>

#include "bench/engagement.h"

namespace tjit::bench {

using torch::Tensor;

namespace {

class TorchOptim : public Updater {
 public:
  explicit TorchOptim(std::unique_ptr<torch::optim::Optimizer> optimizer)
      : optimizer_(std::move(optimizer)) {}
  void ZeroGrad() override { optimizer_->zero_grad(); }
  void Step() override { optimizer_->step(); }
  torch::optim::Optimizer* optimizer() override { return optimizer_.get(); }

 private:
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

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
      at::_fused_sgd_(parameters_, grads, {}, 0.0, 0.0, 0.01, 0.0, false, false,
                      true);
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

}  // namespace

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

Workload TrainingStep(std::vector<Tensor> parameters, Rule rule,
                      Optimizer optimizer, std::function<Tensor()> loss) {
  struct State {
    std::vector<Tensor> parameters;
    std::unique_ptr<Updater> updater;
    std::function<Tensor()> loss_of;
    Tensor loss;
  };
  auto s = std::make_shared<State>();
  s->updater = MakeUpdater(parameters, rule, optimizer);
  s->parameters = std::move(parameters);
  s->loss_of = std::move(loss);
  Workload workload;
  const TrainingFunction whole = [s](torch::optim::Optimizer&) {
    s->updater->ZeroGrad();
    const Tensor loss_now = s->loss_of();
    loss_now.backward();
    s->updater->Step();
    return loss_now.detach();
  };
  workload.step = [s, step = Wrapped(whole)] {
    if (torch::optim::Optimizer* const o = s->updater->optimizer()) {
      s->loss = step(*o);
      return;
    }
    s->updater->ZeroGrad();
    s->loss = s->loss_of();
    s->loss.backward();
    s->updater->Step();
  };
  workload.result = [s] {
    std::vector<Tensor> out = s->parameters;
    out.push_back(s->loss);
    return out;
  };
  return workload;
}

const char* NameOf(Optimizer optimizer) {
  return optimizer == Optimizer::kTorchOptim ? "/optim" : "/fused";
}

}  // namespace tjit::bench
