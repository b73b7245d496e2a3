// Train in C++, ship a file: a network learns images of hand-written digits,
// and the function that predicts is written as a TorchScript module, with the
// names of its parameters. Python, Netron and torch::jit::load() open it; here
// it is read back and has the same bits.
//
//   build/release/bin/ship digits.pt [DATA]
//   python -c 'import torch; print(torch.jit.load("digits.pt").code)'
//
// A name that ends with .tjit makes it a package, which is the same and has an
// example and, behind `tjit package compile digits.tjit`, machine code in it.
//
// Tested by: tests/acceptance/ship_test.py, package_command_test.py
#include <tjit/jit.h>
#include <tjit/optim.h>
#include <tjit/package.h>
#include <tjit/tjit.h>
#include <tjit/torchscript.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int kSteps = 600, kBatch = 32;

// f32 [N, 65]: 64 pixels and a label a line.
Tensor Load(const std::string& path) {
  std::ifstream in(path);
  TORCH_CHECK(in, path, ": cannot be opened");
  std::vector<float> values;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, ',');) {
      values.push_back(std::stof(field));
    }
  }
  return torch::tensor(values).view({-1, 65});
}

void Train(nn::Sequential net, const Tensor& images, const Tensor& labels) {
  torch::optim::Adam adam(net->parameters(), 3e-3);
  auto step = tjit::jit(
      [net](torch::optim::Adam& optimizer, const Tensor& x,
            const Tensor& y) mutable {
        optimizer.zero_grad();
        torch::cross_entropy_loss(net->forward(x), y).backward();
        optimizer.step();
      },
      {.name = "step"});
  for (int i = 0; i < kSteps; ++i) {
    const Tensor rows = torch::randint(images.size(0), {kBatch}, torch::kLong);
    step(adam, images.index_select(0, rows), labels.index_select(0, rows));
  }
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

int Run(const std::string& file, const std::string& path) {
  torch::manual_seed(1);
  torch::set_num_threads(1);  // the ops are too small for two
  const Tensor data = Load(path);
  const Tensor images = data.slice(1, 0, 64) / 16;
  const Tensor labels = data.select(1, 64).to(torch::kLong);
  nn::Sequential net(nn::Linear(64, 32), nn::ReLU(), nn::Linear(32, 10));
  Train(net, images, labels);

  const torch::NoGradGuard no_grad;
  auto predict = tjit::jit(
      [net](const Tensor& x) mutable {
        return torch::softmax(net->forward(x), 1);
      },
      {.name = "predict"});
  Tensor expected;
  for (int i = 0; i < 3; ++i) expected = predict(images);
  const auto tensors = net->named_parameters().pairs();
  const bool is_package = file.size() > 5 && file.ends_with(".tjit");
  if (is_package) {
    tjit::save_package(file, predict,
                       {.tensors = tensors, .arguments = {"images"}}, images);
  } else {
    tjit::save_torchscript(
        file, predict, {.tensors = tensors, .arguments = {"images"}}, images);
  }

  torch::jit::Module loaded = torch::jit::load(file);
  const Tensor read = loaded.forward({images}).toTensor();
  const bool same = SameBits(read, expected);
  const double right =
      read.argmax(1).eq(labels).to(torch::kDouble).mean().item<double>();
  std::printf(
      "%s: %.1f %% of %lld digits are right; %s bits; the first is %a\n",
      file.c_str(), 100 * right, static_cast<long long>(images.size(0)),
      same ? "same" : "OTHER", read[0][0].item<float>());
  return same && right > 0.9 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: ship OUT.pt [DATA]\n");
    return 2;
  }
  return Run(argv[1], argc > 2 ? argv[2] : DIGITS_CSV);
} catch (const c10::Error& error) {
  std::fprintf(stderr, "ship: %s\n", error.what_without_backtrace());
  return 1;
}
