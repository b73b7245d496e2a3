// Rows 20 to 23: training steps in which products, convolutions or the
// optimizer's traffic decide.
#include <torch/torch.h>

#include <vector>

#include "bench/engagement.h"
#include "bench/training.h"
#include "bench/workloads.h"

namespace tjit::bench {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr std::int64_t kClasses = 10;

Tensor Labels(std::int64_t batch) {
  return torch::randint(kClasses, {batch}, torch::kLong);
}

// Linear layers with ReLU between them, made in their order: that of a call's
// arguments is the compiler's.
nn::Sequential ReluNet(const std::vector<std::int64_t>& widths) {
  nn::Sequential net;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) net->push_back(nn::ReLU());
    net->push_back(nn::Linear(widths[i], widths[i + 1]));
  }
  return net;
}

}  // namespace

Workload MlpGt(Optimizer optimizer) {
  torch::manual_seed(1);
  nn::Sequential net = ReluNet({784, 256, kClasses});
  const Tensor x = torch::randn({128, 784});
  const Tensor y = torch::randn({128, kClasses});
  return TrainingStep(net->parameters(), Rule::kSgd, optimizer, [=]() mutable {
    return torch::mse_loss(net->forward(x), y);
  });
}

Workload MlpLarge(Optimizer optimizer) {
  torch::manual_seed(1);
  nn::Sequential net = ReluNet({784, 256, 256, kClasses});
  const Tensor x = torch::randn({64, 784});
  const Tensor labels = Labels(64);
  return TrainingStep(net->parameters(), Rule::kAdam, optimizer, [=]() mutable {
    return torch::cross_entropy_loss(net->forward(x), labels);
  });
}

Workload AdamOnly(std::int64_t tensors, std::int64_t elements,
                  Optimizer optimizer) {
  torch::manual_seed(1);
  std::vector<Tensor> parameters;
  for (std::int64_t i = 0; i < tensors; ++i) {
    Tensor p = torch::randn({elements}).requires_grad_();
    p.mutable_grad() = torch::randn({elements});
    parameters.push_back(p);
  }
  const std::shared_ptr<Updater> updater =
      MakeUpdater(parameters, Rule::kAdam, optimizer);
  Workload workload;
  const TrainingFunction update =
      Wrapped(TrainingFunction([](torch::optim::Optimizer& optimizer_now) {
        optimizer_now.step();
        return Tensor();
      }));
  workload.step = [updater, update] {
    if (torch::optim::Optimizer* const o = updater->optimizer()) {
      update(*o);
    } else {
      updater->Step();
    }
  };
  workload.result = [parameters] { return parameters; };
  return workload;
}

Workload MnistCnn(bool with_norm, Optimizer optimizer) {
  torch::manual_seed(1);
  const auto convolution = [](std::int64_t from, std::int64_t to) {
    return nn::Conv2d(nn::Conv2dOptions(from, to, 3).padding(1));
  };
  nn::Sequential net;
  net->push_back(convolution(1, 32));
  if (with_norm) net->push_back(nn::BatchNorm2d(32));
  net->push_back(nn::ReLU());
  net->push_back(nn::MaxPool2d(2));
  net->push_back(convolution(32, 64));
  if (with_norm) net->push_back(nn::BatchNorm2d(64));
  net->push_back(nn::ReLU());
  net->push_back(nn::MaxPool2d(2));
  net->push_back(nn::Flatten());
  net->push_back(nn::Dropout(0.5));
  net->push_back(nn::Linear(64 * 7 * 7, kClasses));
  const Tensor x = torch::randn({128, 1, 28, 28});
  const Tensor labels = Labels(128);
  return TrainingStep(net->parameters(), Rule::kAdam, optimizer, [=]() mutable {
    return torch::cross_entropy_loss(net->forward(x), labels);
  });
}

// A period without a boundary is found after 4,096 ops or 2^30 elements, and
// compiled when it has run for as long as that takes.
std::vector<Row> ProductRows() {
  std::vector<Row> rows;
  for (const Optimizer optimizer :
       {Optimizer::kTorchOptim, Optimizer::kFusedByHand}) {
    const std::string tail = NameOf(optimizer);
    rows.push_back(
        {"row20/mlp-gt" + tail, [=] { return MlpGt(optimizer); }, 400});
    rows.push_back(
        {"row21/mlp-large" + tail, [=] { return MlpLarge(optimizer); }, 200});
    rows.push_back({"row22/adam-100x1k" + tail,
                    [=] { return AdamOnly(100, 1024, optimizer); }});
    rows.push_back({"row22/adam-4x1M" + tail,
                    [=] { return AdamOnly(4, 1 << 20, optimizer); }, 200});
    rows.push_back({"row23/mnist-cnn" + tail,
                    [=] { return MnistCnn(false, optimizer); }, 100});
    rows.push_back({"row23/mnist-cnn-norm" + tail,
                    [=] { return MnistCnn(true, optimizer); }, 100});
  }
  return rows;
}

}  // namespace tjit::bench
