// The table of row functions of one Isa.
//
// Note [Contraction]. libtorch's compiler contracts x * y + z to one rounding
// where the processor can, but not where the sum is carried around a loop: the
// whole vectors of a row are multiplied, rounded and added, the rest that fills
// no vector is contracted. Whether it did so at all is for the probe to find.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions.h"
#include "compiler/functions/row_functions/columns.h"
#include "compiler/functions/row_functions/extreme_columns.h"
#include "compiler/functions/row_functions/halves.h"
#include "compiler/functions/row_functions/moments.h"
#include "compiler/functions/row_functions/norms.h"
#include "compiler/functions/row_functions/sequential.h"
#include "compiler/functions/row_functions/slabs.h"
#include "compiler/functions/row_functions/softmax.h"
#include "compiler/functions/row_functions/welford_means.h"
#include "compiler/functions/row_functions/whole.h"

namespace tjit::rows {
namespace {

// RowOp::kMoments, kMomentsWide, kVar and kStd.
template <class Isa, class T, bool kContracts, class Root>
void RunMoments(std::int64_t rows, std::int64_t n, const void* a, const void* b,
                void* out) {
  const auto* number = static_cast<const TjitRowNumber*>(b);
  const T* x = static_cast<const T*>(a);
  T* mean = static_cast<T*>(number->mean);
  T* rstd = static_cast<T*>(out);
  for (std::int64_t i = 0; i < rows; ++i, x += n) {
    MomentsOfRow<Isa, T, kContracts>(x, n, static_cast<Root>(number->number),
                                     mean == nullptr ? nullptr : mean + i,
                                     rstd == nullptr ? nullptr : rstd + i);
  }
}

template <class Isa, class T, bool kIsStd>
void RunVar(std::int64_t rows, std::int64_t n, const void* a, const void* b,
            void* out) {
  VarOfRows<Isa, T, kIsStd>(rows, n, static_cast<const T*>(a),
                            static_cast<const TjitRowNumber*>(b)->number,
                            static_cast<T*>(out));
}

// RowOp::kSum and kMean. b: null, or what has been added up of each row.
template <class Isa, class T, bool kIsMean>
void RunSums(std::int64_t rows, std::int64_t n, const void* a, const void* b,
             void* out) {
  using Unit = VectorUnit<T, kSumLanes<Isa, T>>;
  constexpr int kGroup = 4 * Unit::kElements;
  const T* x = static_cast<const T*>(a);
  const T* ways = static_cast<const T*>(b);
  T* sums = static_cast<T*>(out);
  for (std::int64_t i = 0; i < rows; ++i) {
    sums[i] = ways == nullptr ? SumOfRow<Isa, T>(x + i * n, n)
                              : SumOfWays<Unit>(ways + i * kGroup,
                                                x + i * kGroup, n % kGroup);
    if (kIsMean) sums[i] /= static_cast<T>(n);
  }
}

// One function of the table: the rows one after the other.
template <class Isa, class T, RowOp op, bool kContracts>
void Run(std::int64_t rows, std::int64_t n, const void* a, const void* b,
         void* out) {
  const T* x = static_cast<const T*>(a);
  [[maybe_unused]] const T* y = static_cast<const T*>(b);
  T* z = static_cast<T*>(out);
  if constexpr (op == RowOp::kLogSoftmax) {
    return LogSoftmaxOfRows<Isa, T>(rows, n, x, z);
  }
  if constexpr (op == RowOp::kSoftmax) {
    return SoftmaxOfRows<Isa, T>(rows, n, x, z);
  }
  if constexpr (op == RowOp::kWelfordMean) {
    return WelfordMeansOfRows<Isa, T>(rows, n, x, z);
  }
  for (std::int64_t i = 0; i < rows; ++i, x += n) {
    if constexpr (op == RowOp::kAmax || op == RowOp::kAmin) {
      constexpr bool kMax = op == RowOp::kAmax;
      z[i] = ExtremeOf<Isa, T, kMax>(x, n);
      if (z[i] == 0) z[i] = SignedExtremeOf<Isa, T, kMax>(x, n);
    } else if constexpr (op == RowOp::kSoftmaxBackward) {
      SoftmaxBackwardOfRow<Isa, T, kContracts>(x, y + i * n, n, z + i * n);
    } else if constexpr (op == RowOp::kLogSoftmaxBackward) {
      LogSoftmaxBackwardOfRow<Isa, T, kContracts>(x, y + i * n, n, z + i * n);
    } else if constexpr (op == RowOp::kSumSequential) {
      z[i] = SequentialSumOfRow<Isa, T>(x, n);
    } else if constexpr (op == RowOp::kDot) {
      z[i] = DotOfRow<Isa, T, kContracts>(x, y + i * n, n);
    }
  }
}

struct FunctionList {
  constexpr void Add(const RowFunction& function) { at[count++] = function; }
  RowFunction at[128] = {};
  int count = 0;
};

template <class T>
constexpr void AddRows(RowOp op, FunctionList* list, TjitRowFn run,
                       bool contracts = false, int sum_lanes = 0) {
  RowFunction f = {{op}, sizeof(T) == 8, contracts};
  f.sum_lanes = sum_lanes;
  f.run = run;
  list->Add(f);
}

template <class Isa, class T, RowOp op, bool kContracts = false>
constexpr void Add(FunctionList* list, bool needs_math = false,
                   bool has_own_exp = false) {
  RowFunction f = {{op}, sizeof(T) == 8, kContracts, needs_math, has_own_exp};
  f.run = Run<Isa, T, op, kContracts>;
  list->Add(f);
}

template <class Isa, class T, class Slab>
constexpr void AddSlab(RowOp op, FunctionList* list, bool needs_math,
                       bool contracts = false, bool has_own_exp = false) {
  RowFunction f = {{op, Axis::kStrided}, sizeof(T) == 8, contracts};
  f.needs_math = needs_math;
  f.has_own_exp = has_own_exp;
  f.run_slab = SlabFn<Isa, T, Slab>;
  list->Add(f);
}

template <class T, class Columns, Axis axis = Axis::kOuter>
constexpr void AddColumns(RowOp op, FunctionList* list,
                          bool contracts = false) {
  RowFunction f = {{op, axis}, sizeof(T) == 8, contracts};
  f.run_columns = ColumnsFn<Columns>;
  list->Add(f);
}

template <class T, class Whole>
constexpr void AddWhole(RowOp op, FunctionList* list, bool contracts = false) {
  AddColumns<T, Whole, Axis::kAll>(op, list, contracts);
}

template <class Isa>
constexpr void AddSlabsWithOwnExp(FunctionList* list) {
  AddSlab<Isa, float, SlabSoftmax>(RowOp::kSoftmax, list, true, false, true);
  AddSlab<Isa, float, SlabLogSoftmax>(RowOp::kLogSoftmax, list, true, false,
                                      true);
  AddSlab<Isa, float, SlabLogSoftmaxBackward<true>>(RowOp::kLogSoftmaxBackward,
                                                    list, true, true, true);
  AddSlab<Isa, float, SlabLogSoftmaxBackward<false>>(RowOp::kLogSoftmaxBackward,
                                                     list, true, false, true);
}

template <class Isa, class T, bool kContracts>
constexpr void AddContracting(FunctionList* list) {
  Add<Isa, T, RowOp::kSoftmaxBackward, kContracts>(list);
  Add<Isa, T, RowOp::kLogSoftmaxBackward, kContracts>(list, true);
  AddSlab<Isa, T, SlabSoftmaxBackward<kContracts>>(RowOp::kSoftmaxBackward,
                                                   list, false, kContracts);
  AddSlab<Isa, T, SlabLogSoftmaxBackward<kContracts>>(
      RowOp::kLogSoftmaxBackward, list, true, kContracts);
  AddRows<T>(RowOp::kMoments, list, RunMoments<Isa, T, kContracts, T>,
             kContracts);
  AddRows<T>(RowOp::kMomentsWide, list, RunMoments<Isa, T, kContracts, double>,
             kContracts);
  Add<Isa, T, RowOp::kDot, kContracts>(list);
  AddColumns<T, SequentialColumns<Isa, T, true, kContracts>>(RowOp::kDot, list,
                                                             kContracts);
  AddRows<T>(RowOp::kNorm, list, RunNorm<Isa, T, kContracts>, kContracts);
  AddWhole<T, NormWhole<Isa, T, kContracts>>(RowOp::kNorm, list, kContracts);
}

template <class Isa, class T>
constexpr void AddSums(FunctionList* list) {
  constexpr int kWidth = kSumLanes<Isa, T>;
  AddRows<T>(RowOp::kSum, list, RunSums<Isa, T, false>, false, kWidth);
  AddRows<T>(RowOp::kMean, list, RunSums<Isa, T, true>, false, kWidth);
}

template <class Isa, class T, int kWidth>
constexpr void AddColumnSums(FunctionList* list) {
  AddColumns<T, SumColumns<Isa, T, false, kWidth>>(RowOp::kSum, list);
  AddColumns<T, SumColumns<Isa, T, true, kWidth>>(RowOp::kMean, list);
}

template <class Isa, class T>
constexpr void AddAll(FunctionList* list) {
  AddSums<Isa, T>(list);
  Add<Isa, T, RowOp::kAmax>(list);
  Add<Isa, T, RowOp::kAmin>(list);
  Add<Isa, T, RowOp::kSoftmax>(list, true);
  Add<Isa, T, RowOp::kLogSoftmax>(list, true);
  AddSlab<Isa, T, SlabSoftmax>(RowOp::kSoftmax, list, true);
  AddSlab<Isa, T, SlabLogSoftmax>(RowOp::kLogSoftmax, list, true);
  if constexpr (Isa::kHasFma) AddContracting<Isa, T, true>(list);
  AddContracting<Isa, T, false>(list);
  AddRows<T>(RowOp::kVar, list, RunVar<Isa, T, false>);
  AddRows<T>(RowOp::kStd, list, RunVar<Isa, T, true>);
  AddColumnSums<Isa, T, kLanes<Isa, T>>(list);
  AddColumns<T, VarColumns<Isa, T, false>>(RowOp::kVar, list);
  AddColumns<T, VarColumns<Isa, T, true>>(RowOp::kStd, list);
  Add<Isa, T, RowOp::kWelfordMean>(list);
  AddColumns<T, WelfordMeanColumns<Isa, T>>(RowOp::kWelfordMean, list);
  AddColumns<T, ExtremeColumns<Isa, T, true>>(RowOp::kAmax, list);
  AddColumns<T, ExtremeColumns<Isa, T, false>>(RowOp::kAmin, list);
  AddWhole<T, SumWhole<Isa, T, false>>(RowOp::kSum, list);
  AddWhole<T, SumWhole<Isa, T, true>>(RowOp::kMean, list);
  AddWhole<T, ExtremeWhole<Isa, T, true>>(RowOp::kAmax, list);
  AddWhole<T, ExtremeWhole<Isa, T, false>>(RowOp::kAmin, list);
  AddWhole<T, MaxWhole<Isa, T, true>>(RowOp::kMaxOfAll, list);
  AddWhole<T, MaxWhole<Isa, T, false>>(RowOp::kMinOfAll, list);
  Add<Isa, T, RowOp::kSumSequential>(list);
  AddColumns<T, SequentialColumns<Isa, T, false, false>>(RowOp::kSumSequential,
                                                         list);
}

template <class Isa>
constexpr void AddHalves(FunctionList* list) {
  using T = float;
  constexpr int kParts = kPartsOfHalves<Isa>;
  FunctionList halves;
  AddRows<T>(RowOp::kSum, &halves, RunSumsOfHalves, false, kHalves / 2);
  AddRows<T>(RowOp::kAmax, &halves, RunExtremesOfHalves<Isa, true>);
  AddRows<T>(RowOp::kAmin, &halves, RunExtremesOfHalves<Isa, false>);
  AddColumns<T, SumColumnsOfHalves<Isa>>(RowOp::kSum, &halves);
  AddColumns<T, ExtremeColumns<Isa, T, true, kParts>>(RowOp::kAmax, &halves);
  AddColumns<T, ExtremeColumns<Isa, T, false, kParts>>(RowOp::kAmin, &halves);
  AddWhole<T, SumWhole<Isa, T, false, UnitOfHalves>>(RowOp::kSum, &halves);
  AddWhole<T, ExtremeWhole<Isa, T, true, kParts>>(RowOp::kAmax, &halves);
  AddWhole<T, ExtremeWhole<Isa, T, false, kParts>>(RowOp::kAmin, &halves);
  for (int i = 0; i < halves.count; ++i) {
    halves.at[i].what.of_halves = true;
    list->Add(halves.at[i]);
  }
}

// All functions of one Isa; of two that differ in contracting, the one that
// does is first.
template <class Isa>
constexpr FunctionList AllRows() {
  FunctionList list;
  AddAll<Isa, float>(&list);
  AddAll<Isa, double>(&list);
  AddHalves<Isa>(&list);
  return list;
}

// The same, before them those with an exp of their own for f32, behind them
// those that add up in the order of vectors of half the width.
template <class Isa, class OwnExp, class Halves>
constexpr FunctionList AllRows() {
  FunctionList list;
  Add<OwnExp, float, RowOp::kSoftmax>(&list, true, true);
  Add<OwnExp, float, RowOp::kLogSoftmax>(&list, true, true);
  Add<OwnExp, float, RowOp::kLogSoftmaxBackward, true>(&list, true, true);
  Add<OwnExp, float, RowOp::kLogSoftmaxBackward, false>(&list, true, true);
  AddSlabsWithOwnExp<OwnExp>(&list);
  const FunctionList others = AllRows<Isa>();
  for (int i = 0; i < others.count; ++i) list.Add(others.at[i]);
  AddSums<Halves, float>(&list);
  AddSums<Halves, double>(&list);
  AddColumnSums<Isa, float, kSumLanes<Halves, float>>(&list);
  AddColumnSums<Isa, double, kSumLanes<Halves, double>>(&list);
  return list;
}

}  // namespace
}  // namespace tjit::rows
