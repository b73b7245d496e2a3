#include "runtime/intercept/view_geometry.h"

#include <ATen/TensorUtils.h>

#include <algorithm>
#include <utility>

namespace tjit::runtime::view {
namespace {

// False: there is no such dim.
bool WrapDim(std::int64_t* dim, std::size_t dims) {
  const auto n = static_cast<std::int64_t>(dims);
  if (*dim < 0) *dim += n;
  return 0 <= *dim && *dim < n;
}

}  // namespace

Geometry::Geometry(const at::Tensor& t)
    : dims(t.sizes().size()), offset(t.storage_offset()) {
  std::copy(t.sizes().begin(), t.sizes().end(), sizes.begin());
  std::copy(t.strides().begin(), t.strides().end(), strides.begin());
}

bool IsOrdinary(const Geometry& g) {
  constexpr std::int64_t kMost = std::int64_t{1} << 58;
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < g.dims; ++i) {
    const std::int64_t size = g.sizes[i], stride = g.strides[i];
    std::int64_t reach = 0;
    if (size < 0 || stride < 0 || size > kMost || stride > kMost ||
        __builtin_mul_overflow(std::max<std::int64_t>(size, 1), stride,
                               &reach) ||
        __builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1),
                               &elements) ||
        reach > kMost || elements > kMost) {
      return false;
    }
  }
  return 0 <= g.offset && g.offset <= kMost;
}

bool Select(std::int64_t dim, std::optional<std::int64_t> index, Geometry* g) {
  if (!index.has_value() || !WrapDim(&dim, g->dims)) return false;
  const std::int64_t size = g->sizes[dim];
  if (*index >= size || *index < -size) return false;
  g->offset += (*index < 0 ? *index + size : *index) * g->strides[dim];
  --g->dims;
  for (std::size_t i = dim; i < g->dims; ++i) {
    g->sizes[i] = g->sizes[i + 1];
    g->strides[i] = g->strides[i + 1];
  }
  return true;
}

bool Slice(std::int64_t dim, std::optional<std::int64_t> start,
           std::optional<std::int64_t> end, std::optional<std::int64_t> step,
           Geometry* g) {
  if (!start.has_value() || !end.has_value() || !step.has_value() ||
      *step <= 0 || !WrapDim(&dim, g->dims)) {
    return false;
  }
  const std::int64_t size = g->sizes[dim];
  if (*step > size + 1) return false;
  const auto within = [size](std::int64_t at, std::int64_t least) {
    return std::clamp(at < 0 ? at + size : at, least, size);
  };
  const std::int64_t from = within(*start, 0), to = within(*end, from);
  g->offset += from * g->strides[dim];
  g->sizes[dim] = (to - from + *step - 1) / *step;
  g->strides[dim] *= *step;
  return true;
}

bool Transpose(std::int64_t a, std::int64_t b, Geometry* g) {
  if (!WrapDim(&a, g->dims) || !WrapDim(&b, g->dims) || a == b) return false;
  std::swap(g->sizes[a], g->sizes[b]);
  std::swap(g->strides[a], g->strides[b]);
  return true;
}

bool TransposeMatrix(Geometry* g) { return g->dims == 2 && Transpose(0, 1, g); }

bool Permute(at::IntArrayRef dims, Geometry* g) {
  if (dims.size() != g->dims) return false;
  const Geometry from = *g;
  unsigned seen = 0;
  for (std::size_t i = 0; i < g->dims; ++i) {
    std::int64_t dim = dims[i];
    if (!WrapDim(&dim, g->dims) || (seen >> dim & 1) != 0) return false;
    seen |= 1U << dim;
    g->sizes[i] = from.sizes[dim];
    g->strides[i] = from.strides[dim];
  }
  return true;
}

bool Expand(std::optional<at::IntArrayRef> sizes, Geometry* g) {
  const std::size_t had = g->dims;
  if (!sizes.has_value() || sizes->size() > kMostDims || had == 0 ||
      sizes->size() < had) {
    return false;
  }
  g->dims = sizes->size();
  const std::size_t more = g->dims - had;
  for (std::size_t i = g->dims; i-- > 0;) {  // backwards: what is read is old
    const bool is_new = i < more;
    const std::int64_t size = is_new ? 1 : g->sizes[i - more];
    const std::int64_t wanted =
        (*sizes)[i] == -1 && !is_new ? size : (*sizes)[i];
    if (wanted < 0 || (wanted != size && size != 1)) return false;
    std::int64_t stride = 0;
    if (!is_new) {
      stride = g->strides[i - more];
    } else if (__builtin_mul_overflow(g->sizes[i + 1], g->strides[i + 1],
                                      &stride)) {
      return false;
    }
    g->sizes[i] = wanted;
    g->strides[i] = wanted == size ? stride : 0;
  }
  return true;
}

bool Unsqueeze(std::int64_t dim, Geometry* g) {
  if (!WrapDim(&dim, g->dims + 1)) return false;
  const auto at = static_cast<std::size_t>(dim);
  const std::int64_t stride = at < g->dims ? g->sizes[at] * g->strides[at] : 1;
  for (std::size_t i = g->dims; i > at; --i) {
    g->sizes[i] = g->sizes[i - 1];
    g->strides[i] = g->strides[i - 1];
  }
  g->sizes[at] = 1;
  g->strides[at] = stride;
  ++g->dims;
  return true;
}

bool ViewAs(std::optional<at::IntArrayRef> sizes, Geometry* g) {
  if (!sizes.has_value() || sizes->size() > kMostDims) return false;
  std::int64_t elements = 1, known = 1;
  for (const std::int64_t size : g->SizesRef()) elements *= size;
  at::DimVector wanted;
  std::size_t open = sizes->size();
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    const std::int64_t size = (*sizes)[i];
    wanted.push_back(size);
    if (size < -1 || (size == -1 && open != sizes->size())) return false;
    if (size == -1) {
      open = i;
    } else if (__builtin_mul_overflow(known, size, &known)) {
      return false;
    }
  }
  if (open != sizes->size()) {
    if (known == 0 || elements % known != 0) return false;
    wanted[open] = elements / known;
  } else if (known != elements) {
    return false;
  }
  const auto strides =
      at::detail::computeStride(g->SizesRef(), g->StridesRef(), wanted);
  if (!strides.has_value()) return false;
  g->dims = wanted.size();
  std::copy(wanted.begin(), wanted.end(), g->sizes.begin());
  std::copy(strides->begin(), strides->end(), g->strides.begin());
  return true;
}

}  // namespace tjit::runtime::view
