// Reductions of all elements as they come, some at a time, in the order of
// eager on one thread: that of one long row. Elements wait until there are four
// vectors of them, a group.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/columns.h"
#include "compiler/functions/row_functions/extremes.h"

namespace tjit::rows {
namespace {

constexpr int kGroupWays = 4;
template <class Isa, class T>
inline constexpr std::int64_t kGroup = kGroupWays* kLanes<Isa, T>;

// What is not yet a group of so many vectors. The states fit
// kTjitWholeStateBytes.
template <class Isa, class T, int kVectors = kGroupWays>
struct Waiting {
  static constexpr std::int64_t kSize = kVectors * kLanes<Isa, T>;

  // Calls take(x, groups) for all groups that are there with these elements;
  // the others wait.
  template <class Take>
  void Add(std::int64_t done, std::int64_t n, const T* x, const Take& take) {
    std::int64_t have = done % kSize;
    std::int64_t i = 0;
    if (have > 0) {
      while (have < kSize && i < n) elements[have++] = x[i++];
      if (have < kSize) return;
      take(elements, 1);
    }
    const std::int64_t groups = (n - i) / kSize;
    if (groups > 0) take(x + i, groups);
    i += groups * kSize;
    for (have = 0; i < n; ++i) elements[have++] = x[i];
  }
  T elements[kSize];
};

// Unit: of eager's order (sums.h).
template <class Isa, class T, bool kIsMean,
          class Unit = VectorUnit<T, kLanes<Isa, T>>>
struct SumWhole {
  using Type = T;
  using U = typename Unit::Type;
  static constexpr int kLevels = 4;
  static constexpr int kElements = Unit::kElements;
  static constexpr int kGroup = kGroupWays * kElements;
  static constexpr int kWidth = sizeof(U) / sizeof(T);
  static constexpr int kSums = kGroupWays * kWidth;
  using Lanes = VectorUnit<T, kWidth>;

  static void Begin(std::int64_t /*n*/, TjitColumnState* state) {
    Part& part = PartOf(state);
    for (auto& level : part.sums) {
      for (T& sum : level) sum = 0;
    }
  }

  static void Add(std::int64_t rows, std::int64_t /*n*/, const T* x,
                  TjitColumnState* state) {
    Part& part = PartOf(state);
    const CascadeOfColumns<Isa, T> cascade = CascadeOf(state);
    std::int64_t done = state->done / kGroup;
    part.waiting.Add(state->done, rows, x, [&](const T* at, std::int64_t n) {
      while (n > 0) {
        const std::int64_t step = cascade.step();
        const std::int64_t left = step - done % step;
        const std::int64_t groups = left < n ? left : n;
        AddGroups(at, groups, part.sums[0]);
        at += groups * kGroup;
        done += groups;
        n -= groups;
        if (groups == left) cascade.Carry(done);
      }
    });
    state->done += rows;
  }

  static void End(std::int64_t /*n*/, TjitColumnState* state, T* out) {
    const T sum = SumOf(state);
    out[0] = kIsMean ? sum / static_cast<T>(state->rows) : sum;
  }

 private:
  struct Part {
    T sums[kLevels][kSums];
    Waiting<Isa, T, kGroup / kLanes<Isa, T>> waiting;
  };
  static Part& PartOf(TjitColumnState* state) {
    return *reinterpret_cast<Part*>(state + 1);
  }
  static CascadeOfColumns<Isa, T> CascadeOf(TjitColumnState* state) {
    return CascadeOfColumns<Isa, T>(PartOf(state).sums[0], kSums,
                                    state->rows / kGroup);
  }

  static void AddGroups(const T* x, std::int64_t groups, T* sums) {
    U sum[kGroupWays];
    for (int way = 0; way < kGroupWays; ++way) {
      sum[way] = Lanes::Of(sums + way * kWidth);
    }
    for (std::int64_t i = 0; i < groups; ++i, x += kGroup) {
      for (int way = 0; way < kGroupWays; ++way) {
        sum[way] += Unit::Of(x + way * kElements);
      }
    }
    __builtin_memcpy(sums, sum, sizeof(sum));
  }

  static T SumOf(TjitColumnState* state) {
    const Part& part = PartOf(state);
    if (state->rows < kElements) {
      return SumOfRowBy<Unit>(part.waiting.elements, state->rows);
    }
    CascadeOf(state).Fold();
    return SumOfWays<Unit>(part.sums[0], part.waiting.elements,
                           state->rows % kGroup);
  }
};

// The extremes of so many vectors side by side, and the elements behind them.
// Of equal ones the later one stays: zeros have signs.
template <class Isa, class T, bool kMax, int kVectors>
struct ExtremesOfVectors {
  using Type = T;
  static constexpr int kWidth = kLanes<Isa, T>;
  static constexpr Greater<kMax> kGreater{};

