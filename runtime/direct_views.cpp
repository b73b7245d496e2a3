#include "runtime/direct_views.h"

#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/select_ops.h>
#include <ATen/ops/slice_ops.h>
#include <ATen/ops/transpose_ops.h>
#include <ATen/ops/unsqueeze_ops.h>
#include <ATen/ops/view_ops.h>
#include <c10/core/SymIntArrayRef.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/direct_way.h"
#include "runtime/interpose.h"
#include "runtime/torch_compat.h"
#include "runtime/typed_wrapper.h"

namespace tjit::runtime {
namespace {

using c10::DispatchKey;
using direct::FindWay;
using direct::Way;

constexpr std::size_t kMostDims = 8;

constinit thread_local std::uint64_t t_made
    __attribute__((tls_model("initial-exec"))) = 0;

template <class Op>
constinit std::atomic<bool> g_is_open{false};

// Where a view's elements lie.
struct Geometry {
  at::DimVector sizes, strides;  // in elements
  std::int64_t offset = 0;       // in elements, in the storage

  explicit Geometry(const at::Tensor& t)
      : sizes(t.sizes()), strides(t.strides()), offset(t.storage_offset()) {}
};

// As libtorch asks of as_strided.
bool FitsStorage(const Geometry& g, const at::Tensor& self) {
  std::int64_t last = g.offset;
  for (std::size_t i = 0; i < g.sizes.size(); ++i) {
    if (g.sizes[i] == 0) return true;
    last += (g.sizes[i] - 1) * g.strides[i];
  }
  const auto bytes = (static_cast<std::size_t>(last) + 1) * self.itemsize();
  return bytes <= self.storage().nbytes();
}

bool IsUsual(const c10::TensorImpl& impl) {
  return !impl.has_symbolic_sizes_strides() &&
         static_cast<std::size_t>(impl.dim()) <= kMostDims;
}

// Negative ones count from the end. False: there is no such dim.
bool WrapDim(std::int64_t* dim, std::size_t dims) {
  const auto n = static_cast<std::int64_t>(dims);
  if (*dim < 0) *dim += n;
  return 0 <= *dim && *dim < n;
}

at::Tensor MakeView(const at::Tensor& self, const Geometry& g, const Way& way) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(),
      self.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(g.sizes, g.strides,
                                                    g.offset);
  ++t_made;
  if (!way.is_for_in_place_or_view) return view;
  using torch::autograd::CreationMeta;
  const c10::AutogradState& state = *t_direct_view.autograd;
  return torch::autograd::as_view(
      self, view, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/true,
      /*view_func=*/nullptr, /*rev_view_func=*/nullptr,
      state.get_inference_mode() ? CreationMeta::INFERENCE_MODE
      : state.get_grad_mode()    ? CreationMeta::DEFAULT
                                 : CreationMeta::NO_GRAD_MODE);
}

// set: makes self's geometry that of the view, or returns false.
template <class Op, class Set>
[[gnu::always_inline]] inline bool TryView(const at::Tensor& self,
                                           const Set& set, at::Tensor* view) {
  if (!g_is_open<Op>.load(std::memory_order_acquire) || !IsUsuallyActive()) {
    return false;
  }
  const Way way = FindWay</*kIsInPlaceOrView=*/true>(true, self);
  if (way.context == 0 || !IsUsual(*self.unsafeGetTensorImpl())) return false;
  Geometry g(self);
  if (!set(&g) || !FitsStorage(g, self)) return false;
  *view = MakeView(self, g, way);
  return true;
}

bool Select(std::int64_t dim, std::optional<std::int64_t> index, Geometry* g) {
  if (!index.has_value() || !WrapDim(&dim, g->sizes.size())) return false;
  const std::int64_t size = g->sizes[dim];
  if (*index >= size || *index < -size) return false;
  g->offset += (*index < 0 ? *index + size : *index) * g->strides[dim];
  g->sizes.erase(g->sizes.begin() + dim);
  g->strides.erase(g->strides.begin() + dim);
  return true;
}

bool Slice(std::int64_t dim, std::optional<std::int64_t> start,
           std::optional<std::int64_t> end, std::optional<std::int64_t> step,
           Geometry* g) {
  if (!start.has_value() || !end.has_value() || !step.has_value() ||
      *step <= 0 || !WrapDim(&dim, g->sizes.size())) {
    return false;
  }
  const std::int64_t size = g->sizes[dim];
  const auto within = [size](std::int64_t at, std::int64_t least) {
    return std::clamp(at < 0 ? at + size : at, least, size);
  };
  const std::int64_t from = within(*start, 0);
  const std::int64_t to = within(*end, from);
  if (*step > size + 1) return false;
  g->offset += from * g->strides[dim];
  g->sizes[dim] = (to - from + *step - 1) / *step;
  g->strides[dim] *= *step;
  return true;
}

bool Transpose(std::int64_t a, std::int64_t b, Geometry* g) {
  const std::size_t dims = g->sizes.size();
  if (!WrapDim(&a, dims) || !WrapDim(&b, dims) || a == b) return false;
  std::swap(g->sizes[a], g->sizes[b]);
  std::swap(g->strides[a], g->strides[b]);
  return true;
}

bool Unsqueeze(std::int64_t dim, Geometry* g) {
  const std::size_t dims = g->sizes.size();
  if (!WrapDim(&dim, dims + 1)) return false;
  const std::int64_t stride = static_cast<std::size_t>(dim) < dims
                                  ? g->sizes[dim] * g->strides[dim]
                                  : 1;
  g->sizes.insert(g->sizes.begin() + dim, 1);
  g->strides.insert(g->strides.begin() + dim, stride);
  return true;
}

// sizes: one may be -1, what is left of the elements.
bool ViewAs(std::optional<at::IntArrayRef> sizes, Geometry* g) {
  if (!sizes.has_value() || sizes->size() > kMostDims) return false;
  std::int64_t elements = 1, known = 1;
  for (const std::int64_t size : g->sizes) elements *= size;
  at::DimVector wanted(*sizes);
  std::int64_t* open = nullptr;
  for (std::int64_t& size : wanted) {
    if (size < -1 || (size == -1 && open != nullptr)) return false;
    if (size == -1) {
      open = &size;
    } else if (__builtin_mul_overflow(known, size, &known)) {
      return false;
    }
  }
  if (open != nullptr) {
    if (known == 0 || elements % known != 0) return false;
    *open = elements / known;
  } else if (known != elements) {
    return false;
  }
  const auto strides = at::detail::computeStride(g->sizes, g->strides, wanted);
  if (!strides.has_value()) return false;
  g->sizes = std::move(wanted);
  g->strides = *strides;
  return true;
}

// The number, or nothing if it is symbolic; `otherwise` where there is none.
std::optional<std::int64_t> Number(const c10::SymInt& s) {
  return s.maybe_as_int();
}
std::optional<std::int64_t> Number(const std::optional<c10::SymInt>& s,
                                   std::int64_t otherwise) {
  return s.has_value() ? s->maybe_as_int() : otherwise;
}

// libtorch's own kernels alone: one for autograd, one that notes the view.
bool HasUsualKernels(const c10::OperatorHandle& op) {
  const auto count = [&op](DispatchKey key) {
    return compat::KernelCount(op, key);
  };
  return count(DispatchKey::Autograd) == 1 &&
         count(DispatchKey::ADInplaceOrView) == 1 &&
         count(DispatchKey::AutogradCPU) == 0 &&
         count(DispatchKey::BackendSelect) == 0 &&
         count(DispatchKey::CPU) +
                 count(DispatchKey::CompositeExplicitAutograd) ==
             1;
}

template <class Op>
void Open(const std::set<std::string>& closed) {
  if (closed.count(NameOf<Op>()) != 0) return;
  const auto op =
      c10::Dispatcher::singleton().findSchema({Op::name, Op::overload_name});
  g_is_open<Op>.store(op.has_value() && HasUsualKernels(*op),
                      std::memory_order_release);
}

template <class Op>
void CloseIf(std::string_view name) {
  if (name.empty() || name == NameOf<Op>()) {
    g_is_open<Op>.store(false, std::memory_order_release);
  }
}

template <class Op>
void AddIfClosed(std::vector<std::string>* names) {
  if (!g_is_open<Op>.load(std::memory_order_acquire)) {
    names->push_back(NameOf<Op>());
  }
}

template <class See>
void ForViews(const See& see) {
  see.template operator()<at::_ops::select_int>();
  see.template operator()<at::_ops::slice_Tensor>();
  see.template operator()<at::_ops::transpose_int>();
  see.template operator()<at::_ops::unsqueeze>();
  see.template operator()<at::_ops::view>();
}

}  // namespace

