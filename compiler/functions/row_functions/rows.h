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

template <class Isa, class T, RowOp op, bool kContracts = false>
constexpr void Add(FunctionList* list, bool needs_math = false) {
  list->Add({op, sizeof(T) == 8, kContracts, needs_math,
             Run<Isa, T, op, kContracts>});
}

template <class Isa, RowOp op, bool kContracts = false>
constexpr void AddWithOwnExp(FunctionList* list) {
  list->Add({op, false, kContracts, true, Run<Isa, float, op, kContracts>,
             nullptr, true});
}

template <class Isa, class T, class Slab>
constexpr void AddSlab(RowOp op, FunctionList* list, bool needs_math,
                       bool contracts = false, bool has_own_exp = false) {
  RowFunction f = {op, sizeof(T) == 8, contracts, needs_math, nullptr};
  f.has_own_exp = has_own_exp;
  f.run_slab = SlabFn<Isa, T, Slab>;
  list->Add(f);
}

template <class Isa>
constexpr void AddSlabsWithOwnExp(FunctionList* list) {
  AddSlab<Isa, float, SlabSoftmax>(RowOp::kSlabSoftmax, list, true, false,
                                   true);
  AddSlab<Isa, float, SlabLogSoftmax>(RowOp::kSlabLogSoftmax, list, true, false,
                                      true);
  AddSlab<Isa, float, SlabLogSoftmaxBackward<true>>(
      RowOp::kSlabLogSoftmaxBackward, list, true, true, true);
  AddSlab<Isa, float, SlabLogSoftmaxBackward<false>>(
      RowOp::kSlabLogSoftmaxBackward, list, true, false, true);
}

template <class T, class Columns>
constexpr void AddColumns(RowOp op, FunctionList* list,
                          bool contracts = false) {
  list->Add(
      {op, sizeof(T) == 8, contracts, false, nullptr, ColumnsFn<Columns>});
}

template <class Isa, class T, bool kContracts>
constexpr void AddContracting(FunctionList* list) {
  Add<Isa, T, RowOp::kSoftmaxBackward, kContracts>(list);
  Add<Isa, T, RowOp::kLogSoftmaxBackward, kContracts>(list, true);
  AddSlab<Isa, T, SlabSoftmaxBackward<kContracts>>(RowOp::kSlabSoftmaxBackward,
                                                   list, false, kContracts);
  AddSlab<Isa, T, SlabLogSoftmaxBackward<kContracts>>(
      RowOp::kSlabLogSoftmaxBackward, list, true, kContracts);
  list->Add({RowOp::kMoments, sizeof(T) == 8, kContracts, false,
             RunMoments<Isa, T, kContracts, T>});
  list->Add({RowOp::kMomentsWide, sizeof(T) == 8, kContracts, false,
             RunMoments<Isa, T, kContracts, double>});
  Add<Isa, T, RowOp::kDot, kContracts>(list);
  AddColumns<T, SequentialColumns<Isa, T, true, kContracts>>(RowOp::kColumnDot,
                                                             list, kContracts);
  list->Add({RowOp::kNorm, sizeof(T) == 8, kContracts, false,
             RunNorm<Isa, T, kContracts>});
  list->Add({RowOp::kWholeNorm, sizeof(T) == 8, kContracts, false, nullptr,
             ColumnsFn<NormWhole<Isa, T, kContracts>>});
}

template <class Isa, class T>
constexpr void AddSums(FunctionList* list) {
  RowFunction sum = {RowOp::kSum, sizeof(T) == 8, false, false,
                     RunSums<Isa, T, false>};
  sum.sum_lanes = kSumLanes<Isa, T>;
  list->Add(sum);
  sum.op = RowOp::kMean;
  sum.run = RunSums<Isa, T, true>;
  list->Add(sum);
}

template <class Isa, class T, int kWidth>
constexpr void AddColumnSums(FunctionList* list) {
  AddColumns<T, SumColumns<Isa, T, false, kWidth>>(RowOp::kColumnSum, list);
  AddColumns<T, SumColumns<Isa, T, true, kWidth>>(RowOp::kColumnMean, list);
}

