// What an Isa (lanes.h) with FMA has whatever its vectors are: numbers by the
// processor's own instructions, exp and log by libtorch's SLEEF (RowMath).
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/rows.h"

namespace tjit::rows {
namespace {

RowMath g_math{};

template <int kVectorBytes>
struct SleefLanes {
  static constexpr int kBytes = kVectorBytes;
  static constexpr bool kTree = true;
  static constexpr bool kHasFma = true;
  static constexpr bool kSumsHalves = false;
  using F32 = typename VectorOf<float, kBytes>::Type;
  using F64 = typename VectorOf<double, kBytes>::Type;

  static float Fma(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
  }
  static double Fma(double a, double b, double c) {
    return __builtin_fma(a, b, c);
  }
  static float Sqrt(float x) { return __builtin_sqrtf(x); }
  static double Sqrt(double x) { return __builtin_sqrt(x); }

  static F32 Exp(F32 v) { return Call(g_math.exp_f32, v); }
  static F64 Exp(F64 v) { return Call(g_math.exp_f64, v); }
  template <class V>
  static V ExpUpToZero(V v) {
    return Exp(v);
  }
  static F32 Log(F32 v) { return Call(g_math.log_f32, v); }
  static F64 Log(F64 v) { return Call(g_math.log_f64, v); }

 private:
  template <class V>
  static V Call(void* function, V v) {
    return reinterpret_cast<V (*)(V)>(function)(v);
  }
};

}  // namespace
}  // namespace tjit::rows
