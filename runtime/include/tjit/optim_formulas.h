// The formulas of torch::optim's optimizers, for optim.h. Nothing here is for
// users.
// Source: torch/csrc/api/src/optim/ of libtorch 2.13.
// Threads: as the optimizer.
// Tested by: tests/runtime/thread/jit_optimizers_test.cpp
#pragma once

#include <torch/optim.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <tuple>
#include <typeinfo>
#include <vector>

namespace tjit::internal {

// Keeps a compiler that may fuse from rounding a product and a sum at once, as
// libtorch was not compiled for a processor that has such an instruction.
inline double Rounded(double product) {
  asm("" : "+x"(product));
  return product;
}

// Each has what decides a branch of step() (Flags), the numbers of its ops as
// the `step`th step computes them (Numbers), and the tensors of a state
// (Tensors).
struct SgdFormula {
  using Optimizer = torch::optim::SGD;
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;
  static constexpr bool kCounts = false;
  template <class Visitor>
  static void Flags(const Options& o, Visitor& visitor) {
    visitor.Word(o.weight_decay() != 0);
    visitor.Word(o.momentum() != 0);
    visitor.Word(o.nesterov());
  }
  template <class Take>
  static void Numbers(const Options& o, std::int64_t, const Take& take) {
    take(-1 * o.lr());
    take(o.weight_decay());
    take(o.momentum());
    take(1 - o.dampening());
  }
  template <class Take>
  static void Tensors(const State& s, const Take& take) {
    take(s.momentum_buffer());
  }
};

// Adam and AdamW, which decays the parameters themselves.
template <class Type, class TheirOptions, class TheirState>
struct AdamFormula {
  static constexpr bool kDecaysParameters =
      std::same_as<Type, torch::optim::AdamW>;
  using Optimizer = Type;
  using Options = TheirOptions;
  using State = TheirState;
  static constexpr bool kCounts = true;
  template <class Visitor>
  static void Flags(const Options& o, Visitor& visitor) {
    visitor.Word(o.weight_decay() != 0);
    visitor.Word(o.amsgrad());
  }
  template <class Take>
  static void Numbers(const Options& o, std::int64_t step, const Take& take) {
    const auto [beta1, beta2] = o.betas();
    const auto steps = static_cast<double>(step);
    const double correction1 = 1 - std::pow(beta1, steps);
    const double correction2 = 1 - std::pow(beta2, steps);
    take(kDecaysParameters ? 1 - Rounded(o.lr() * o.weight_decay())
                           : o.weight_decay());
    take(beta1);
    take(1 - beta1);
    take(beta2);
    take(1 - beta2);
    take(std::sqrt(correction2));
    take(o.eps());
    take(-(o.lr() / correction1));
  }
  template <class Take>
  static void Tensors(const State& s, const Take& take) {
    take(s.exp_avg());
    take(s.exp_avg_sq());
    take(s.max_exp_avg_sq());
  }
};

struct RmspropFormula {
  using Optimizer = torch::optim::RMSprop;
  using Options = torch::optim::RMSpropOptions;
  using State = torch::optim::RMSpropParamState;
  static constexpr bool kCounts = true;
  template <class Visitor>
  static void Flags(const Options& o, Visitor& visitor) {
    visitor.Word(o.weight_decay() != 0);
    visitor.Word(o.momentum() > 0);
    visitor.Word(o.centered());
  }
  template <class Take>
  static void Numbers(const Options& o, std::int64_t, const Take& take) {
    take(o.weight_decay());
    take(o.alpha());
    take(1 - o.alpha());
    take(o.eps());
    take(o.momentum());
    take(-o.lr());
  }
  template <class Take>
  static void Tensors(const State& s, const Take& take) {
    take(s.square_avg());
    take(s.momentum_buffer());
    take(s.grad_avg());
  }
};

struct AdagradFormula {
  using Optimizer = torch::optim::Adagrad;
  using Options = torch::optim::AdagradOptions;
  using State = torch::optim::AdagradParamState;
  static constexpr bool kCounts = true;
  template <class Visitor>
  static void Flags(const Options& o, Visitor& visitor) {
    visitor.Word(o.weight_decay() != 0);
  }
  template <class Take>
  static void Numbers(const Options& o, std::int64_t step, const Take& take) {
    take(o.weight_decay());
    take(o.eps());
    const double decay = Rounded(static_cast<double>(step - 1) * o.lr_decay());
    take(-(o.lr() / (1 + decay)));
  }
  template <class Take>
  static void Tensors(const State& s, const Take& take) {
    take(s.sum());
  }
};

template <class Formula, class Action>
bool ActIf(const torch::optim::Optimizer& optimizer, const Action& action) {
  if (typeid(optimizer) != typeid(typename Formula::Optimizer)) return false;
  action(Formula());
  return true;
}

// action(formula) of the optimizer's. False, and nothing happens: it is none
// that is known; what derives from one may do something else.
template <class Action>
bool WithFormula(const torch::optim::Optimizer& optimizer,
                 const Action& action) {
  using torch::optim::Adam, torch::optim::AdamW;
  using torch::optim::AdamOptions, torch::optim::AdamWOptions;
  using torch::optim::AdamParamState, torch::optim::AdamWParamState;
  return ActIf<SgdFormula>(optimizer, action) ||
         ActIf<AdamFormula<Adam, AdamOptions, AdamParamState>>(optimizer,
                                                               action) ||
         ActIf<AdamFormula<AdamW, AdamWOptions, AdamWParamState>>(optimizer,
                                                                  action) ||
         ActIf<RmspropFormula>(optimizer, action) ||
         ActIf<AdagradFormula>(optimizer, action);
}

// Steps that all parameters with a state have taken; -1: they differ.
template <class Formula>
std::int64_t StepsOf(const torch::optim::Optimizer& optimizer) {
  if constexpr (Formula::kCounts) {
    std::int64_t steps = -1;
    for (const auto& [key, state] : optimizer.state()) {
      const auto its =
          static_cast<const typename Formula::State&>(*state).step();
      if (steps >= 0 && its != steps) return -1;
      steps = its;
    }
    return steps < 0 ? 0 : steps;
  } else {
    return 0;
  }
}

// What the options say, whatever the number of steps.
template <class Formula>
std::vector<double> OptionsOf(const torch::optim::Optimizer& optimizer) {
  std::vector<double> numbers;
  for (const auto& group : optimizer.param_groups()) {
    const auto& options =
        static_cast<const typename Formula::Options&>(group.options());
    Formula::Numbers(options, 1,
                     [&](double number) { numbers.push_back(number); });
  }
  return numbers;
}

}  // namespace tjit::internal
