// Row functions as libtorch has them for processors without AVX2: vectors of
// 32 bytes that the compiler cuts up, libm's exp and log, no contraction.
#include "compiler/functions/row_functions/rows.h"

namespace tjit::rows {
namespace {

struct Plain {
  static constexpr int kBytes = 32;
  static constexpr bool kTree = false;
  static constexpr bool kHasFma = false;
  static constexpr bool kSumsHalves = false;
  using F32 = VectorOf<float, kBytes>::Type;
  using F64 = VectorOf<double, kBytes>::Type;

  template <class T>
  static typename VectorOf<T, kBytes>::Type LoadPart(const T* x, int n) {
    typename VectorOf<T, kBytes>::Type v = {};
    for (int i = 0; i < n; ++i) v[i] = x[i];
    return v;
  }
  template <class V, class T>
  static void StorePart(T* x, int n, const V& v) {
    for (int i = 0; i < n; ++i) x[i] = v[i];
  }
  template <class V>
  static V FirstOf(int n, const V& a, V b) {
    for (int i = 0; i < n; ++i) b[i] = a[i];
    return b;
  }
  static F64 Widen(const float* x) {
    F64 v;
    for (int i = 0; i < 4; ++i) v[i] = x[i];
    return v;
  }
  static float Sqrt(float x) { return __builtin_sqrtf(x); }
  static double Sqrt(double x) { return __builtin_sqrt(x); }

  static F32 Exp(F32 v) {
    for (int i = 0; i < 8; ++i) v[i] = __builtin_expf(v[i]);
    return v;
  }
  static F64 Exp(F64 v) {
    for (int i = 0; i < 4; ++i) v[i] = __builtin_exp(v[i]);
    return v;
  }
  template <class V>
  static V ExpUpToZero(V v) {
    return Exp(v);
  }
  static F32 Log(F32 v) {
    for (int i = 0; i < 8; ++i) v[i] = __builtin_logf(v[i]);
    return v;
  }
  static F64 Log(F64 v) {
    for (int i = 0; i < 4; ++i) v[i] = __builtin_log(v[i]);
    return v;
  }
};

constexpr FunctionList kFunctions = AllRows<Plain>();

}  // namespace
}  // namespace tjit::rows

namespace tjit {

constexpr RowTable kPlainRows = {"DEFAULT", rows::kFunctions.at,
                                 rows::kFunctions.count, nullptr};

}  // namespace tjit
