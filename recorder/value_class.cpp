#include "recorder/value_class.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace tjit {
namespace {

// c10::ScalarType of the kinds a c10::Scalar holds.
constexpr std::uint64_t kLong = 4, kDouble = 7, kComplexDouble = 10,
                        kBool = 11;

constexpr int kMaxScalars = 3;
using Policies = std::array<ScalarPolicy, kMaxScalars>;

constexpr ScalarPolicy kBaked = ScalarPolicy::kBaked;
constexpr ScalarPolicy kFree = ScalarPolicy::kFree;
constexpr ScalarPolicy kPow = ScalarPolicy::kPow;
constexpr ScalarPolicy kZero = ScalarPolicy::kZero;
constexpr ScalarPolicy kZeroOne = ScalarPolicy::kZeroOne;
constexpr ScalarPolicy kLerp = ScalarPolicy::kLerp;

const absl::flat_hash_map<std::string_view, Policies>& Table() {
  static const auto& table =
      *new absl::flat_hash_map<std::string_view, Policies>{
#define TJIT_SCALARS(op, ...) {op, Policies{__VA_ARGS__}},
#include "recorder/value_classes.def"
#undef TJIT_SCALARS
      };
  return table;
}

struct Parts {
  double real = 0, imaginary = 0;
  bool is_integral = false;
};

double AsDouble(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

Parts PartsOf(const ScalarValue& value) {
  switch (value.type) {
    case kDouble: return {AsDouble(value.bits[0]), 0, false};
    case kComplexDouble:
      return {AsDouble(value.bits[0]), AsDouble(value.bits[1]), false};
    case kBool: return {value.bits[0] != 0 ? 1.0 : 0.0, 0, true};
    case kLong:
      return {static_cast<double>(static_cast<std::int64_t>(value.bits[0])), 0,
              true};
    default:  // an unsigned one
      return {static_cast<double>(value.bits[0]), 0, true};
  }
}

// Note [Range classes]
// A kernel converts a scalar to the element type and throws if it does not
// fit. Whether it throws must not change within a class, so the largest
// magnitudes of all element types are class limits: the integers, Half,
// BFloat16, float and the 8-bit floats. Up to 127 every type takes both signs
// (the unsigned ones wrap); beyond, the signs are apart.
constexpr double kLimits[] = {
    127,   128,   240,        255,        448,           32767,
    32768, 57344, 65504,      65535,      2147483647,    2147483648.0,
    4294967295.0, 9223372036854774784.0, 9223372036854775808.0,
    18446744073709549568.0,
    3.3895313892515355e38,  // BFloat16
    3.4028234663852886e38,  // float
    std::numeric_limits<double>::max()};

std::uint32_t RangeOf(double v) {
  if (std::fabs(v) <= kLimits[0]) return 0;  // nearly always
  constexpr auto kCount = static_cast<std::uint32_t>(std::size(kLimits));
  if (std::isnan(v)) return 2 * kCount + 2;  // clamp fills with NaN
  const auto above = static_cast<std::uint32_t>(
      std::lower_bound(std::begin(kLimits), std::end(kLimits), std::fabs(v)) -
      std::begin(kLimits));
  return 2 * above + (v < 0 ? 1 : 0);
}

// `v` as a float type with `digits` of mantissa (the implicit one counts) and
// this least exponent of a subnormal holds it.
double RoundTo(double v, int digits, int least_exponent) {
  if (v == 0 || !std::isfinite(v)) return v;
  const int ulp = std::max(std::ilogb(v) - digits + 1, least_exponent);
  return std::scalbn(std::nearbyint(std::scalbn(v, -ulp)), ulp);
}

constexpr double kPowers[] = {0.5, 2, 3, -0.5, -1, -2, 0, 1};
constexpr double kZeroAndOne[] = {0, 1};

// The values with a formula of their own; lerp's is an interval.
struct Specials {
  const double* values;
  std::uint32_t count;
};
Specials SpecialsOf(ScalarPolicy policy) {
  switch (policy) {
    case kPow: return {kPowers, std::size(kPowers)};
    case kZeroOne: return {kZeroAndOne, 2};
    case kZero: return {kZeroAndOne, 1};
    default: return {nullptr, 0};
  }
}

// The number of `v` among the special ones, 0 if it is none.
std::uint32_t Special(ScalarPolicy policy, double v) {
  if (policy == kLerp) return std::fabs(v) < 0.5 ? 1 : 0;
  const Specials specials = SpecialsOf(policy);
  for (std::uint32_t i = 0; i < specials.count; ++i) {
    if (v == specials.values[i]) return i + 1;
  }
  return 0;
}

// True if some element type may round `v` to a special value that it is not.
bool IsNearSpecial(ScalarPolicy policy, double v) {
  constexpr double kNear = 0x1p-6;  // BFloat16 has 8 bits
  if (policy == kLerp) return std::fabs(std::fabs(v) - 0.5) < kNear;
  const Specials specials = SpecialsOf(policy);
  for (std::uint32_t i = 0; i < specials.count; ++i) {
    const double s = specials.values[i];
    // Half has nothing between 0 and 2^-24.
    const double near = s == 0 ? 0x1p-20 : kNear * std::fabs(s);
    if (std::fabs(v - s) < near) return true;
  }
  return false;
}

// A kernel may compare before or after it rounds to the element type: a pow
// of BFloat16 takes 2.001 for 2. So a value and what each type makes of it
// have a digit each.
std::uint32_t SpecialAtEachRounding(ScalarPolicy policy, double v) {
  constexpr std::uint32_t kBase = 9;
  const std::uint32_t exact = Special(policy, v);
  const bool is_exact = policy != kLerp && exact != 0;
  if (is_exact || !IsNearSpecial(policy, v)) {
    return exact * (1 + kBase * (1 + kBase * (1 + kBase)));
  }
  const double rounded[] = {RoundTo(v, 24, -149), RoundTo(v, 8, -133),
                            RoundTo(v, 11, -24)};
  std::uint32_t digits = exact;
  for (const double r : rounded) digits = digits * kBase + Special(policy, r);
  return digits;
}

}  // namespace

ScalarPolicy PolicyOf(OpId op, int index) {
  const auto row = Table().find(OpName(op));
  if (row == Table().end() || index < 0 || index >= kMaxScalars) return kBaked;
  return row->second[static_cast<std::size_t>(index)];
}

[[gnu::hot]] std::uint32_t ValueClass(ScalarPolicy policy,
                                      const ScalarValue& value) {
  if (policy == kBaked) return 0;
  const Parts parts = PartsOf(value);
  std::uint32_t special = 0;
  if (policy != kFree) {
    // lerp compares the absolute value of a complex weight.
    const double v = policy == kLerp && parts.imaginary != 0
                         ? std::hypot(parts.real, parts.imaginary)
                         : parts.real;
    special = SpecialAtEachRounding(policy, v);
    // pow of integers rejects negative ones.
    if (policy == kPow && parts.is_integral && v < 0) special += 9 * 9 * 9 * 9;
  }
  // Only a scalar without an imaginary part converts to a real type.
  const std::uint32_t range =
      RangeOf(parts.real) +
      (parts.imaginary != 0 ? 64 * (1 + RangeOf(parts.imaginary)) : 0);
  return special << 12 | range;
}

}  // namespace tjit