  static void Begin(std::int64_t /*n*/, TjitColumnState* state) {
    PartOf(state).has_nan = false;
    PartOf(state).has_best = false;
  }

  static void Add(std::int64_t rows, std::int64_t /*n*/, const T* x,
                  TjitColumnState* state) {
    Part& part = PartOf(state);
    part.waiting.Add(state->done, rows, x, [&](const T* at, std::int64_t n) {
      AddGroups(at, n, &part);
    });
    state->done += rows;
  }

 protected:
  struct Part {
    T best[kVectors * kWidth];
    Waiting<Isa, T, kVectors> waiting;
    bool has_nan;
    bool has_best;
  };
  static Part& PartOf(TjitColumnState* state) {
    return *reinterpret_cast<Part*>(state + 1);
  }

 private:
  static void AddGroups(const T* x, std::int64_t n, Part* part) {
    Vector<Isa, T> best[kVectors];
    const T* start = part->has_best ? part->best : x;
    for (int way = 0; way < kVectors; ++way) {
      best[way] = Load<Isa, T>(start + way * kWidth);
    }
    auto is_nan = best[0] != best[0];
    for (int way = 1; way < kVectors; ++way) is_nan |= best[way] != best[way];
    for (std::int64_t i = 0; i < n; ++i, x += kVectors * kWidth) {
      for (int way = 0; way < kVectors; ++way) {
        const Vector<Isa, T> v = Load<Isa, T>(x + way * kWidth);
        is_nan |= v != v;
        best[way] = kGreater(best[way], v);
      }
    }
    for (int way = 0; way < kVectors; ++way) {
      Store<Isa, T>(part->best + way * kWidth, best[way]);
    }
    for (int i = 0; i < kWidth; ++i) part->has_nan |= is_nan[i] != 0;
    part->has_best = true;
  }
};

// kParts: as SignedExtremeOf() has it.
template <class Isa, class T, bool kMax, int kParts = 1>
struct ExtremeWhole : ExtremesOfVectors<Isa, T, kMax, kGroupWays * kParts> {
  using Base = ExtremesOfVectors<Isa, T, kMax, kGroupWays * kParts>;

  static void End(std::int64_t /*n*/, TjitColumnState* state, T* out) {
    constexpr int kVectors = kGroupWays * kParts;
    const auto& part = Base::PartOf(state);
    constexpr Greater<kMax> greater;
    const auto first = [&](T a, T b) { return greater(b, a); };
    T extreme = kMax ? -__builtin_inf() : __builtin_inf();
    bool has_nan = part.has_nan;
    if (part.has_best) {
      Vector<Isa, T> ways[kVectors];
      __builtin_memcpy(ways, part.best, sizeof(ways));
      extreme = first(extreme, ExtremeOfWays<Isa, T, kMax, kParts>(ways));
    }
    for (std::int64_t i = 0; i < state->rows % (kVectors * Base::kWidth); ++i) {
      const T x = part.waiting.elements[i];
      has_nan |= x != x;
      extreme = first(extreme, x);
    }
    out[0] = has_nan ? T(__builtin_nan("")) : extreme;
  }
};

// max and min without dims: vector by vector, what is left goes to the first
// lanes.
template <class Isa, class T, bool kMax>
struct MaxWhole : ExtremesOfVectors<Isa, T, kMax, 1> {
  using Base = ExtremesOfVectors<Isa, T, kMax, 1>;

  static void End(std::int64_t /*n*/, TjitColumnState* state, T* out) {
    const auto& part = Base::PartOf(state);
    const T* rest = part.waiting.elements;
    const std::int64_t count = state->rows % Base::kWidth;
    bool has_nan = part.has_nan;
    for (std::int64_t i = 0; i < count; ++i) has_nan |= rest[i] != rest[i];
    T lane[Base::kWidth];
    __builtin_memcpy(lane, part.has_best ? part.best : rest, sizeof(lane));
    for (std::int64_t i = part.has_best ? 0 : 1; i < count; ++i) {
      T& best = lane[part.has_best ? i : 0];
      best = Base::kGreater(best, rest[i]);
    }
    const T best = part.has_best
                       ? FoldLanes<Isa, T>(Load<Isa, T>(lane), Base::kGreater)
                       : lane[0];
    out[0] = has_nan ? T(__builtin_nan("")) : best;
  }
};

}  // namespace
}  // namespace tjit::rows