void OpenDirectViews(const std::set<std::string>& closed) {
  ForViews([&closed]<class Op>() { Open<Op>(closed); });
}

void CloseDirectViews(std::string_view name) {
  ForViews([name]<class Op>() { CloseIf<Op>(name); });
}

void AddClosedViews(std::vector<std::string>* names) {
  ForViews([names]<class Op>() { AddIfClosed<Op>(names); });
}

std::uint64_t DirectViewsMade() { return t_made; }

}  // namespace tjit::runtime

using tjit::runtime::Geometry;
using tjit::runtime::TryView;

TJIT_INTERPOSED at::Tensor
_ZN2at4_ops10select_int4callERKNS_6TensorElN3c106SymIntE(const at::Tensor& self,
                                                         std::int64_t dim,
                                                         c10::SymInt index) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::Select(dim, tjit::runtime::Number(index), g);
  };
  if (TryView<at::_ops::select_int>(self, set, &view)) return view;
  return TJIT_NEXT(_ZN2at4_ops10select_int4callERKNS_6TensorElN3c106SymIntE)(
      self, dim, std::move(index));
}

TJIT_INTERPOSED at::Tensor
_ZN2at4_ops12slice_Tensor4callERKNS_6TensorElSt8optionalIN3c106SymIntEES8_S7_(
    const at::Tensor& self, std::int64_t dim, std::optional<c10::SymInt> start,
    std::optional<c10::SymInt> end, c10::SymInt step) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::Slice(
        dim, tjit::runtime::Number(start, 0),
        tjit::runtime::Number(end, std::numeric_limits<std::int64_t>::max()),
        tjit::runtime::Number(step), g);
  };
  if (TryView<at::_ops::slice_Tensor>(self, set, &view)) return view;
  return TJIT_NEXT(
      _ZN2at4_ops12slice_Tensor4callERKNS_6TensorElSt8optionalIN3c106SymIntEES8_S7_)(
      self, dim, std::move(start), std::move(end), std::move(step));
}

