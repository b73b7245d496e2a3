#include "compiler/passes/peephole.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/passes/forward.h"
#include "compiler/passes/rewriter.h"
#include "support/planted_defect.h"

namespace tjit {
namespace {

using ir::DType;
using ir::DTypeKind;
using ir::Instruction;
using ir::Op;
using ir::Operand;

// The operand is this constant; zeros have a sign.
bool Is(const Operand& operand, double number) {
  const ir::Scalar& scalar = operand.scalar;
  if (operand.is_tensor() || !scalar.is_constant()) return false;
  if (scalar.type != ir::ScalarType::kF64) {
    return static_cast<double>(static_cast<std::int64_t>(scalar.bits)) ==
               number &&
           !std::signbit(number) ==
               (static_cast<std::int64_t>(scalar.bits) >= 0);
  }
  double value;
  std::memcpy(&value, &scalar.bits, sizeof(value));
  return value == number && std::signbit(value) == std::signbit(number);
}

// f(f(x)) is f(x).
bool IsIdempotent(Op op) {
  return op == Op::kAbs || op == Op::kRelu || op == Op::kFloor ||
         op == Op::kCeil || op == Op::kTrunc || op == Op::kRound ||
         op == Op::kSign;
}

// Every number of `from` is one of `to`.
bool IsExact(DType from, DType to) {
  const auto& a = InfoOf(from);
  const auto& b = InfoOf(to);
  if (from == to || a.kind == DTypeKind::kBool) return true;
  if (a.kind != b.kind || from == DType::kF64) return false;
  if (a.kind == DTypeKind::kFloat) {
    return to == DType::kF64 || (to == DType::kF32 && a.bytes == 2);
  }
  return a.bytes < b.bytes && to != DType::kU8;
}

class Simplifier {
 public:
  explicit Simplifier(const ir::Function& f) : f_(f), r_(f) {
    definitions_.assign(r_.function().values.size(), -1);
  }

  ir::Function Run() {
    for (const Instruction& old : f_.body) {
      Instruction in = r_.Mapped(old);
      if (in.op != Op::kCall) Simplify(&in);
      const auto index = static_cast<int>(r_.function().body.size());
      r_.Emit(std::move(in));
      definitions_.resize(r_.function().values.size(), index);
    }
    std::vector<ir::WriteBack> writes;
    for (const ir::WriteBack& old : f_.writes) AddWrite(old, &writes);
    std::vector<ir::ValueId> returns = f_.returns;
    for (ir::ValueId& id : returns) id = r_.Map(id);
    return r_.FinishWith(std::move(writes), std::move(returns));
  }

 private:
  void AddWrite(const ir::WriteBack& old, std::vector<ir::WriteBack>* writes) {
    const ir::WriteBack write = {r_.Map(old.to), r_.Map(old.from)};
    bool is_first = true;
    for (const ir::WriteBack& earlier : *writes) {
      is_first &= earlier.to.value != write.to.value;
    }
    for (ir::WriteBack& part :
         ForwardWrite(r_.function(), definitions_, write, is_first)) {
      writes->push_back(std::move(part));
    }
  }

  DType TypeOf(const Operand& operand) const {
    return r_.function().values[static_cast<std::size_t>(operand.value)].dtype;
  }

  // The instruction whose result the operand reads as it lies.
  const Instruction* Made(const Operand& operand) const {
    if (!operand.is_tensor() || !IsWhole(r_.function(), operand)) {
      return nullptr;
    }
    const int i = definitions_[static_cast<std::size_t>(operand.value)];
    return i < 0 ? nullptr : &r_.function().body[static_cast<std::size_t>(i)];
  }
  const Instruction* MadeBy(const Operand& operand, Op op) const {
    const Instruction* in = Made(operand);
    return in != nullptr && in->op == op ? in : nullptr;
  }

  void Simplify(Instruction* in) {
    for (std::size_t k = 0; k < in->operands.size(); ++k) {
      if (!in->operands[k].is_tensor() || (in->op == Op::kUpdate && k == 0)) {
        continue;
      }
      in->operands[k] = Forward(r_.function(), definitions_, in->operands[k]);
    }
    const ir::ValueId old = in->results[0];
    const DType dtype = f_.values[static_cast<std::size_t>(old)].dtype;
    if (InfoOf(in->op).family == ir::Family::kPointwise) LookBehind(in);
    std::optional<Operand> same = SameAs(*in, dtype);
    if (!same) return;
    Instruction copy;
    copy.op = Op::kTo;
    copy.operands = {std::move(*same)};
    copy.results = in->results;
    *in = std::move(copy);
  }

