#include "compiler/llvm/lane_types.h"

#include <cmath>

#include "support/planted_defect.h"

namespace tjit::llvm_backend {

using ir::DType;
using ir::DTypeKind;
using ir::InfoOf;
using llvm::Type;
using llvm::Value;

Type* LaneTypes::Like(Value* like, Type* element) {
  auto* vector = llvm::dyn_cast<llvm::VectorType>(like->getType());
  return vector == nullptr
             ? element
             : llvm::VectorType::get(element, vector->getElementCount());
}

Type* LaneTypes::Lanes(Type* element) const {
  return lanes_ == 1 ? element
                     : llvm::FixedVectorType::get(
                           element, static_cast<unsigned>(lanes_));
}

Type* LaneTypes::MemoryType(DType dtype) const {
  switch (dtype) {
    case DType::kF16:
      return b_.getHalfTy();
    case DType::kF32:
      return b_.getFloatTy();
    case DType::kF64:
      return b_.getDoubleTy();
    default:  // bfloat is handled as bits: the hardware's flushes denormals
      return b_.getIntNTy(8u * InfoOf(dtype).bytes);
  }
}

Type* LaneTypes::RegisterType(DType dtype) const {
  switch (InfoOf(dtype).kind) {
    case DTypeKind::kBool:
      return b_.getInt1Ty();
    case DTypeKind::kInt:
      return b_.getInt64Ty();
    case DTypeKind::kFloat:
      break;
  }
  return dtype == DType::kF64 ? b_.getDoubleTy() : b_.getFloatTy();
}

Value* LaneTypes::Splat(Value* scalar) const {
  if (lanes_ == 1) return scalar;
  return b_.CreateVectorSplat(static_cast<unsigned>(lanes_), scalar);
}

Value* LaneTypes::Number(Type* element, double value) const {
  return llvm::ConstantFP::get(Lanes(element), value);
}

Value* LaneTypes::Integer(std::int64_t value) const {
  return llvm::ConstantInt::getSigned(Lanes(b_.getInt64Ty()), value);
}

Value* LaneTypes::FromMemory(DType dtype, Value* raw) const {
  switch (dtype) {
    case DType::kBool:
      return b_.CreateIsNotNull(raw);
    case DType::kU8:
      return b_.CreateZExt(raw, Like(raw, b_.getInt64Ty()));
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
      return b_.CreateSExt(raw, Like(raw, b_.getInt64Ty()));
    case DType::kF16:
      return b_.CreateFPExt(raw, Like(raw, b_.getFloatTy()));
    case DType::kBF16: {
      Value* wide = b_.CreateZExt(raw, Like(raw, b_.getInt32Ty()));
      return b_.CreateBitCast(b_.CreateShl(wide, 16),
                              Like(raw, b_.getFloatTy()));
    }
    default:
      return raw;
  }
}

Value* LaneTypes::ToMemory(DType dtype, Value* value) const {
  switch (dtype) {
    case DType::kBool:
      return b_.CreateZExt(value, Like(value, b_.getInt8Ty()));
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
      return b_.CreateTrunc(value, Like(value, MemoryType(dtype)));
    case DType::kF16:
      return b_.CreateFPTrunc(value, Like(value, b_.getHalfTy()));
    case DType::kBF16:
      return b_.CreateTrunc(BFloat16Bits(value), Like(value, b_.getInt16Ty()));
    default:
      return value;
  }
}

Value* LaneTypes::RegisterToMemory(DType dtype, Value* value) const {
  if (dtype != DType::kBF16 || Planted(Defect::kUnroundedHalf)) {
    return ToMemory(dtype, value);
  }
  Value* bits = b_.CreateBitCast(value, Like(value, b_.getInt32Ty()));
  return b_.CreateTrunc(b_.CreateLShr(bits, 16), Like(value, b_.getInt16Ty()));
}

// The upper half is rounded, but for NaN.
Value* LaneTypes::BitsRoundedUp(Value* value) const {
  Type* type = Like(value, b_.getInt32Ty());
  Value* bits = b_.CreateBitCast(value, type);
  Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), 1);
  Value* up = b_.CreateAdd(odd, llvm::ConstantInt::get(type, 0x7fff));
  return b_.CreateAdd(bits, up);
}

