// The caller's table of math functions, and which one an op takes.
//
// Note [Functions]. What eager computes for exp or tanh are the bits of one
// library's function, so nothing is generated for such an op: the kernel calls
// the function that the caller found in the process. An entry of the table
// comes before what could be generated as well (sqrt). Kinds:
// - array functions (VML) run over a tile that lies in the first-level cache,
//   see phases.h. For f32 and f64 themselves, and tables for halves.
// - vector functions (SLEEF) take and return registers, in the midst of the
//   block; f16 and bf16 use those of f32 and round where there is no table.
//   The root of sqrt_step.h is one whose code stands in the block.
// - row functions (reductions and row ops) run over some whole rows, see
//   phases.h. Only for f32 and f64 themselves, i64 and bool; so are functions
//   of columns, of all elements and of slabs.
//
// Note [Position-dependent functions]. Eager runs sigmoid, silu, gelu and
// others in two formulas: one for whole vectors, and another one for the
// elements behind the last of them, in each part of the tensor that a thread
// gets. So the bits of an element depend on its position, and
// position-dependent functions are told it:
// - they are array functions that get the number of the tile's first
//   element and of all elements. Lowering asks for them only where eager runs
//   over one flat array (lower/position_dependent.cpp), and a loop with one of
//   them keeps the order of its dims.
// Tested by: tests/compiler/llvm/llvm_math_test.cpp
#pragma once

#include <string>
#include <vector>

#include "compiler/abi/kernel_abi.h"
#include "compiler/ir/axis.h"
#include "compiler/ir/ir.h"

namespace tjit::llvm_backend {

class MathTable {
 public:
  MathTable(const TjitMath* entries, int count, int vector_bits);

  // Index of the first entry for the op that the vectors allow, or -1.
  // `axis`: of functions of elements, which have none, kInner.
  int Find(ir::Op op, ir::DType dtype, ir::Axis axis) const;
  const TjitMath& at(int index) const {
    return entries_[static_cast<std::size_t>(index)];
  }
  bool IsArray(int index) const;  // or a row function or one of columns
  bool IsRow(int index) const;
  bool IsPositionDependent(
      int index) const;          // an array function that is told the position
  bool IsRoot(int index) const;  // a vector function that is inline
  // Of a vector function.
  int LanesOf(int index) const;
  bool IsDouble(int index) const;

  // The name that code calls it by; says nothing of the address, so that
  // objects can be kept.
  std::string SymbolOf(int index) const;

 private:
  std::vector<TjitMath> entries_;
  int vector_bits_;
};

}  // namespace tjit::llvm_backend
