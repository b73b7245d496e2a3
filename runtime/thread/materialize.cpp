// Note [Who may wait]. Whoever flushes a state holds its mutex while kernels
// run, and a kernel waits for the threads of its parallel loops. So a thread of
// such a team must never wait for that state:
//   * What the executor hands to kernels are tensors of its own, without blocks
//     (executor_tensors.h). A thread that meets a block of a state that is
//     flushing is therefore none of its team, and may wait for the bytes; that
//     it is inside a parallel region of its own does not matter.
//   * Test modes run the program's own call under the mutex (an open call),
//   over
//     the program's tensors: threads inside a region pass, then.
//   * What flushes all states without need of their bytes (a setter, a thread's
//     first question for the number of threads) passes over those that are
//     flushing, inside a region.
// Nobody waits for a state while he holds the mutex of another, or
// the mutex of Runtime. docs/design/threads.md lists who takes which lock.
//
// The sync points, all of them:
//   wrapped ops that run at the call      PendingQueue::MakeReady
//   end of a trace, mark_step, limits     ThreadState
//   mutable pointers                      MaterializeHook
//   const reads, printing, serialisation  interpose_readers.cpp
//   reads that nothing announces          FaultIn (reserved_block.h)
//   changes of global state               interpose_context.cpp
//   kernels at other keys and namespaces  foreign_kernels.cpp
//   sync(), disable(), clear(), fork, thread exit   Runtime
#include "runtime/thread/materialize.h"

#include <exception>
#include <string>

#include "runtime/call/interpose.h"
#include "runtime/memory/deferred_storage.h"
#include "runtime/memory/read_pointers.h"
#include "runtime/memory/tensor_names.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/thread_context.h"
#include "runtime/report/log.h"
#include "runtime/thread/exposure_notes.h"
#include "runtime/thread/match.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "support/log.h"

