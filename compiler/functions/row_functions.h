// Sums, extremes, softmax and the like over whole rows, with the bits that
// eager computes: the same additions in the same order.
//
// How: eager's order depends on the vectors that its kernels were compiled
// for, and not all of them were compiled for the processor's widest; so each
// function is here for three instruction sets, and with and without products
// that are not rounded before they are added (as libtorch's compiler made of
// x * y + z). runtime/bit_exact/row_probe.h compares them with eager and takes
// one that agrees; none, and the op stays a library call. No header of the C++
// library, as the files that are compiled for one instruction set include this.
// Invariants: (1) A row's result does not depend on the other rows. (2) No
// allocation, no state but the addresses in RowMath.
// Thread: any, once the addresses are there.
// Tested by: tests/compiler/functions/row_functions_test.cpp,
// tests/runtime/bit_exact/row_functions_against_eager_test.cpp
#pragma once

#include "compiler/abi/kernel_abi.h"
#include "compiler/ir/axis.h"

namespace tjit {

namespace ir {
enum class Op : std::uint8_t;
}

using ir::Axis;

// What `b` and `out` are, where TjitRowFn does not say it. Along kOuter the
// scalar of an op is the `number` of TjitColumnState, and so it is along kAll.
enum class RowOp {
  kSum,
  kMean,
  kAmax,
  kAmin,
  kSoftmax,
  kLogSoftmax,
  kSoftmaxBackward,     // a: the gradient, b: the result
  kLogSoftmaxBackward,  // the same
  kMoments,             // b: TjitRowNumber, eps; out: 1 / sqrt(variance + eps)
  kMomentsWide,         // the same, the root and the quotient in double
  kVar,                 // b: TjitRowNumber, the correction
  kStd,                 // the same
  kWelfordMean,
  kSumSequential,  // along kOuter, number: how many threads eager has
  kDot,            // the same; b: the other operand
  kNorm,           // b: TjitRowNumber, p: 1, 2 or infinity
  kMaxOfAll,  // max() and min() without dims; not kAmax and kAmin along kAll,
  kMinOfAll,  // as eager computes those otherwise
};

// An op along an axis. Those along kInner are TjitRowFn, along kOuter and kAll
// TjitColumnFn, along kStrided TjitSlabFn.
struct AxisOp {
  RowOp op;
  Axis axis = Axis::kInner;
  // Of f32 that were bf16 or f16, as eager reduces those
  // (row_functions/halves.h).
  bool of_halves = false;

