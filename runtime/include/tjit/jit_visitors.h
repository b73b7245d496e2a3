// What goes through the arguments and results of a call of tjit::jit(), between
// the template in jit.h and a JitCall. Nothing here is for users.
// Threads: the caller's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tjit/fields.h"
#include "tjit/jit_call.h"

namespace tjit::internal {

// A backward pass may run the function again with a copy of the argument.
template <class Argument>
inline constexpr bool kMayBeKept =
    std::is_copy_constructible_v<std::decay_t<Argument>> &&
    !HasHostState<std::remove_cvref_t<Argument>>;

// Visits an argument again: the function may have changed it.
struct ArgumentChecker {
  JitCall& call;
  JitCall::Fields3 at;
  void Tensor(const at::Tensor& t) { call.CheckTensor(at.tensors++, t); }
  void Number(double n) { call.CheckNumber(at.numbers++, n); }
  void Word(std::uint64_t w) { call.CheckWord(at.words++, w); }
  void Text(std::string_view text) {
    SplitIntoWords(text, [this](std::uint64_t w) { Word(w); });
  }
};

// Visits an argument with a state on the host.
struct HostVisitor {
  JitCall& call;
  void Tensor(const at::Tensor& t) { call.Tensor(t); }
  void Number(double n) { call.ComputedNumber(n); }
  void Word(std::uint64_t w) { call.Word(w); }
  // The object has to be the same one.
  void Object(const void* object) {
    Word(reinterpret_cast<std::uintptr_t>(object));
  }
};

// One argument of a call, before and behind it. `Argument` is a reference where
// the caller's own object is passed.
template <class Argument>
class ArgumentWatch {
 public:
  using Type = std::remove_cvref_t<Argument>;

  ArgumentWatch(JitCall& call, const Type& argument) : at_(call.fields()) {
    if constexpr (HasHostState<Type>) {
      moves_on_ = call.AddState(&argument);
      HostVisitor visitor{call};
      Fields<Type>::Visit(argument, visitor);
    } else {
      Fields<Type>::Visit(argument, call);
    }
  }

  // The function is about to run, and to be looked at.
  void Begin(JitCall& call, const Type& argument) {
    if constexpr (HasHostState<Type>) {
      before_ = HostState<Type>::Note(argument, call);
    }
  }
  // It has returned. What it did not get by reference may be gone.
  void End(JitCall& call, const std::remove_reference_t<Argument>& argument) {
    if constexpr (HasHostState<Type>) {
      call.CheckState(HostState<Type>::HasMovedOn(before_, argument));
    } else if constexpr (std::is_lvalue_reference_v<Argument>) {
      ArgumentChecker checker{call, at_};
      FieldsOf<Argument>::Visit(argument, checker);
    }
  }
  // The call was replayed.
  void MoveOn(Type& argument) {
    if constexpr (HasHostState<Type>) {
      if (moves_on_) HostState<Type>::MoveOn(argument);
    }
  }
  void MoveOn(const Type&) {
    static_assert(!HasHostState<Type>,
                  "tjit::jit: pass the optimizer as one that may be changed");
  }

 private:
  JitCall::Fields3 at_;
  bool moves_on_ = false;
  [[no_unique_address]] typename HostState<Type>::Before before_;
};

// Hands the results of a call to End().
struct ResultReader {
  JitCall& call;
  void Tensor(const at::Tensor& t) { call.AddResult(t); }
  void Number(double n) {
    std::uint64_t bits = 0;
    static_assert(sizeof(bits) == sizeof(n));
    __builtin_memcpy(&bits, &n, sizeof(bits));
    call.AddResultWord(bits);
  }
  void Word(std::uint64_t w) { call.AddResultWord(w); }
  void Text(std::string_view text) {
    SplitIntoWords(text, [this](std::uint64_t w) { Word(w); });
  }
};
// The tensors of what a function has returned.
struct TensorReader {
  std::vector<at::Tensor>* tensors;
  void Tensor(const at::Tensor& t) { tensors->push_back(t); }
  void Number(double) {}
  void Word(std::uint64_t) {}
  void Text(std::string_view) {}
};
struct TensorClearer {
  void Tensor(at::Tensor& t) { t.reset(); }
  void Number(double) {}
  void Word(std::uint64_t) {}
  void Text(std::string_view) {}
};
struct ResultWriter {
  JitCall& call;
  void Tensor(at::Tensor& t) { t = call.TakeResult(); }
  void Number(double) {}
  void Word(std::uint64_t) {}
  void Text(std::string_view) {}
};

}  // namespace tjit::internal
