// Optimizers of torch::optim as arguments of functions that tjit::jit() wraps,
// so that a whole training step is replayed:
//
//   auto step = tjit::jit([&](torch::optim::Adam& o, const at::Tensor& x) {
//     o.zero_grad();
//     const at::Tensor loss = net->forward(x).square().mean();
//     loss.backward();
//     o.step();
//     return loss.detach();
//   });
//   step(optimizer, x);
//
// SGD, Adam, AdamW, RMSprop and Adagrad are known, also as an Optimizer&. Their
// options (learning rate, ...) are numbers that are read at each call, so a
// schedule that the program steps is seen. A replay counts a step in the
// optimizer's own state, with the numbers that step() would have computed. The
// parameters, the tensors of their states and their gradients are looked at,
// too. A function runs at each call if it steps an optimizer that counts its
// steps other than once, or if its parameters have taken different numbers of
// steps.
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

}  // namespace internal

template <std::derived_from<torch::optim::Optimizer> T>
struct Fields<T> {
  template <class Visitor>
  static void Visit(const T& optimizer, Visitor& visitor) {
    static_assert(
        std::same_as<Visitor, internal::HostVisitor>,
        "tjit::jit: an optimizer is an argument by itself, and not in a "
        "container or struct");
    visitor.Object(&optimizer);
    internal::WithFormula(optimizer, [&]<class Formula>(Formula) {
      const std::int64_t steps = internal::StepsOf<Formula>(optimizer);
      visitor.Word(steps >= 0);
      visitor.Word(optimizer.param_groups().size());
      for (const auto& group : optimizer.param_groups()) {
        const auto& options =
            static_cast<const typename Formula::Options&>(group.options());
        visitor.Word(group.params().size());
        for (const at::Tensor& p : group.params()) {
          VisitParameter<Formula>(optimizer, p, visitor);
        }
        Formula::Flags(options, visitor);
        if (steps < 0) continue;  // no number is that of all parameters
        Formula::Numbers(options, steps + 1,
                         [&](double number) { visitor.Number(number); });
      }
    });
  }

 private:
  // The tensors that a step updates are the same ones; its gradient is passed.
  template <class Formula, class Visitor>
  static void VisitParameter(const T& optimizer, const at::Tensor& p,
                             Visitor& visitor) {
    const c10::TensorImpl* const impl = p.unsafeGetTensorImpl();
    visitor.Object(impl);
    visitor.Object(p.storage().unsafeGetStorageImpl());
    visitor.Tensor(p.grad());
    const auto found = optimizer.state().find(p.unsafeGetTensorImpl());
    visitor.Word(found != optimizer.state().end());
    if (found == optimizer.state().end()) return;
    const auto& state =
        static_cast<const typename Formula::State&>(*found->second);
    Formula::Tensors(state, [&](const at::Tensor& t) {
      visitor.Object(t.unsafeGetTensorImpl());
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