TJIT_INTERPOSED at::Tensor _ZN2at4_ops13transpose_int4callERKNS_6TensorEll(
    const at::Tensor& self, std::int64_t a, std::int64_t b) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::Transpose(a, b, g);
  };
  if (TryView<at::_ops::transpose_int>(self, set, &view)) return view;
  return TJIT_NEXT(_ZN2at4_ops13transpose_int4callERKNS_6TensorEll)(self, a, b);
}

TJIT_INTERPOSED at::Tensor _ZN2at4_ops9unsqueeze4callERKNS_6TensorEl(
    const at::Tensor& self, std::int64_t dim) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::Unsqueeze(dim, g);
  };
  if (TryView<at::_ops::unsqueeze>(self, set, &view)) return view;
  return TJIT_NEXT(_ZN2at4_ops9unsqueeze4callERKNS_6TensorEl)(self, dim);
}

TJIT_INTERPOSED at::Tensor
_ZN2at4_ops4view4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEE(
    const at::Tensor& self, c10::SymIntArrayRef sizes) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::ViewAs(c10::asIntArrayRefSlowOpt(sizes), g);
  };
  if (TryView<at::_ops::view>(self, set, &view)) return view;
  return TJIT_NEXT(
      _ZN2at4_ops4view4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEE)(self,
                                                                        sizes);
}
