// Whether two arrays of floats have the same bits, as probes of eager's
// functions ask. Thread: any. Tested by:
// tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <cstddef>
#include <cstring>

namespace tjit::runtime {

// Index of the first one that differs, any NaN being any other; n if none does.
template <class T>
std::size_t FirstDifference(const T* a, const T* b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(T)) == 0) continue;
    if (a[i] == a[i] || b[i] == b[i]) return i;
  }
  return n;
}

}  // namespace tjit::runtime
