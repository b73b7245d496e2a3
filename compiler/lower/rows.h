// Which reductions and row ops of floats a row function computes with eager's
// bits (compiler/abi/kernel_abi.h, TjitRowFn, TjitColumnFn): those along the last dim
// and over the first dims.
// Part of op_rules.h; tested with it.
#pragma once

#include <vector>

#include "compiler/lower/step_lowering.h"

namespace tjit::lower {

// A kernel keeps some rows like the operands' in a buffer for each value that
// it hands from one row function to the next.
constexpr std::int64_t kMaxRowBytes = 16 << 10;
// Those that are longer, as long as one such buffer may be (kMaxRowBytes of
// phases.h), where they take less than library calls. Not so, on Zen 4:
// variances, which wait for the sum before ([128, 8192] of f32 with an addition
// 6.2 instead of 6.0 ms); gradients of layer norm (of the input 0.59 instead of
// 0.56 ms, of all 1.4 instead of 1.1, as what is kept of each column fills the
// cache); the gradient of nll_loss, which looks for the class in each element
// (a cross entropy to the gradient of [32, 32768] 1.4 instead of 1.1 ms,
// without it 0.95).
constexpr std::int64_t kMaxLongRowBytes = 512 << 10;
// Eager gives so many elements, or more, to several threads.
constexpr std::int64_t kGrain = 32768;

// f32 or f64; elements lie one behind the other, the last dim innermost.
bool IsFloat(const TensorGeometry& g);
bool IsRowMajor(const TensorGeometry& g);
// Which types an op is lowered for: f32 and f64, or halves too.
enum class Floats : std::uint8_t { kWide, kAll };
bool IsOf(Floats floats, const TensorGeometry& g);
// Elements of a row of the argument, at most, that fit a row of a kernel in its
// own type, in the result's, and in f32, which halves are computed in.
std::int64_t LongestRow(const StepLowering& s, std::size_t arg,
                        std::int64_t bytes = kMaxRowBytes);

// Tensor argument `arg` has rows of floats that fit the caches, and `dims` are
// those of the rows alone. Else refuses.
bool HasRows(StepLowering& s, std::size_t arg, const std::vector<int>& dims,
             Floats floats = Floats::kWide, std::int64_t bytes = kMaxRowBytes);

// Besides, eager adds up each row of the argument on its own, from one side to
// the other: rows lie densely, none beside another, and several threads split
// none. Long ones are taken. Else refuses.
bool AddsRowByRow(StepLowering& s, std::size_t arg,
                  const std::vector<int>& dims, Floats floats = Floats::kWide);

// Tensor argument `arg` is of floats and row-major, `dims` are its first ones
// (the others are a row), and the result is a new tensor; with several threads
// eager reduces each column in one. Else refuses.
bool HasColumns(StepLowering& s, std::size_t arg, const std::vector<int>& dims,
                Floats floats = Floats::kWide);

// Besides, eager reduces the columns as one thread does, on any number of them:
// with several it moves what stands together. Else refuses. Of halves too.
bool AddsUpColumns(StepLowering& s, std::size_t arg,
                   const std::vector<int>& dims);

// Tensor argument `arg` is of floats and row-major, `dims` are all of its dims,
// and eager goes through its elements on one thread, as through one long row:
// `is_split` if several share many elements. Else refuses.
bool HasWhole(StepLowering& s, std::size_t arg, const std::vector<int>& dims,
              bool is_split = true, Floats floats = Floats::kWide);
// The same of a tensor that may lie otherwise, as eager goes through a copy.
bool HasElements(StepLowering& s, std::size_t arg, bool is_split = true,
                 Floats floats = Floats::kWide);

// Eager adds up the elements of each row one after the other: two or three of
// the last dim, side by side in memory. Of halves too.
bool IsSumOfShortRows(const StepLowering& s, std::size_t arg,
                      const std::vector<int>& dims);

// Eager adds up the slices of a dim one after the other: a few, and whole
// groups of columns (compiler/functions/row_functions/columns.h). Of halves too.
bool IsShortSum(const StepLowering& s, std::size_t arg,
                const std::vector<int>& dims);

// A row-major tensor argument whose dims but `dims` lie side by side, so many
// elements, with some of `dims` behind them and maybe others before them; eager
// reduces it as ReduceOuterInner() does (reduce_outer_inner.cpp). Of halves
// too.
struct OuterInner {
  std::int64_t outer = 1, kept = 1, inner = 1;
};
bool IsOuterInner(const StepLowering& s, std::size_t arg,
                  const std::vector<int>& dims, ir::Op op, OuterInner* loops);
Node ReduceOuterInner(StepLowering& s, ir::Op op, const Node& x,
                      const OuterInner& loops);

// Those of reduce_middle.cpp. Tensor argument `arg` is f32 or f64 and
// row-major, the elements of a result are no more than a row, and there are
// several results, in a new tensor. Else refuses.
bool CanReduceMiddle(StepLowering& s, std::size_t arg,
                     const std::vector<int>& dims);
Node ReduceMiddle(StepLowering& s, ir::Op op, const Node& x,
                  const std::vector<int>& dims, const Node* number);
// A row-major tensor of a few slabs: `dims` lie side by side, with columns
// behind them, and eager goes through each slab on one thread. Of halves too.
bool HasSlabs(const StepLowering& s, std::size_t arg,
              const std::vector<int>& dims);
Node ReduceSlabs(StepLowering& s, ir::Op op, const Node& x,
                 const std::vector<int>& dims);
// Of integers and booleans, any dims.
Node ReduceInAnyOrder(StepLowering& s, ir::Op op, const Node& x,
                      const std::vector<int>& dims);

}  // namespace tjit::lower
