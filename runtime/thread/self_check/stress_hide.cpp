// TJIT_STRESS=hide: what the thread state does instead of recording. Inputs
// are revealed before each wrapped op, results hidden after it, so that every
// reader that is not a wrapped op, a hook or an interposed function faults.
#include "runtime/thread/match.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {

void ThreadState::RevealArguments(const CallFrame& frame) {
  for (const TensorRef& ref : frame.tensors) {
    if (ref.impl == nullptr) continue;
    const c10::StorageImpl* storage = StorageOf(ref.impl);
    Block* block = storage != nullptr ? BlockOf(storage) : nullptr;
    if (block != nullptr) RevealBlock(block);
  }
}

void ThreadState::HideResults(
    const CallFrame& frame,
    const FrameArray<c10::TensorImpl*, 8>& results) {
  bool hidden = false;
  const auto hide = [&](const c10::TensorImpl* impl) {
    if (impl == nullptr || !IsPlain(impl)) return;
    Block* block = BlockOf(StorageOf(impl));
    if (block == nullptr || block->exposed.load(std::memory_order_relaxed)) {
      return;
    }
    hidden |= HideBlock(block, frame.entry.name.c_str());
  };
  if (frame.entry.op_class == OpClass::kMetadata) return;
  for (c10::TensorImpl* impl : results) hide(impl);
  for (const TensorRef& ref : frame.tensors) {
    if (ref.written) hide(ref.impl);
  }
  if (hidden) counters_.ops_hidden.Add();
}

}  // namespace tjit::runtime
