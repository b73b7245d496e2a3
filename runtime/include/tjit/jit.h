// A function that is replayed instead of being run.
//
//   auto step = tjit::jit([&](const at::Tensor& x, double dt) {
//     return x + dt * at::tanh(at::mm(x, w));
//   });
//   at::Tensor y = step(x, 0.1);
//
// The first call runs the function and records its ops, the second one runs it
// and confirms that it did the same; later calls with tensors of the same form
// do not run it: its ops are replayed, with eager's bits. Tensors that the
// function takes from outside (w) are read when it is replayed, so what is
// written into them is seen.
//
// The contract: what the function does on the host (prints, counters, branches,
// numbers and tensor handles that it reads by itself) happens only when it runs.
// A number that may change has to be an argument. From time to time a call runs
// the function and compares (JitOptions::verify_every).
//
// A function that reads a value on the host, draws random numbers, makes a graph
// for gradients or keeps a tensor that it does not return is run at each call;
// stats().why says the reason.
//
// Threads: any thread may call one object at the same time if the function may.
// Tested by: tests/runtime/thread/jit_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tjit/export.h"

namespace tjit {

namespace runtime {
struct FunctionPlan;
struct FunctionRecord;
class ThreadState;
enum class Refusal : std::uint8_t;
}  // namespace runtime

struct JitOptions {
  std::string name{};  // in reports; "" for "function"
  // Every so many replays the function runs and is compared; the 1st, 2nd, 4th
  // and so on before. 0: never.
  std::int64_t verify_every = 256;
  // The function always runs, and is compared each time.
  bool follow = false;
  // A reason not to replay is an error (c10::Error) of that call.
  bool strict = false;
};

struct JitStats {
  std::int64_t calls = 0;
  std::int64_t replays = 0;     // calls that did not run the function
  std::int64_t recordings = 0;  // calls that were recorded
  std::int64_t verified = 0;    // calls that ran and did what was recorded
  std::int64_t not_same = 0;    // and that did not
  std::int64_t plans = 0;       // ways in which it is replayed: one a form
  // Why the last call that was looked at cannot be replayed; "" if it can. A
  // name ("jit_host_read"), the op where there is one, and what to do.
  std::string why;
};

namespace internal {

struct JitCore;
struct JitSession;

// Where tjit is off it is made ready for jit() alone.
void TurnOnForJit();

TJIT_API std::shared_ptr<JitCore> MakeJitCore(JitOptions options);
TJIT_API void ResetJitCore(JitCore* core);
TJIT_API JitStats StatsOfJitCore(const JitCore& core);

// One call, on the stack of who calls.
class TJIT_API JitCall {
 public:
  explicit JitCall(JitCore* core) : core_(core) {}
  ~JitCall() {
    if (session_ != nullptr || is_scoped_) Leave();
  }
  JitCall(const JitCall&) = delete;
  JitCall& operator=(const JitCall&) = delete;

  // Arguments, in order.
  void Tensor(const at::Tensor& t) { tensors_.push_back(&t); }
  void Number(double n) { numbers_.push_back(n); }
  void Word(std::uint64_t w) { words_.push_back(w); }
  void Text(std::string_view text);

  // True: the call was replayed, returned() and TakeResult() have its results.
  // False: the function is to be run, then End() is to be called.
  bool Begin();
  // The object that the function returned, without its tensors.
  const void* returned() const { return returned_; }
  at::Tensor TakeResult() { return std::move(results_[next_result_++]); }

  // Behind the fields of each argument. Once the function has run, Check...()
  // compare them: field `i` of each kind.
  struct Fields3 {
    std::uint32_t tensors, numbers, words;
  };
  Fields3 fields() const {
    return {static_cast<std::uint32_t>(tensors_.size()),
            static_cast<std::uint32_t>(numbers_.size()),
            static_cast<std::uint32_t>(words_.size())};
  }
  // REQUIRES: wants_results().
  void CheckTensor(std::size_t i, const at::Tensor& t);
  void CheckNumber(std::size_t i, double n);
  void CheckWord(std::size_t i, std::uint64_t w);

  // True if End() wants the results.
  bool wants_results() const { return session_ != nullptr; }
  void AddResult(const at::Tensor& t) { results_.push_back(t); }
  void AddResultWord(std::uint64_t w) { result_words_.push_back(w); }
  void AddResultText(std::string_view text);
  void End(std::shared_ptr<const void> returned);

