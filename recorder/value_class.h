// Which scalar arguments may change between runs of a trace, and where eager
// chooses its formula by value.
//
// A slot in the table may vary within its value class; a slot without an
// entry is baked: any difference leaves the trace. Example: pow's exponent
// has a class of its own for each of 0.5, 2, 3, -0.5, -1, -2 and "other";
// add's alpha has one class.
// Source: aten/src/ATen/native (PowKernel.cpp, LinearAlgebra.cpp, Lerp.h,
// TensorCompare.cpp).
// Tested by: tests/recorder/value_class_test.cpp
#pragma once

#include <cstdint>

#include "recorder/schema_key.h"
#include "recorder/tensor_meta.h"

namespace tjit {

// How scalar `index` (counting the at::Scalar and double arguments of the op
// in schema order, from 0) of `op` behaves. Looked up once per op.
enum class ScalarPolicy : std::uint8_t {
  kBaked,        // any difference is another trace
  kFree,         // one class
  kPow,          // 0.5 2 3 -0.5 -1 -2 0 1, other
  kZero,         // 0, other (addmm's beta)
  kZeroOne,      // 0, 1, other
  kLerp,         // |w| < 0.5, other (lerp switches formula there)
};
ScalarPolicy PolicyOf(OpId op, int index);

// The class of a value; values of one class take the same formula.
std::uint32_t ValueClass(ScalarPolicy policy, const ScalarValue& value);

}  // namespace tjit