  // Takes operands from behind what does not change the result.
  void LookBehind(Instruction* in) {
    Operand& x = in->operands[0];
    const Instruction* inner = nullptr;
    if (in->op == Op::kAbs || in->op == Op::kSquare) {
      // -x of u8 is 256 - x, which is what abs() makes of it.
      const bool is_wrapped = in->op == Op::kAbs && TypeOf(x) == DType::kU8;
      inner = is_wrapped ? nullptr : MadeBy(x, Op::kNeg);
      if (inner == nullptr && in->op == Op::kSquare)
        inner = MadeBy(x, Op::kAbs);
      if (inner != nullptr) x = Operand(inner->operands[0]);
    } else if (in->op == Op::kWhere) {
      inner = MadeBy(x, Op::kLogicalNot);
      if (inner == nullptr || TypeOf(inner->operands[0]) != DType::kBool) {
        return;
      }
      x = Operand(inner->operands[0]);
      std::swap(in->operands[1], in->operands[2]);
    }
  }

  // A tensor of type `dtype` that the result is equal to. (A `to` follows its
  // operand from another type, if the way there loses nothing.)
  std::optional<Operand> SameAs(const Instruction& in, DType dtype) const {
    const std::vector<Operand>& x = in.operands;
    switch (in.op) {
      case Op::kMul:
        if (Is(x[1], 1)) return Tensor(x[0]);
        return Is(x[0], 1) ? Tensor(x[1]) : std::nullopt;
      case Op::kDiv:
        return Is(x[1], 1) ? Tensor(x[0]) : std::nullopt;
      case Op::kAdd:
      case Op::kSub:
        return AddsNothing(in, dtype) ? Tensor(x[0]) : std::nullopt;
      case Op::kNeg:
      case Op::kLogicalNot:
        return Twice(in, dtype);
      case Op::kMaximum:
      case Op::kMinimum:
      case Op::kBitAnd:
      case Op::kBitOr:
        return x[0] == x[1] ? Tensor(x[0]) : std::nullopt;
      case Op::kWhere:
        return x[1] == x[2] ? Tensor(x[1]) : std::nullopt;
      case Op::kTo:
        return ThereAndBack(in);
      case Op::kUpdate:  // of everything
        return IsWhole(r_.function(), x[0]) ? Tensor(x[1]) : std::nullopt;
      default:
        return IsIdempotent(in.op) && MadeBy(x[0], in.op) != nullptr
                   ? Tensor(x[0])
                   : std::nullopt;
    }
  }

  static std::optional<Operand> Tensor(const Operand& operand) {
    if (!operand.is_tensor()) return std::nullopt;
    return operand;
  }

  // x + -0, x - 0: fma(b, alpha, a) with b * alpha = -0. Integers: + 0.
  static bool AddsNothing(const Instruction& in, DType dtype) {
    if (!in.operands[0].is_tensor()) return false;
    const Operand& b = in.operands[1];
    if (InfoOf(dtype).kind != DTypeKind::kFloat) {
      return Is(b, 0) || Is(in.operands[2], 0);
    }
    if (Planted(Defect::kLostSign) && Is(b, 0)) return Is(in.operands[2], 1);
    return Is(in.operands[2], 1) && Is(b, in.op == Op::kAdd ? -0.0 : 0.0);
  }

  std::optional<Operand> Twice(const Instruction& in, DType dtype) const {
    const Instruction* inner = MadeBy(in.operands[0], in.op);
    if (inner == nullptr || !inner->operands[0].is_tensor() ||
        TypeOf(inner->operands[0]) != dtype) {
      return std::nullopt;
    }
    return inner->operands[0];
  }

  std::optional<Operand> ThereAndBack(const Instruction& in) const {
    const Instruction* inner = MadeBy(in.operands[0], Op::kTo);
    if (inner == nullptr ||
        !IsExact(TypeOf(inner->operands[0]), TypeOf(in.operands[0]))) {
      return std::nullopt;
    }
    return inner->operands[0];
  }

  const ir::Function& f_;
  Rewriter r_;
  std::vector<int> definitions_;  // by new value
};

}  // namespace

ir::Function Peephole(const ir::Function& function) {
  return Simplifier(function).Run();
}

}  // namespace tjit
