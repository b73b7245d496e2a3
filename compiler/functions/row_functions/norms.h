// p-norms of one row, or of all elements as they come, for p of 1, 2 and
// infinity. Of 2: the squares are added up in one vector, its lanes one after
// the other, then the rest. Of 1: one element after the other.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/whole.h"

namespace tjit::rows {
namespace {

// What the elements so far give; the rest, less than a vector, comes last.
template <class Isa, class T, bool kContracts>
struct NormSum {
  explicit NormSum(double p) : p(p) {}

  // REQUIRES: count is a multiple of the vector's lanes.
  void Add(const T* x, std::int64_t count) {
    if (p != 2) return AddRest(x, count);
    Vector<Isa, T> sum = Load<Isa, T>(squares);
    for (std::int64_t i = 0; i < count; i += kLanes<Isa, T>) {
      const Vector<Isa, T> v = Load<Isa, T>(x + i);
      sum += v * v;
    }
    Store<Isa, T>(squares, sum);
  }

  T Result(const T* rest, std::int64_t count) {
    if (p == 2) {
      for (const T& square : squares) one += square;
    }
    AddRest(rest, count);
    return p == 2 ? Isa::Sqrt(one) : one;
  }

  double p;
  T one = 0;
  T squares[kLanes<Isa, T>] = {};

 private:
  void AddRest(const T* x, std::int64_t count) {
    std::int64_t i = 0;
    if (p == 2 && sizeof(T) == 4) {
      // Their products were taken together: rounded.
      for (; i < count / 4 * 4; ++i) one += x[i] * x[i];
    }
    for (; i < count; ++i) {
      const T magnitude = x[i] < 0 ? -x[i] : x[i];
      if (p == 2) {
        one = MulAdd<Isa, kContracts>(x[i], x[i], one);
      } else if (p == 1) {
        one += magnitude;
      } else if (magnitude > one || magnitude != magnitude) {
        one = magnitude;
      }
    }
  }
};

template <class Isa, class T, bool kContracts>
void RunNorm(std::int64_t rows, std::int64_t n, const void* a, const void* b,
             void* out) {
  const double p = static_cast<const TjitRowNumber*>(b)->number;
  const T* x = static_cast<const T*>(a);
  const std::int64_t whole = n / kLanes<Isa, T> * kLanes<Isa, T>;
  for (std::int64_t i = 0; i < rows; ++i, x += n) {
    NormSum<Isa, T, kContracts> sum(p);
    sum.Add(x, whole);
    static_cast<T*>(out)[i] = sum.Result(x + whole, n - whole);
  }
}

template <class Isa, class T, bool kContracts>
struct NormWhole {
  using Type = T;

  static void Begin(std::int64_t /*n*/, TjitColumnState* state) {
    PartOf(state).sum = NormSum<Isa, T, kContracts>(state->number);
  }

  static void Add(std::int64_t rows, std::int64_t /*n*/, const T* x,
                  TjitColumnState* state) {
    Part& part = PartOf(state);
    part.waiting.Add(state->done, rows, x, [&](const T* at, std::int64_t n) {
      part.sum.Add(at, n * kGroup<Isa, T>);
    });
    state->done += rows;
  }

  static void End(std::int64_t /*n*/, TjitColumnState* state, T* out) {
    Part& part = PartOf(state);
    const std::int64_t rest = state->rows % kGroup<Isa, T>;
    const std::int64_t whole = rest / kLanes<Isa, T> * kLanes<Isa, T>;
    const T* x = part.waiting.elements;
    part.sum.Add(x, whole);
    out[0] = part.sum.Result(x + whole, rest - whole);
  }

 private:
  struct Part {
    NormSum<Isa, T, kContracts> sum;
    Waiting<Isa, T> waiting;
  };
  static Part& PartOf(TjitColumnState* state) {
    return *reinterpret_cast<Part*>(state + 1);
  }
};

}  // namespace
}  // namespace tjit::rows
