#include "runtime/intercept/backward/saved_hooks.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "runtime/call/interpose.h"
#include "support/mutex.h"

namespace tjit::runtime {

std::atomic<bool> g_any_saved_hooks{false};

namespace {

// Written by threads that pack with hooks, read by those that run backward.
class HookedNodes {
 public:
  static HookedNodes& Get() {
    static auto& nodes = *new HookedNodes;
    return nodes;
  }
  // The node that this thread makes now, and those before it.
  void AddNewest() {
    const MutexLock lock(mutex_);
    last_[at::RecordFunction::currentThreadId()] = at::sequence_number::peek();
    g_any_saved_hooks.store(true, std::memory_order_release);
  }
  void AddAll() {
    const MutexLock lock(mutex_);
    all_ = true;
    g_any_saved_hooks.store(true, std::memory_order_release);
  }
  bool MayHave(const torch::autograd::Node& node) {
    const MutexLock lock(mutex_);
    if (all_) return true;
    const auto found = last_.find(node.thread_id());
    return found != last_.end() && node.sequence_nr() <= found->second;
  }

 private:
  Mutex mutex_;
  bool all_ ABSL_GUARDED_BY(mutex_) = false;
  // Of each thread the number that its next node will get. A node that wraps
  // the one with the hook (CopySlices) has that number, so it counts as well.
  absl::flat_hash_map<std::uint64_t, std::uint64_t> last_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace

bool MayHaveSavedHooks(const torch::autograd::Node& node) {
  return HookedNodes::Get().MayHave(node);
}

}  // namespace tjit::runtime

using SavedHooks = std::unique_ptr<torch::autograd::SavedVariableHooks>;

TJIT_INTERPOSED void
_ZN5torch8autograd13SavedVariable23set_hooks_and_pack_dataEOSt10unique_ptrINS0_18SavedVariableHooksESt14default_deleteIS3_EERKN2at6TensorE(
    torch::autograd::SavedVariable* self, SavedHooks&& hooks,
    const at::Tensor& data) {
  if (hooks != nullptr) tjit::runtime::HookedNodes::Get().AddNewest();
  TJIT_NEXT(
      _ZN5torch8autograd13SavedVariable23set_hooks_and_pack_dataEOSt10unique_ptrINS0_18SavedVariableHooksESt14default_deleteIS3_EERKN2at6TensorE)
  (self, std::move(hooks), data);
}

TJIT_INTERPOSED void
_ZN5torch8autograd13SavedVariable14register_hooksEOSt10unique_ptrINS0_18SavedVariableHooksESt14default_deleteIS3_EE(
    torch::autograd::SavedVariable* self, SavedHooks&& hooks) {
  tjit::runtime::HookedNodes::Get().AddAll();
  TJIT_NEXT(
      _ZN5torch8autograd13SavedVariable14register_hooksEOSt10unique_ptrINS0_18SavedVariableHooksESt14default_deleteIS3_EE)
  (self, std::move(hooks));
}
