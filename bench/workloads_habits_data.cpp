// Rows W whose habit is how data come in: loaders, pointers, bags, epochs.
#include <torch/torch.h>

#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include "bench/workloads_habits.h"

namespace tjit::bench {
namespace {

namespace nn = torch::nn;
namespace optim = torch::optim;
using torch::Tensor;

// Images in one tensor that is filled through its pointer, as readers of MNIST
// files fill it.
class Images : public torch::data::Dataset<Images> {
 public:
  explicit Images(std::int64_t count)
      : images_(torch::empty({count, 1, 28, 28})),
        labels_(torch::empty({count}, torch::kLong)) {
    Dice dice(1);
    auto* pixels = images_.data_ptr<float>();
    auto* labels = labels_.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < count; ++i) {
      labels[i] = dice.Between(0, 9);
      for (std::int64_t j = 0; j < 28 * 28; ++j) {
        // A band of light, at a height that depends on the label.
        const bool lit = j / 28 / 2 == labels[i] + 2;
        *pixels++ = 0.5f * (lit ? 1.0f : 0.0f) + 0.25f + 0.25f * dice.Signed();
      }
    }
  }
  torch::data::Example<> get(std::size_t i) override {
    const auto index = static_cast<std::int64_t>(i);
    return {images_[index], labels_[index]};
  }
  std::optional<std::size_t> size() const override {
    return static_cast<std::size_t>(images_.size(0));
  }

 private:
  Tensor images_, labels_;
};

// Batches of 16 images, each time in another order.
auto ShuffledImages() {
  namespace data = torch::data;
  auto images = Images(1024)
                    .map(data::transforms::Normalize<>(0.13, 0.31))
                    .map(data::transforms::Stack<>());
  return data::make_data_loader<data::samplers::RandomSampler>(
      std::move(images), data::DataLoaderOptions(16));
}

struct ConvNetImpl : nn::Module {
  ConvNetImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("dense", dense);
  }
  // x: f32 [B, 1, 28, 28]. Returns log probabilities, f32 [B, 10].
  Tensor forward(Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(conv2(x), 2));
    return torch::log_softmax(dense(x.view({x.size(0), -1})), 1);
  }
  nn::Conv2d conv1{nn::Conv2dOptions(1, 8, 3)};
  nn::Conv2d conv2{nn::Conv2dOptions(8, 16, 3)};
  nn::Linear dense{16 * 5 * 5, 10};
};
TORCH_MODULE(ConvNet);

// A step is a batch of 16 of the shuffled images; each tenth prints its loss.
class ShuffledClassifier {
 public:
  void Step() {
    if (!batch_ || *batch_ == loader_->end()) batch_ = loader_->begin();
    const torch::data::Example<>& batch = **batch_;
    optimizer_.zero_grad();
    loss_ = torch::nll_loss(net_(batch.data), batch.target);
    loss_.backward();
    optimizer_.step();
    if (++steps_ % 10 == 0) printed_ = loss_.item<double>();
    ++*batch_;
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = net_->parameters();
    out.push_back(torch::tensor({printed_}, torch::kDouble));
    return out;
  }

 private:
  decltype(ShuffledImages()) loader_ = ShuffledImages();
  ConvNet net_;
  optim::SGD optimizer_{net_->parameters(),
                        optim::SGDOptions(0.01).momentum(0.5)};
  std::optional<torch::data::Iterator<torch::data::Example<>>> batch_;
  Tensor loss_;
  std::int64_t steps_ = 0;
  double printed_ = 0;
};

// ReLU between linear layers.
nn::Sequential Mlp(const std::vector<std::int64_t>& widths) {
  nn::Sequential net;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) net->push_back(nn::ReLU());
    net->push_back(nn::Linear(widths[i], widths[i + 1]));
  }
  return net;
}

// A step draws a batch into two tensors that live as long as the program, one
// through its pointer, one through an accessor.
class PointerRegression {
 public:
  void Step() {
    auto* x = inputs_.data_ptr<float>();
    auto y = targets_.accessor<float, 2>();
    for (std::int64_t i = 0; i < kBatch; ++i) {
      float sum = 0;
      for (std::int64_t j = 0; j < kInputs; ++j) {
        const float value = dice_.Signed();
        *x++ = value;
        sum += value * value;
      }
      y[i][0] = sum;
    }
    optimizer_.zero_grad();
    loss_ = torch::mse_loss(net_->forward(inputs_), targets_);
    loss_.backward();
    optimizer_.step();
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = net_->parameters();
    out.push_back(loss_);
    return out;
  }

