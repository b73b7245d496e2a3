// Between halves in memory and in kernels' arrays, where they are floats.
// Thread: any. Tested by: tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <cstdint>

namespace tjit::runtime {

enum class HalfType : std::uint8_t { kBF16, kF16 };

// The floats are halves, so nothing is rounded, whatever MXCSR says. A NaN
// becomes a NaN, and a bf16 the same one: fmax of a signaling NaN is NaN.
void ToHalves(HalfType type, const float* from, std::uint16_t* to,
              std::int64_t n);
void FromHalves(HalfType type, const std::uint16_t* from, float* to,
                std::int64_t n);

}  // namespace tjit::runtime
