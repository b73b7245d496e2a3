// Where the elements of a view lie: sizes, strides and offset, as libtorch's
// kernels for views compute them. Each function makes `g`, that of a tensor,
// that of its view, and returns false where libtorch would throw, or where the
// case is left to it; g is undefined then. Dims count from the end if negative.
// Source: aten/src/ATen/native/TensorShape.cpp of libtorch 2.13.
// Thread: any.
// Tested by: tests/runtime/intercept/direct_views_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tjit::runtime::view {

inline constexpr std::size_t kMostDims = 8;

struct Geometry {
  std::size_t dims = 0;
  // In elements.
  std::array<std::int64_t, kMostDims + 1> sizes = {}, strides = {};
  std::int64_t offset = 0;  // in the storage

  // REQUIRES: no symbolic sizes, at most kMostDims dims.
  explicit Geometry(const at::Tensor& t);
  at::IntArrayRef SizesRef() const { return {sizes.data(), dims}; }
  at::IntArrayRef StridesRef() const { return {strides.data(), dims}; }
};

// True if no product of sizes and strides comes near the range of int64, and
// nothing is negative: of others libtorch finds words for what overflows.
bool IsOrdinary(const Geometry& g);

// The following REQUIRE IsOrdinary(*g); what they make of it may not be.
// Numbers are nothing where they are symbolic.
bool Select(std::int64_t dim, std::optional<std::int64_t> index, Geometry* g);
bool Slice(std::int64_t dim, std::optional<std::int64_t> start,
           std::optional<std::int64_t> end, std::optional<std::int64_t> step,
           Geometry* g);
bool Transpose(std::int64_t a, std::int64_t b, Geometry* g);
bool TransposeMatrix(Geometry* g);  // two dims
bool Permute(at::IntArrayRef dims, Geometry* g);
// sizes: -1 is what the tensor has.
bool Expand(std::optional<at::IntArrayRef> sizes, Geometry* g);
bool Unsqueeze(std::int64_t dim, Geometry* g);
// sizes: one may be -1, what is left of the elements.
bool ViewAs(std::optional<at::IntArrayRef> sizes, Geometry* g);

}  // namespace tjit::runtime::view
