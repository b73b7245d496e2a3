#include "runtime/intercept/direct_views.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/expand_ops.h>
#include <ATen/ops/permute_ops.h>
#include <ATen/ops/select_ops.h>
#include <ATen/ops/slice_ops.h>
#include <ATen/ops/t_ops.h>
#include <ATen/ops/transpose_ops.h>
#include <ATen/ops/unsqueeze_ops.h>
#include <ATen/ops/view_ops.h>
#include <c10/core/SymIntArrayRef.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>

#include <atomic>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/call/interpose.h"
#include "runtime/intercept/dispatch_bypass.h"
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/view_geometry.h"
#include "runtime/platform/torch_compat.h"

namespace tjit::runtime {
namespace {

using c10::DispatchKey;
using direct::FindWay;
using direct::Way;

constinit thread_local std::uint64_t t_made
    __attribute__((tls_model("initial-exec"))) = 0;

template <class Op>
constinit std::atomic<bool> g_is_open{false};

// As libtorch asks of as_strided. REQUIRES: IsOrdinary(g).
bool FitsStorage(const view::Geometry& g, const at::Tensor& self) {
  std::int64_t last = g.offset;
  for (std::size_t i = 0; i < g.dims; ++i) {
    if (g.sizes[i] == 0) return true;
    last += (g.sizes[i] - 1) * g.strides[i];
  }
  const std::optional<std::int64_t> bytes =
      self.storage().sym_nbytes().maybe_as_int();
  return bytes.has_value() &&
         last < *bytes / static_cast<std::int64_t>(self.itemsize());
}

bool IsUsual(const c10::TensorImpl& impl) {
  return !impl.has_symbolic_sizes_strides() &&
         static_cast<std::size_t>(impl.dim()) <= view::kMostDims;
}

at::Tensor MakeView(const at::Tensor& self, const view::Geometry& g,
                    const Way& way) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(),
      self.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(g.SizesRef(),
                                                    g.StridesRef(), g.offset);
  ++t_made;
  if (!way.is_for_in_place_or_view) return made;
  using torch::autograd::CreationMeta;
  const c10::AutogradState& state = *t_direct_context.autograd;
  return torch::autograd::as_view(
      self, made, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/true,
      /*view_func=*/nullptr, /*rev_view_func=*/nullptr,
      state.get_inference_mode() ? CreationMeta::INFERENCE_MODE
      : state.get_grad_mode()    ? CreationMeta::DEFAULT
                                 : CreationMeta::NO_GRAD_MODE);
}

// set: makes self's geometry that of the view, or returns false.
template <class Op, class Set>
[[gnu::always_inline]] inline bool TryView(const at::Tensor& self,
                                           const Set& set, at::Tensor* view) {
  if (!g_is_open<Op>.load(std::memory_order_acquire) || !IsFastActive()) {
    return false;
  }
  const Way way = FindWay</*kIsInPlaceOrView=*/true>(true, self);
  if (way.context == 0 || !IsUsual(*self.unsafeGetTensorImpl())) return false;
  view::Geometry g(self);
  if (!IsOrdinary(g) || !set(&g) || !IsOrdinary(g) || !FitsStorage(g, self)) {
    return false;
  }
  *view = MakeView(self, g, way);
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

constexpr std::string_view kTranspose = "aten::transpose.int";
constexpr std::string_view kStrided = "aten::as_strided";

// libtorch dispatches to the op for the view.
bool IsMadeOf(std::string_view view, std::string_view op) {
  return op == view || (op == kTranspose && view == "aten::t") ||
         (op == kStrided && view != "aten::view");
}

// libtorch's own kernels alone: one for autograd, one that notes the view.
bool HasUsualKernels(std::string_view name) {
  const std::size_t dot = name.find('.');
  const auto op = c10::Dispatcher::singleton().findSchema(
      {std::string(name.substr(0, dot)),
       std::string(dot == name.npos ? "" : name.substr(dot + 1))});
  if (!op.has_value()) return false;
  std::size_t kernels = 0;
  for (const DispatchKey key :
       {DispatchKey::CPU, DispatchKey::CompositeExplicitAutograd,
        DispatchKey::CompositeExplicitAutogradNonFunctional}) {
    kernels += compat::KernelCount(*op, key);
  }
  return kernels == 1 &&
         direct::CountAutogradKernels(*op, /*is_in_place_or_view=*/true) == 1;
}

template <class Op>
void Open(const std::set<std::string>& closed) {
  const std::string view = NameOf<Op>();
  bool is_usual = true;
  for (const std::string_view op :
       {std::string_view(view), kTranspose, kStrided}) {
    if (IsMadeOf(view, op)) is_usual &= HasUsualKernels(op);
  }
  for (const std::string& op : closed) is_usual &= !IsMadeOf(view, op);
  g_is_open<Op>.store(is_usual, std::memory_order_release);
}

template <class Op>
void CloseIf(std::string_view name) {
  if (name.empty() || IsMadeOf(NameOf<Op>(), name)) {
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
  see.template operator()<at::_ops::expand>();
  see.template operator()<at::_ops::permute>();
  see.template operator()<at::_ops::select_int>();
  see.template operator()<at::_ops::slice_Tensor>();
  see.template operator()<at::_ops::t>();
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

using tjit::runtime::TryView;
using tjit::runtime::view::Geometry;

TJIT_INTERPOSED at::Tensor
_ZN2at4_ops10select_int4callERKNS_6TensorElN3c106SymIntE(const at::Tensor& self,
                                                         std::int64_t dim,
                                                         c10::SymInt index) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::view::Select(dim, tjit::runtime::Number(index), g);
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
    return tjit::runtime::view::Slice(
        dim, tjit::runtime::Number(start, 0),
        tjit::runtime::Number(end, std::numeric_limits<std::int64_t>::max()),
        tjit::runtime::Number(step), g);
  };
  if (TryView<at::_ops::slice_Tensor>(self, set, &view)) return view;
  return TJIT_NEXT(
      _ZN2at4_ops12slice_Tensor4callERKNS_6TensorElSt8optionalIN3c106SymIntEES8_S7_)(
      self, dim, std::move(start), std::move(end), std::move(step));
}

TJIT_INTERPOSED at::Tensor
_ZN2at4_ops6expand4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEEb(
    const at::Tensor& self, c10::SymIntArrayRef sizes, bool implicit) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::view::Expand(c10::asIntArrayRefSlowOpt(sizes), g);
  };
  if (TryView<at::_ops::expand>(self, set, &view)) return view;
  return TJIT_NEXT(
      _ZN2at4_ops6expand4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEEb)(
      self, sizes, implicit);
}

