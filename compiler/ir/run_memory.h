// The memory of one run of the interpreter: what the symbols are, where the
// values lie, and how operands are read and values written.
//
// Functions that return bool set error() where they return false.
// Part of interpreter.cpp; nobody else includes this.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "compiler/ir/run_arguments.h"

namespace tjit::ir {

// Where the elements of a geometry lie, in row-major order.
std::vector<std::int64_t> OffsetsOf(const Extents& extents);

template <class T>
T ScalarAs(const ScalarValue& value) {
  if (value.type == InfoOf(DType::kF64).number) {
    double number;
    std::memcpy(&number, &value.bits[0], sizeof(number));
    return ConvertCompute<T>(number);
  }
  return static_cast<T>(static_cast<std::int64_t>(value.bits[0]));
}

class RunMemory {
 public:
  struct Memory {
    std::vector<char> own;
    char* data = nullptr;
    std::int64_t elements = 0;
  };

  RunMemory(const Function& f, const RunArguments& arguments,
            const Hooks& hooks)
      : f_(f), arguments_(arguments), hooks_(hooks) {}

  const std::string& error() const { return error_; }
  bool Fail(std::string what);
  // Names the value.
  bool Fail(ValueId id, const std::string& what);

  const Value& ValueOf(ValueId id) const {
    return f_.values[static_cast<std::size_t>(id)];
  }
  Memory& MemoryOf(ValueId id) { return memory_[static_cast<std::size_t>(id)]; }
  ScalarValue ScalarOf(const Scalar& scalar) const;

  // Checks the arguments and puts the externals in place.
  bool Bind();
  // Writes write-backs and returned values, after reading all of them.
  void Finish();

  // Puts numbers for symbols. `id` is named in the error.
  bool Evaluate(ValueId id, const Geometry& g, Extents* extents);
  // The extents of an access, which lie within the value.
  bool Access(const Operand& operand, Extents* extents);

  // The elements of a tensor operand in row-major order.
  template <class T>
  bool Gather(const Operand& operand, std::vector<T>* elements) {
    Extents extents;
    if (!Access(operand, &extents)) return false;
    const DType dtype = ValueOf(operand.value).dtype;
    const char* data = MemoryOf(operand.value).data;
    for (const std::int64_t at : OffsetsOf(extents)) {
      elements->push_back(Load<T>(dtype, data + at * InfoOf(dtype).bytes));
    }
    return true;
  }

  bool GatherBytes(const Operand& operand, std::vector<char>* bytes);

  // Gives the value memory, zeroed, and its extents.
  bool Allocate(ValueId id, Extents* extents);
  // Makes the value from its elements in row-major order, rounded.
  template <class T>
  bool Define(ValueId id, const std::vector<T>& elements) {
    Extents extents;
    if (!Allocate(id, &extents)) return false;
    const std::vector<std::int64_t> offsets = OffsetsOf(extents);
    if (offsets.size() != elements.size()) {
      return Fail(id, "gets another number of elements");
    }
    const DType dtype = ValueOf(id).dtype;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      Store(dtype, elements[i],
            MemoryOf(id).data + offsets[i] * InfoOf(dtype).bytes);
    }
    return true;
  }

  // Puts row-major elements where `to` accesses `data`.
  bool Scatter(const Operand& to, const std::vector<char>& bytes, char* data);

 private:
  const Function& f_;
  const RunArguments& arguments_;
  const Hooks& hooks_;
  std::vector<Memory> memory_;
  std::string error_;
};

}  // namespace tjit::ir
