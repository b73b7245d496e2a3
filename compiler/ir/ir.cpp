#include "compiler/ir/ir.h"

#include <cstring>
#include <utility>

#include "support/assert.h"
#include "support/kept_bytes.h"

namespace tjit::ir {
namespace {

std::size_t HeapOf(const Geometry& geometry) {
  return tjit::HeapOf(geometry.sizes) + tjit::HeapOf(geometry.strides);
}

}  // namespace

Geometry Contiguous(Sizes sizes) {
  Geometry geometry;
  geometry.strides = ContiguousStrides(sizes);
  geometry.sizes = std::move(sizes);
  return geometry;
}

const char* Name(ScalarType type) {
  switch (type) {
    case ScalarType::kI64:
      return "i64";
    case ScalarType::kF64:
      return "f64";
    case ScalarType::kBool:
      return "bool";
  }
  return "?";
}

Scalar Constant(double value) {
  Scalar scalar;
  std::memcpy(&scalar.bits, &value, sizeof(value));
  return scalar;
}

Scalar Constant(std::int64_t value) {
  Scalar scalar;
  scalar.type = ScalarType::kI64;
  scalar.bits = static_cast<std::uint64_t>(value);
  return scalar;
}

Scalar Constant(bool value) {
  Scalar scalar;
  scalar.type = ScalarType::kBool;
  scalar.bits = value ? 1 : 0;
  return scalar;
}

std::size_t KeptBytesOf(const Function& function) {
  std::size_t bytes = tjit::HeapOf(function.values) +
                      tjit::HeapOf(function.body) +
                      tjit::HeapOf(function.writes);
  for (const Value& value : function.values) bytes += HeapOf(value.layout);
  for (const Instruction& in : function.body) {
    bytes += tjit::HeapOf(in.results) + tjit::HeapOf(in.operands) +
             tjit::HeapOf(in.dims);
    for (const Operand& operand : in.operands) bytes += HeapOf(operand.access);
  }
  for (const WriteBack& write : function.writes) {
    bytes += HeapOf(write.to.access) + HeapOf(write.from.access);
  }
  return bytes;
}

Operand Whole(const Function& function, ValueId id) {
  TJIT_ASSERT(id >= 0 && static_cast<std::size_t>(id) < function.values.size(),
              "value ", id);
  Operand operand;
  operand.value = id;
  operand.access = function.values[static_cast<std::size_t>(id)].layout;
  return operand;
}

Size ExtentOf(const Value& value) { return Product(value.layout.sizes); }

}  // namespace tjit::ir
