// What a replayed function asks of the tensors that it gives gradients to.
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/call/plain_tensor.h"
#include "runtime/library_calls/recorded_tensors.h"
#include "runtime/thread/functions/function_plan.h"
#include "runtime/thread/functions/function_session.h"

namespace tjit::runtime {
namespace {

// True if code of the program runs where its gradient is accumulated.
bool HasHooks(const at::Tensor& leaf) {
  namespace impl = torch::autograd::impl;
  if (!impl::hooks(leaf).empty() ||
      impl::post_acc_grad_hooks(leaf) != nullptr) {
    return true;
  }
  const auto node = impl::try_get_grad_accumulator(leaf);
  return node != nullptr &&
         !(node->pre_hooks().empty() && node->tensor_pre_hooks().empty() &&
           node->post_hooks().empty());
}

}  // namespace

bool HoldsLeaves(const FunctionPlan& plan,
                 c10::ArrayRef<const at::Tensor*> arguments) {
  if (plan.leaves.empty()) return true;
  if (torch::autograd::AnomalyMode::is_enabled()) return false;
  for (const FunctionLeaf& leaf : plan.leaves) {
    const at::Tensor tensor = Locked(leaf.tensor);
    if (!tensor.defined()) return false;
    const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
    if (!tensor.requires_grad() || !SameGeometry(impl, leaf.geometry) ||
        impl->storage_offset() != leaf.geometry.offset ||
        StorageOf(impl) != leaf.storage._unsafe_get_target()) {
      return false;
    }
    const at::Tensor& gradient = tensor.grad();
    const c10::TensorImpl* const same =
        leaf.argument < 0 ? leaf.same
                          : arguments[static_cast<std::size_t>(leaf.argument)]
                                ->unsafeGetTensorImpl();
    if (gradient.defined() != leaf.had_gradient ||
        (leaf.after == FunctionLeaf::After::kSame &&
         gradient.unsafeGetTensorImpl() != same) ||
        HasHooks(tensor)) {
      return false;
    }
  }
  return true;
}

std::size_t HookCount(const std::vector<at::Tensor>& tensors) {
  namespace impl = torch::autograd::impl;
  std::size_t count = 0;
  for (const at::Tensor& t : tensors) {
    if (!t.defined() || impl::get_autograd_meta(t) == nullptr) continue;
    // All hooks of C++ are one entry, and so are all of Python's.
    count += impl::hooks(t).size();
    const auto& list = impl::get_autograd_meta(t)->cpp_hooks_list_;
    if (list != nullptr) count += list->size();
    if (impl::post_acc_grad_hooks(t) != nullptr) ++count;
    const auto& node = impl::get_autograd_meta(t)->grad_fn_;
    if (node != nullptr) count += node->retains_grad_hooks().size();
  }
  return count;
}

bool HoldsUses(const FunctionGradients& gradients) {
  return std::all_of(
      gradients.uses.begin(), gradients.uses.end(), [](const GradientUse& use) {
        if (!use.leaf) return true;
        const at::Tensor tensor = Locked(*use.leaf);
        return tensor.defined() && tensor.requires_grad() &&
               (use.is_of_all || !HasHooks(tensor));
      });
}

}  // namespace tjit::runtime
