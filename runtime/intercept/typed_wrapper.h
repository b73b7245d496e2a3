// The unboxed wrapper of one op, from its at::_ops declaration.
//
// All ops of one C++ signature share one instantiation, which is what compile
// time is spent on: the shards of typed_ops.def list like with like.
//
// A wrapper that is off costs a load, a compare and the call of the original
// kernel.
//
// Note [Guards before side effects]. Everything that may refuse to defer runs
// before anything is changed.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/impl/boxing.h>

#include <optional>
#include <tuple>
#include <utility>

#include "runtime/call/eager_call.h"
#include "runtime/intercept/pack.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

// Views of an eager call's results, and results of a deferred one.
template <class R>
struct Results;
// Plain values (bool, at::Scalar): such an op is never deferred.
template <class R>
  requires(std::is_same_v<R, bool> || std::is_same_v<R, at::Scalar>)
struct Results<R> {
  static void Collect(const R&, ResultList&) {}
  template <class Args>
  static R Release(CallFrame&, Args&) {
    TORCH_INTERNAL_ASSERT(false, "tjit deferred an op that returns a value");
  }
};
template <>
struct Results<at::Tensor> {
  static void Collect(const at::Tensor& r, ResultList& out) { out.Add(r); }
  template <class Args>
  static at::Tensor Release(CallFrame& f, Args&) {
    return f.results.ReleaseOnly();
  }
};
template <>
struct Results<std::vector<at::Tensor>> {
  static void Collect(const std::vector<at::Tensor>& r, ResultList& out) {
    for (const at::Tensor& t : r) out.Add(t);
  }
  template <class Args>
  static std::vector<at::Tensor> Release(CallFrame& f, Args&) {
    std::vector<at::Tensor> taken;
    taken.reserve(f.results.size());
    for (std::uint32_t i = 0; i < f.results.size(); ++i) {
      taken.push_back(f.results.Release(i));
    }
    return taken;
  }
};
template <class... T>
  requires(std::is_same_v<T, at::Tensor> && ...)
struct Results<std::tuple<T...>> {
  using Tuple = std::tuple<T...>;
  static void Collect(const Tuple& r, ResultList& out) {
    std::apply([&](const T&... t) { (out.Add(t), ...); }, r);
  }
  template <class Args>
  static Tuple Release(CallFrame& f, Args&) {
    return Unpack(f, std::index_sequence_for<T...>{});
  }

 private:
  template <std::size_t... I>
  static Tuple Unpack(CallFrame& f, std::index_sequence<I...>) {
    return Tuple(f.results.Release(I)...);
  }
};

// What an in-place or out= op returns: the argument that the schema names.
inline void TakeMutable(at::Tensor& arg, bool wanted, at::Tensor** found) {
  if (wanted) *found = &arg;
}
template <class T>
void TakeMutable(const T&, bool, at::Tensor**) {}
template <class Args>
at::Tensor& AliasedArg(const CallFrame& f, std::size_t result, Args& args) {
  at::Tensor* found = nullptr;
  int i = 0;
  std::apply(
      [&, wanted = f.entry.returns[result].alias_arg](auto&... arg) {
        (TakeMutable(arg, i++ == wanted, &found), ...);
      },
      args);
  return *found;
}
template <>
struct Results<at::Tensor&> {
  static void Collect(const at::Tensor&, ResultList&) {}
  template <class Args>
  static at::Tensor& Release(CallFrame& f, Args& args) {
    if constexpr (std::is_same_v<std::tuple_element_t<0, Args>, at::Tensor&>) {
      return std::get<0>(args);
    } else {
      return AliasedArg(f, 0, args);
    }
  }
};
template <>
struct Results<const at::Tensor&> {
  static void Collect(const at::Tensor&, ResultList&) {}
  template <class Args>
  static const at::Tensor& Release(CallFrame&, Args& args) {
    return std::get<0>(args);
  }
};
template <class... T>
  requires(sizeof...(T) > 0 && (std::is_same_v<T, at::Tensor&> && ...))
struct Results<std::tuple<T...>> {
  using Tuple = std::tuple<T...>;
  static void Collect(const Tuple&, ResultList&) {}
  template <class Args>
  static Tuple Release(CallFrame& f, Args& args) {
    return Unpack(f, args, std::index_sequence_for<T...>{});
  }

 private:
  template <class Args, std::size_t... I>
  static Tuple Unpack(CallFrame& f, Args& args, std::index_sequence<I...>) {
    return Tuple(AliasedArg(f, I, args)...);
  }
};

