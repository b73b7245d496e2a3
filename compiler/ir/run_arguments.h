// What a run of a function by the interpreter is given: memory, sizes, scalars,
// and hooks for what it leaves to others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/axis.h"
#include "compiler/ir/ir.h"
#include "recorder/tensor_meta.h"

namespace tjit::ir {

// Memory of `elements` elements, however aligned.
struct Buffer {
  char* data = nullptr;
  std::int64_t elements = 0;
};

// A geometry with numbers.
struct Extents {
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;

  std::int64_t numel() const;
};

// What a call sees.
struct CallArgument {
  bool is_tensor = false;
  DType dtype = DType::kF32;
  Extents extents;       // over data
  char* data = nullptr;  // of an operand that is written: its new content
  ScalarValue scalar;
};
struct CallSite {
  const Instruction* instruction = nullptr;
  std::vector<CallArgument> operands;
  std::vector<CallArgument> results;  // the fresh ones, to be filled
};

// `rows` rows of n elements, from one array per operand (null: none).
struct RowsCall {
  Op op;
  DType dtype;
  Axis axis;  // kAll: one row; kStrided: the rows of one slab
  std::int64_t rows;
  std::int64_t n;
  const void* a;
  const void* b;
  double number;  // the op's scalar, if it has one
  void* out;
};

struct Hooks {
  // Computes all n elements of a float op, in row-major order, in the compute
  // type of `dtype` (float or double), from one array per operand, scalars
  // repeated; `scalars` are these as the program gave them, by operand. Returns
  // false to have std:: do it.
  std::function<bool(Op op, DType dtype, const void* const* in,
                     const double* scalars, void* out, std::int64_t n)>
      math;
  // Computes a reduction or a row op along the last dim of f32 or f64, or a
  // reduction over all but the last, or a row op along another dim, slab by
  // slab; returns false to have it done in double.
  std::function<bool(const RowsCall& call)> rows;
  // Runs a library call. Returns "" or what is wrong.
  std::function<std::string(const CallSite& site)> call;
  // A value with more elements is an error, not an allocation.
  std::int64_t max_elements = std::int64_t{1} << 26;
};

struct RunArguments {
  std::vector<std::int64_t> symbols;  // one per symbol, >= 0
  std::vector<Buffer> externals;      // one per external; may overlap
  std::vector<ScalarValue> scalars;   // one per scalar argument
  std::vector<Buffer> returns;        // one per returned value, as it lies
};

}  // namespace tjit::ir
