// Element types of the IR, and how one element is read and rounded.
//
// Arithmetic happens in a compute type (int64_t, float or double); storing
// rounds to the element type: to nearest even for f16 and bf16, modulo 2^n
// for integers, `!= 0` for bool.
// Tested by: tests/compiler/ir/ir_dtype_test.cpp
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

namespace tjit::ir {

enum class DType : std::uint8_t {
#define TJIT_IR_DTYPE(suffix, text, number, bytes, kind, compute) k##suffix,
#include "compiler/ir/dtypes.def"
#undef TJIT_IR_DTYPE
  kCount,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::kCount);

enum class DTypeKind : std::uint8_t { kBool, kInt, kFloat };
enum class Compute : std::uint8_t { kInt, kFloat, kDouble };

struct DTypeInfo {
  const char* name;
  std::uint8_t number;  // c10::ScalarType
  std::uint8_t bytes;
  DTypeKind kind;
  Compute compute;
};

// REQUIRES: dtype < kCount.
const DTypeInfo& InfoOf(DType dtype);
// "f32"; "?" out of range.
const char* Name(DType dtype);
// False if there is no such type.
bool DTypeByName(std::string_view name, DType* dtype);
bool DTypeByNumber(std::uint8_t number, DType* dtype);

constexpr bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

float HalfToFloat(std::uint16_t bits);
std::uint16_t FloatToHalf(float value);
float BFloat16ToFloat(std::uint16_t bits);
// A NaN becomes 0x7fc0, as in c10's scalar conversion.
std::uint16_t FloatToBFloat16(float value);

// From one compute type to another as eager's copy kernels do on x86: float to
// integer truncates; what does not fit (or is NaN) becomes the lowest `Int`.
template <class Int, class From>
std::int64_t ToInteger(From value) {
  if constexpr (std::is_floating_point_v<From>) {
    constexpr auto kLowest = static_cast<From>(std::numeric_limits<Int>::min());
    if (!(value > kLowest - 1 && value < -kLowest)) {
      return std::numeric_limits<Int>::min();
    }
  }
  return static_cast<std::int64_t>(value);
}

template <class To, class From>
To ConvertCompute(From value) {
  if constexpr (std::is_same_v<To, std::int64_t>) {
    return ToInteger<std::int64_t>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class T>
T LoadAs(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class T>
void StoreAs(T value, char* to) {
  std::memcpy(to, &value, sizeof(value));
}

// Reads one element. T is int64_t, float or double.
template <class T>
T Load(DType dtype, const char* from) {
  switch (dtype) {
    case DType::kBool:
      return static_cast<T>(*from != 0);
    case DType::kU8:
      return static_cast<T>(LoadAs<std::uint8_t>(from));
    case DType::kI8:
      return static_cast<T>(LoadAs<std::int8_t>(from));
    case DType::kI16:
      return static_cast<T>(LoadAs<std::int16_t>(from));
    case DType::kI32:
      return static_cast<T>(LoadAs<std::int32_t>(from));
    case DType::kI64:
      return static_cast<T>(LoadAs<std::int64_t>(from));
    case DType::kF16:
      return ConvertCompute<T>(HalfToFloat(LoadAs<std::uint16_t>(from)));
    case DType::kBF16:
      return ConvertCompute<T>(BFloat16ToFloat(LoadAs<std::uint16_t>(from)));
    case DType::kF32:
      return ConvertCompute<T>(LoadAs<float>(from));
    case DType::kF64:
      return ConvertCompute<T>(LoadAs<double>(from));
    case DType::kCount:
      break;
  }
  return T();
}

// Rounds one element to `dtype` and writes it.
template <class T>
void Store(DType dtype, T value, char* to) {
  // i8, i16 and i32 go through 32 bits: 1e10 is 0 in an i8. u8 goes through 64
  // (c10's static_cast_with_inter_type): 2^40 + 4 is 4 in it.
  const auto as_int = [&] {
    return std::is_floating_point_v<T> ? ToInteger<std::int32_t>(value)
                                       : static_cast<std::int64_t>(value);
  };
  switch (dtype) {
    case DType::kBool:
      *to = value != T(0) ? 1 : 0;
      return;
    case DType::kU8:
      return StoreAs(static_cast<std::uint8_t>(ToInteger<std::int64_t>(value)),
                     to);
    case DType::kI8:
      return StoreAs(static_cast<std::int8_t>(as_int()), to);
    case DType::kI16:
      return StoreAs(static_cast<std::int16_t>(as_int()), to);
    case DType::kI32:
      return StoreAs(static_cast<std::int32_t>(as_int()), to);
    case DType::kI64:
      return StoreAs(ToInteger<std::int64_t>(value), to);
    case DType::kF16:
      return StoreAs(FloatToHalf(static_cast<float>(value)), to);
    case DType::kBF16:
      return StoreAs(FloatToBFloat16(static_cast<float>(value)), to);
    case DType::kF32:
      return StoreAs(static_cast<float>(value), to);
    case DType::kF64:
      return StoreAs(static_cast<double>(value), to);
    case DType::kCount:
      break;
  }
}

}  // namespace tjit::ir
