// A whole training step as one function of tjit::jit(): zero_grad, a network
// with dropout, the loss, backward() and Adam. It is trained twice on images of
// hand-written digits, eagerly and replayed, with the same bits.
//
//   build/release/bin/whole_step [DATA]
//
// Tested by: tests/acceptance/CMakeLists.txt (its exit status)
#include <tjit/jit.h>
#include <tjit/optim.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace nn = torch::nn;
using torch::Tensor;
using torch::optim::Adam;

constexpr int kSteps = 2000, kBatch = 32;

// f32 [N, 65]: 64 pixels and a label a line.
Tensor Load(const std::string& path) {
  std::ifstream in(path);
  TORCH_CHECK(in, path, ": cannot be opened");
  std::vector<float> values;
  for (std::string line; std::getline(in, line, ',');) {
    for (std::size_t at = 0; at < line.size();) {
      std::size_t used = 0;
      values.push_back(std::stof(line.substr(at), &used));
      at += used + 1;  // a line ends between two commas, too
    }
  }
  return torch::tensor(values).view({-1, 65});
}

struct Trained {
  std::vector<Tensor> parameters;
  float loss = 0;
  double us_a_step = 0;  // of the second half
  tjit::JitStats stats;
};

Trained Train(const Tensor& data, bool wraps) {
  torch::manual_seed(1);
  nn::Sequential net(nn::Linear(64, 32), nn::ReLU(), nn::Dropout(0.1),
                     nn::Linear(32, 10));
  Adam adam(net->parameters(), 3e-3);
  auto step = [net](Adam& optimizer, const Tensor& images,
                    const Tensor& labels) mutable {
    optimizer.zero_grad();
    const Tensor loss = torch::cross_entropy_loss(net->forward(images), labels);
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  auto fast = tjit::jit(step, {.name = "step"});
  Trained trained;
  Tensor loss;
  std::chrono::steady_clock::time_point half;
  for (int i = 0; i < kSteps; ++i) {
    if (i == kSteps / 2) half = std::chrono::steady_clock::now();
    const Tensor rows = data.index_select(
        0, torch::randint(data.size(0), {kBatch}, torch::kLong));
    const Tensor images = rows.slice(1, 0, 64) / 16;
    const Tensor labels = rows.select(1, 64).to(torch::kLong);
    loss = wraps ? fast(adam, images, labels) : step(adam, images, labels);
  }
  trained.loss = loss.item<float>();
  const std::chrono::duration<double, std::micro> took =
      std::chrono::steady_clock::now() - half;
  trained.us_a_step = took.count() / (kSteps - kSteps / 2);
  trained.parameters = net->parameters();
  trained.stats = fast.stats();
  return trained;
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

int Run(const std::string& path) {
  torch::set_num_threads(1);  // the ops are too small for two
  const Tensor data = Load(path);
  const Trained eager = Train(data, false), replayed = Train(data, true);
  tjit::sync();
  bool same = eager.loss == replayed.loss;
  for (std::size_t i = 0; i < eager.parameters.size(); ++i) {
    same &= SameBits(eager.parameters[i], replayed.parameters[i]);
  }
  const tjit::JitStats& s = replayed.stats;
  std::printf(
      "loss %.4f; %lld of %lld steps replayed; %s bits; %.1f us a step "
      "instead of %.1f%s%s\n",
      replayed.loss, static_cast<long long>(s.replays),
      static_cast<long long>(s.calls), same ? "same" : "OTHER",
      replayed.us_a_step, eager.us_a_step, s.why.empty() ? "" : "; ",
      s.why.c_str());
  return same && s.replays > s.calls * 9 / 10 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  return Run(argc > 1 ? argv[1] : DIGITS_CSV);
} catch (const c10::Error& error) {
  std::fprintf(stderr, "whole_step: %s\n", error.what_without_backtrace());
  return 1;
}
