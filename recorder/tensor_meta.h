// What tjit knows of a tensor, as plain data.
//
// Numbers of dtypes and key sets are those of libtorch (c10::ScalarType,
// DispatchKeySet::raw_repr()); only runtime/ knows their meaning beyond the
// few helpers here.
#pragma once

#include <cstdint>
#include <cstring>

namespace tjit {

// Tensors with more dims run at the call.
inline constexpr int kMaxDims = 8;

// Access geometry of one tensor over its storage. Offset and strides count
// elements. Dims past `ndim` are 0, so that equal geometries are equal bytes.
struct TensorGeometry {
  std::uint64_t key_set = 0;
  std::int64_t offset = 0;
  std::uint8_t dtype = 0;
  std::uint8_t ndim = 0;
  std::uint8_t itemsize = 0;
  bool wrapped_number = false;
  std::uint32_t reserved = 0;
  std::int64_t sizes[kMaxDims] = {};
  std::int64_t strides[kMaxDims] = {};

  bool operator==(const TensorGeometry& o) const {
    return std::memcmp(this, &o, sizeof(*this)) == 0;
  }
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= sizes[d];
    return n;
  }
  // The last one in the storage. Means nothing where there is none.
  std::int64_t last_element() const {
    std::int64_t last = offset;
    for (int d = 0; d < ndim; ++d) last += (sizes[d] - 1) * strides[d];
    return last;
  }
};

// How the elements lie, as far as kernels choose by it.
enum class LayoutClass : std::uint8_t {
  kContiguous,
  kChannelsLast,
  kTransposed,  // last two dims swapped, otherwise contiguous
  kStrided,
  kBroadcast,   // a dim with stride 0 and size > 1
  kEmpty,       // no elements
};
LayoutClass LayoutOf(const TensorGeometry& g);
const char* LayoutName(LayoutClass layout);

// A scalar argument: its type and its bits. `type` is a c10::ScalarType of
// the kinds a c10::Scalar holds (Long, Double, ComplexDouble, Bool).
struct ScalarValue {
  std::uint64_t type = 0;
  std::uint64_t bits[2] = {0, 0};

  bool SameBits(const ScalarValue& o) const {
    return type == o.type && bits[0] == o.bits[0] && bits[1] == o.bits[1];
  }
};

}  // namespace tjit
