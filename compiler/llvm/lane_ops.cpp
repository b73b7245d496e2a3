#include "compiler/llvm/lane_ops.h"

#include "compiler/ir/op.h"
#include "llvm/IR/Intrinsics.h"
#include "support/planted_defect.h"

namespace tjit::llvm_backend {
namespace {

using ir::DType;
using ir::DTypeKind;
using ir::Op;
using llvm::Value;

bool IsConstant(Value* value, double number) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(value);
  if (constant == nullptr) return false;
  if (value->getType()->isVectorTy()) constant = constant->getSplatValue();
  const auto* fp = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return fp != nullptr && fp->isExactlyValue(number);
}

// Bool: registers of i1.
Value* EmitBool(Builder& b, Op op, Value* const* x) {
  switch (op) {
    case Op::kAdd:
      return b.CreateOr(x[0], b.CreateAnd(x[1], x[2]));
    case Op::kMul:
    case Op::kMinimum:
    case Op::kLogicalAnd:
    case Op::kBitAnd:
      return b.CreateAnd(x[0], x[1]);
    case Op::kMaximum:
    case Op::kLogicalOr:
    case Op::kBitOr:
      return b.CreateOr(x[0], x[1]);
    case Op::kLogicalXor:
    case Op::kBitXor:
    case Op::kNe:
      return b.CreateXor(x[0], x[1]);
    case Op::kEq:
      return b.CreateNot(b.CreateXor(x[0], x[1]));
    case Op::kLt:
      return b.CreateICmpULT(x[0], x[1]);
    case Op::kLe:
      return b.CreateICmpULE(x[0], x[1]);
    case Op::kGt:
      return b.CreateICmpUGT(x[0], x[1]);
    case Op::kGe:
      return b.CreateICmpUGE(x[0], x[1]);
    case Op::kLogicalNot:
      return b.CreateNot(x[0]);
    case Op::kIsNan:
      return llvm::Constant::getNullValue(x[0]->getType());
    default:
      return nullptr;
  }
}

// Of truth values, whatever they were made of.
Value* EmitLogic(Builder& b, Op op, Value* x, Value* y) {
  if (op == Op::kLogicalAnd) return b.CreateAnd(x, y);
  return op == Op::kLogicalOr ? b.CreateOr(x, y) : b.CreateXor(x, y);
}

// u8 ... i64: registers of i64, arithmetic modulo 2^64.
class IntOps {
 public:
  IntOps(const LaneTypes& types, Value* const* x)
      : b_(types.builder()), zero_(types.Integer(0)), x_(x) {}

  Value* Emit(Op op) {
    switch (op) {
      case Op::kAdd:
        return b_.CreateAdd(x_[0], b_.CreateMul(x_[1], x_[2]));
      case Op::kSub:
        return b_.CreateSub(x_[0], b_.CreateMul(x_[1], x_[2]));
      case Op::kMul:
        return b_.CreateMul(x_[0], x_[1]);
      case Op::kNeg:
        return b_.CreateNeg(x_[0]);
      case Op::kAbs:
        return b_.CreateSelect(b_.CreateICmpSLT(x_[0], zero_),
                               b_.CreateNeg(x_[0]), x_[0]);
      case Op::kSign:
        return b_.CreateSub(
            b_.CreateZExt(b_.CreateICmpSGT(x_[0], zero_), zero_->getType()),
            b_.CreateZExt(b_.CreateICmpSLT(x_[0], zero_), zero_->getType()));
      case Op::kSquare:
        return b_.CreateMul(x_[0], x_[0]);
      case Op::kAddcmul:
        return b_.CreateAdd(x_[0],
                            b_.CreateMul(b_.CreateMul(x_[3], x_[1]), x_[2]));
      case Op::kMaximum:
        return Max(x_[0], x_[1]);
      case Op::kMinimum:
        return Min(x_[0], x_[1]);
      case Op::kClamp:
        return Min(Max(x_[0], x_[1]), x_[2]);
      case Op::kRelu:
        return Max(x_[0], zero_);
      case Op::kThreshold:
        return b_.CreateSelect(b_.CreateICmpSLE(x_[0], x_[2]), x_[3], x_[1]);
      case Op::kBitAnd:
        return b_.CreateAnd(x_[0], x_[1]);
      case Op::kBitOr:
        return b_.CreateOr(x_[0], x_[1]);
      case Op::kBitXor:
        return b_.CreateXor(x_[0], x_[1]);
      default:
        return Compare(op);
    }
  }

 private:
  Value* Max(Value* a, Value* b) {
    return b_.CreateSelect(b_.CreateICmpSLT(a, b), b, a);
  }
  Value* Min(Value* a, Value* b) {
    return b_.CreateSelect(b_.CreateICmpSLT(b, a), b, a);
  }
  Value* IsTrue(Value* a) { return b_.CreateICmpNE(a, zero_); }