template <class Isa, class T>
constexpr void AddAll(FunctionList* list) {
  AddSums<Isa, T>(list);
  Add<Isa, T, RowOp::kAmax>(list);
  Add<Isa, T, RowOp::kAmin>(list);
  Add<Isa, T, RowOp::kSoftmax>(list, true);
  Add<Isa, T, RowOp::kLogSoftmax>(list, true);
  AddSlab<Isa, T, SlabSoftmax>(RowOp::kSlabSoftmax, list, true);
  AddSlab<Isa, T, SlabLogSoftmax>(RowOp::kSlabLogSoftmax, list, true);
  if constexpr (Isa::kHasFma) AddContracting<Isa, T, true>(list);
  AddContracting<Isa, T, false>(list);
  list->Add({RowOp::kVar, sizeof(T) == 8, false, false, RunVar<Isa, T, false>});
  list->Add({RowOp::kStd, sizeof(T) == 8, false, false, RunVar<Isa, T, true>});
  AddColumnSums<Isa, T, kLanes<Isa, T>>(list);
  AddColumns<T, VarColumns<Isa, T, false>>(RowOp::kColumnVar, list);
  AddColumns<T, VarColumns<Isa, T, true>>(RowOp::kColumnStd, list);
  Add<Isa, T, RowOp::kWelfordMean>(list);
  AddColumns<T, WelfordMeanColumns<Isa, T>>(RowOp::kColumnWelfordMean, list);
  AddColumns<T, ExtremeColumns<Isa, T, true>>(RowOp::kColumnAmax, list);
  AddColumns<T, ExtremeColumns<Isa, T, false>>(RowOp::kColumnAmin, list);
  AddColumns<T, SumWhole<Isa, T, false>>(RowOp::kWholeSum, list);
  AddColumns<T, SumWhole<Isa, T, true>>(RowOp::kWholeMean, list);
  AddColumns<T, ExtremeWhole<Isa, T, true>>(RowOp::kWholeAmax, list);
  AddColumns<T, ExtremeWhole<Isa, T, false>>(RowOp::kWholeAmin, list);
  AddColumns<T, MaxWhole<Isa, T, true>>(RowOp::kWholeMax, list);
  AddColumns<T, MaxWhole<Isa, T, false>>(RowOp::kWholeMin, list);
  Add<Isa, T, RowOp::kSumSequential>(list);
  AddColumns<T, SequentialColumns<Isa, T, false, false>>(
      RowOp::kColumnSumSequential, list);
}

template <class Isa>
constexpr void AddHalves(FunctionList* list) {
  using T = float;
  constexpr int kParts = kPartsOfHalves<Isa>;
  RowFunction sum = {RowOp::kSumOfHalves, false, false, false, RunSumsOfHalves};
  sum.sum_lanes = kHalves / 2;
  list->Add(sum);
  list->Add({RowOp::kAmaxOfHalves, false, false, false,
             RunExtremesOfHalves<Isa, true>});
  list->Add({RowOp::kAminOfHalves, false, false, false,
             RunExtremesOfHalves<Isa, false>});
  AddColumns<T, SumColumnsOfHalves<Isa>>(RowOp::kColumnSumOfHalves, list);
  AddColumns<T, ExtremeColumns<Isa, T, true, kParts>>(
      RowOp::kColumnAmaxOfHalves, list);
  AddColumns<T, ExtremeColumns<Isa, T, false, kParts>>(
      RowOp::kColumnAminOfHalves, list);
  AddColumns<T, SumWhole<Isa, T, false, UnitOfHalves>>(RowOp::kWholeSumOfHalves,
                                                       list);
  AddColumns<T, ExtremeWhole<Isa, T, true, kParts>>(RowOp::kWholeAmaxOfHalves,
                                                    list);
  AddColumns<T, ExtremeWhole<Isa, T, false, kParts>>(RowOp::kWholeAminOfHalves,
                                                     list);
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
  AddWithOwnExp<OwnExp, RowOp::kSoftmax>(&list);
  AddWithOwnExp<OwnExp, RowOp::kLogSoftmax>(&list);
  AddWithOwnExp<OwnExp, RowOp::kLogSoftmaxBackward, true>(&list);
  AddWithOwnExp<OwnExp, RowOp::kLogSoftmaxBackward, false>(&list);
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
