#include "runtime/intercept/direct_calls.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/abs_ops.h>
#include <ATen/ops/acos_ops.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/amax_ops.h>
#include <ATen/ops/amin_ops.h>
#include <ATen/ops/asin_ops.h>
#include <ATen/ops/atan2_ops.h>
#include <ATen/ops/atan_ops.h>
#include <ATen/ops/bitwise_and_ops.h>
#include <ATen/ops/bitwise_not_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/ceil_ops.h>
#include <ATen/ops/clamp_max_ops.h>
#include <ATen/ops/clamp_min_ops.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/cosh_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/erf_ops.h>
#include <ATen/ops/exp2_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/expm1_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/floor_ops.h>
#include <ATen/ops/ge_ops.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/gt_ops.h>
#include <ATen/ops/le_ops.h>
#include <ATen/ops/leaky_relu_ops.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/ops/log10_ops.h>
#include <ATen/ops/log1p_ops.h>
#include <ATen/ops/log2_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/logical_and_ops.h>
#include <ATen/ops/logical_not_ops.h>
#include <ATen/ops/lt_ops.h>
#include <ATen/ops/masked_fill_ops.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mse_loss_backward_ops.h>
#include <ATen/ops/mse_loss_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/roll_ops.h>
#include <ATen/ops/round_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/rsub_ops.h>
#include <ATen/ops/sigmoid_backward_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/sign_ops.h>
#include <ATen/ops/silu_backward_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/sinh_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tan_ops.h>
#include <ATen/ops/tanh_backward_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/threshold_backward_ops.h>
#include <ATen/ops/trunc_ops.h>
#include <ATen/ops/where_ops.h>
#include <ATen/ops/zero_ops.h>
#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/call/interpose.h"
#include "runtime/intercept/direct_views.h"
#include "runtime/intercept/dispatch_bypass.h"
#include "runtime/intercept/kernel_wrap.h"
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/platform/torch_compat.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

using c10::DispatchKey;
using direct::FindWay;
using direct::Way;

// What one op has here. An open one has an entry.
struct DirectOp {
  std::atomic<OpEntry*> entry{nullptr};
  bool has_autograd = false;  // a kernel of its own there; set before the entry
};
template <class Op>
constinit DirectOp g_op;

struct Table {
  Mutex mutex;
  bool is_closed ABSL_GUARDED_BY(mutex) = false;  // for good
  std::atomic<bool> was_opened = false;  // once
  // Ops with other kernels.
  std::set<std::string> with_others ABSL_GUARDED_BY(mutex);
};
Table& TheTable() {
  static auto* table = new Table;
  return *table;
}

template <class Op, class Schema = typename Op::schema>
struct Direct;
template <class Op, class R, class... A>
struct Direct<Op, R(A...)> {
  static constexpr bool kIsInPlace = std::is_same_v<R, at::Tensor&>;

  // next: makes the definition behind ours.
  template <class Next>
  [[gnu::always_inline]] static R Call(const Next& next, A... args) {
    OpEntry* const entry = g_op<Op>.entry.load(std::memory_order_acquire);
    if (entry != nullptr && IsFastActive()) [[likely]] {
      const Way way = FindWay<kIsInPlace>(g_op<Op>.has_autograd, args...);
      if (way.context != 0) [[likely]] {
        if constexpr (kIsInPlace) {
          at::Tensor& self = TypedWrapper<R(A...)>::CallDirectly(
              entry, way.context, way.is_below, std::forward<A>(args)...);
          // As libtorch's kernel at ADInplaceOrView does.
          if (way.is_for_in_place_or_view) {
            self.unsafeGetTensorImpl()->bump_version();
          }
          return self;
        } else {
          return TypedWrapper<R(A...)>::CallDirectly(
              entry, way.context, way.is_below, std::forward<A>(args)...);
        }
      }
    }
    return next()(std::forward<A>(args)...);
  }
};

