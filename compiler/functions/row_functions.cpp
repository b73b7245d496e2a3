#include "compiler/functions/row_functions.h"

#include <new>

#include "compiler/ir/op.h"

namespace tjit {

namespace {

// What computes an op of the IR. One of several ops is named after the first.
struct RowOpOfIr {
  ir::Op ir_op;
  RowOp op;
  bool of_halves = false;
};
constexpr RowOpOfIr kOps[] = {
    {ir::Op::kSum, RowOp::kSum},
    {ir::Op::kMean, RowOp::kMean},
    {ir::Op::kAmax, RowOp::kAmax},
    {ir::Op::kAmin, RowOp::kAmin},
    {ir::Op::kSoftmax, RowOp::kSoftmax},
    {ir::Op::kLogSoftmax, RowOp::kLogSoftmax},
    {ir::Op::kSoftmaxBackward, RowOp::kSoftmaxBackward},
    {ir::Op::kLogSoftmaxBackward, RowOp::kLogSoftmaxBackward},
    {ir::Op::kNormRstd, RowOp::kMoments},
    {ir::Op::kNormMean, RowOp::kMoments},
    {ir::Op::kNormRstdWide, RowOp::kMomentsWide},
    {ir::Op::kVar, RowOp::kVar},
    {ir::Op::kStd, RowOp::kStd},
    {ir::Op::kWelfordMean, RowOp::kWelfordMean},
    {ir::Op::kSumSequential, RowOp::kSumSequential},
    {ir::Op::kDot, RowOp::kDot},
    {ir::Op::kNorm, RowOp::kNorm},
    {ir::Op::kMaxOfAll, RowOp::kMaxOfAll},
    {ir::Op::kMinOfAll, RowOp::kMinOfAll},
    {ir::Op::kSumOfHalves, RowOp::kSum, true},
    {ir::Op::kAmaxOfHalves, RowOp::kAmax, true},
    {ir::Op::kAminOfHalves, RowOp::kAmin, true},
};

bool HasNumber(RowOp op) {
  return op == RowOp::kMoments || op == RowOp::kMomentsWide ||
         op == RowOp::kVar || op == RowOp::kStd || op == RowOp::kNorm;
}

}  // namespace

const char* NameOf(const AxisOp& what) {
  for (const RowOpOfIr& op : kOps) {
    if (op.op == what.op && op.of_halves == what.of_halves) {
      return ir::InfoOf(op.ir_op).name;
    }
  }
  return "";
}

bool AxisOpOf(ir::Op op, Axis axis, AxisOp* what) {
  for (const RowOpOfIr& row_op : kOps) {
    if (row_op.ir_op != op) continue;
    *what = {row_op.op, axis, row_op.of_halves};
    return IndexOf(*what) >= 0;
  }
  return false;
}

TjitMath EntryOf(const RowFunction& f) {
  const char* name = NameOf(f.what);
  const auto entry = [&](TjitMathKind f32, TjitMathKind f64, auto* run) {
    return TjitMath{name, f.is_double ? f64 : f32, reinterpret_cast<void*>(run),
                    f.sum_lanes};
  };
  switch (f.what.axis) {
    case Axis::kInner:
      return entry(kTjitRowF32, kTjitRowF64, f.run);
    case Axis::kOuter:
      return entry(kTjitColumnF32, kTjitColumnF64, f.run_columns);
    case Axis::kAll:
      return entry(kTjitWholeF32, kTjitWholeF64, f.run_columns);
    case Axis::kStrided:
      break;
  }
  return entry(kTjitSlabF32, kTjitSlabF64, f.run_slab);
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
bool RowOrderHolds(const AxisOp& what, bool is_double, std::int64_t rows,
                   std::int64_t n, int threads) {
  constexpr std::int64_t kGrain = 32768;
  if (threads <= 1) return true;
  if (what.axis == Axis::kAll) return rows * n < kGrain;
  const bool is_inner = what.axis == Axis::kInner;
  switch (what.op) {
    case RowOp::kSum:
    case RowOp::kMean:
    case RowOp::kAmax:
    case RowOp::kAmin:
      return (is_inner && rows > 1) || rows * n < kGrain;
    case RowOp::kVar:
    case RowOp::kStd:
    case RowOp::kWelfordMean:
    case RowOp::kNorm:
      return (is_inner ? n : rows) < kGrain;
    case RowOp::kSoftmaxBackward:
      return !is_inner || rows == 1 || is_double;
    default:
      return true;
  }
}

// Columns of softmax are dealt out to the threads, wherever a slab ends: each
// thread begins with a vector, and what is left of its columns at the end, or
// of a slab's, are no vector. Others are dealt out by whole vectors.
bool SlabOrderHolds(RowOp op, bool is_double, std::int64_t slabs,
                    std::int64_t n, int threads) {
  if (threads <= 1 || op != RowOp::kSoftmax) return true;
  const std::int64_t vector = is_double ? 8 : 16;  // or a half of it
  const std::int64_t each = (slabs * n + threads - 1) / threads;
  return each % n == 0 || (n % vector == 0 && each % vector == 0);
}

void RunAlongAxis(const RowFunction& f, std::int64_t rows, std::int64_t n,
                  const void* a, const void* b, double number, void* out) {
  const TjitRowNumber row_number{number, nullptr};
  switch (f.what.axis) {
    case Axis::kInner:
      return f.run(rows, n, a,
                   HasTwoOperands(f.what.op) ? b
                   : HasNumber(f.what.op)    ? &row_number
                                             : nullptr,
                   out);
    case Axis::kOuter:
      return RunColumns(f.run_columns, rows, n, a, number, out, b);
    case Axis::kAll:
      return RunColumns(f.run_columns, rows * n, 1, a, number, out);
    case Axis::kStrided:
      return f.run_slab(rows, n, a, n, b, n, out, 0, n);
  }
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
