// The means of welford.h: what var_mean gives beside the variance.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/welford.h"

namespace tjit::rows {
namespace {

// Some rows side by side, as each element waits for the one before.
template <class Isa, class T>
inline void WelfordMeansOfRows(std::int64_t rows, std::int64_t n, const T* x,
                               T* out) {
  constexpr int kTogether = kLanes<Isa, double>;
  for (std::int64_t first = 0; first < rows; first += kTogether) {
    const std::int64_t left = rows - first;
    const int count = left < kTogether ? static_cast<int>(left) : kTogether;
    Vector<Isa, double> mean = {};
    for (std::int64_t i = 0; i < n; ++i) {
      Vector<Isa, double> value = {};
      for (int row = 0; row < count; ++row) {
        value[row] = static_cast<double>(x[(first + row) * n + i]);
      }
      mean += (value - mean) / static_cast<double>(i + 1);
    }
    for (int row = 0; row < count; ++row) {
      out[first + row] = static_cast<T>(mean[row]);
    }
  }
}

template <class Isa, class T>
struct WelfordMeanColumns : VarColumns<Isa, T, false, true> {
  static void End(std::int64_t n, TjitColumnState* state, T* out) {
    const double* means = VarColumns<Isa, T, false>::MeansOf(state);
    for (std::int64_t j = 0; j < n; ++j) out[j] = static_cast<T>(means[j]);
  }
};

}  // namespace
}  // namespace tjit::rows
