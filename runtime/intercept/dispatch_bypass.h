// Whether a call can go around libtorch's dispatcher: Note [Direct calls] in
// direct_calls.h, of the op's kernels, the tensors, and the thread.
//
// Thread: any, about itself.
// Tested by: tests/runtime/intercept/direct_calls_test.cpp,
// direct_views_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKeySet.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/call/kernel_state.h"
#include "runtime/platform/torch_compat.h"

namespace tjit::runtime::direct {

inline constexpr std::uint64_t kNeeded =
    BitsOf(c10::DispatchKeySet(c10::DispatchKey::CPU));
// Of plain CPU tensors. What the thread excludes of it is looked at there.
inline constexpr std::uint64_t kAllowed = BitsOf(c10::DispatchKeySet(
    {c10::DispatchKey::CPU, c10::DispatchKey::ADInplaceOrView,
     c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutocastCPU}));
inline constexpr std::uint64_t kAutograd =
    BitsOf(c10::DispatchKeySet(c10::DispatchKey::AutogradFunctionality));
inline constexpr std::uint64_t kInPlaceOrView =
    BitsOf(c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView));

// How many kernels the op has for autograd. Nothing if plain CPU tensors might
// get to others on the way: to any but libtorch's own at ADInplaceOrView, which
// ops have that write to a tensor or make a view of it.
inline std::optional<std::size_t> CountAutogradKernels(
    const c10::OperatorHandle& op, bool is_in_place_or_view) {
  using c10::DispatchKey;
  using compat::KernelCount;
  const std::size_t noting = is_in_place_or_view ? 1 : 0;
  if (KernelCount(op, DispatchKey::ADInplaceOrView) != noting ||
      KernelCount(op, DispatchKey::AutogradCPU) != 0 ||
      KernelCount(op, DispatchKey::BackendSelect) != 0) {
    return std::nullopt;
  }
  return KernelCount(op, DispatchKey::Autograd);
}

// What the tensors of a call have in common.
struct Seen {
  std::uint64_t keys = 0;
  bool is_plain = true;
  bool has_autograd_meta = false;  // one of them

  [[gnu::always_inline]] void Look(const at::Tensor& t) {
    const c10::TensorImpl* const impl = t.unsafeGetTensorImpl();
    const std::uint64_t raw = impl->key_set().raw_repr();
    is_plain &= (raw & ~kAllowed) == 0 && (raw & kNeeded) == kNeeded;
    keys |= raw;
    has_autograd_meta |= compat::HasAutogradMeta(impl);
  }
  template <class T>
  [[gnu::always_inline]] void Look(const T&) {}
};

// Whether autograd has something to do for an op of `t`.
inline bool IsForAutograd(const at::Tensor& t, bool grad_mode) {
  return (grad_mode && t.requires_grad()) || t._fw_grad(0).defined();
}
template <class T>
bool IsForAutograd(const T&, bool) {
  return false;
}

struct Way {
  std::uint32_t context = 0;  // 0: through the dispatcher
  bool is_below = false;      // behind a kernel for autograd
  // libtorch's kernel at ADInplaceOrView would see the call.
  bool is_for_in_place_or_view = false;
};

// How a call gets to the kernel behind autograd's. has_autograd: the op has one
// there; kIsInPlaceOrView: it writes to its first argument, or is a view of it.
template <bool kIsInPlaceOrView, class... A>
[[gnu::always_inline]] inline Way FindWay(bool has_autograd, const A&... args) {
  Seen seen;
  (seen.Look(args), ...);
  DirectContext& v = t_direct_context;
  if (!v.IsAsBefore()) [[unlikely]]
    RefreshDirectContext();
  if (!seen.is_plain || !v.is_plain) [[unlikely]]
    return {};
  const bool is_for_autograd =
      has_autograd && (seen.keys & kAutograd & ~v.excluded) != 0;
  const bool is_for_other =
      kIsInPlaceOrView &&
      ((seen.keys | v.included) & kInPlaceOrView & ~v.excluded) != 0;
  if (!is_for_autograd) {
    return {is_for_other ? v.below : v.last, is_for_other, is_for_other};
  }
  if (seen.has_autograd_meta && (IsForAutograd(args, v.grad_mode) || ...)) {
    return {};
  }
  return {v.below, true, is_for_other};
}

}  // namespace tjit::runtime::direct
