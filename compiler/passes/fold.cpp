#include "compiler/passes/fold.h"

#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/interpreter.h"
#include "compiler/passes/rewriter.h"

namespace tjit {
namespace {

using ir::DType;
using ir::DTypeKind;
using ir::Instruction;
using ir::Op;
using ir::Operand;
using ir::Scalar;
using ir::ValueId;

// The bits of these are those of a library that the process chooses.
bool IsLibraryFunction(Op op) {
  return op == Op::kFmod || op == Op::kRemainder || op == Op::kSqrt ||
         op == Op::kRsqrt || (op >= Op::kExp && op <= Op::kTanhBackward);
}

bool IsFoldable(Op op) {
  const ir::Family family = InfoOf(op).family;
  return op == Op::kFull || op == Op::kTo ||
         (family == ir::Family::kPointwise && !IsLibraryFunction(op));
}

class Folder {
 public:
  explicit Folder(const ir::Function& f) : f_(f), r_(f) {}

  ir::Function Run() {
    for (const Instruction& old : f_.body) {
      Instruction in = r_.Mapped(old);
      if (IsFoldable(in.op) && FoldAll(&in)) {
        const Scalar scalar = in.operands[0].scalar;
        r_.Emit(std::move(in));
        SetUniform(scalar);
        continue;
      }
      const std::optional<Scalar> argument = ArgumentOf(in);
      if (InfoOf(in.op).family == ir::Family::kPointwise) ReadScalars(&in);
      r_.Emit(std::move(in));
      if (argument) SetUniform(*argument);
    }
    return r_.Finish();
  }

 private:
  // The one number that the value has everywhere.
  const std::optional<Scalar>& UniformOf(ValueId id) {
    uniform_.resize(r_.function().values.size());
    return uniform_[static_cast<std::size_t>(id)];
  }
  void SetUniform(const Scalar& scalar) {
    uniform_.resize(r_.function().values.size());
    uniform_.back() = scalar;
  }

  // Makes a `full` of an instruction that reads constants only.
  bool FoldAll(Instruction* in) {
    ir::Builder b("constant");
    std::vector<Operand> operands;
    for (const Operand& operand : in->operands) {
      Scalar scalar = operand.scalar;
      if (operand.is_tensor()) {
        const std::optional<Scalar>& uniform = UniformOf(operand.value);
        if (!uniform) return false;
        scalar = *uniform;
      }
      if (!scalar.is_constant()) return false;
      const Operand use = ir::Builder::Use(scalar);
      operands.push_back(
          operand.is_tensor()
              ? b.Use(b.EmitAs(
                    {r_.function()
                         .values[static_cast<std::size_t>(operand.value)]
                         .dtype,
                     ir::Contiguous({})},
                    Op::kFull, {use}))
              : use);
    }
    const DType dtype =
        f_.values[static_cast<std::size_t>(in->results[0])].dtype;
    b.Return(b.EmitAs({dtype, ir::Contiguous({})}, in->op, operands));
    const Scalar result = Evaluate(b.Finish(), dtype);
    in->op = Op::kFull;
    in->operands = {ir::Builder::Use(result)};
    return true;
  }

  static Scalar Evaluate(const ir::Function& function, DType dtype) {
    char element[8] = {};
    ir::RunArguments arguments;
    arguments.returns.push_back({element, 1});
    ir::Interpret(function, arguments);
    switch (InfoOf(dtype).kind) {
      case DTypeKind::kFloat:
        return ir::Constant(ir::Load<double>(dtype, element));
      case DTypeKind::kInt:
        return ir::Constant(ir::Load<std::int64_t>(dtype, element));
      case DTypeKind::kBool:
        break;
    }
    return ir::Constant(element[0] != 0);
  }

  // The argument that a `full` repeats, if storing it rounds as reading it as
  // a scalar does.
  std::optional<Scalar> ArgumentOf(const Instruction& in) const {
    if (in.op != Op::kFull) return std::nullopt;
    const DType dtype =
        f_.values[static_cast<std::size_t>(in.results[0])].dtype;
    const Scalar& scalar = in.operands[0].scalar;
    const bool is_exact =
        dtype == DType::kF32 || dtype == DType::kF64 ||
        (dtype == DType::kI64 && scalar.type == ir::ScalarType::kI64);
    if (!is_exact) return std::nullopt;
    return scalar;
  }

  // Uniform operands become scalars where ops.def has an `x`. One tensor
  // stays: it says the type.
  void ReadScalars(Instruction* in) {
    std::size_t tensors = 0;
    for (const Operand& operand : in->operands) tensors += operand.is_tensor();
    const char* kinds = InfoOf(in->op).operands;
    for (std::size_t i = 0; i < in->operands.size() && tensors > 1; ++i) {
      Operand& operand = in->operands[i];
      if (kinds[i] != 'x' || !operand.is_tensor()) continue;
      const std::optional<Scalar>& uniform = UniformOf(operand.value);
      if (!uniform) continue;
      operand = ir::Builder::Use(*uniform);
      --tensors;
    }
  }

  const ir::Function& f_;
  Rewriter r_;
  std::vector<std::optional<Scalar>> uniform_;  // by new value
};

}  // namespace

ir::Function Fold(const ir::Function& function) {
  return Folder(function).Run();
}

}  // namespace tjit