  friend constexpr bool operator==(const AxisOp&, const AxisOp&) = default;
};

// All that there are. A place in this list is a number on disk (row_probe.cpp),
// so a new one is the last.
inline constexpr AxisOp kAxisOps[] = {
    {RowOp::kSum},
    {RowOp::kMean},
    {RowOp::kAmax},
    {RowOp::kAmin},
    {RowOp::kSoftmax},
    {RowOp::kLogSoftmax},
    {RowOp::kSoftmaxBackward},
    {RowOp::kLogSoftmaxBackward},
    {RowOp::kMoments},
    {RowOp::kMomentsWide},
    {RowOp::kVar},
    {RowOp::kStd},
    {RowOp::kWelfordMean},
    {RowOp::kSumSequential},
    {RowOp::kDot},
    {RowOp::kNorm},
    {RowOp::kSum, Axis::kOuter},
    {RowOp::kMean, Axis::kOuter},
    {RowOp::kVar, Axis::kOuter},
    {RowOp::kStd, Axis::kOuter},
    {RowOp::kWelfordMean, Axis::kOuter},
    {RowOp::kAmax, Axis::kOuter},
    {RowOp::kAmin, Axis::kOuter},
    {RowOp::kSumSequential, Axis::kOuter},
    {RowOp::kDot, Axis::kOuter},
    {RowOp::kSum, Axis::kAll},
    {RowOp::kMean, Axis::kAll},
    {RowOp::kAmax, Axis::kAll},
    {RowOp::kAmin, Axis::kAll},
    {RowOp::kNorm, Axis::kAll},
    {RowOp::kMaxOfAll, Axis::kAll},
    {RowOp::kMinOfAll, Axis::kAll},
    {RowOp::kSum, Axis::kInner, true},
    {RowOp::kAmax, Axis::kInner, true},
    {RowOp::kAmin, Axis::kInner, true},
    {RowOp::kSum, Axis::kOuter, true},
    {RowOp::kAmax, Axis::kOuter, true},
    {RowOp::kAmin, Axis::kOuter, true},
    {RowOp::kSum, Axis::kAll, true},
    {RowOp::kAmax, Axis::kAll, true},
    {RowOp::kAmin, Axis::kAll, true},
    {RowOp::kSoftmax, Axis::kStrided},
    {RowOp::kLogSoftmax, Axis::kStrided},
    {RowOp::kSoftmaxBackward, Axis::kStrided},
    {RowOp::kLogSoftmaxBackward, Axis::kStrided},
};
inline constexpr int kAxisOpCount = sizeof(kAxisOps) / sizeof(kAxisOps[0]);

// The place in kAxisOps; -1 if there is no such function.
constexpr int IndexOf(const AxisOp& what) {
  for (int i = 0; i < kAxisOpCount; ++i) {
    if (kAxisOps[i] == what) return i;
  }
  return -1;
}

// Along kInner and kStrided: `b` holds rows too.
constexpr bool HasTwoOperands(RowOp op) {
  return op == RowOp::kSoftmaxBackward || op == RowOp::kLogSoftmaxBackward ||
         op == RowOp::kDot;
}

// The name of ops.def.
const char* NameOf(const AxisOp& what);
// False if no row function computes that op of the IR along the axis.
bool AxisOpOf(ir::Op op, Axis axis, AxisOp* what);

// Functions of one vector each, in the registers of their table.
struct RowMath {
  void* exp_f32;
  void* exp_f64;
  void* log_f32;
  void* log_f64;
};

struct RowFunction {
  AxisOp what;
  bool is_double;
  bool contracts;
  bool needs_math = false;
  bool has_own_exp = false;  // REQUIRES: RowTable::own_exp_holds()
  int sum_lanes = 0;         // TjitMath::mode
  // By the axis, the others null.
  TjitRowFn run = nullptr;
  TjitColumnFn run_columns = nullptr;
  TjitSlabFn run_slab = nullptr;
};

// The function as an entry of the table of math functions.
TjitMath EntryOf(const RowFunction& f);

// All rows at once, a row of all elements, or a slab. b: the other operand, and
// `number` the scalar, of ops that have one; kMoments gives no mean.
void RunAlongAxis(const RowFunction& f, std::int64_t rows, std::int64_t n,
                  const void* a, const void* b, double number, void* out);
// The same by a function of columns.
void RunColumns(TjitColumnFn f, std::int64_t rows, std::int64_t n,
                const void* a, double number, void* out,
                const void* b = nullptr);

struct RowTable {
  const char* capability;  // as at::get_cpu_capability() names it
  const RowFunction* functions;
  int count;
  // To be filled before a function that needs it runs; null: libm's serve.
  RowMath* math;
  // Whether its own exp of f32 gives what `math` has, of all numbers up to 0 or
  // each `step`th of them. Null: it has none.
  bool (*own_exp_holds)(std::uint32_t step) = nullptr;
};

extern const RowTable kPlainRows;   // any processor
extern const RowTable kAvx2Rows;    // with AVX2 and FMA
extern const RowTable kAvx512Rows;  // with AVX-512F

// False where eager adds up in another order than the row function, which is a
// matter of threads: it may split a row among them. `rows` and `n` as the
// function gets them, all rows of the tensor, contiguous; `threads` as eager
// has them.
bool RowOrderHolds(const AxisOp& what, bool is_double, std::int64_t rows,
                   std::int64_t n, int threads);
// The same of those along kStrided, of slabs of n columns each.
bool SlabOrderHolds(RowOp op, bool is_double, std::int64_t slabs,
                    std::int64_t n, int threads);

}  // namespace tjit
