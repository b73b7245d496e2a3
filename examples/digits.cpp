// Trains a small CNN on images of hand-written digits; TJIT_AUTO_COMPILE=1
// makes it faster. digits [DATA [EPOCHS [DUMP]]]: DUMP gets losses and state
// bit for bit, DUMP.json what tjit did after the first epoch.
// Tested by: tests/acceptance/digits_test.py
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <fstream>
namespace nn = torch::nn;
using torch::Tensor;
constexpr int kTrain = 1500, kBatch = 64, kSteps = 24;  // the last has 28

// f32 [N, 65]: 64 pixels and a label a line. THROWS: c10::Error, file:line.
Tensor Load(const std::string& path) {
  std::ifstream in(path);
  TORCH_CHECK(in, path, ": cannot be opened");
  std::vector<float> values;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    char comma = ',';
    for (int i = 0, value = 0; i < 65; ++i) {
      const bool read(fields >> value), more(fields >> comma);
      TORCH_CHECK(read && value >= 0 && value <= (i < 64 ? 16 : 9) &&
                      comma == ',' && more == (i < 64),
                  path, ":", values.size() / 65 + 1, ": value ", i + 1,
                  " is wrong; a line is 64 pixels 0..16 and a label 0..9");
      values.push_back(static_cast<float>(value));
    }
  }
  const Tensor set = torch::tensor(values).view({-1, 65});
  TORCH_CHECK(set.size(0) > kTrain, path, ":", set.size(0), ": ends too early");
  return set;
}

void Run(const std::string& data, int epochs, const std::string& dump) {
  const Tensor set = Load(data), labels = set.select(1, 64).to(torch::kLong);
  const Tensor images = set.slice(1, 0, 64).reshape({-1, 1, 8, 8}) / 16;
  torch::manual_seed(1);
  nn::Sequential net(nn::Conv2d(1, 16, 3), nn::BatchNorm2d(16), nn::ReLU(),
                     nn::MaxPool2d(2), nn::Flatten(), nn::Dropout(0.2),
                     nn::Linear(144, 64), nn::ReLU(), nn::Linear(64, 10));
  torch::optim::Adam adam(net->parameters(), 5e-3);
  std::vector<float> losses, times;  // of every step
  const auto train_epoch = [&] {     // returns the median time in ms
    net->train();
    for (const Tensor& batch : torch::randperm(kTrain).split(kBatch)) {
      const auto start = std::chrono::steady_clock::now();
      adam.zero_grad();
      Tensor scores = net->forward(images.index_select(0, batch));
      Tensor loss = at::cross_entropy_loss(scores, labels.index({batch}));
      loss.backward();
      adam.step();
      losses.push_back(loss.item<float>());
      times.push_back((std::chrono::steady_clock::now() - start).count() / 1e6);
    }
    return torch::tensor(times).slice(0, -kSteps).median().item<float>();
  };
  float step_ms = 0;
  tjit::Stats first;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    step_ms = train_epoch();
    torch::NoGradGuard no_grad;
    net->eval();  // on the images that were not trained on
    Tensor guess = net->forward(images.slice(0, kTrain)).argmax(1);
    Tensor right = guess.eq(labels.slice(0, kTrain)).to(torch::kFloat);
    std::printf("epoch %d: loss %.6f, accuracy %.4f, %.3f ms per step\n", epoch,
                torch::tensor(losses).slice(0, -kSteps).mean().item<float>(),
                right.mean().item<float>(), step_ms);
    if (epoch == 1) first = tjit::stats();
  }
  const tjit::Stats all = tjit::stats(), did = all - first;
  if (!dump.empty()) {
    std::vector<Tensor> state = net->buffers();
    state.push_back(torch::tensor(losses));
    for (const Tensor& p : net->parameters()) {
      auto* key = p.unsafeGetTensorImpl();
      auto& s = static_cast<torch::optim::AdamParamState&>(*adam.state()[key]);
      for (auto& t : {p, s.exp_avg(), s.exp_avg_sq(), torch::tensor(s.step())})
        state.push_back(t);
    }
    torch::save(state, dump);
    std::ofstream(dump + ".json") << did.to_json();
  }
  if (!tjit::is_enabled()) return;
  tjit::disable();
  const float eager_ms = train_epoch(), ops = did.ops_seen;
  std::printf("tjit: %ld sequences found, %ld promoted; after epoch 1 %.1f %% "
              "of %.0f ops were replayed\nspeed-up %.2fx: a step took %.3f ms "
              "in the last epoch, %.3f in one more with tjit disabled\n",
              all.sequences, all.traces, 100 * did.ops_replayed / ops, ops,
              eager_ms / step_ms, step_ms, eager_ms);
}

int main(int argc, char** argv) try {
  Run(argc > 1 ? argv[1] : DIGITS_CSV, argc > 2 ? std::atoi(argv[2]) : 10,
      argc > 3 ? argv[3] : "");
} catch (const c10::Error& error) {
  std::fprintf(stderr, "digits: %s\n", error.what_without_backtrace());
  return 1;
}
