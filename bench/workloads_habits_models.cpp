// Rows W whose habit is the model: constants from the host in the middle of a
// step, draws in each step, two optimizers, gradients of gradients.
#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "bench/workloads_habits.h"

namespace tjit::bench {
namespace {

namespace nn = torch::nn;
namespace optim = torch::optim;
using torch::Tensor;

// What Gaussian processes here have in common: a kernel with two parameters and
// noise, all by their logarithms.
struct KernelImpl : nn::Module {
  KernelImpl() {
    length = register_parameter("length", torch::zeros({1}));
    scale = register_parameter("scale", torch::zeros({1}));
    noise = register_parameter("noise", torch::full({1}, -2.0));
  }
  // a: f32 [N, D]; b: f32 [M, D]. Returns f32 [N, M].
  Tensor forward(const Tensor& a, const Tensor& b) {
    const Tensor x = a / length.exp(), y = b / length.exp();
    const Tensor squares = x.square().sum(1, true) +
                           y.square().sum(1).unsqueeze(0) - 2 * x.matmul(y.t());
    return scale.exp() * torch::exp(-0.5 * squares.clamp_min(0));
  }
  Tensor length, scale, noise;
};
TORCH_MODULE(Kernel);

// The sum of the logarithms of the diagonal of `factor`, f32 [N, N].
Tensor LogDiagonal(const Tensor& factor) {
  return factor.diagonal().log().sum();
}

// A step of the marginal likelihood of 64 points; a jitter keeps the matrix
// positive.
class ExactProcess {
 public:
  void Step() {
    optimizer_.zero_grad();
    const Tensor jitter = torch::tensor(1e-4f);
    const Tensor covariance =
        kernel_(inputs_, inputs_) +
        (kernel_->noise.exp() + jitter) * torch::eye(kCount);
    const Tensor factor = torch::linalg_cholesky(covariance);
    const Tensor solved = torch::cholesky_solve(targets_, factor);
    loss_ = torch::tensor(0.5f) * (targets_ * solved).sum() +
            LogDiagonal(factor) + 0.5 * kCount * std::log(2 * std::numbers::pi);
    loss_.backward();
    optimizer_.step();
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = kernel_->parameters();
    out.push_back(loss_);
    return out;
  }

 private:
  static constexpr std::int64_t kCount = 64;
  Tensor inputs_ = 4 * torch::rand({kCount, 2});
  Tensor targets_ =
      torch::sin(inputs_.sum(1, true)) + 0.1 * torch::randn({kCount, 1});
  Kernel kernel_;
  optim::Adam optimizer_{kernel_->parameters(), optim::AdamOptions(1e-3)};
  Tensor loss_;
};

// A sparse variational process: a step is a minibatch of 64 drawn rows.
class VariationalProcess {
 public:
  VariationalProcess() {
    places_ = (4 * torch::rand({kInducing, 2})).requires_grad_(true);
    mean_ = torch::zeros({kInducing, 1}).requires_grad_(true);
    root_ = torch::eye(kInducing).requires_grad_(true);
    std::vector<Tensor> parameters = kernel_->parameters();
    for (const Tensor& p : {places_, mean_, root_}) parameters.push_back(p);
    optimizer_ = std::make_unique<optim::Adam>(std::move(parameters),
                                               optim::AdamOptions(1e-3));
  }
  void Step() {
    const Tensor rows = torch::randint(kCount, {kBatch}, torch::kLong);
    const Tensor x = inputs_.index({rows}), y = targets_.index({rows});
    optimizer_->zero_grad();
    const Tensor eye = torch::eye(kInducing);
    const Tensor factor = torch::linalg_cholesky(kernel_(places_, places_) +
                                                 torch::tensor(1e-3f) * eye);
    const Tensor weights = torch::linalg_solve_triangular(
        factor, kernel_(places_, x), /*upper=*/false);
    const Tensor root = root_.tril();
    const Tensor mean = weights.t().matmul(mean_);
    const Tensor variance = kernel_->scale.exp() - weights.square().sum(0) +
                            root.t().matmul(weights).square().sum(0);
    const Tensor noise = kernel_->noise.exp() + torch::tensor(1e-4f);
    const Tensor likely =
        -0.5 * (torch::log(2 * std::numbers::pi * noise) +
                ((y - mean).square().squeeze(1) + variance) / noise);
    const Tensor divergence =
        0.5 * (root.square().sum() + mean_.square().sum() - kInducing) -
        root.diagonal().abs().log().sum();
    loss_ = -(likely.mean() * kCount - divergence);
    loss_.backward();
    optimizer_->step();
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = kernel_->parameters();
    for (const Tensor& p : {places_, mean_, root_, loss_}) out.push_back(p);
    return out;
  }

