// Differences between libtorch versions, and nothing else.
//
// 2.13 keeps the KernelFunction of a SafeKernelFunction private; from 2.14 on
// kernelFunction() returns it. Explicit instantiation may name private members
// ([temp.spec.general]/6), which is what the accessor below rests on.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

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

}  // namespace tjit::compat
