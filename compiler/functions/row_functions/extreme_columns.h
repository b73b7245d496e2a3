// The greatest and the smallest of columns. Which zero wins: of columns that
// fill four vectors the later one, of the others the first.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/columns.h"

namespace tjit::rows {
namespace {

// kParts: as SignedExtremeOf() has it.
template <class Isa, class T, bool kMax, int kParts = 1>
struct ExtremeColumns {
  using Type = T;

  static void Begin(std::int64_t n, TjitColumnState* state) {
    for (std::int64_t j = 0; j < n; ++j) {
      BestOf(state)[j] = kMax ? -__builtin_inf() : __builtin_inf();
    }
  }

  static void Add(std::int64_t rows, std::int64_t n, const T* x,
                  TjitColumnState* state) {
    constexpr std::int64_t kGroup = 4 * kParts * kLanes<Isa, T>;
    const std::int64_t grouped = n / kGroup * kGroup;
    T* best = BestOf(state);
    for (std::int64_t i = 0; i < rows; ++i, x += n) {
      for (std::int64_t j = 0; j < grouped; j += kLanes<Isa, T>) {
        const Vector<Isa, T> b = Load<Isa, T>(best + j);
        const Vector<Isa, T> v = Load<Isa, T>(x + j);
        const auto stays = (kMax ? b > v : b < v) | (b != b);
        Store<Isa, T>(best + j, stays ? b : v);
      }
      for (std::int64_t j = grouped; j < n; ++j) {
        const bool wins = kMax ? x[j] > best[j] : x[j] < best[j];
        if (wins || x[j] != x[j]) best[j] = x[j];
      }
    }
  }

  static void End(std::int64_t n, TjitColumnState* state, T* out) {
    for (std::int64_t j = 0; j < n; ++j) out[j] = BestOf(state)[j];
  }

 private:
  static T* BestOf(TjitColumnState* state) {
    return reinterpret_cast<T*>(state + 1);
  }
};

}  // namespace
}  // namespace tjit::rows