TJIT_INTERPOSED at::Tensor
_ZN2at4_ops7permute4callERKNS_6TensorEN3c108ArrayRefIlEE(const at::Tensor& self,
                                                         at::IntArrayRef dims) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::view::Permute(dims, g);
  };
  if (TryView<at::_ops::permute>(self, set, &view)) return view;
  return TJIT_NEXT(_ZN2at4_ops7permute4callERKNS_6TensorEN3c108ArrayRefIlEE)(
      self, dims);
}

TJIT_INTERPOSED at::Tensor _ZN2at4_ops1t4callERKNS_6TensorE(
    const at::Tensor& self) {
  at::Tensor view;
  if (TryView<at::_ops::t>(self, &tjit::runtime::view::TransposeMatrix,
                           &view)) {
    return view;
  }
  return TJIT_NEXT(_ZN2at4_ops1t4callERKNS_6TensorE)(self);
}

TJIT_INTERPOSED at::Tensor _ZN2at4_ops13transpose_int4callERKNS_6TensorEll(
    const at::Tensor& self, std::int64_t a, std::int64_t b) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::view::Transpose(a, b, g);
  };
  if (TryView<at::_ops::transpose_int>(self, set, &view)) return view;
  return TJIT_NEXT(_ZN2at4_ops13transpose_int4callERKNS_6TensorEll)(self, a, b);
}

TJIT_INTERPOSED at::Tensor _ZN2at4_ops9unsqueeze4callERKNS_6TensorEl(
    const at::Tensor& self, std::int64_t dim) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::view::Unsqueeze(dim, g);
  };
  if (TryView<at::_ops::unsqueeze>(self, set, &view)) return view;
  return TJIT_NEXT(_ZN2at4_ops9unsqueeze4callERKNS_6TensorEl)(self, dim);
}

TJIT_INTERPOSED at::Tensor
_ZN2at4_ops4view4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEE(
    const at::Tensor& self, c10::SymIntArrayRef sizes) {
  at::Tensor view;
  const auto set = [&](Geometry* g) {
    return tjit::runtime::view::ViewAs(c10::asIntArrayRefSlowOpt(sizes), g);
  };
  if (TryView<at::_ops::view>(self, set, &view)) return view;
  return TJIT_NEXT(
      _ZN2at4_ops4view4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEE)(self,
                                                                        sizes);
}