 private:
  static constexpr std::int64_t kCount = 1000, kBatch = 64, kInducing = 24;
  Tensor inputs_ = 4 * torch::rand({kCount, 2});
  Tensor targets_ =
      torch::sin(inputs_.sum(1, true)) + 0.1 * torch::randn({kCount, 1});
  Kernel kernel_;
  Tensor places_, mean_, root_;
  std::unique_ptr<optim::Adam> optimizer_;
  Tensor loss_;
};

// A net with one hidden layer and tanh.
nn::Sequential TanhNet(std::int64_t in, std::int64_t hidden, std::int64_t out) {
  return nn::Sequential(nn::Linear(in, hidden), nn::Tanh(),
                        nn::Linear(hidden, hidden), nn::Tanh(),
                        nn::Linear(hidden, out));
}

// An affine coupling flow (real NVP) of four layers over four dimensions.
struct FlowImpl : nn::Module {
  static constexpr std::int64_t kWidth = 4, kLayers = 4;

  FlowImpl() {
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string number = std::to_string(i);
      scales.push_back(
          register_module("scale" + number, TanhNet(kWidth, 32, kWidth)));
      shifts.push_back(
          register_module("shift" + number, TanhNet(kWidth, 32, kWidth)));
      const Tensor even = torch::arange(kWidth).remainder(2).to(torch::kFloat);
      masks.push_back(
          register_buffer("mask" + number, i % 2 == 0 ? even : 1 - even));
    }
  }
  // x: f32 [B, D]. Returns the log likelihood of each row, f32 [B].
  Tensor forward(const Tensor& x) {
    Tensor z = x, volume = torch::zeros({x.size(0)});
    for (std::size_t i = 0; i < masks.size(); ++i) {
      const Tensor kept = z * masks[i], open = 1 - masks[i];
      const Tensor scale = torch::tanh(scales[i]->forward(kept)) * open;
      const Tensor shift = shifts[i]->forward(kept) * open;
      z = kept + open * (z * torch::exp(scale) + shift);
      volume = volume + scale.sum(1);
    }
    const Tensor normal =
        -0.5 * (z.square() + torch::log(torch::tensor(2 * std::numbers::pi)));
    return normal.sum(1).to(torch::kFloat) + volume;
  }
  std::vector<nn::Sequential> scales, shifts;
  std::vector<Tensor> masks;
};
TORCH_MODULE(Flow);

// Noisy points on two half circles, of which each step draws its own.
Tensor Moons(std::int64_t count) {
  const Tensor angle = std::numbers::pi * torch::rand({count});
  const Tensor side = torch::randint(2, {count}).to(torch::kFloat);
  const Tensor x = torch::cos(angle) * (1 - 2 * side) + side;
  const Tensor y = torch::sin(angle) * (1 - 2 * side) + 0.5 * side;
  return torch::stack({x, y}, 1) + 0.05 * torch::randn({count, 2});
}

class NormalisingFlow {
 public:
  void Step() {
    const Tensor x = torch::cat({Moons(128), torch::randn({128, 2})}, 1);
    optimizer_.zero_grad();
    loss_ = -flow_(x).mean();
    loss_.backward();
    optimizer_.step();
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = flow_->parameters();
    out.push_back(loss_);
    return out;
  }

