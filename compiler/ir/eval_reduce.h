// What each reduction computes over the elements of one group in row-major
// order, in A: double for floats, int64_t for integers and bool. The last
// parameter is the scalar operand, if the op has one.
// Tested by: tests/compiler/ir/ir_interpreter_test.cpp
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "compiler/ir/eval_helpers.h"

namespace tjit::ir::eval {

struct Sum {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double) {
    A sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum = Fma(x[i], A(1), sum);
    return sum;
  }
};

struct Prod {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double) {
    A product = 1;
    for (std::int64_t i = 0; i < n; ++i) product = Times(product, x[i]);
    return product;
  }
};

struct Mean {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double p) {
    return Sum::Eval(x, n, p) / static_cast<A>(n);
  }
};

struct Var {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double correction) {
    const A mean = Mean::Eval(x, n, correction);
    A sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += (x[i] - mean) * (x[i] - mean);
    return sum / std::max(A(0), static_cast<A>(n) - correction);
  }
};

struct Std {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double correction) {
    return std::sqrt(Var::Eval(x, n, correction));
  }
};

struct WelfordMean : Mean {};
struct NormMean : Mean {};

struct NormRstd {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double eps) {
    return 1 / std::sqrt(Var::Eval(x, n, 0) + eps);
  }
};

struct NormRstdWide : NormRstd {};

struct SumSequential : Sum {};
struct Dot : Sum {};  // over the products

struct SumInLevels : Sum {};

struct Pick {
  // REQUIRES: `index` is that of all elements.
  template <class A>
  static A Eval(const A* x, std::int64_t n, double index) {
    const bool is_there =
        index >= 0 && index < static_cast<double>(n) &&
        index == static_cast<double>(static_cast<std::int64_t>(index));
    return is_there ? x[static_cast<std::int64_t>(index)] : A(-0.0);
  }
};

struct Norm {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double p) {
    const bool is_least = std::isinf(p) && p < 0;
    A sum = is_least ? std::numeric_limits<A>::infinity() : A(0);
    for (std::int64_t i = 0; i < n; ++i) sum = With(sum, std::fabs(x[i]), p);
    if (p == 2) return std::sqrt(sum);
    return p == 0 || p == 1 || std::isinf(p) ? sum : std::pow(sum, 1 / p);
  }

 private:
  template <class A>
  static A With(A sum, A magnitude, double p) {
    if (p == 0) return magnitude != A(0) ? sum + 1 : sum;
    if (p == 1) return sum + magnitude;
    if (p == 2) return sum + magnitude * magnitude;
    if (!std::isinf(p)) return sum + std::pow(magnitude, p);
    return p > 0 ? Greater(sum, magnitude) : Smaller(sum, magnitude);
  }
};

struct Amax {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double) {
    A best = x[0];
    for (std::int64_t i = 1; i < n; ++i) best = Greater(best, x[i]);
    return best;
  }
};

struct Amin {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double) {
    A best = x[0];
    for (std::int64_t i = 1; i < n; ++i) best = Smaller(best, x[i]);
    return best;
  }
};

struct MaxOfAll : Amax {};
struct MinOfAll : Amin {};

struct SumOfHalves : Sum {};
struct AmaxOfHalves : Amax {};
struct AminOfHalves : Amin {};

struct Any {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double) {
    return std::any_of(x, x + n, [](A v) { return v != A(0); }) ? 1 : 0;
  }
};

struct AllOf {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double) {
    return std::all_of(x, x + n, [](A v) { return v != A(0); }) ? 1 : 0;
  }
};

struct Argmax {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < n && !IsNanValue(x[best]); ++i) {
      if (x[i] > x[best] || IsNanValue(x[i])) best = i;
    }
    return static_cast<A>(best);
  }
};

struct Argmin {
  template <class A>
  static A Eval(const A* x, std::int64_t n, double) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < n && !IsNanValue(x[best]); ++i) {
      if (x[i] < x[best] || IsNanValue(x[i])) best = i;
    }
    return static_cast<A>(best);
  }
};

}  // namespace tjit::ir::eval