// with_others: the table's.
template <class Op>
void Open(const std::set<std::string>& with_others) {
  if (g_op<Op>.entry.load(std::memory_order_acquire) != nullptr) return;
  const OpEntry* const entry = FindEntry(NameOf<Op>());
  if (entry == nullptr || !entry->typed || entry->op_class != OpClass::kPlain ||
      with_others.count(entry->name) != 0) {
    return;
  }
  const std::optional<std::size_t> autograd =
      direct::CountAutogradKernels(entry->handle, Direct<Op>::kIsInPlace);
  if (!autograd.has_value() || *autograd > 1) return;
  g_op<Op>.has_autograd = *autograd != 0;
  g_op<Op>.entry.store(const_cast<OpEntry*>(entry), std::memory_order_release);
}

template <class Op>
void CloseIf(std::string_view op) {
  if (op.empty() || op == NameOf<Op>()) {
    g_op<Op>.entry.store(nullptr, std::memory_order_release);
  }
}

template <class Op>
void AddIfClosed(std::vector<std::string>* names) {
  if (g_op<Op>.entry.load(std::memory_order_acquire) == nullptr) {
    names->push_back(NameOf<Op>());
  }
}

void OpenAll(const std::set<std::string>& with_others) {
#define TJIT_DIRECT(result, op, symbol, parameters, arguments) \
  Open<at::_ops::op>(with_others);
#include "runtime/intercept/direct_calls.def"
}

// Kernels at other keys are for other tensors, or for states of the thread that
// keep it from direct calls.
bool IsOnTheWay(DispatchKey key) {
  switch (key) {
    case DispatchKey::CPU:
    case DispatchKey::BackendSelect:
    case DispatchKey::ADInplaceOrView:
    case DispatchKey::AutogradCPU:
    case DispatchKey::Autograd:
    case DispatchKey::CompositeImplicitAutograd:
    case DispatchKey::CompositeExplicitAutograd:
    case DispatchKey::CompositeExplicitAutogradNonFunctional:
      return true;
    default:
      return false;
  }
}

// "": all.
void Close(std::string_view name) {
#define TJIT_DIRECT(result, op, symbol, parameters, arguments) \
  CloseIf<at::_ops::op>(name);
#include "runtime/intercept/direct_calls.def"
  CloseDirectViews(name);
}

}  // namespace

void OpenDirectCalls() {
  Table& table = TheTable();
  const MutexLock lock(table.mutex);
  table.was_opened = true;
  if (table.is_closed || at::hasCallbacks()) return;
  OpenAll(table.with_others);
  OpenDirectViews(table.with_others);
}

void OnKernelRegistered(const c10::OperatorName& op,
                        std::optional<DispatchKey> key) {
  if (key.has_value() && !IsOnTheWay(*key)) return;
  Table& table = TheTable();
  // Before, libtorch registers its own, and Open() looks at what there is; and
  // WrapKernels() registers ours, under a mutex that Open() takes.
  if (!table.was_opened.load()) return;
  const MutexLock lock(table.mutex);
  const std::string name = c10::toString(op);
  table.with_others.insert(name);
  Close(name);
}

void PauseDirectCalls() {
  const MutexLock lock(TheTable().mutex);
  Close("");
}

std::vector<std::string> ClosedDirectCalls() {
  std::vector<std::string> names;
#define TJIT_DIRECT(result, op, symbol, parameters, arguments) \
  AddIfClosed<at::_ops::op>(&names);
#include "runtime/intercept/direct_calls.def"
  AddClosedViews(&names);
  return names;
}

void CloseAllDirectCalls() {
  Table& table = TheTable();
  const MutexLock lock(table.mutex);
  table.is_closed = true;
  Close("");
}

}  // namespace tjit::runtime

using tjit::runtime::Direct;

// Each in the place of the function of the op's struct.
#define TJIT_WITHOUT_PARENTHESES(...) __VA_ARGS__
#define TJIT_DIRECT(result, op, symbol, parameters, arguments)             \
  TJIT_INTERPOSED result symbol parameters {                               \
    return Direct<at::_ops::op>::Call([] { return TJIT_NEXT(symbol); },    \
                                      TJIT_WITHOUT_PARENTHESES arguments); \
  }
#include "runtime/intercept/direct_calls.def"
