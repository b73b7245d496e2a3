// Mean and 1 / sqrt(variance + eps) of one row, in the order of eager's layer
// and group norm: Welford's formula over 16 vectors, such chunks joined in
// pairs, pairs of pairs and so on; then the elements that fill no vector, and
// the lanes. Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/sums.h"

namespace tjit::rows {
namespace {

// Of `count` values: their mean, the sum of squared differences from it.
template <class U>
struct Moments {
  std::int64_t count;
  U mean;
  U squares;
};

// What eager does for vectors.
template <class Isa, class T>
inline void JoinVectors(const Moments<Vector<Isa, T>>& more,
                        Moments<Vector<Isa, T>>* all) {
  const std::int64_t n = all->count + more.count;
  const T share =
      n == 0 ? T(0) : static_cast<T>(more.count) / static_cast<T>(n);
  const Vector<Isa, T> delta = more.mean - all->mean;
  const Vector<Isa, T> squares = all->squares + more.squares;
  const Vector<Isa, T> step = share * delta;
  const Vector<Isa, T> weighted = delta * static_cast<T>(all->count);
  all->mean = all->mean + step;
  all->squares = MulAdd<Isa, Isa::kHasFma>(weighted, step, squares);
  all->count = n;
}

// And for numbers.
template <class Isa, class T, bool kContracts>
inline void JoinNumbers(const Moments<T>& more, Moments<T>* all) {
  const std::int64_t n = all->count + more.count;
  const T share =
      n == 0 ? T(0) : static_cast<T>(more.count) / static_cast<T>(n);
  const T delta = more.mean - all->mean;
  all->mean = MulAdd<Isa, kContracts, T>(share, delta, all->mean);
  all->squares += MulAdd<Isa, kContracts, T>(
      delta * delta * share, static_cast<T>(all->count), more.squares);
  all->count = n;
}

constexpr std::int64_t kMomentsChunk = 16;

// 1, 1/2, 1/3, ...
template <class T>
struct Shares {
  constexpr Shares() {
    for (int i = 0; i < kMomentsChunk; ++i)
      at[i] = T(1) / static_cast<T>(i + 1);
  }
  T at[kMomentsChunk] = {};
};

template <class Isa, class T>
inline Moments<Vector<Isa, T>> MomentsOfChunk(const T* x, std::int64_t count) {
  static constexpr Shares<T> kShares;
  Moments<Vector<Isa, T>> chunk{count, {}, {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const Vector<Isa, T> v = Load<Isa, T>(x + i * kLanes<Isa, T>);
    const Vector<Isa, T> factor = Splat<Isa, T>(kShares.at[i]);
    const Vector<Isa, T> delta = v - chunk.mean;
    chunk.mean = MulAdd<Isa, Isa::kHasFma>(factor, delta, chunk.mean);
    const Vector<Isa, T> rest = v - chunk.mean;
    chunk.squares = MulAdd<Isa, Isa::kHasFma>(delta, rest, chunk.squares);
  }
  return chunk;
}

template <class Isa, class T>
inline Moments<Vector<Isa, T>> MomentsOfVectors(const T* x, std::int64_t n) {
  constexpr int kDeepest = 64;
  const std::int64_t chunks = (n + kMomentsChunk - 1) / kMomentsChunk;
  const int depth = CeilLog2(chunks);
  Moments<Vector<Isa, T>> level[kDeepest];
  const Moments<Vector<Isa, T>> none{0, {}, {}};
  for (int at = 0; at < depth; ++at) level[at] = none;
  for (std::int64_t i = 0; i < chunks; ++i) {
    const std::int64_t left = n - i * kMomentsChunk;
    JoinVectors<Isa, T>(
        MomentsOfChunk<Isa, T>(x + i * kMomentsChunk * kLanes<Isa, T>,
                               left < kMomentsChunk ? left : kMomentsChunk),
        &level[0]);
    std::int64_t done = i + 1;
    for (int at = 1; at < depth && (done & 1) == 0; ++at, done >>= 1) {
      JoinVectors<Isa, T>(level[at - 1], &level[at]);
      level[at - 1] = none;
    }
  }
  for (int at = 1; at < depth; ++at) JoinVectors<Isa, T>(level[at], &level[0]);
  return level[0];
}

// The mean and 1 / sqrt(variance + eps), the latter in the type of eps, where
// they are wanted.
template <class Isa, class T, bool kContracts, class Root>
inline void MomentsOfRow(const T* x, std::int64_t n, Root eps, T* mean_out,
                         T* rstd_out) {
  constexpr int kWidth = kLanes<Isa, T>;
  const Moments<Vector<Isa, T>> vectors =
      MomentsOfVectors<Isa, T>(x, n / kWidth);
  T mean[kWidth];
  T squares[kWidth];
  Store<Isa, T>(mean, vectors.mean);
  Store<Isa, T>(squares, vectors.squares);
  Moments<T> all{0, 0, 0};
  for (std::int64_t i = n / kWidth * kWidth; i < n; ++i) {
    const T delta = x[i] - all.mean;
    ++all.count;
    all.mean += delta / static_cast<T>(all.count);
    all.squares += delta * (x[i] - all.mean);
  }
  for (int i = 0; i < kWidth; ++i) {
    JoinNumbers<Isa, T, kContracts>({n / kWidth, mean[i], squares[i]}, &all);
  }
  if (mean_out != nullptr) *mean_out = all.mean;
  if (rstd_out == nullptr) return;
  const Root var = all.squares / static_cast<T>(n);
  *rstd_out = static_cast<T>(Root(1) / Isa::Sqrt(var + eps));
}

}  // namespace
}  // namespace tjit::rows
