// What training rows share: who updates the parameters, and the step as a user
// of the C++ frontend writes it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/workloads.h"

namespace tjit::bench {

// SGD with 0.01; Adam and AdamW with 1e-3 and otherwise torch::optim's
// defaults.
enum class Rule : std::uint8_t { kSgd, kAdam, kAdamW };

class Updater {
 public:
  virtual ~Updater() = default;
  virtual void ZeroGrad() = 0;
  virtual void Step() = 0;
  // That of torch::optim; null: it is by hand.
  virtual torch::optim::Optimizer* optimizer() { return nullptr; }
};

// By torch::optim, or by the fused kernel called by hand.
std::unique_ptr<Updater> MakeUpdater(std::vector<torch::Tensor> parameters,
                                     Rule rule, Optimizer optimizer);

// zero_grad, loss, backward, update. What `loss` needs, it owns.
Workload TrainingStep(std::vector<torch::Tensor> parameters, Rule rule,
                      Optimizer optimizer, std::function<torch::Tensor()> loss);

// "/optim" and "/fused": the end of a row's name.
const char* NameOf(Optimizer optimizer);

}  // namespace tjit::bench