  Value* Compare(Op op) {
    switch (op) {
      case Op::kEq:
        return b_.CreateICmpEQ(x_[0], x_[1]);
      case Op::kNe:
        return b_.CreateICmpNE(x_[0], x_[1]);
      case Op::kLt:
        return b_.CreateICmpSLT(x_[0], x_[1]);
      case Op::kLe:
        return b_.CreateICmpSLE(x_[0], x_[1]);
      case Op::kGt:
        return b_.CreateICmpSGT(x_[0], x_[1]);
      case Op::kGe:
        return b_.CreateICmpSGE(x_[0], x_[1]);
      case Op::kIsNan:
        return b_.CreateICmpNE(x_[0], x_[0]);
      case Op::kLogicalNot:
        return b_.CreateICmpEQ(x_[0], zero_);
      case Op::kLogicalAnd:
      case Op::kLogicalOr:
      case Op::kLogicalXor:
        return EmitLogic(b_, op, IsTrue(x_[0]), IsTrue(x_[1]));
      default:
        return nullptr;
    }
  }

  Builder& b_;
  Value* zero_;
  Value* const* x_;
};

// Floats: registers of float or double.
class FloatOps {
 public:
  FloatOps(const LaneTypes& types, Value* zero, Value* const* x)
      : types_(types),
        b_(types.builder()),
        zero_(zero),
        one_(llvm::ConstantFP::get(zero->getType(), 1.0)),
        x_(x) {}

  Value* Emit(Op op) {
    Value* result = Arithmetic(op);
    if (result == nullptr) result = Choice(op);
    return result == nullptr ? Compare(op) : result;
  }

 private:
  Value* Arithmetic(Op op) {
    switch (op) {
      case Op::kAdd:
        return Fma(x_[1], x_[2], x_[0]);
      case Op::kSub:
        if (IsConstant(x_[2], 1)) return b_.CreateFSub(x_[0], x_[1]);
        return Fma(x_[1], b_.CreateFNeg(x_[2]), x_[0]);
      case Op::kMul:
        return b_.CreateFMul(x_[0], x_[1]);
      case Op::kDiv:
        return b_.CreateFDiv(x_[0], x_[1]);
      case Op::kNeg:
        // The sign bit, of a NaN too: LLVM would move it into a quotient or a
        // product before.
        return b_.CreateFNeg(b_.CreateArithmeticFence(x_[0], x_[0]->getType()));
      case Op::kReciprocal:
        return b_.CreateFDiv(one_, x_[0]);
      case Op::kSquare:
        return b_.CreateFMul(x_[0], x_[0]);
      case Op::kSqrt:
        return Call(llvm::Intrinsic::sqrt);
      case Op::kRsqrt:
        return b_.CreateFDiv(one_, Call(llvm::Intrinsic::sqrt));
      case Op::kAbs:
        return Call(llvm::Intrinsic::fabs);
      case Op::kFloor:
        return Call(llvm::Intrinsic::floor);
      case Op::kCeil:
        return Call(llvm::Intrinsic::ceil);
      case Op::kTrunc:
        return Call(llvm::Intrinsic::trunc);
      case Op::kRound:
        return Call(llvm::Intrinsic::nearbyint);
      case Op::kAddcmul:
        return Fma(Times(x_[3], x_[1]), x_[2], x_[0]);
      case Op::kAddcdiv:
        return b_.CreateFAdd(x_[0], b_.CreateFDiv(Times(x_[3], x_[1]), x_[2]));
      case Op::kSigmoidBackward:
        return b_.CreateFMul(b_.CreateFMul(x_[0], b_.CreateFSub(one_, x_[1])),
                             x_[1]);
      case Op::kTanhBackward:
        return b_.CreateFMul(x_[0], Fma(b_.CreateFNeg(x_[1]), x_[1], one_));
      default:
        return nullptr;
    }
  }

  Value* Choice(Op op) {
    switch (op) {
      case Op::kSign:
        return b_.CreateSelect(
            b_.CreateFCmpOGT(x_[0], zero_), one_,
            b_.CreateSelect(b_.CreateFCmpOLT(x_[0], zero_),
                            llvm::ConstantFP::get(zero_->getType(), -1.0),
                            zero_));
      case Op::kLerp:
        return Lerp();
      case Op::kMaximum:
        return Max(x_[0], x_[1]);
      case Op::kMinimum:
        return Min(x_[0], x_[1]);
      case Op::kClamp:
        return Min(Max(x_[0], x_[1]), x_[2]);
      case Op::kRelu:
        return Max(x_[0], zero_);
      case Op::kLeakyRelu:
        return b_.CreateSelect(b_.CreateFCmpOGT(x_[0], zero_), x_[0],
                               b_.CreateFMul(x_[0], x_[1]));
      case Op::kThreshold:
        return b_.CreateSelect(b_.CreateFCmpOLE(x_[0], x_[2]), x_[3], x_[1]);
      default:
        return nullptr;
    }
  }

