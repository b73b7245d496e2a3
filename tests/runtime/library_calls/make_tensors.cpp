#include "tests/runtime/library_calls/make_tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_complex.h>
#include <c10/util/Exception.h>

#include <cmath>

namespace tjit::runtime::testing {

std::uint64_t Data::Next() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_;
}

double Data::Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

at::Tensor Data::Dense(at::IntArrayRef sizes, at::ScalarType dtype) {
  if (at::isComplexType(dtype)) {
    std::vector<std::int64_t> parts(sizes.begin(), sizes.end());
    parts.push_back(2);
    const at::ScalarType real = c10::toRealValueType(dtype);
    at::Tensor both = Dense(parts, real == at::kHalf ? at::kFloat : real);
    // Which bits of a NaN are set depends on more than numbers do.
    for (std::int64_t i = 40; i < both.numel(); i += 1 + Next() % 19) {
      const double nan = std::copysign(NAN, Uniform() - 0.5);
      if (real == at::kDouble) {
        both.mutable_data_ptr<double>()[i] = nan;
      } else {
        both.mutable_data_ptr<float>()[i] = static_cast<float>(nan);
      }
    }
    return at::view_as_complex(both.to(real));
  }
  const bool is_float = at::isFloatingType(dtype);
  at::Tensor t = at::empty(sizes, dtype == at::kDouble ? at::kDouble
                                  : is_float           ? at::kFloat
                                                       : at::kLong);
  void* data = t.mutable_data_ptr();
  const std::int64_t count = t.numel();
  for (std::int64_t i = 0; i < count; ++i) {
    if (dtype == at::kDouble) {
      static_cast<double*>(data)[i] = 4 * Uniform() - 2;
    } else if (is_float) {
      static_cast<float*>(data)[i] = static_cast<float>(4 * Uniform() - 2);
    } else if (dtype == at::kBool) {
      static_cast<std::int64_t*>(data)[i] =
          static_cast<std::int64_t>(Next() % 2);
    } else {
      const auto v = static_cast<std::int64_t>(Next() % 10) - 5;
      static_cast<std::int64_t*>(data)[i] = v < 0 ? v : v + 1;
    }
  }
  return t.scalar_type() == dtype ? t : t.to(dtype);
}

at::Tensor Data::Positive(at::IntArrayRef sizes, at::ScalarType dtype) {
  return Dense(sizes, dtype).abs();
}

at::Tensor Data::Index(at::IntArrayRef sizes, std::int64_t high) {
  at::Tensor t = at::empty(sizes, at::kLong);
  auto* data = t.mutable_data_ptr<std::int64_t>();
  const std::int64_t count = t.numel();
  for (std::int64_t i = 0; i < count; ++i) {
    data[i] =
        static_cast<std::int64_t>(Next() % static_cast<std::uint64_t>(high));
  }
  return t;
}

at::Tensor Data::Laid(const std::string& layout, at::IntArrayRef sizes,
                      at::ScalarType dtype) {
  std::vector<std::int64_t> s(sizes.begin(), sizes.end());
  if (layout == "dense") return Dense(s, dtype);
  if (layout == "transposed") {
    if (s.size() < 2) return Dense(s, dtype);
    std::swap(s[s.size() - 1], s[s.size() - 2]);
    return Dense(s, dtype).transpose(-1, -2);
  }
  if (layout == "strided") {
    for (std::int64_t& d : s) d = 2 * d + 1;
    at::Tensor t = Dense(s, dtype);
    for (std::size_t d = 0; d < s.size(); ++d) {
      t = t.slice(static_cast<std::int64_t>(d), 1, s[d], 2);
    }
    return t;
  }
  if (layout == "expanded") {
    if (s.empty()) return Dense(s, dtype);
    s[0] = 1;
    return Dense(s, dtype).expand(sizes);
  }
  if (layout == "column") {
    if (!s.empty()) s.back() = 1;
    return Dense(s, dtype);
  }
  if (layout == "row") {
    if (!s.empty()) s.erase(s.begin());
    return Dense(s, dtype);
  }
  if (layout == "scalar") return Dense({}, dtype);
  if (layout == "real") return Dense(s, c10::toRealValueType(dtype));
  if (layout == "wrapped" || layout == "wrapped complex") {
    at::Tensor t =
        Dense({}, layout != "wrapped" ? at::kComplexDouble
                  : at::isFloatingType(dtype) || at::isComplexType(dtype)
                      ? at::kDouble
                      : at::kLong);
    t.unsafeGetTensorImpl()->set_wrapped_number(true);
    return t;
  }
  if (layout == "channels_last") {
    return Dense(s, dtype).contiguous(at::MemoryFormat::ChannelsLast);
  }
  TORCH_INTERNAL_ASSERT(false, "unknown layout ", layout);
}

}  // namespace tjit::runtime::testing