 private:
  static constexpr std::int64_t kBatch = 64, kInputs = 8;
  Dice dice_{1};
  Tensor inputs_ = torch::empty({kBatch, kInputs});
  Tensor targets_ = torch::empty({kBatch, 1});
  nn::Sequential net_ = Mlp({kInputs, 64, 64, 1});
  optim::Adam optimizer_{net_->parameters(), optim::AdamOptions(1e-3)};
  Tensor loss_;
};

// A step answers one request: its bytes lie in a buffer of the server, and the
// answer is read element by element.
class BlobServer {
 public:
  void Step() {
    for (float& value : buffer_) value = dice_.Signed();
    const torch::NoGradGuard no_grad;
    const Tensor x = torch::from_blob(buffer_.data(), {kBatch, kInputs});
    const Tensor scaled = (x - mean_) / (deviation_ + 1e-5);
    probabilities_ = torch::softmax(net_->forward(scaled), 1);
    const auto read = probabilities_.accessor<float, 2>();
    for (std::int64_t i = 0; i < kBatch; ++i) {
      for (std::int64_t j = 0; j < kClasses; ++j) {
        if (read[i][j] > 0.2f) ++answers_[static_cast<std::size_t>(j)];
      }
    }
  }
  std::vector<Tensor> Result() {
    return {probabilities_, torch::tensor(answers_, torch::kLong)};
  }

 private:
  static constexpr std::int64_t kBatch = 32, kInputs = 64, kClasses = 8;
  Dice dice_{1};
  std::vector<float> buffer_ = std::vector<float>(kBatch * kInputs);
  Tensor mean_ = 0.1 * torch::randn({kInputs});
  Tensor deviation_ = torch::rand({kInputs}) + 0.5;
  nn::Sequential net_ = Mlp({kInputs, 128, 128, kClasses});
  Tensor probabilities_;
  std::vector<std::int64_t> answers_ = std::vector<std::int64_t>(kClasses);
};

// A step is an epoch: 16 training batches in a new order, then four batches
// that are only looked at. The net behaves differently in the two.
class EpochsWithEvaluation {
 public:
  EpochsWithEvaluation() {
    net_->push_back(nn::Linear(kInputs, 64));
    net_->push_back(nn::BatchNorm1d(64));
    net_->push_back(nn::ReLU());
    net_->push_back(nn::Dropout(0.2));
    net_->push_back(nn::Linear(64, kClasses));
    optimizer_ = std::make_unique<optim::Adam>(net_->parameters(),
                                               optim::AdamOptions(1e-3));
    inputs_ = torch::randn({kCount + kHeldOut, kInputs});
    const Tensor projected = inputs_.matmul(torch::randn({kInputs, kClasses}));
    targets_ = projected.argmax(1);
  }
  void Step() {
    net_->train();
    const Tensor order = torch::randperm(kCount, torch::kLong);
    for (std::int64_t at = 0; at < kCount; at += kBatch) {
      const Tensor rows = order.slice(0, at, at + kBatch);
      optimizer_->zero_grad();
      const Tensor out = net_->forward(inputs_.index_select(0, rows));
      const Tensor loss =
          torch::cross_entropy_loss(out, targets_.index_select(0, rows));
      loss.backward();
      optimizer_->step();
    }
    net_->eval();
    const torch::NoGradGuard no_grad;
    std::int64_t right = 0;
    double loss = 0;
    for (std::int64_t at = kCount; at < kCount + kHeldOut; at += kBatch) {
      const Tensor out = net_->forward(inputs_.slice(0, at, at + kBatch));
      const Tensor want = targets_.slice(0, at, at + kBatch);
      loss += torch::cross_entropy_loss(out, want).item<double>();
      right += out.argmax(1).eq(want).sum().item<std::int64_t>();
    }
    printed_ = {loss, static_cast<double>(right)};
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = net_->parameters();
    out.push_back(torch::tensor(printed_, torch::kDouble));
    return out;
  }

