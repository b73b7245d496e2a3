// Floats by their bits, for tests of functions of one f32.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>

namespace tjit::runtime {

// Any NaN for any NaN.
inline std::int64_t Differences(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor differs = a.view(at::kInt).ne(b.view(at::kInt));
  return differs.logical_and(~a.isnan().logical_and(b.isnan()))
      .sum()
      .item<std::int64_t>();
}

inline at::Tensor FromBits(std::int64_t first, std::int64_t count,
                           std::int64_t step) {
  return at::arange(count, at::kLong)
      .mul_(step)
      .add_(first)
      .bitwise_and_(0xffffffff)
      .to(at::kInt)
      .view(at::kFloat);
}

// Of all 2^32 numbers.
template <class Ours, class Eager>
std::int64_t DifferencesOfAll(const Ours& ours, const Eager& eager) {
  constexpr std::int64_t kCount = 1 << 20, kAll = std::int64_t{1} << 32;
  std::int64_t differences = 0;
  for (std::int64_t first = 0; first < kAll; first += kCount) {
    const at::Tensor x = FromBits(first, kCount, 1);
    const at::Tensor is = ours(x), should = eager(x);
    if (std::memcmp(should.const_data_ptr(), is.const_data_ptr(),
                    should.nbytes()) != 0) {
      differences += Differences(is, should);
    }
  }
  return differences;
}

}  // namespace tjit::runtime
