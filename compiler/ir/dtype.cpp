#include "compiler/ir/dtype.h"

#include "support/assert.h"

namespace tjit::ir {
namespace {

constexpr DTypeInfo kInfos[] = {
#define TJIT_IR_DTYPE(suffix, text, number, bytes, kind, compute) \
  {text, number, bytes, DTypeKind::k##kind, Compute::k##compute},
#include "compiler/ir/dtypes.def"
#undef TJIT_IR_DTYPE
};

// `bits` without its lowest `shift` bits, to nearest, ties to even.
std::uint32_t ShiftToEven(std::uint32_t bits, int shift) {
  const std::uint32_t odd = (bits >> shift) & 1;
  return (bits + (1u << (shift - 1)) - 1 + odd) >> shift;
}

}  // namespace

const DTypeInfo& InfoOf(DType dtype) {
  TJIT_ASSERT(dtype < DType::kCount);
  return kInfos[static_cast<int>(dtype)];
}

const char* Name(DType dtype) {
  return dtype < DType::kCount ? InfoOf(dtype).name : "?";
}

bool DTypeByName(std::string_view name, DType* dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name != kInfos[i].name) continue;
    *dtype = static_cast<DType>(i);
    return true;
  }
  return false;
}

bool DTypeByNumber(std::uint8_t number, DType* dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (number != kInfos[i].number) continue;
    *dtype = static_cast<DType>(i);
    return true;
  }
  return false;
}

float HalfToFloat(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t mantissa = bits & 0x3ff;
  std::uint32_t out = 0;
  if (exponent == 0x1f) {
    out = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent != 0) {
    out = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else {
    const float small = std::ldexp(static_cast<float>(mantissa), -24);
    std::memcpy(&out, &small, sizeof(out));
    out |= sign;
  }
  float value;
  std::memcpy(&value, &out, sizeof(value));
  return value;
}

std::uint16_t FloatToHalf(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  bits &= 0x7fffffffu;
  std::uint32_t out = 0;
  if (bits > 0x7f800000u) {
    out = 0x7e00;  // NaN
  } else if (bits >= 0x477ff000u) {
    out = 0x7c00;  // 65520 and above round to infinity
  } else if (bits >= 0x38800000u) {
    out = ShiftToEven(bits, 13) - (112u << 10);
  } else {
    // Below 2^-14: units of 2^-24, rounded by the addition of floats.
    float scaled;
    std::memcpy(&scaled, &bits, sizeof(scaled));
    out = static_cast<std::uint32_t>(
        std::nearbyint(std::ldexp(static_cast<double>(scaled), 24)));
  }
  return static_cast<std::uint16_t>(sign | out);
}

float BFloat16ToFloat(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

std::uint16_t FloatToBFloat16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<std::uint16_t>(ShiftToEven(bits, 16));
}

}  // namespace tjit::ir