 private:
  static constexpr std::int64_t kCount = 512, kHeldOut = 128, kBatch = 32,
                                kInputs = 20, kClasses = 5;
  nn::Sequential net_;
  std::unique_ptr<optim::Adam> optimizer_;
  Tensor inputs_, targets_;
  std::vector<double> printed_;
};

// Gradients are clipped, and the learning rate rises and falls with the step.
class ClippedSchedule {
 public:
  void Step() {
    const std::int64_t at = steps_++ % kPeriod;
    const double rate =
        at < kRise ? 1e-3 * static_cast<double>(at + 1) / kRise
                   : 5e-4 * (1 + std::cos(std::numbers::pi *
                                          static_cast<double>(at - kRise) /
                                          (kPeriod - kRise)));
    for (optim::OptimizerParamGroup& group : optimizer_.param_groups()) {
      static_cast<optim::AdamOptions&>(group.options()).lr(rate);
    }
    const std::int64_t first = kBatch * (steps_ % (kCount / kBatch));
    const Tensor x = inputs_.slice(0, first, first + kBatch);
    const Tensor y = targets_.slice(0, first, first + kBatch);
    optimizer_.zero_grad();
    const Tensor loss = torch::smooth_l1_loss(net_->forward(x), y);
    loss.backward();
    norm_ = nn::utils::clip_grad_norm_(net_->parameters(), 0.5);
    optimizer_.step();
    loss_ = loss;
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = net_->parameters();
    out.push_back(loss_);
    out.push_back(torch::tensor({norm_}, torch::kDouble));
    return out;
  }

 private:
  static constexpr std::int64_t kCount = 512, kBatch = 64, kInputs = 16,
                                kPeriod = 1000, kRise = 100;
  Tensor inputs_ = torch::randn({kCount, kInputs});
  Tensor targets_ = torch::sin(inputs_.sum(1, /*keepdim=*/true));
  nn::Sequential net_ = Mlp({kInputs, 64, 64, 1});
  optim::Adam optimizer_{net_->parameters(), optim::AdamOptions(1e-3)};
  std::int64_t steps_ = 0;
  double norm_ = 0;
  Tensor loss_;
};

// A step sorts 32 bags of one to twenty words each into four classes.
class EmbeddingBags {
 public:
  void Step() {
    std::vector<std::int64_t> words, starts, classes;
    for (std::int64_t i = 0; i < kBags; ++i) {
      starts.push_back(static_cast<std::int64_t>(words.size()));
      const std::int64_t length = dice_.Between(1, 20);
      for (std::int64_t j = 0; j < length; ++j) {
        words.push_back(dice_.Between(0, kWords - 1));
      }
      classes.push_back(words.back() % kClasses);
    }
    optimizer_.zero_grad();
    const Tensor out = dense_(bags_(torch::tensor(words, torch::kLong),
                                    torch::tensor(starts, torch::kLong)));
    loss_ = torch::cross_entropy_loss(out, torch::tensor(classes));
    loss_.backward();
    optimizer_.step();
  }
  std::vector<Tensor> Result() {
    return {bags_->weight, dense_->weight, dense_->bias, loss_};
  }

 private:
  static constexpr std::int64_t kBags = 32, kWords = 2000, kClasses = 4;
  Dice dice_{1};
  nn::EmbeddingBag bags_{
      nn::EmbeddingBagOptions(kWords, 32).mode(torch::kMean)};
  nn::Linear dense_{32, kClasses};
  optim::SGD optimizer_{
      std::vector<Tensor>{bags_->weight, dense_->weight, dense_->bias},
      optim::SGDOptions(0.1)};
  Tensor loss_;
};

}  // namespace

std::vector<Row> HabitDataRows() {
  return {
      HabitRow<ShuffledClassifier>("shuffled-classifier", 1024, 128),
      HabitRow<PointerRegression>("pointer-regression", 6000, 800),
      HabitRow<BlobServer>("blob-server", 10000, 1500),
      HabitRow<EpochsWithEvaluation>("epochs-evaluated", 300, 40),
      HabitRow<ClippedSchedule>("clipped-schedule", 5000, 600),
      HabitRow<EmbeddingBags>("embedding-bags", 8000, 1200),
  };
}

}  // namespace tjit::bench
