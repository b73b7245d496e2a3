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
// numbers and tensor handles that it reads by itself) happens only when it
// runs. A number that may change has to be an argument, or read by tjit::ref().
// From time to time a call runs the function and compares
// (JitOptions::verify_every).
//
// A function that reads a floating number on the host, makes a graph for
// gradients (but see JitOptions::gradients) or keeps a tensor that it does not
// return is run at each call; stats().why says the reason. It may decide by a
// bool or a whole number that it reads: each outcome is replayed in its own
// way. Random numbers are drawn at each replay, as eager draws them.
//
// Threads: any thread may call one object at the same time if the function may.
// Tested by: tests/runtime/thread/jit_*_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tjit/export.h"
#include "tjit/jit_call.h"
#include "tjit/jit_visitors.h"

namespace tjit {

struct PackageOptions;
struct TorchscriptOptions;

struct JitOptions {
  std::string name{};  // in reports; "" for "function"
  // Every so many replays the function runs and is compared; the 1st, 2nd, 4th
  // and so on before. 0: never.
  std::int64_t verify_every = 256;
  // The function always runs, and is compared each time.
  bool follow = false;
  // A reason not to replay is an error (c10::Error) of that call.
  bool strict = false;
  // Results may ask for gradients: the program runs backward() through them,
  // and that is replayed as well. The first calls run both until they are
  // known. The node of a replayed call keeps copies of the arguments, and the
  // function: a backward pass of another kind than before (create_graph, other
  // results) runs it again, and is an error (c10::Error) if what it takes has
  // changed meanwhile. What the function refers to has to live as long as the
  // graph. Ignored where an argument cannot be copied, or is an optimizer.
  bool gradients = false;
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

// A function that is replayed. Movable; not copyable, as two copies would share
// what was recorded of one function's state. Ownership: keeps the function, and
// neither arguments nor results nor captured tensors alive.
template <class F>
class Jit {
 public:
  explicit Jit(F function, JitOptions options = {})
      : function_(std::make_shared<F>(std::move(function))),
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
    call.Word(reinterpret_cast<std::uintptr_t>(
        &internal::kTypes<Result, std::remove_cvref_t<Args>...>));
    // Braces: from the first argument to the last.
    std::tuple<internal::ArgumentWatch<Args>...> watches{
        internal::ArgumentWatch<Args>(call, args)...};
    const auto for_each = [&](const auto& action) {
      std::apply([&](auto&... watch) { (action(watch, args), ...); }, watches);
    };
    call.graph().may_run_again =
        !std::is_void_v<Result> && (internal::kMayBeKept<Args> && ...);
    const bool is_replayed = call.Begin();
    if (is_replayed) {
      for_each([](auto& watch, auto& argument) { watch.MoveOn(argument); });
    } else if (call.wants_results()) {
      for_each(
          [&](auto& watch, auto& argument) { watch.Begin(call, argument); });
    }
    const auto check = [&] {
      for_each([&](auto& watch, auto& argument) { watch.End(call, argument); });
    };
    if constexpr (std::is_void_v<Result>) {
      if (is_replayed) return;
      std::invoke(*function_, std::forward<Args>(args)...);
      if (call.wants_results()) check();
      call.End(nullptr);
    } else {
      if (is_replayed) {
        Result result(*static_cast<const Result*>(call.returned()));
        internal::ResultWriter writer{call};
        Fields<Result>::Visit(result, writer);
        if constexpr ((internal::kMayBeKept<Args> && ...)) {
          if (call.graph().node != nullptr) {
            KeepRun(call.graph().node,
                    RunAgain<Result>(std::forward<Args>(args)...));
          }
        }
        return result;
      }
      Result result = std::invoke(*function_, std::forward<Args>(args)...);
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
      if (call.graph().has_new_results) {
        internal::ResultWriter writer{call};
        Fields<Result>::Visit(result, writer);
      }
      return result;
    }
  }

  // Forgets what was recorded, and a reason not to replay.
  void reset() { internal::ResetJitCore(core_.get()); }
  JitStats stats() const { return internal::StatsOfJitCore(*core_); }

 private:
  template <class G, class... Args>
  friend void save_torchscript(const std::string&, const Jit<G>&,
                               const TorchscriptOptions&, const Args&...);
  template <class G, class... Args>
  friend void save_package(const std::string&, const Jit<G>&,
                           const PackageOptions&, const Args&...);

  // The function with these arguments; what it returns are its results.
  template <class Result, class... Args>
  std::function<std::vector<at::Tensor>()> RunAgain(Args&&... args) const {
    return [function = function_, kept = std::tuple<std::decay_t<Args>...>(
                                      std::forward<Args>(args)...)]() mutable {
      const Result result = std::apply(
          [&](auto&... each) {
            return std::invoke(*function, static_cast<Args&&>(each)...);
          },
          kept);
      std::vector<at::Tensor> tensors;
      internal::TensorReader reader{&tensors};
      Fields<Result>::Visit(result, reader);
      return tensors;
    };
  }

  // Shared with the nodes of replayed calls.
  std::shared_ptr<F> function_;
  std::shared_ptr<internal::JitCore> core_;
};

// See above. The function's own state (what a lambda captures) is the object's.
template <class F>
Jit<std::decay_t<F>> jit(F&& function, JitOptions options = {}) {
  return Jit<std::decay_t<F>>(std::forward<F>(function), std::move(options));
}

// In a wrapped function, a number from outside that may be another one at each
// call: `tjit::ref(options.dt)` for `options.dt`. Returns it, and elsewhere
// does no more. A replay reads it where it lies, once: the variable has to live
// as long as the Jit does, and the function must not change it.
// Threads: nobody writes it while the function is called.
TJIT_API double ref(const double& number);
double ref(const double&& number) = delete;

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
