// Differences between libtorch versions, and nothing else.
//
// 2.13 keeps the KernelFunction of a SafeKernelFunction private; from 2.14 on
// kernelFunction() returns it. The float32 precisions of at::Context have
// getters, but those walk a hash map each time (11 ns). How many kernels were
// registered for an op only its dumpState() tells, in 100,000 instructions:
// 35 ms for all ops, at the start of the program. Explicit instantiation
// may name private members ([temp.spec.general]/6), which is what the
// accessors below rest on.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <cstddef>
#include <mutex>

namespace tjit::compat {

struct KernelTag {
  friend const c10::KernelFunction& PrivateKernel(
      KernelTag, const c10::SafeKernelFunction& safe);
};

template <auto Member, class Tag>
struct PrivateAccess {
  friend const c10::KernelFunction& PrivateKernel(
      Tag, const c10::SafeKernelFunction& safe) {
    return safe.*Member;
  }
};

template <class Safe>
concept HasPublicKernel = requires(const Safe& s) { s.kernelFunction(); };

#if !defined(TJIT_TORCH_HAS_PUBLIC_KERNEL)
template struct PrivateAccess<&c10::SafeKernelFunction::kernel_, KernelTag>;
#endif

// The kernel behind `safe`. The reference lives as long as `safe`.
template <class Safe>
const c10::KernelFunction& KernelOf(const Safe& safe) {
  if constexpr (HasPublicKernel<Safe>) {
    return safe.kernelFunction();
  } else {
    return PrivateKernel(KernelTag{}, safe);
  }
}

template <class Table>
std::size_t CountAt(const Table& kernels, c10::DispatchKey key) {
  const auto found = kernels.find(key);
  return found == kernels.end() ? 0 : found->second.size();
}

template <auto Definition, auto Entry, auto Kernels>
struct OperatorAccess {
  friend std::size_t PrivateKernelCount(const c10::OperatorHandle& op,
                                        c10::DispatchKey key) {
    return CountAt(((op.*Definition)->*Entry).*Kernels, key);
  }
};
std::size_t PrivateKernelCount(const c10::OperatorHandle& op,
                               c10::DispatchKey key);
template struct OperatorAccess<&c10::OperatorHandle::operatorDef_,
                               &c10::Dispatcher::OperatorDef::op,
                               &c10::impl::OperatorEntry::kernels_>;

template <auto Guard>
struct DispatcherAccess {
  friend std::mutex& PrivateMutex(const c10::Dispatcher& dispatcher) {
    return (dispatcher.*Guard)->mutex;
  }
};
std::mutex& PrivateMutex(const c10::Dispatcher& dispatcher);
template struct DispatcherAccess<&c10::Dispatcher::guard_>;

// Kernels that were registered for `op` at `key`; the last one is used. Other
// threads may register some meanwhile.
// REQUIRES: not called by the dispatcher from within a registration.
inline std::size_t KernelCount(const c10::OperatorHandle& op,
                               c10::DispatchKey key) {
  const std::lock_guard lock(PrivateMutex(c10::Dispatcher::singleton()));
  return PrivateKernelCount(op, key);
}

template <auto Member>
struct MetaAccess {
  friend bool PrivateHasMeta(const c10::TensorImpl* impl) {
    return impl->*Member != nullptr;
  }
};
bool PrivateHasMeta(const c10::TensorImpl* impl);
template struct MetaAccess<&c10::TensorImpl::autograd_meta_>;

// autograd_meta() != nullptr, which is a call.
[[gnu::always_inline]] inline bool HasAutogradMeta(
    const c10::TensorImpl* impl) {
  return PrivateHasMeta(impl);
}

template <auto Member>
struct ContextAccess {
  friend auto& PrivatePrecisions(at::Context& context) {
    return context.*Member;
  }
};
auto& PrivatePrecisions(at::Context& context);
template struct ContextAccess<&at::Context::fp32_precision>;

template <class Flag, bool at::Context::*Member>
struct ContextFlagAccess {
  friend bool PrivateFlag(const at::Context& context, Flag) {
    return context.*Member;
  }
};
#define TJIT_CONTEXT_FLAG(Flag, member)               \
  struct Flag {};                                     \
  bool PrivateFlag(const at::Context& context, Flag); \
  template struct ContextFlagAccess<Flag, &at::Context::member>;
// What the getters of the same names return, each of which is a call.
TJIT_CONTEXT_FLAG(DeterministicAlgorithms, _deterministic_algorithms)
TJIT_CONTEXT_FLAG(DeterministicWarnOnly, _deterministic_algorithms_warn_only)
TJIT_CONTEXT_FLAG(UserEnabledMkldnn, enabled_mkldnn)
TJIT_CONTEXT_FLAG(DeterministicMkldnn, deterministic_mkldnn)
TJIT_CONTEXT_FLAG(UserEnabledNnpack, enabled_nnpack)
TJIT_CONTEXT_FLAG(AllowFp16ReductionCpu, allow_fp16_reduction_cpu)
TJIT_CONTEXT_FLAG(DeterministicFill, _deterministic_fill_uninitialized_memory)
#undef TJIT_CONTEXT_FLAG

// Where at::Context keeps the float32 precisions that CPU kernels ask for:
// generic, then oneDNN's (all, convolution, RNN, product). An entry that was
// not set inherits; entries are never removed, so the places stay.
inline const std::array<at::Float32Precision*, 5>& CpuFloat32Precisions() {
  using at::Float32Backend, at::Float32Op;
  static const std::array<at::Float32Precision*, 5> places = [] {
    auto& map = PrivatePrecisions(at::globalContext());
    return std::array<at::Float32Precision*, 5>{
        &map[{Float32Backend::GENERIC, Float32Op::ALL}],
        &map[{Float32Backend::MKLDNN, Float32Op::ALL}],
        &map[{Float32Backend::MKLDNN, Float32Op::CONV}],
        &map[{Float32Backend::MKLDNN, Float32Op::RNN}],
        &map[{Float32Backend::MKLDNN, Float32Op::MATMUL}]};
  }();
  return places;
}

}  // namespace tjit::compat
