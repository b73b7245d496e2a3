#include "compiler/functions/class_losses.h"

#include <cmath>

namespace tjit {
namespace {

using ir::Op;

// A TjitRowFn. The index is counted in the type itself, which names all
// elements of a row exactly.
template <class T>
void IsIndex(std::int64_t rows, std::int64_t n, const void* a,
             const void* /*b*/, void* out) {
  const T* x = static_cast<const T*>(a);
  T* y = static_cast<T*>(out);
  for (std::int64_t i = 0; i < rows; ++i, x += n, y += n) {
    for (std::int32_t j = 0; j < static_cast<std::int32_t>(n); ++j) {
      y[j] = x[j] == static_cast<T>(j) ? T(1) : T(0);
    }
  }
}

// A TjitRowFn; b: the index, in each element of the row.
template <class T>
void Pick(std::int64_t rows, std::int64_t n, const void* a, const void* b,
          void* out) {
  const T* x = static_cast<const T*>(a);
  const T* index = static_cast<const T*>(b);
  T* y = static_cast<T*>(out);
  for (std::int64_t i = 0; i < rows; ++i, x += n, index += n) {
    const bool is_there = *index >= 0 && *index < static_cast<T>(n) &&
                          std::trunc(*index) == *index;
    y[i] = is_there ? x[static_cast<std::int64_t>(*index)] : T(-0.0);
  }
}

// Eager adds an element to the first level. Where the lowest bits of its place
// are 0 it moves the level to the next one, and so on with the bits above.
// Levels are longer from 2^39 elements on.
constexpr int kLevels = 8, kBits = 4;

template <class T>
void AddInLevels(std::int64_t place, T x, T* levels) {
  constexpr std::int64_t kMask = (1 << kBits) - 1;
  if (x == 0 && std::signbit(x)) return;  // no element: it moves nothing
  levels[0] += x;
  for (int j = 0; j + 1 < kLevels; ++j, place >>= kBits) {
    if ((place & kMask) != 0) return;
    levels[j + 1] += levels[j];
    levels[j] = 0;
  }
}

// A TjitColumnFn of all elements, which are one column.
template <class T>
void SumInLevels(std::int64_t rows, std::int64_t /*n*/, const void* a,
                 TjitColumnState* state, void* out) {
  static_assert(kLevels * sizeof(T) + sizeof(*state) <= kTjitWholeStateBytes);
  T* levels = reinterpret_cast<T*>(state + 1);
  if (out != nullptr) {
    T sum = 0;
    for (int j = 0; j < kLevels; ++j) sum += levels[j];
    *static_cast<T*>(out) = sum;
    return;
  }
  if (a == nullptr) {
    state->done = 0;
    for (int j = 0; j < kLevels; ++j) levels[j] = 0;
    return;
  }
  const T* x = static_cast<const T*>(a);
  for (std::int64_t i = 0; i < rows; ++i) {
    AddInLevels(state->done + i, x[i], levels);
  }
  state->done += rows;
}

struct Entries {
  TjitMath is_index, pick, sum;
};

template <class T>
Entries EntriesOf() {
  constexpr bool kIsDouble = sizeof(T) == 8;
  const auto rows = [](Op op, TjitRowFn f) {
    return TjitMath{ir::InfoOf(op).name, kIsDouble ? kTjitRowF64 : kTjitRowF32,
                    reinterpret_cast<void*>(f), 0};
  };
  return {rows(Op::kIsIndex, &IsIndex<T>),
          rows(Op::kPick, &Pick<T>),
          {ir::InfoOf(Op::kSumInLevels).name,
           kIsDouble ? kTjitWholeF64 : kTjitWholeF32,
           reinterpret_cast<void*>(&SumInLevels<T>), 0}};
}

}  // namespace

const TjitMath* ClassFunction(Op op, ir::DType dtype) {
  static const Entries floats = EntriesOf<float>();
  static const Entries doubles = EntriesOf<double>();
  if (dtype != ir::DType::kF32 && dtype != ir::DType::kF64) return nullptr;
  const Entries& entries = dtype == ir::DType::kF64 ? doubles : floats;
  switch (op) {
    case Op::kIsIndex:
      return &entries.is_index;
    case Op::kPick:
      return &entries.pick;
    case Op::kSumInLevels:
      return &entries.sum;
    default:
      return nullptr;
  }
}

}  // namespace tjit