  Value* Compare(Op op) {
    switch (op) {
      case Op::kEq:
        return b_.CreateFCmpOEQ(x_[0], x_[1]);
      case Op::kNe:
        return b_.CreateFCmpUNE(x_[0], x_[1]);
      case Op::kLt:
        return b_.CreateFCmpOLT(x_[0], x_[1]);
      case Op::kLe:
        return b_.CreateFCmpOLE(x_[0], x_[1]);
      case Op::kGt:
        return b_.CreateFCmpOGT(x_[0], x_[1]);
      case Op::kGe:
        return b_.CreateFCmpOGE(x_[0], x_[1]);
      case Op::kIsNan:
        return b_.CreateFCmpUNO(x_[0], x_[0]);
      case Op::kLogicalNot:
        return b_.CreateFCmpOEQ(x_[0], zero_);
      case Op::kLogicalAnd:
      case Op::kLogicalOr:
      case Op::kLogicalXor:
        return EmitLogic(b_, op, IsTrue(x_[0]), IsTrue(x_[1]));
      default:
        return nullptr;
    }
  }

  // One rounding. A factor of 1 needs no fma to have it.
  Value* Fma(Value* a, Value* b, Value* c) {
    if (IsConstant(b, 1)) return b_.CreateFAdd(c, a);
    if (Planted(Defect::kTwoRoundings)) {
      return b_.CreateFAdd(c, b_.CreateFMul(a, b));
    }
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  }
  Value* Times(Value* a, Value* b) {
    return IsConstant(a, 1) ? b : b_.CreateFMul(a, b);
  }
  Value* Call(llvm::Intrinsic::ID id) {
    return b_.CreateUnaryIntrinsic(id, x_[0]);
  }
  Value* IsTrue(Value* a) { return b_.CreateFCmpUNE(a, zero_); }

  // eval::Greater: of equal ones the first, and NaN if either is. The first
  // select is what x86's max does, the second is nothing for a constant b.
  Value* Max(Value* a, Value* b) {
    Value* greater = b_.CreateSelect(b_.CreateFCmpOGT(b, a), b, a);
    if (Planted(Defect::kLostNan)) {
      return b_.CreateSelect(b_.CreateFCmpUNO(a, a), b, greater);
    }
    return b_.CreateSelect(b_.CreateFCmpUNO(b, b), b, greater);
  }
  Value* Min(Value* a, Value* b) {
    Value* smaller = b_.CreateSelect(b_.CreateFCmpOLT(b, a), b, a);
    return b_.CreateSelect(b_.CreateFCmpUNO(b, b), b, smaller);
  }

  Value* Lerp() {
    Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x_[2]);
    Value* is_small =
        b_.CreateFCmpOLT(size, llvm::ConstantFP::get(size->getType(), 0.5));
    Value* factor =
        b_.CreateSelect(is_small, x_[2], b_.CreateFSub(x_[2], one_));
    Value* start = b_.CreateSelect(is_small, x_[0], x_[1]);
    return Fma(factor, b_.CreateFSub(x_[1], x_[0]), start);
  }

  const LaneTypes& types_;
  Builder& b_;
  Value* zero_;
  Value* one_;
  Value* const* x_;
};

}  // namespace

bool IsNative(Op op) {
  if (op == Op::kTo || op == Op::kFull) return true;
  if (ir::InfoOf(op).family != ir::Family::kPointwise) return false;
  if (op == Op::kFmod || op == Op::kRemainder) return false;
  if (op == Op::kSigmoidBackward || op == Op::kTanhBackward) return true;
  return op < Op::kExp;
}

Value* EmitOp(const LaneTypes& types, Op op, DType dtype, Value* const* x) {
  Builder& b = types.builder();
  // A scalar operand is not rounded yet.
  if (op == Op::kWhere) {
    return types.Round(dtype, b.CreateSelect(x[0], x[1], x[2]));
  }
  Value* result = nullptr;
  switch (ir::InfoOf(dtype).kind) {
    case DTypeKind::kBool:
      return EmitBool(b, op, x);
    case DTypeKind::kInt:
      result = IntOps(types, x).Emit(op);
      break;
    case DTypeKind::kFloat:
      result = FloatOps(types, types.Number(types.RegisterType(dtype), 0), x)
                   .Emit(op);
      break;
  }
  const bool compares = ir::InfoOf(op).type_rule == ir::TypeRule::kCompare;
  return compares || result == nullptr ? result
                                       : types.RoundArithmetic(dtype, result);
}

}  // namespace tjit::llvm_backend
