// Optimizers of torch::optim as arguments of functions that tjit::jit() wraps,
// so that a whole training step is replayed:
//
//   auto step = tjit::jit([&](torch::optim::Adam& optimizer, const at::Tensor&
//   x,
//                             const at::Tensor& y) {
//     optimizer.zero_grad();
//     const at::Tensor loss = at::mse_loss(net->forward(x), y);
//     loss.backward();
//     optimizer.step();
//     return loss.detach();
//   });
//   step(optimizer, x, y);
//
// SGD, Adam, AdamW, RMSprop and Adagrad are known, also as an Optimizer&. Their
// options (learning rate, ...) are numbers that are read at each call, so a
// schedule is seen. A replay counts a step in the optimizer's own state, with
// the numbers that step() would have computed. A function that takes more or
// less than one step of each parameter with a state is run at each call, and so
// is one with another optimizer.
//
// Source of the formulas: torch/csrc/api/src/optim/ of libtorch 2.13. Where
// another libtorch computes others, calls are refused with jit_number.
// Threads: as the optimizer. Ownership: nothing is kept.
// Tested by: tests/runtime/thread/jit_optimizers_test.cpp
#pragma once

#include <torch/optim.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <tuple>
#include <typeinfo>
#include <vector>

#include "tjit/fields.h"
#include "tjit/jit_call.h"

namespace tjit {

namespace internal {

// Each has what decides a branch of step() (Flags), and the numbers of its ops
// as the `step`th step computes them (Numbers).
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
    take(kDecaysParameters ? 1 - o.lr() * o.weight_decay() : o.weight_decay());
    take(beta1);
    take(1 - beta1);
    take(beta2);
    take(1 - beta2);
    take(std::sqrt(correction2));
    take(o.eps());
    take(-(o.lr() / correction1));
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
    take(-(o.lr() / (1 + static_cast<double>(step - 1) * o.lr_decay())));
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
  if constexpr (!Formula::kCounts) return 0;
  std::int64_t steps = -1;
  for (const auto& [key, state] : optimizer.state()) {
    std::int64_t its = 0;
    if constexpr (Formula::kCounts) {
      its = static_cast<const typename Formula::State&>(*state).step();
    }
    if (steps >= 0 && its != steps) return -1;
    steps = its;
  }
  return steps < 0 ? 0 : steps;
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

}  // namespace internal

template <std::derived_from<torch::optim::Optimizer> T>
struct Fields<T> {
  template <class Visitor>
  static void Visit(const T& optimizer, Visitor& visitor) {
    visitor.Word(reinterpret_cast<std::uintptr_t>(&optimizer));
    internal::WithFormula(optimizer, [&]<class Formula>(Formula) {
      const std::int64_t steps = internal::StepsOf<Formula>(optimizer);
      visitor.Word(optimizer.state().size());
      visitor.Word(optimizer.param_groups().size());
      for (const auto& group : optimizer.param_groups()) {
        const auto& options =
            static_cast<const typename Formula::Options&>(group.options());
        visitor.Word(group.params().size());
        Formula::Flags(options, visitor);
        Formula::Numbers(options, steps + 1, [&](double number) {
          visitor.ComputedNumber(number);
        });
      }
    });
  }
};

template <std::derived_from<torch::optim::Optimizer> T>
struct HostState<T> {
  struct Before {
    std::int64_t steps = -1;
    std::vector<double> options;
  };
  static Before Note(const T& optimizer, internal::JitCall& call) {
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& p : group.params()) call.AllowUpdates(p);
    }
    Before before;
    internal::WithFormula(optimizer, [&]<class Formula>(Formula) {
      before.steps = internal::StepsOf<Formula>(optimizer);
      before.options = internal::OptionsOf<Formula>(optimizer);
    });
    return before;
  }
  static bool HasMovedOn(const Before& before, const T& optimizer) {
    bool has = false;
    internal::WithFormula(optimizer, [&]<class Formula>(Formula) {
      const std::int64_t steps = internal::StepsOf<Formula>(optimizer);
      has = before.steps >= 0 &&
            before.options == internal::OptionsOf<Formula>(optimizer) &&
            steps == before.steps + (Formula::kCounts ? 1 : 0);
    });
    return has;
  }
  static void MoveOn(T& optimizer) {
    internal::WithFormula(optimizer, [&]<class Formula>(Formula) {
      if constexpr (Formula::kCounts) {
        for (auto& [key, state] : optimizer.state()) {
          auto& its = static_cast<typename Formula::State&>(*state);
          its.step(its.step() + 1);
        }
      }
    });
  }
};

}  // namespace tjit