 private:
  Flow flow_;
  optim::Adam optimizer_{flow_->parameters(), optim::AdamOptions(1e-3)};
  Tensor loss_;
};

nn::Sequential LeakyNet(std::int64_t in, std::int64_t hidden,
                        std::int64_t out) {
  const auto leaky = nn::LeakyReLUOptions().negative_slope(0.2);
  return nn::Sequential(nn::Linear(in, hidden), nn::LeakyReLU(leaky),
                        nn::Linear(hidden, hidden), nn::LeakyReLU(leaky),
                        nn::Linear(hidden, out));
}

constexpr std::int64_t kNoise = 16, kBatch = 64;

// What generates has batch norms, as in a DCGAN.
nn::Sequential Generator() {
  return nn::Sequential(nn::Linear(kNoise, 64), nn::BatchNorm1d(64), nn::ReLU(),
                        nn::Linear(64, 64), nn::BatchNorm1d(64), nn::ReLU(),
                        nn::Linear(64, 2));
}

std::vector<Tensor> TogetherWith(std::vector<Tensor> first,
                                 const std::vector<Tensor>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// Two nets, two optimizers; a step trains both, as the DCGAN example does.
class Adversaries {
 public:
  void Step() {
    const Tensor real = Moons(kBatch);
    judge_->zero_grad();
    const Tensor real_labels = torch::empty({kBatch, 1}).uniform_(0.8, 1.0);
    const Tensor on_real = torch::binary_cross_entropy(
        torch::sigmoid(judge_->forward(real)), real_labels);
    on_real.backward();
    const Tensor fake = maker_->forward(torch::randn({kBatch, kNoise}));
    const Tensor on_fake = torch::binary_cross_entropy(
        torch::sigmoid(judge_->forward(fake.detach())),
        torch::zeros({kBatch, 1}));
    on_fake.backward();
    judge_loss_ = on_real + on_fake;
    judge_optimizer_.step();

    maker_->zero_grad();
    maker_loss_ = torch::binary_cross_entropy(
        torch::sigmoid(judge_->forward(fake)), torch::ones({kBatch, 1}));
    maker_loss_.backward();
    maker_optimizer_.step();
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out =
        TogetherWith(maker_->parameters(), judge_->parameters());
    return TogetherWith(std::move(out), {judge_loss_, maker_loss_});
  }

 private:
  nn::Sequential maker_ = Generator();
  nn::Sequential judge_ = LeakyNet(2, 64, 1);
  optim::Adam maker_optimizer_{maker_->parameters(),
                               optim::AdamOptions(2e-4).betas({0.5, 0.999})};
  optim::Adam judge_optimizer_{judge_->parameters(),
                               optim::AdamOptions(2e-4).betas({0.5, 0.999})};
  Tensor judge_loss_, maker_loss_;
};

// A Wasserstein GAN: the critic has a penalty on the length of its gradient,
// which is differentiated again. The generator has its turn each fifth step.
class WassersteinGan {
 public:
  void Step() {
    const Tensor real = Moons(kBatch);
    const Tensor fake =
        maker_->forward(torch::randn({kBatch, kNoise})).detach();
    critic_optimizer_.zero_grad();
    critic_loss_ = critic_->forward(fake).mean() -
                   critic_->forward(real).mean() + 10 * Penalty(real, fake);
    critic_loss_.backward();
    critic_optimizer_.step();
    if (++steps_ % 5 != 0) return;
    maker_optimizer_.zero_grad();
    maker_loss_ =
        -critic_->forward(maker_->forward(torch::randn({kBatch, kNoise})))
             .mean();
    maker_loss_.backward();
    maker_optimizer_.step();
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out =
        TogetherWith(maker_->parameters(), critic_->parameters());
    return TogetherWith(std::move(out), {critic_loss_, maker_loss_});
  }

 private:
  Tensor Penalty(const Tensor& real, const Tensor& fake) {
    const Tensor share = torch::rand({kBatch, 1});
    const Tensor between =
        (share * real + (1 - share) * fake).requires_grad_(true);
    const Tensor out = critic_->forward(between);
    const Tensor slope = torch::autograd::grad(
        {out}, {between}, {torch::ones_like(out)}, /*retain_graph=*/true,
        /*create_graph=*/true)[0];
    return (slope.norm(2, 1) - 1).square().mean();
  }

  nn::Sequential maker_{nn::Linear(kNoise, 64), nn::ReLU(), nn::Linear(64, 64),
                        nn::ReLU(), nn::Linear(64, 2)};
  nn::Sequential critic_ = LeakyNet(2, 64, 1);
  optim::Adam maker_optimizer_{maker_->parameters(),
                               optim::AdamOptions(1e-4).betas({0.0, 0.9})};
  optim::Adam critic_optimizer_{critic_->parameters(),
                                optim::AdamOptions(1e-4).betas({0.0, 0.9})};
  std::int64_t steps_ = 0;
  Tensor critic_loss_, maker_loss_;
};

}  // namespace

std::vector<Row> HabitModelRows() {
  return {
      HabitRow<ExactProcess>("exact-process", 3000, 400),
      HabitRow<VariationalProcess>("variational-process", 2000, 300),
      HabitRow<NormalisingFlow>("normalising-flow", 800, 100),
      HabitRow<Adversaries>("adversaries", 1500, 200),
      HabitRow<WassersteinGan>("wasserstein", 1500, 200),
  };
}

}  // namespace tjit::bench
