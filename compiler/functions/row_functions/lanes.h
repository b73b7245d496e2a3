// Vectors as the row functions see them, over an `Isa` that each of the three
// sources defines: how wide they are, and what GCC's vector extensions lack.
//
//   struct Isa {
//     static constexpr int kBytes;        // of a vector
//     static constexpr bool kTree;        // see FoldLanes
//     static constexpr bool kHasFma;
//     static constexpr bool kSumsHalves;  // SumByHalves()
//     LoadPart(x, n), StorePart(x, n, v)  // n lanes; the others are 0
//     FirstOf(n, a, b)                    // n lanes of a, the others of b
//     Widen(x)                            // as many floats as doubles fit
//     Fma(a, b, c)                        // vectors and numbers
//     Exp(v), Log(v)                      // vectors
//     ExpUpToZero(v)                      // of v <= 0, any other for more
//     Sqrt(x)                             // numbers
//   };
//
// All names are local to the source that includes this: each source is
// compiled for its own processors.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include <cstdint>

namespace tjit::rows {
namespace {

template <class T, int kBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));
};

template <class Isa, class T>
using Vector = typename VectorOf<T, Isa::kBytes>::Type;

template <class Isa, class T>
inline constexpr int kLanes = static_cast<int>(sizeof(Vector<Isa, T>) /
                                               sizeof(T));

template <class Isa, class T>
inline Vector<Isa, T> Load(const T* x) {
  Vector<Isa, T> v;
  __builtin_memcpy(&v, x, sizeof(v));
  return v;
}

template <class Isa, class T>
inline void Store(T* x, const Vector<Isa, T>& v) {
  __builtin_memcpy(x, &v, sizeof(v));
}

template <class Isa, class T>
inline Vector<Isa, T> Splat(T x) {
  return x - Vector<Isa, T>{};  // -0 stays -0
}

// The first `count` elements: all lanes in the midst of a row.
template <class Isa, class T>
inline Vector<Isa, T> LoadSome(const T* x, int count) {
  if (count == kLanes<Isa, T>) return Load<Isa, T>(x);
  return Isa::LoadPart(x, count);
}

template <class Isa, class T>
inline void StoreSome(T* x, int count, const Vector<Isa, T>& v) {
  if (count == kLanes<Isa, T>) return Store<Isa, T>(x, v);
  Isa::StorePart(x, count, v);
}

// Calls body(i, count) for each vector of a row; the last one may be short.
template <class Isa, class T, class Body>
inline void ForVectors(std::int64_t n, const Body& body) {
  constexpr int kWidth = kLanes<Isa, T>;
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) body(i, kWidth);
  if (i < n) body(i, static_cast<int>(n - i));
}

template <int... kIndex>
struct Indices {};
template <int n, int... kIndex>
struct IndicesUpTo : IndicesUpTo<n - 1, n - 1, kIndex...> {};
template <int... kIndex>
struct IndicesUpTo<0, kIndex...> {
  using Type = Indices<kIndex...>;
};

// v[0] of joining each lane with the one `distance` on, for half of the lanes,
// a quarter, ... 1.
template <int distance, class V, class Join, int... kIndex>
inline auto FoldHalves(const V& v, const Join& join, Indices<kIndex...> all) {
  const V folded =
      join(v, __builtin_shufflevector(v, v, (kIndex ^ distance)...));
  if constexpr (distance == 1) {
    return folded[0];
  } else {
    return FoldHalves<distance / 2>(folded, join, all);
  }
}

// One number of all lanes, in eager's order: floats by halves where there are
// shuffles for it, else one lane after the other.
template <class Isa, class T, class Join>
inline T FoldLanes(const Vector<Isa, T>& v, const Join& join) {
  constexpr int kWidth = kLanes<Isa, T>;
  if constexpr (Isa::kTree && sizeof(T) == 4) {
    return FoldHalves<kWidth / 2>(v, join,
                                  typename IndicesUpTo<kWidth>::Type());
  } else {
    T lane[kWidth];
    Store<Isa, T>(lane, v);
    T all = lane[0];
    for (int i = 1; i < kWidth; ++i) all = join(all, lane[i]);
    return all;
  }
}

struct Plus {
  template <class V>
  V operator()(const V& a, const V& b) const {
    return a + b;
  }
};

// b if they are equal or one of them is NaN, as the processor's instruction.
template <bool kMax>
struct Greater {
  template <class V>
  V operator()(const V& a, const V& b) const {
    if constexpr (kMax) return a > b ? a : b;
    return a < b ? a : b;
  }
};

// a * b + c, rounded once or twice.
template <class Isa, bool kContracts, class V>
inline V MulAdd(const V& a, const V& b, const V& c) {
  if constexpr (kContracts) return Isa::Fma(a, b, c);
  return a * b + c;
}

}  // namespace
}  // namespace tjit::rows
