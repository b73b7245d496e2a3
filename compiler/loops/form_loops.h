// Cuts a function into loops: which instructions run in which loop, over which
// iteration space, and which values get memory.
//
//   %2 = mul f32[n0,8] %0[n0,8], 2.0      loop pointwise [n0,8]
//   %3 = relu f32[n0,8] %2                  %2 = mul ..., %3 = relu ...
//   %4 = sum f32[8] %3 dims=[0]             store return 0[n0,8] = %3
//   write %1 = %4                         loop reduce [n0,8]
//   return %3                               %4 = sum f32[8] %3 dims=[0]
//                                           store %1[8] = %4
//
// Stands behind all passes, before code generation. A loop runs through its
// sizes in row-major order; element i of an operand that the loop itself made
// is element i in a register, anything else is loaded from the memory behind
// the value (its home), through the operand's access. Stores come behind the
// instructions. Fused are producers with consumers that read them as they lie,
// and siblings that read the same operand, over equal sizes. A write-back is
// done by the loop that computes the value if nobody misses the old content
// (the rules: verify_loops.h), else by a copy loop at the end, in order.
//
// A value that updates make of parts (concats.h) has no loop: the loops that
// make the parts store them right into its memory.
//
// Note [Rows]. Reductions and row ops along the last dim take part in this: a
// *rows* loop has, besides what is computed for each element, values that there
// is one of per row, which the elements of the row read with stride 0. So the
// prologue and the epilogue of a softmax, and several reductions over the same
// rows, are one loop:
//
//   loop rows [n0,n1]
//     %2 = amax f32[n0] %0[n0,n1] dims=[1]       of the row
//     %3 = sub f32[n0,n1] %0[n0,n1], %2[n0,n1](1,0), 1
//     %4 = exp f32[n0,n1] %3
//     %5 = sum f32[n0] %4 dims=[1]               of the row
//     %6 = div f32[n0,n1] %4, %5[n0,n1](1,0)
//     store return 0[n0,n1] = %6
//
// Note [Columns]. A reduction over all dims but the last takes what only it
// reads into its loop, and shares that with others over the same elements: a
// *columns* loop. It goes through the rows in order, on one thread, and what it
// has for each column is there when it ends, so nothing in it reads that.
//
// Note [Whole]. So does a sum, a mean or an extreme of all elements: a *whole*
// loop, in order, whose results are there when it ends.
//
// Note [Slabs]. Row ops along another dim go through columns: of a slab, which
// is that dim and those behind it, some side by side. A *slabs* loop has any
// number of them, along one dim, with their prologue and epilogue; columns are
// independent.
//
// Memory is numbered: externals, then returned values, then scratch.
// REQUIRES of whoever runs a plan: externals, returned values and scratch do
// not overlap each other.
// Tested by: tests/compiler/loops/form_loops_test.cpp,
// tests/filetests/ir/loops_*.ir
// Source: greedy fusion by edges as in XLA's instruction fusion and Inductor's
// scheduler; loops as units of scheduling as in Halide's compute_at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/passes/loop_kinds.h"

namespace tjit {

// A loop puts a value into memory: element i of the value, which the loop
// made, or which lies in its home (copies), goes to element i of `to`.
struct LoopStore {
  ir::ValueId value = ir::kNoValue;
  std::int32_t memory = -1;
  ir::Geometry to;  // over the memory; sizes are those of the value
};

struct Loop {
  LoopKind kind = LoopKind::kPointwise;
  ir::Sizes sizes;                // of the operands but for pointwise
  int slab_dim = -1;              // of a slabs loop
  std::vector<int> instructions;  // indices into body, ascending; empty: copies
  std::vector<LoopStore> stores;  // in this order
  // Iterations must run in row-major order, on one thread: a store may put two
  // elements into one place.
  bool in_order = false;
};

// Where the first element of a value lies that is read from memory or returned.
// No memory: it is in registers alone.
struct Home {
  std::int32_t memory = -1;
  ir::Size offset;  // in elements; not 0 only for parts of something
};

struct LoopPlan {
  std::vector<Loop> loops;           // in order
  std::vector<Home> homes;           // by value; those of externals included
  std::vector<ir::ValueId> scratch;  // value of each scratch memory
};

// Which instructions share a loop: none is for tests.
enum class Fusion : std::uint8_t { kGreedy, kNone };

// Returns "" and a plan that VerifyLoops() accepts, or why there is none: the
// function has a call, or CopyOut() (copy_out.h) has not run.
// REQUIRES: Verify(function) is empty.
std::string FormLoops(const ir::Function& function, LoopPlan* plan,
                      Fusion fusion = Fusion::kGreedy);

// For people and filetests.
std::string Print(const ir::Function& function, const LoopPlan& plan);

}  // namespace tjit