 private:
  struct Found;
  Found Find(const runtime::ThreadState& state, std::uint32_t context) const;
  bool Replay(runtime::ThreadState* state, const runtime::FunctionPlan& plan);
  void Observe(runtime::ThreadState* state, Found found, std::uint32_t context,
               bool is_verified);
  void MakeResults(const runtime::FunctionPlan& plan,
                   c10::ArrayRef<at::Tensor> fresh);
  void SetGradients(const runtime::FunctionPlan& plan);
  std::vector<bool> KeptResults() const;
  void Publish(const JitSession& session,
               std::unique_ptr<runtime::FunctionPlan> plan);
  void EndInVain(const JitSession& session);
  void RecordRefusal(std::uint64_t form, runtime::Refusal why,
                     const std::string& op);
  void Leave();

  JitCore* const core_;
  c10::SmallVector<const at::Tensor*, 8> tensors_;
  c10::SmallVector<double, 4> numbers_;
  c10::SmallVector<std::uint64_t, 6> words_;
  c10::SmallVector<at::Tensor, 4> results_;
  c10::SmallVector<std::uint64_t, 4> result_words_;
  std::size_t next_result_ = 0;
  const void* returned_ = nullptr;
  JitSession* session_ = nullptr;  // owned
  bool is_scoped_ = false;
};

template <class>
inline constexpr bool kNoFields = false;

}  // namespace internal

// How the tensors and numbers in a type are found. TJIT_FIELDS(Type, members...)
// makes one for a struct.
template <class T>
struct Fields {
  template <class Value, class Visitor>
  static void Visit(Value&, Visitor&) {
    static_assert(internal::kNoFields<T>,
                  "tjit::jit: this type is no argument or result that tjit "
                  "knows; write TJIT_FIELDS(Type, member, ...) for it");
  }
};

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

// Visits an argument again: the function may have changed it.
struct ArgumentChecker {
  JitCall& call;
  JitCall::Fields3 at;
  void Tensor(const at::Tensor& t) { call.CheckTensor(at.tensors++, t); }
  void Number(double n) { call.CheckNumber(at.numbers++, n); }
  void Word(std::uint64_t w) { call.CheckWord(at.words++, w); }
  void Text(std::string_view text) {
    Word(text.size());
    for (std::size_t i = 0; i < text.size(); i += 8) {
      std::uint64_t word = 0;
      __builtin_memcpy(&word, text.data() + i,
                       text.size() - i < 8 ? text.size() - i : 8);
      Word(word);
    }
  }
};

// Of those that the function may have changed in place; others may be gone.
template <class Argument>
void CheckArgument(JitCall& call, const JitCall::Fields3& at,
                   const std::remove_reference_t<Argument>& argument) {
  if constexpr (std::is_lvalue_reference_v<Argument>) {
    ArgumentChecker checker{call, at};
    FieldsOf<Argument>::Visit(argument, checker);
  }
}

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
  void Text(std::string_view text) { call.AddResultText(text); }
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

}  // namespace internal

// A function that is replayed. Movable; not copyable, as two copies would share
// what was recorded of one function's state. Ownership: keeps the function, and
// neither arguments nor results nor captured tensors alive.
template <class F>
class Jit {
 public:
  explicit Jit(F function, JitOptions options = {})
      : function_(std::move(function)),
        core_(internal::MakeJitCore(std::move(options))) {}
  Jit(Jit&&) noexcept = default;
  Jit& operator=(Jit&&) noexcept = default;
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  // THROWS: what the function throws, when it runs; c10::Error without memory,
  // and under JitOptions::strict.
  template <class... Args>
  auto operator()(Args&&... args) {
    using Result = std::invoke_result_t<F&, Args&&...>;
    static_assert(!std::is_reference_v<Result>,
                  "tjit::jit: the function has to return a value");
    internal::JitCall call(core_.get());
    std::array<internal::JitCall::Fields3, sizeof...(Args) + 1> at;
    std::size_t count = 0;
    ((at[count++] = call.fields(),
      internal::FieldsOf<Args>::Visit(std::as_const(args), call)),
     ...);
    const bool is_replayed = call.Begin();
    const auto check = [&] {
      std::size_t i = 0;
      (internal::CheckArgument<Args>(call, at[i++], args), ...);
      static_cast<void>(i);
    };
    if constexpr (std::is_void_v<Result>) {
      if (is_replayed) return;
      std::invoke(function_, std::forward<Args>(args)...);
      if (call.wants_results()) check();
      call.End(nullptr);
    } else {
      if (is_replayed) {
        Result result(*static_cast<const Result*>(call.returned()));
        internal::ResultWriter writer{call};
        Fields<Result>::Visit(result, writer);
        return result;
      }
      Result result = std::invoke(function_, std::forward<Args>(args)...);
      std::shared_ptr<Result> returned;
      if (call.wants_results()) {
        check();
        internal::ResultReader reader{call};
        Fields<Result>::Visit(std::as_const(result), reader);
        returned = std::make_shared<Result>(result);
        internal::TensorClearer clearer;
        Fields<Result>::Visit(*returned, clearer);
      }
      call.End(std::move(returned));
      return result;
    }
  }

