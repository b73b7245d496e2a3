#include "compiler/functions/row_functions.h"

#include <new>

namespace tjit {

const char* NameOf(RowOp op) {
  switch (op) {
    case RowOp::kSum:
      return "sum";
    case RowOp::kMean:
      return "mean";
    case RowOp::kAmax:
      return "amax";
    case RowOp::kAmin:
      return "amin";
    case RowOp::kSoftmax:
    case RowOp::kSlabSoftmax:
      return "softmax";
    case RowOp::kLogSoftmax:
    case RowOp::kSlabLogSoftmax:
      return "log_softmax";
    case RowOp::kSoftmaxBackward:
    case RowOp::kSlabSoftmaxBackward:
      return "softmax_backward";
    case RowOp::kLogSoftmaxBackward:
    case RowOp::kSlabLogSoftmaxBackward:
      return "log_softmax_backward";
    case RowOp::kMoments:
      return "norm_rstd";
    case RowOp::kMomentsWide:
      return "norm_rstd_wide";
    case RowOp::kWelfordMean:
    case RowOp::kColumnWelfordMean:
      return "welford_mean";
    case RowOp::kVar:
    case RowOp::kColumnVar:
      return "var";
    case RowOp::kStd:
    case RowOp::kColumnStd:
      return "std";
    case RowOp::kColumnSum:
    case RowOp::kWholeSum:
      return "sum";
    case RowOp::kColumnMean:
    case RowOp::kWholeMean:
      return "mean";
    case RowOp::kColumnAmax:
    case RowOp::kWholeAmax:
      return "amax";
    case RowOp::kColumnAmin:
    case RowOp::kWholeAmin:
      return "amin";
    case RowOp::kSumSequential:
    case RowOp::kColumnSumSequential:
      return "sum_sequential";
    case RowOp::kDot:
    case RowOp::kColumnDot:
      return "dot";
    case RowOp::kNorm:
    case RowOp::kWholeNorm:
      return "norm";
    case RowOp::kWholeMax:
      return "max_of_all";
    case RowOp::kWholeMin:
      return "min_of_all";
    case RowOp::kSumOfHalves:
    case RowOp::kColumnSumOfHalves:
    case RowOp::kWholeSumOfHalves:
      return "sum_of_halves";
    case RowOp::kAmaxOfHalves:
    case RowOp::kColumnAmaxOfHalves:
    case RowOp::kWholeAmaxOfHalves:
      return "amax_of_halves";
    case RowOp::kAminOfHalves:
    case RowOp::kColumnAminOfHalves:
    case RowOp::kWholeAminOfHalves:
      return "amin_of_halves";
  }
  return "";
}

// A reduction of 32768 elements or more is split among the threads: by its
// results where there are several, which leaves rows whole but moves the
// groups of columns that are added up together; else in the midst of the row.
//
// var and norms of p other than 2 go through the elements one after the other,
// unless they alone are enough to be split.
//
// softmax_backward keeps its order, but libtorch has its loop twice, for one
// thread and for several, and of floats its compiler contracted the rest of a
// row in the former only. That is the one that the functions repeat.
bool RowOrderHolds(RowOp op, bool is_double, std::int64_t rows, std::int64_t n,
                   int threads) {
  constexpr std::int64_t kGrain = 32768;
  if (threads <= 1) return true;
  if (IsOfHalves(op)) {
    return rows * n < kGrain ||
           (rows > 1 && !IsOfColumns(op) && !IsOfWhole(op));
  }
  switch (op) {
    case RowOp::kSum:
    case RowOp::kMean:
    case RowOp::kAmax:
    case RowOp::kAmin:
      return rows > 1 || n < kGrain;
    case RowOp::kVar:
    case RowOp::kStd:
    case RowOp::kWelfordMean:
    case RowOp::kNorm:
      return n < kGrain;
    case RowOp::kColumnSum:
    case RowOp::kColumnMean:
    case RowOp::kColumnAmax:
    case RowOp::kColumnAmin:
    case RowOp::kWholeSum:
    case RowOp::kWholeMean:
    case RowOp::kWholeAmax:
    case RowOp::kWholeAmin:
    case RowOp::kWholeNorm:
    case RowOp::kWholeMax:
    case RowOp::kWholeMin:
      return rows * n < kGrain;
    case RowOp::kColumnVar:
    case RowOp::kColumnStd:
    case RowOp::kColumnWelfordMean:
      return rows < kGrain;
    case RowOp::kSoftmaxBackward:
      return rows == 1 || is_double;
    default:
      return true;
  }
}

// Columns of softmax are dealt out to the threads, wherever a slab ends: each
// thread begins with a vector, and what is left of its columns at the end, or
// of a slab's, are no vector. Others are dealt out by whole vectors.
bool SlabOrderHolds(RowOp op, bool is_double, std::int64_t slabs,
                    std::int64_t n, int threads) {
  if (threads <= 1 || op != RowOp::kSlabSoftmax) return true;
  const std::int64_t vector = is_double ? 8 : 16;  // or a half of it
  const std::int64_t each = (slabs * n + threads - 1) / threads;
  return each % n == 0 || (n % vector == 0 && each % vector == 0);
}

void RunColumns(TjitColumnFn f, std::int64_t rows, std::int64_t n,
                const void* a, double number, void* out, const void* b) {
  constexpr std::align_val_t kAlign{alignof(TjitColumnState)};
  const auto bytes = static_cast<std::size_t>(TjitColumnBytes(n));
  void* memory = ::operator new(bytes, kAlign);
  auto* state = new (memory) TjitColumnState{number, rows, 0, b};
  f(0, n, nullptr, state, nullptr);
  if (rows > 0) f(rows, n, a, state, nullptr);
  f(0, n, nullptr, state, out);
  ::operator delete(memory, kAlign);
}

}  // namespace tjit
