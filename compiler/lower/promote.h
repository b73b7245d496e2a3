// libtorch's type promotion, as far as a recorded step shows it.
//
// Tensors with dims decide before 0-dim ones, and these before numbers. A
// number that is a fraction has the default dtype, which no record shows: where
// that would be the answer, the result's dtype says it, if the step made it.
// Source: c10/core/ScalarType.cpp, aten/src/ATen/native/TypeProperties.cpp.
// Tested by: tests/compiler/lower/lower_test.cpp,
// tests/runtime/against_eager/lower_against_eager_test.cpp
#pragma once

#include <optional>

#include "compiler/ir/dtype.h"

namespace tjit::lower {

ir::DType Promote(ir::DType a, ir::DType b);

// Adds up operands; then asks.
class Promotion {
 public:
  void AddTensor(ir::DType dtype, int ndim) {
    Add(ndim > 0 ? &dim_ : &zero_, dtype);
  }
  // A number of the program; also a 0-dim tensor that wraps one.
  void AddNumber(ir::DType dtype) {
    if (InfoOf(dtype).kind == ir::DTypeKind::kFloat) {
      has_fraction_ = true;
    } else {
      Add(&number_, dtype);
    }
  }
  // The common type; nothing if it is the default dtype.
  std::optional<ir::DType> Common() const;

 private:
  static void Add(std::optional<ir::DType>* category, ir::DType dtype) {
    *category = category->has_value() ? Promote(**category, dtype) : dtype;
  }
  std::optional<ir::DType> dim_, zero_, number_;
  bool has_fraction_ = false;
};

}  // namespace tjit::lower