  // Forgets what was recorded, and a reason not to replay.
  void reset() { internal::ResetJitCore(core_.get()); }
  JitStats stats() const { return internal::StatsOfJitCore(*core_); }

 private:
  F function_;
  std::shared_ptr<internal::JitCore> core_;
};

// See above. The function's own state (what a lambda captures) is the object's.
template <class F>
Jit<std::decay_t<F>> jit(F&& function, JitOptions options = {}) {
  return Jit<std::decay_t<F>>(std::forward<F>(function), std::move(options));
}

// While it lives, host code runs that a replay must not skip: a function that
// is recorded around it runs at each call. `why`: a literal.
class TJIT_API NoJit {
 public:
  explicit NoJit(const char* why);
  ~NoJit() = default;
  NoJit(const NoJit&) = delete;
  NoJit& operator=(const NoJit&) = delete;
};

}  // namespace tjit

// The members of a struct that are arguments or results. At global scope.
#define TJIT_FIELDS(Type, ...)                                             \
  template <>                                                              \
  struct tjit::Fields<Type> {                                              \
    template <class Value, class Visitor>                                  \
    static void Visit(Value& value, Visitor& visitor) {                    \
      const auto visit = [&](auto&... member) {                            \
        (::tjit::internal::FieldsOf<decltype(member)>::Visit(member,       \
                                                             visitor),     \
         ...);                                                             \
      };                                                                   \
      TJIT_INTERNAL_MEMBERS(visit, value, __VA_ARGS__)                     \
    }                                                                      \
  }
#define TJIT_INTERNAL_EXPAND(x) x
#define TJIT_INTERNAL_COUNT(_1, _2, _3, _4, _5, _6, _7, _8, N, ...) N
#define TJIT_INTERNAL_MEMBERS(visit, v, ...)                               \
  TJIT_INTERNAL_EXPAND(TJIT_INTERNAL_PICK(                                 \
      TJIT_INTERNAL_COUNT(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0))(        \
      visit, v, __VA_ARGS__))
#define TJIT_INTERNAL_PICK(n) TJIT_INTERNAL_PASTE(TJIT_INTERNAL_VISIT_, n)
#define TJIT_INTERNAL_PASTE(a, b) TJIT_INTERNAL_PASTE2(a, b)
#define TJIT_INTERNAL_PASTE2(a, b) a##b
#define TJIT_INTERNAL_VISIT_1(f, v, a) f(v.a);
#define TJIT_INTERNAL_VISIT_2(f, v, a, b) f(v.a, v.b);
#define TJIT_INTERNAL_VISIT_3(f, v, a, b, c) f(v.a, v.b, v.c);
#define TJIT_INTERNAL_VISIT_4(f, v, a, b, c, d) f(v.a, v.b, v.c, v.d);
#define TJIT_INTERNAL_VISIT_5(f, v, a, b, c, d, e) \
  f(v.a, v.b, v.c, v.d, v.e);
#define TJIT_INTERNAL_VISIT_6(f, v, a, b, c, d, e, g) \
  f(v.a, v.b, v.c, v.d, v.e, v.g);
#define TJIT_INTERNAL_VISIT_7(f, v, a, b, c, d, e, g, h) \
  f(v.a, v.b, v.c, v.d, v.e, v.g, v.h);
#define TJIT_INTERNAL_VISIT_8(f, v, a, b, c, d, e, g, h, i) \
  f(v.a, v.b, v.c, v.d, v.e, v.g, v.h, v.i);