// FloatToBFloat16 (ir/dtype.h), as 32 bits.
Value* LaneTypes::BFloat16Bits(Value* value) const {
  return b_.CreateSelect(
      b_.CreateFCmpUNO(value, value),
      llvm::ConstantInt::get(Like(value, b_.getInt32Ty()), 0x7fc0),
      b_.CreateLShr(BitsRoundedUp(value), 16));
}

Value* LaneTypes::RoundArithmetic(DType dtype, Value* value) const {
  if (dtype != DType::kBF16 || Planted(Defect::kUnroundedHalf)) {
    return Round(dtype, value);
  }
  Value* bits = b_.CreateAnd(BitsRoundedUp(value), 0xffff0000);
  return b_.CreateBitCast(bits, value->getType());
}

Value* LaneTypes::ScalarForArithmetic(DType dtype, Value* value) const {
  if (dtype != DType::kBF16) return value;
  return b_.CreateSelect(b_.CreateFCmpUNO(value, value),
                         llvm::ConstantFP::getNaN(value->getType()), value);
}

Value* LaneTypes::Round(DType dtype, Value* value) const {
  switch (dtype) {
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
      return FromMemory(dtype, ToMemory(dtype, value));
    case DType::kF16:
    case DType::kBF16:
      if (Planted(Defect::kUnroundedHalf)) return value;
      return FromMemory(dtype, ToMemory(dtype, value));
    default:
      return value;
  }
}

// ir::ToInteger of 32 or 64 bits, as i64: what does not fit becomes the
// lowest. A conversion that does not fit is undefined for LLVM, so it sees 0.
Value* LaneTypes::ToInteger(Value* value, int bits) const {
  Type* type = value->getType();
  Type* element = type->getScalarType();
  const double end = std::ldexp(1.0, bits - 1);
  // In the value's own type, as ToInteger's limits are.
  const double below =
      element->isFloatTy()
          ? static_cast<double>(static_cast<float>(-end) - 1.0f)
          : -end - 1;
  Value* fits =
      b_.CreateAnd(b_.CreateFCmpOGT(value, llvm::ConstantFP::get(type, below)),
                   b_.CreateFCmpOLT(value, llvm::ConstantFP::get(type, end)));
  Value* safe = b_.CreateSelect(fits, value, llvm::ConstantFP::get(type, 0.0));
  if (Planted(Defect::kWrongCast)) {
    safe = b_.CreateUnaryIntrinsic(llvm::Intrinsic::nearbyint, safe);
  }
  Type* wide = Like(value, b_.getInt64Ty());
  Value* lowest =
      llvm::ConstantInt::getSigned(wide, -(std::int64_t{1} << (bits - 2)) * 2);
  Value* number =
      b_.CreateFPToSI(safe, Like(value, b_.getIntNTy(unsigned(bits))));
  if (bits < 64) number = b_.CreateSExt(number, wide);
  return b_.CreateSelect(fits, number, lowest);
}

Value* LaneTypes::Convert(DType from, DType to, Value* value) const {
  if (from == to) return value;
  const DTypeKind source = InfoOf(from).kind, target = InfoOf(to).kind;
  Type* type = Like(value, RegisterType(to));
  if (target == DTypeKind::kBool) {
    if (source == DTypeKind::kInt) return b_.CreateIsNotNull(value);
    return b_.CreateFCmpUNE(value,
                            llvm::Constant::getNullValue(value->getType()));
  }
  if (target == DTypeKind::kInt) {
    if (source == DTypeKind::kBool) return b_.CreateZExt(value, type);
    if (source == DTypeKind::kInt) return Round(to, value);
    // As ir::Store. No f32 beyond 2^31 has bits below 2^8, so its u8 needs 32.
    const bool is_long =
        to == DType::kI64 || (to == DType::kU8 && from == DType::kF64);
    return Round(to, ToInteger(value, is_long ? 64 : 32));
  }
  if (source == DTypeKind::kBool) return b_.CreateUIToFP(value, type);
  if (source == DTypeKind::kInt) {
    return Round(to, b_.CreateSIToFP(value, type));
  }
  return Round(to, b_.CreateFPCast(value, type));
}

}  // namespace tjit::llvm_backend
