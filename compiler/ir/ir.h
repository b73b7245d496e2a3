// The compiler's IR: one function of straight-line SSA over tensors.
//
//   func step(n0) {
//     external %0: f32[n0*8]
//     external %1: f32[8]
//     scalar $0: f64
//     %2 = add f32[n0,8] %0[n0,8], %1[n0,8](0,1), $0
//     %3 = sum f32[n0] %2 dims=[1]
//     write %0[n0,8] = %2
//     return %3
//   }
//
// Values are tensors with a type and a layout; externals come first and are
// flat: all elements of a storage, in the order of memory. There are no view
// ops: an operand *accesses* a value, by sizes, strides and an offset over the
// memory of the value (without them: as the value lies). A function changes
// nothing while it runs; what a program did in place is an `update` to a new
// value, and the write-backs at the end put results into the externals, in
// order, after everything was read. Returned values are those that the caller
// gave memory to. What the IR has no op for is a `call` of a library function,
// in the midst of the others; calls stay, in their order, whoever reads them.
// The rules are those of verifier.h; text form: ir_text.h; docs/ir.md.
// Tested by: tests/compiler/ir/ir_verifier_test.cpp, tests/filetests/
// Source: Cranelift (verifier as specification, text form).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/dtype.h"
#include "compiler/ir/op.h"
#include "compiler/ir/size.h"

namespace tjit::ir {

inline constexpr int kMaxIrDims = 8;

using ValueId = std::int32_t;  // index into Function::values
inline constexpr ValueId kNoValue = -1;

// Elements of a tensor over some memory; strides and offset count elements.
struct Geometry {
  Sizes sizes;
  Sizes strides;
  Size offset;

  bool operator==(const Geometry& o) const = default;
};

// Row-major, from the first element.
Geometry Contiguous(Sizes sizes);

struct Value {
  DType dtype = DType::kF32;
  Geometry layout;  // offset 0

  bool operator==(const Value& o) const = default;
};

enum class ScalarType : std::uint8_t { kI64, kF64, kBool };
const char* Name(ScalarType type);

// A constant, or argument number `argument` of the run.
struct Scalar {
  ScalarType type = ScalarType::kF64;
  std::int32_t argument = -1;  // -1: a constant
  std::uint64_t bits = 0;      // of the constant

  bool is_constant() const { return argument < 0; }
  bool operator==(const Scalar& o) const = default;
};
Scalar Constant(double value);
Scalar Constant(std::int64_t value);
Scalar Constant(bool value);

struct Operand {
  ValueId value = kNoValue;  // kNoValue: `scalar` it is
  Geometry access;
  bool written = false;  // calls: has a new content among the results
  Scalar scalar;

  bool is_tensor() const { return value != kNoValue; }
  bool operator==(const Operand& o) const = default;
};

struct Instruction {
  Op op = Op::kTo;
  std::vector<ValueId> results;  // one, but for calls
  std::vector<Operand> operands;
  std::vector<int> dims;  // reduce and row ops: ascending
  bool keepdim = false;   // reduce ops
  std::string callee;     // calls: name of the op
  std::int64_t step = 0;  // calls: index of the recorded step
};

struct WriteBack {
  Operand to;  // accesses an external
  Operand from;
};

struct Function {
  std::string name = "f";
  int symbols = 0;    // n0 ... are bound at every run
  int externals = 0;  // the first values
  std::vector<ScalarType> scalars;
  std::vector<Value> values;
  std::vector<Instruction> body;
  std::vector<WriteBack> writes;
  std::vector<ValueId> returns;

  bool IsExternal(ValueId value) const {
    return value >= 0 && value < externals;
  }
};

// What the parts of a function take on the heap, about.
std::size_t KeptBytesOf(const Function& function);

// An operand that accesses the value as it lies. REQUIRES: id is a value.
Operand Whole(const Function& function, ValueId id);

// Elements of the memory behind a value: all that an access may reach.
Size ExtentOf(const Value& value);

}  // namespace tjit::ir
