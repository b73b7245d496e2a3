// Sums, extremes, softmax and the like over whole rows, with the bits that
// eager computes: the same additions in the same order.
//
// How: eager's order depends on the vectors that its kernels were compiled
// for, and not all of them were compiled for the processor's widest; so each
// function is here for three instruction sets, and with and without products
// that are not rounded before they are added (as libtorch's compiler made of
// x * y + z). runtime/bit_exact/row_probe.h compares them with eager and takes one that
// agrees; none, and the op stays a library call. No header of the C++ library,
// as the files that are compiled for one instruction set include this.
// Invariants: (1) A row's result does not depend on the other rows. (2) No
// allocation, no state but the addresses in RowMath.
// Thread: any, once the addresses are there.
// Tested by: tests/compiler/functions/row_functions_test.cpp,
// tests/runtime/bit_exact/row_functions_against_eager_test.cpp
#pragma once

#include "compiler/abi/kernel_abi.h"

namespace tjit {

// What `b` and `out` are, where TjitRowFn does not say it.
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
  kSumSequential,
  kDot,        // b: the other operand
  kNorm,       // b: TjitRowNumber, p: 1, 2 or infinity
  kColumnSum,  // from here on TjitColumnFn: those over columns
  kColumnMean,
  kColumnVar,  // number: the correction
  kColumnStd,
  kColumnWelfordMean,
  kColumnAmax,
  kColumnAmin,
  kColumnSumSequential,  // number: the parts, as many as eager has threads
  kColumnDot,  // the same; TjitColumnState::b: the other operand
  kWholeSum,   // from here on those of all elements, as rows of one each
  kWholeMean,
  kWholeAmax,
  kWholeAmin,
  kWholeNorm,  // number: p, as above
  kWholeMax,   // max() and min() without dims
  kWholeMin,
  kSumOfHalves,   // from here on of f32 that were bf16 or f16, as eager reduces
  kAmaxOfHalves,  // those (row_functions/halves.h)
  kAminOfHalves,
  kColumnSumOfHalves,
  kColumnAmaxOfHalves,
  kColumnAminOfHalves,
  kWholeSumOfHalves,
  kWholeAmaxOfHalves,
  kWholeAminOfHalves,
  kSlabSoftmax,  // from here on TjitSlabFn, with operands as above
  kSlabLogSoftmax,
  kSlabSoftmaxBackward,
  kSlabLogSoftmaxBackward,
};
constexpr int kRowOpCount = 45;
constexpr bool IsOfSlabs(RowOp op) { return op >= RowOp::kSlabSoftmax; }
constexpr bool IsOfHalves(RowOp op) {
  return op >= RowOp::kSumOfHalves && !IsOfSlabs(op);
}
constexpr bool IsOfWhole(RowOp op) {
  const RowOp first =
      IsOfHalves(op) ? RowOp::kWholeSumOfHalves : RowOp::kWholeSum;
  return op >= first && !IsOfSlabs(op);
}
constexpr bool IsOfColumns(RowOp op) {
  const RowOp first =
      IsOfHalves(op) ? RowOp::kColumnSumOfHalves : RowOp::kColumnSum;
  return op >= first && !IsOfWhole(op) && !IsOfSlabs(op);
}

// Of those over rows and slabs: `b` holds rows too.
constexpr bool HasTwoOperands(RowOp op) {
  return op == RowOp::kSoftmaxBackward || op == RowOp::kLogSoftmaxBackward ||
         op == RowOp::kSlabSoftmaxBackward ||
         op == RowOp::kSlabLogSoftmaxBackward || op == RowOp::kDot;
}

// The name of ops.def, or a name of its own.
const char* NameOf(RowOp op);

// Functions of one vector each, in the registers of their table.
struct RowMath {
  void* exp_f32;
  void* exp_f64;
  void* log_f32;
  void* log_f64;
};

struct RowFunction {
  RowOp op;
  bool is_double;
  bool contracts;
  bool needs_math;
  TjitRowFn run;  // null: run_columns, or run_slab
  TjitColumnFn run_columns = nullptr;
  bool has_own_exp = false;  // REQUIRES: RowTable::own_exp_holds()
  int sum_lanes = 0;         // TjitMath::mode
  TjitSlabFn run_slab = nullptr;
};

// All rows at once.
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
bool RowOrderHolds(RowOp op, bool is_double, std::int64_t rows, std::int64_t n,
                   int threads);
// The same of those of slabs, of n columns each.
bool SlabOrderHolds(RowOp op, bool is_double, std::int64_t slabs,
                    std::int64_t n, int threads);

}  // namespace tjit
