// How tjit::jit() finds the tensors and numbers in arguments and results.
//
// A visitor has Tensor(), Number() of a floating type, Word() of what has to be
// the same, and Text(). Known are tensors, numbers, enums, strings, optional,
// vector, array, pair, tuple, map by string and shared_ptr of a torch::nn
// module; TJIT_FIELDS adds a struct:
//
//   struct State { at::Tensor position, velocity; };
//   TJIT_FIELDS(State, position, velocity);
//
// It stands at global scope and takes 1 to 8 members.
//
// Threads: any. Ownership: nothing is kept.
// Tested by: tests/runtime/thread/jit_*_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tjit {

namespace internal {
template <class>
inline constexpr bool kNoFields = false;
}  // namespace internal

// How the tensors and numbers in a type are found. TJIT_FIELDS(Type,
// members...) makes one for a struct.
template <class T>
struct Fields {
  template <class Value, class Visitor>
  static void Visit(Value&, Visitor&) {
    static_assert(internal::kNoFields<T>,
                  "tjit::jit: this type is no argument or result that tjit "
                  "knows; write TJIT_FIELDS(Type, member, ...) for it");
  }
};

// Arguments with a state on the host that a function moves on in a way that is
// known, as optimizers (optim.h). A specialisation has
//   struct Before {...};  // can be made without arguments
//   // Before the function runs: what to compare with.
//   static Before Note(const T&, internal::JitCall&);
//   // True if it did just what MoveOn() does.
//   static bool HasMovedOn(const Before&, const T&);
//   static void MoveOn(T&);  // instead of the function, at a replay
template <class T>
struct HostState {
  using Before = std::monostate;  // it has none
};

namespace internal {
template <class T>
concept HasHostState =
    !std::same_as<typename HostState<T>::Before, std::monostate>;
}  // namespace internal

template <>
struct Fields<at::Tensor> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    visitor.Tensor(value);
  }
};
// An argument of a floating type may change from call to call. Any other number
// has to be the same: with another one the function is recorded anew.
template <std::floating_point T>
struct Fields<T> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    visitor.Number(value);
  }
};
template <class T>
  requires std::integral<T> || std::is_enum_v<T>
struct Fields<T> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    visitor.Word(static_cast<std::uint64_t>(value));
  }
};
template <>
struct Fields<std::string> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    visitor.Text(value);
  }
};
template <class T>
struct Fields<std::optional<T>> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    visitor.Word(value.has_value());
    if (value.has_value()) Fields<T>::Visit(*value, visitor);
  }
};
template <class T, class Allocator>
struct Fields<std::vector<T, Allocator>> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    visitor.Word(value.size());
    for (auto& element : value) Fields<T>::Visit(element, visitor);
  }
};
template <class T, std::size_t N>
struct Fields<std::array<T, N>> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    for (auto& element : value) Fields<T>::Visit(element, visitor);
  }
};
template <class A, class B>
struct Fields<std::pair<A, B>> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    Fields<A>::Visit(value.first, visitor);
    Fields<B>::Visit(value.second, visitor);
  }
};
template <class... T>
struct Fields<std::tuple<T...>> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    std::apply(
        [&](auto&... element) { (Fields<T>::Visit(element, visitor), ...); },
        value);
  }
};
template <class T, class Less, class Allocator>
struct Fields<std::map<std::string, T, Less, Allocator>> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    visitor.Word(value.size());
    for (auto& [key, element] : value) {
      visitor.Text(key);
      Fields<T>::Visit(element, visitor);
    }
  }
};
// A torch::nn module: the same object in the same mode. Its parameters and
// buffers are tensors that the function takes from outside.
template <class T>
  requires requires(const T& module) {
    module.is_training();
    module.parameters();
  }
struct Fields<std::shared_ptr<T>> {
  template <class Value, class Visitor>
  static void Visit(Value& value, Visitor& visitor) {
    visitor.Word(reinterpret_cast<std::uintptr_t>(value.get()));
    visitor.Word(value != nullptr && value->is_training());
  }
};

namespace internal {

template <class T>
using FieldsOf = Fields<std::remove_cvref_t<T>>;

}  // namespace internal

}  // namespace tjit

// The members of a struct that are arguments or results. At global scope.
#define TJIT_FIELDS(Type, ...)                                                 \
  template <>                                                                  \
  struct tjit::Fields<Type> {                                                  \
    template <class Value, class Visitor>                                      \
    static void Visit(Value& value, Visitor& visitor) {                        \
      const auto visit = [&](auto&... member) {                                \
        (::tjit::internal::FieldsOf<decltype(member)>::Visit(member, visitor), \
         ...);                                                                 \
      };                                                                       \
      TJIT_INTERNAL_MEMBERS(visit, value, __VA_ARGS__)                         \
    }                                                                          \
  }
#define TJIT_INTERNAL_EXPAND(x) x
#define TJIT_INTERNAL_COUNT(_1, _2, _3, _4, _5, _6, _7, _8, N, ...) N
#define TJIT_INTERNAL_MEMBERS(visit, v, ...)                   \
  TJIT_INTERNAL_EXPAND(TJIT_INTERNAL_PICK(TJIT_INTERNAL_COUNT( \
      __VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0))(visit, v, __VA_ARGS__))
#define TJIT_INTERNAL_PICK(n) TJIT_INTERNAL_PASTE(TJIT_INTERNAL_VISIT_, n)
#define TJIT_INTERNAL_PASTE(a, b) TJIT_INTERNAL_PASTE2(a, b)
#define TJIT_INTERNAL_PASTE2(a, b) a##b
#define TJIT_INTERNAL_VISIT_1(f, v, a) f(v.a);
#define TJIT_INTERNAL_VISIT_2(f, v, a, b) f(v.a, v.b);
#define TJIT_INTERNAL_VISIT_3(f, v, a, b, c) f(v.a, v.b, v.c);
#define TJIT_INTERNAL_VISIT_4(f, v, a, b, c, d) f(v.a, v.b, v.c, v.d);
#define TJIT_INTERNAL_VISIT_5(f, v, a, b, c, d, e) f(v.a, v.b, v.c, v.d, v.e);
#define TJIT_INTERNAL_VISIT_6(f, v, a, b, c, d, e, g) \
  f(v.a, v.b, v.c, v.d, v.e, v.g);
#define TJIT_INTERNAL_VISIT_7(f, v, a, b, c, d, e, g, h) \
  f(v.a, v.b, v.c, v.d, v.e, v.g, v.h);
#define TJIT_INTERNAL_VISIT_8(f, v, a, b, c, d, e, g, h, i) \
  f(v.a, v.b, v.c, v.d, v.e, v.g, v.h, v.i);
