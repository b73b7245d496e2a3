#include "runtime/library_calls/complex_by_real.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <cmath>

#include "runtime/platform/parallel.h"

namespace tjit::runtime {
namespace {

#define TJIT_INLINE [[gnu::always_inline]] inline

template <class T>
struct Complex {
  T re, im;
};

// Not short-circuited, so that loops become vectors.
template <class T>
TJIT_INLINE unsigned IsNan(T x) {
  return static_cast<unsigned>(x != x);
}
template <class T>
TJIT_INLINE unsigned IsLost(T product, T x, T y) {
  return static_cast<unsigned>(product == 0) & static_cast<unsigned>(x != 0) &
         static_cast<unsigned>(y != 0);
}

template <ByReal kOp, class T>
TJIT_INLINE unsigned IsLibtorchs(Complex<T> z, T c) {
  const unsigned has_nan = IsNan(z.re) | IsNan(z.im) | IsNan(c);
  if constexpr (kOp == ByReal::kOver) return has_nan;
  return has_nan | IsLost(z.re * c, z.re, c) | IsLost(z.im * c, z.im, c);
}

template <ByReal kOp, class T>
TJIT_INLINE Complex<T> Compute(Complex<T> z, T c) {
  if constexpr (kOp == ByReal::kTimes) {
    return {z.re * c - z.im * T(0), z.im * c + z.re * T(0)};
  }
  const T ratio = std::copysign(T(0), c);
  const T s = T(1) / c;
  const Complex<T> q = {(z.re + z.im * ratio) * s, (z.im - z.re * ratio) * s};
  const T infinity = std::fabs(s);  // if c is 0
  return {c == 0 ? z.re * infinity : q.re, c == 0 ? z.im * infinity : q.im};
}

// All of these return 0, or something else if a number is libtorch's.

template <ByReal kOp, class T>
TJIT_INLINE unsigned Look(std::int64_t n, const Complex<T>* z, const T* c) {
  unsigned is_libtorchs = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    is_libtorchs |= IsLibtorchs<kOp>(z[i], c[i]);
  }
  return is_libtorchs;
}

template <ByReal kOp, class T>
TJIT_INLINE unsigned Write(std::int64_t n, const Complex<T>* z, const T* c,
                           Complex<T>* __restrict out) {
  unsigned is_libtorchs = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    is_libtorchs |= IsLibtorchs<kOp>(z[i], c[i]);
    out[i] = Compute<kOp>(z[i], c[i]);
  }
  return is_libtorchs;
}

template <ByReal kOp, class T>
TJIT_INLINE unsigned Overwrite(std::int64_t n, Complex<T>* __restrict z,
                               const T* c) {
  for (std::int64_t i = 0; i < n; ++i) z[i] = Compute<kOp>(z[i], c[i]);
  return 0;
}

#undef TJIT_INLINE

// `out`: null to look only; may be z.
template <class T>
using Loop = unsigned (*)(std::int64_t n, const Complex<T>* z, const T* c,
                          Complex<T>* out);

#define TJIT_LOOP(name, target_name)                                        \
  template <ByReal kOp, class T>                                            \
  [[gnu::target(target_name)]] unsigned name(                               \
      std::int64_t n, const Complex<T>* z, const T* c, Complex<T>* out) {   \
    if (out == nullptr) return Look<kOp>(n, z, c);                          \
    return out == z ? Overwrite<kOp>(n, out, c) : Write<kOp>(n, z, c, out); \
  }
TJIT_LOOP(LoopAvx2, "avx2")
TJIT_LOOP(LoopAvx512, "avx512f,avx512dq,avx512vl")
#undef TJIT_LOOP

template <ByReal kOp, class T>
Loop<T> LoopFor() {
  static const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0 &&
                                 __builtin_cpu_supports("avx512dq") != 0 &&
                                 __builtin_cpu_supports("avx512vl") != 0;
  return has_avx512 ? LoopAvx512<kOp, T> : LoopAvx2<kOp, T>;
}

template <class T>
bool Run(ByReal op, std::int64_t n, const void* numbers, const void* by,
         void* out) {
  const Loop<T> loop = op == ByReal::kTimes ? LoopFor<ByReal::kTimes, T>()
                                            : LoopFor<ByReal::kOver, T>();
  const auto* const z = static_cast<const Complex<T>*>(numbers);
  const auto* const c = static_cast<const T*>(by);
  const auto run = [&](Complex<T>* to) {
    std::atomic<bool> is_ours = true;
    ParallelFor(0, n, at::internal::GRAIN_SIZE,
                [&](std::int64_t from, std::int64_t end) {
                  Complex<T>* const at = to == nullptr ? to : to + from;
                  if (loop(end - from, z + from, c + from, at) != 0) {
                    is_ours = false;
                  }
                });
    return is_ours.load();
  };
  if (out == numbers && !run(nullptr)) return false;
  return run(static_cast<Complex<T>*>(out));
}

std::atomic<std::int64_t> runs = 0;

}  // namespace

bool HasComplexByReal() { return __builtin_cpu_supports("avx2") != 0; }

bool RunComplexByReal(ByReal op, bool is_double, std::int64_t n,
                      const void* numbers, const void* by, void* out) {
  const bool is_done = is_double ? Run<double>(op, n, numbers, by, out)
                                 : Run<float>(op, n, numbers, by, out);
  if (is_done) runs.fetch_add(1, std::memory_order_relaxed);
  return is_done;
}

std::int64_t CountComplexByReal() { return runs; }

}  // namespace tjit::runtime
