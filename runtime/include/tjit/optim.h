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
// The formulas are those of libtorch 2.13. Where another libtorch computes
// others, calls are refused with jit_number.
// Threads: as the optimizer.
// Ownership: nothing is kept.
// Tested by: tests/runtime/thread/jit_optimizers_test.cpp
#pragma once

#include <torch/optim.h>

#include <concepts>
#include <cstdint>
#include <vector>

#include "tjit/fields.h"
#include "tjit/jit_call.h"
#include "tjit/jit_visitors.h"
#include "tjit/optim_formulas.h"

namespace tjit {

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
