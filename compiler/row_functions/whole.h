// Reductions of all elements as they come, some at a time, in the order of
// eager on one thread: that of one long row. Elements wait until there are four
// vectors of them, a group.
// Tested by: tests/compiler/row_functions_test.cpp
#pragma once

#include "compiler/row_functions/columns.h"
#include "compiler/row_functions/extremes.h"

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

template <class Isa, class T, bool kIsMean>
struct SumWhole {
  using Type = T;
  static constexpr int kLevels = 4;

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
    std::int64_t done = state->done / kGroup<Isa, T>;
    part.waiting.Add(state->done, rows, x, [&](const T* at, std::int64_t n) {
      while (n > 0) {
        const std::int64_t step = cascade.step();
        const std::int64_t left = step - done % step;
        const std::int64_t groups = left < n ? left : n;
        AddRowsTo<Isa, T>(part.sums[0], at, kGroup<Isa, T>, groups,
                          kGroup<Isa, T>);
        at += groups * kGroup<Isa, T>;
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
    T sums[kLevels][kGroup<Isa, T>];
    Waiting<Isa, T> waiting;
  };
  static Part& PartOf(TjitColumnState* state) {
    return *reinterpret_cast<Part*>(state + 1);
  }
  static CascadeOfColumns<Isa, T> CascadeOf(TjitColumnState* state) {
    return CascadeOfColumns<Isa, T>(PartOf(state).sums[0], kGroup<Isa, T>,
                                    state->rows / kGroup<Isa, T>);
  }

  static T SumOf(TjitColumnState* state) {
    constexpr int kWidth = kLanes<Isa, T>;
    const Part& part = PartOf(state);
    if (state->rows < kWidth) {
      return SumOfRow<Isa, T>(part.waiting.elements, state->rows);
    }
    CascadeOf(state).Fold();
    const std::int64_t rest = state->rows % kGroup<Isa, T>;
    Vector<Isa, T> sum = Load<Isa, T>(part.sums[0]);
    std::int64_t i = 0;
    for (; i + kWidth <= rest; i += kWidth) {
      sum += Load<Isa, T>(part.waiting.elements + i);
    }
    for (int way = 1; way < kGroupWays; ++way) {
      sum += Load<Isa, T>(part.sums[0] + way * kWidth);
    }
    T all = 0;
    for (; i < rest; ++i) all += part.waiting.elements[i];
    T lane[kWidth];
    Store<Isa, T>(lane, sum);
    for (const T& x : lane) all += x;
    return all;
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

template <class Isa, class T, bool kMax>
struct ExtremeWhole : ExtremesOfVectors<Isa, T, kMax, kGroupWays> {
  using Base = ExtremesOfVectors<Isa, T, kMax, kGroupWays>;

  static void End(std::int64_t /*n*/, TjitColumnState* state, T* out) {
    constexpr int kWidth = Base::kWidth;
    const auto& part = Base::PartOf(state);
    const auto way = [&](int i) {
      return Load<Isa, T>(part.best + i * kWidth);
    };
    constexpr Greater<kMax> greater;
    const auto first = [&](T a, T b) { return greater(b, a); };
    T extreme = kMax ? -__builtin_inf() : __builtin_inf();
    bool has_nan = part.has_nan;
    if (part.has_best) {
      T lane[kWidth];
      Store<Isa, T>(lane,
                    greater(greater(way(0), way(1)), greater(way(2), way(3))));
      for (int i = 1; i < kWidth; ++i) lane[0] = first(lane[0], lane[i]);
      extreme = first(extreme, lane[0]);
    }
    for (std::int64_t i = 0; i < state->rows % kGroup<Isa, T>; ++i) {
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
