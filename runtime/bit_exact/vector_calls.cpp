#include "runtime/bit_exact/vector_calls.h"

#include <immintrin.h>

#include <cstring>

namespace tjit::runtime {
namespace {

#define TJIT_CALL_VECTORS(name, target_name, T, V)                         \
  __attribute__((target(target_name))) void name(                          \
      void* address, const void* in, void* out, std::int64_t n) {          \
    constexpr std::int64_t kLanes = sizeof(V) / sizeof(T);                 \
    const auto function = reinterpret_cast<V (*)(V)>(address);             \
    const auto* x = static_cast<const T*>(in);                             \
    auto* y = static_cast<T*>(out);                                        \
    std::int64_t i = 0;                                                    \
    for (; i + kLanes <= n; i += kLanes) {                                 \
      V v;                                                                 \
      std::memcpy(&v, x + i, sizeof(V));                                   \
      v = function(v);                                                     \
      std::memcpy(y + i, &v, sizeof(V));                                   \
    }                                                                      \
    if (i == n) return;                                                    \
    V v = {};                                                              \
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(n - i); \
    std::memcpy(&v, x + i, bytes);                                         \
    v = function(v);                                                       \
    std::memcpy(y + i, &v, bytes);                                         \
  }
TJIT_CALL_VECTORS(CallF32x8, "avx2,fma", float, __m256)
TJIT_CALL_VECTORS(CallF32x16, "avx512f", float, __m512)
TJIT_CALL_VECTORS(CallF64x4, "avx2,fma", double, __m256d)
TJIT_CALL_VECTORS(CallF64x8, "avx512f", double, __m512d)
#undef TJIT_CALL_VECTORS

}  // namespace

void CallVectors(TjitMathKind kind, void* function, const void* in, void* out,
                 std::int64_t n) {
  switch (kind) {
    case kTjitMathF32x8:
      return CallF32x8(function, in, out, n);
    case kTjitMathF32x16:
      return CallF32x16(function, in, out, n);
    case kTjitMathF64x4:
      return CallF64x4(function, in, out, n);
    case kTjitMathF64x8:
      return CallF64x8(function, in, out, n);
    default:
      return;
  }
}

}  // namespace tjit::runtime