namespace tjit::runtime {
namespace {

void FlushReaders(const Block* block, FlushReason reason) {
  if (!block->has_readers()) return;
  if (t_context.state != nullptr) {
    t_context.state->FlushReaders(block, reason);
  } else {
    ThreadRegistry::Get()->FlushAll(reason);
  }
}

// True for what may be a worker of the kernel that `owner` runs under its mutex
// over the program's tensors (Note [Who may wait]).
bool IsWorkerOf(const PendingQueue* owner) {
  return owner->flushing() == PendingQueue::Flushing::kOpenCall &&
         InParallelRegion();
}

void Materialize(const c10::StorageImpl* storage, bool write,
                 FlushReason reason) {
  if (storage == nullptr || !MayHavePending()) return;
  Block* block = BlockOf(storage);
  if (block == nullptr) return;
  if ((block->kind & Block::kPages) != 0) RevealBlock(block);
  if (write) FlushReaders(block, reason);
  PendingQueue* owner = block->owner.load(std::memory_order_acquire);
  if (owner == nullptr || IsWorkerOf(owner)) return;
  const std::uint8_t pending = block->pending.load(std::memory_order_relaxed);
  if ((pending & Block::kPendingWrite) != 0 || (write && pending != 0)) {
    owner->Flush(reason);
  }
}

}  // namespace

bool MayHavePending() noexcept {
  return g_enabled.load(std::memory_order_relaxed) && t_context.inside == 0 &&
         (g_settings.AnyPending() || g_settings.hiding());
}

void MaterializeForRead(c10::StorageImpl* storage, FlushReason reason) {
  Materialize(storage, /*write=*/false, reason);
}
void MaterializeForWrite(c10::StorageImpl* storage, FlushReason reason) {
  Materialize(storage, /*write=*/true, reason);
}
void MaterializeForRead(const c10::TensorImpl* tensor, FlushReason reason) {
  if (tensor != nullptr) Materialize(StorageOf(tensor), false, reason);
}
void MaterializeForWrite(const c10::TensorImpl* tensor, FlushReason reason) {
  if (tensor != nullptr) Materialize(StorageOf(tensor), true, reason);
}

void RecordHostRead() {
  if (t_context.inside == 0) {
    t_context.state->open_function()->Fail(Refusal::kHostRead);
  }
}
void RecordForeignKernel() {
  if (t_context.inside == 0) {
    t_context.state->open_function()->Fail(Refusal::kForeign);
  }
}

void FlushThisThread(FlushReason reason) {
  if (t_context.inside == 0 && t_context.state != nullptr) {
    t_context.state->Flush(reason);
  }
}

void FlushAllThreads(FlushReason reason) {
  // A registry that has never been made has no pending ops.
  if (t_context.inside == 0 && g_settings.AnyPending()) {
    ThreadRegistry::Get()->FlushAll(reason);
  }
}

void FlushAllBeforeChange() {
  if (t_context.inside == 0 && g_settings.AnyPending()) {
    ThreadRegistry::Get()->FlushAllBeforeChange();
  }
}

void MaterializeHook(c10::StorageImpl* storage) {
  if (t_context.inside != 0) return;
  if (t_context.in_function) [[unlikely]] {
    t_context.state->open_function()->TakePointer(storage);
  }
  Block* block = BlockOf(storage);
  if (block == nullptr) return;
  if (InParallelRegion() &&
      block->owner.load(std::memory_order_acquire) == nullptr &&
      !block->has_readers()) {
    return;  // most likely a worker of an eager kernel
  }
  if ((block->kind & Block::kPages) != 0) RevealBlock(block);
  if (PendingQueue* owner = block->owner.load(std::memory_order_acquire)) {
    if (IsWorkerOf(owner)) return;
    owner->Flush(FlushReason::kMutablePointer);
  }
  FlushReaders(block, FlushReason::kMutablePointer);
  const bool exposes = t_context.reader == 0 || !WillBeArmed(storage);
  if (exposes && !block->exposed.exchange(true, std::memory_order_relaxed)) {
    RecordExposure(storage, block->bytes);
    if (LogsTo(LogChannel::kMemory)) {
      PrintExposed(block->bytes, /*by_fault=*/false, TensorNameOf(storage));
    }
  }
  if (t_context.state != nullptr) t_context.state->CountHook(exposes);
}

bool IsExposed(const c10::TensorImpl* tensor) {
  const c10::StorageImpl* const storage =
      tensor == nullptr ? nullptr : StorageOf(tensor);
  const Block* const block = storage == nullptr ? nullptr : BlockOf(storage);
  return block != nullptr && block->exposed.load(std::memory_order_relaxed);
}

void ForgetFill(const at::TensorBase& tensor) {
  if (tensor.use_count() != 1 || tensor.storage().use_count() != 1) return;
  c10::StorageImpl* const storage = StorageOf(tensor.unsafeGetTensorImpl());
  if (t_context.in_function) [[unlikely]] {
    t_context.state->open_function()->LetGoOf(storage);
  }
  Block* const block = BlockOf(storage);
  if (block == nullptr || !block->exposed.exchange(false)) return;
  ArmStorage(storage, block);
  ForgetExposure(storage);
  if (t_context.state != nullptr) t_context.state->UncountExposure();
}

bool FaultIn(Block* block) {
  PendingQueue* owner = block->owner.load(std::memory_order_acquire);
  if (owner != nullptr) {
    // Its own flush has given memory to what it touches.
    if (owner == t_context.state &&
        owner->flushing() != PendingQueue::Flushing::kNo) {
      return false;
    }
    block->exposed.store(true, std::memory_order_relaxed);
    if (LogsTo(LogChannel::kMemory)) PrintExposed(block->bytes, true, "");
    try {
      owner->Flush(FlushReason::kFault);
    } catch (const std::exception& e) {
      LogWarning(std::string("tjit: memory was touched that a pending op had "
                             "yet to fill, and it cannot run: ") +
                 e.what());
      return false;
    }
  }
  return (block->kind & Block::kReserved) == 0;
}

}  // namespace tjit::runtime