template <class Schema>
class TypedWrapper;

template <class R, class... A>
class TypedWrapper<R(A...)> {
 public:
  explicit TypedWrapper(OpEntry* entry) : entry_(entry) {}

  // Both ways end in a call with the same arguments: nothing is saved here.
  R operator()(c10::DispatchKeySet ks, A... args) {
    if (IsFastActive()) [[likely]] {
      return CallActive(ks, std::forward<A>(args)...);
    }
    return CallUnusual(ks, std::forward<A>(args)...);
  }

  // A call that goes around the dispatcher. `context`: the state behind what
  // that would have passed on; is_below: behind a kernel for autograd.
  // REQUIRES: IsFastActive(), and the op's tensors are CPU's.
  static R CallDirectly(OpEntry* entry, std::uint32_t context, bool is_below,
                        A... args) {
    ThreadState* const state = AcquireFoundState();
    CallFrame frame(*entry, c10::DispatchKeySet(c10::DispatchKey::CPU));
    frame.context = context;
    PackAll(frame, std::index_sequence_for<A...>{}, args...);
    if (OnCall(state, frame) == Decision::kDeferred) {
      std::tuple<A&...> refs(args...);
      return Results<R>::Release(frame, refs);
    }
    std::optional<at::AutoDispatchBelowADInplaceOrView> guard;
    if (is_below) guard.emplace();
    return RunEagerly(entry, state, frame, frame.key_set, args...);
  }

  // A wrapper over the kernel of `e`, which must live for ever.
  static NewKernel Make(OpEntry* e) { return UnboxedKernel(TypedWrapper(e)); }

 private:
  [[gnu::noinline]] R CallUnusual(c10::DispatchKeySet ks, A... args) {
    t_context.instead = ActiveState();
    if (t_context.instead == nullptr) {
      const LendingScope lends;
      return entry_->kernel.template call<R, A...>(entry_->handle, ks,
                                                   std::forward<A>(args)...);
    }
    return CallActive(ks, std::forward<A>(args)...);
  }

  // REQUIRES: IsFastActive(), or t_context.instead says who is.
  [[gnu::noinline]] R CallActive(c10::DispatchKeySet ks, A... args) {
    ThreadState* const state = AcquireFoundState();
    CallFrame frame(*entry_, ks);
    PackAll(frame, std::index_sequence_for<A...>{}, args...);
    if (OnCall(state, frame) == Decision::kDeferred) {
      if constexpr (std::is_void_v<R>) {
        return;
      } else {
        std::tuple<A&...> refs(args...);
        return Results<R>::Release(frame, refs);
      }
    }
    return RunEagerly(entry_, state, frame, ks, args...);
  }

  // Apart, so that the way of a deferred call saves few registers.
  [[gnu::noinline]] static R RunEagerly(OpEntry* entry, ThreadState* state,
                                        CallFrame& frame,
                                        c10::DispatchKeySet ks, A&... args) {
    EagerScope scope(state, frame);
    if constexpr (std::is_void_v<R>) {
      entry->kernel.template call<R, A...>(entry->handle, ks, args...);
      Finish(scope, frame, args...);
    } else {
      R result =
          entry->kernel.template call<R, A...>(entry->handle, ks, args...);
      Results<R>::Collect(result, scope.results());
      Finish(scope, frame, args...);
      return result;
    }
  }

  static void Finish(EagerScope& scope, CallFrame& frame, A&... args) {
    if (frame.wants_capture) {
      scope.Finish(c10::impl::boxArgs<A...>(args...));
    } else {
      scope.Finish();
    }
  }

  template <std::size_t... I>
  static void PackAll(CallFrame& f, std::index_sequence<I...>,
                      const std::remove_reference_t<A>&... args) {
    (Pack(f, static_cast<std::uint32_t>(I), args), ...);
  }

  OpEntry* entry_;
};

// "aten::add.Tensor", of a struct in at::_ops.
template <class Op>
std::string NameOf() {
  std::string name = Op::name;
  if (*Op::overload_name != '\0') name.append(".").append(Op::overload_name);
  return name;
}

// Appends `Op` to the list of typed ops.
template <class Op>
void AddTyped(std::vector<TypedOp>* ops) {
  ops->push_back({NameOf<Op>(), &TypedWrapper<typename Op::schema>::Make});
}

}  // namespace tjit::runtime
