// Compares a call with a recorded step, and binds storages to slots.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "recorder/trace.h"
#include "runtime/call/call_frame.h"
#include "runtime/call/trace_run.h"
#include "runtime/memory/object_pool.h"
#include "support/bail.h"
#include "support/policy.h"

namespace tjit::runtime {

// The geometry of a plain tensor. REQUIRES: IsPlain(impl).
TensorGeometry GeometryOf(const c10::TensorImpl* impl);

// Keys a plain tensor may have; anything else has a meaning of its own.
extern const std::uint64_t kPlainKeys;

// Plain dense CPU tensors only: strided, no subclass, no functorch, sparse,
// quantized, meta, symbolic sizes, at most kMaxDims dims.
inline bool IsPlain(const c10::TensorImpl* impl) {
  return (impl->key_set().raw_repr() & ~kPlainKeys) == 0 &&
         HasPlainVtable(impl) && impl->unsafe_storage() &&
         !impl->has_symbolic_sizes_strides() &&
         impl->sizes().size() <= kMaxDims;
}

// True if `impl` has this geometry, wherever in its storage it begins.
inline bool SameGeometry(const c10::TensorImpl* impl,
                         const TensorGeometry& g) {
  if (impl->key_set().raw_repr() != g.key_set || !HasPlainVtable(impl)) {
    return false;
  }
  const c10::IntArrayRef sizes = impl->sizes();
  if (sizes.size() != g.ndim ||
      static_cast<std::uint8_t>(c10::typeMetaToScalarType(impl->dtype())) !=
          g.dtype ||
      impl->is_wrapped_number() != g.wrapped_number) {
    return false;
  }
  const std::int64_t* size = sizes.data();
  const std::int64_t* stride = impl->strides().data();
  for (int d = 0; d < g.ndim; ++d) {
    if (size[d] != g.sizes[d] || stride[d] != g.strides[d]) return false;
  }
  return true;
}

inline c10::StorageImpl* StorageOf(const c10::TensorImpl* impl) {
  if (HasPlainVtable(impl)) {
    return impl->unsafe_storage().unsafeGetStorageImpl();
  }
  return impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl()
                             : nullptr;
}

// See SlotBinding::shift.
inline std::int64_t ShiftOf(const c10::TensorImpl* impl,
                            const TensorGeometry& g) {
  return (impl->storage_offset() - g.offset) *
         static_cast<std::int64_t>(g.itemsize);
}

// True if scalar `i` of the call may stand where another value was recorded.
bool MayBecome(const CallFrame& frame, std::uint32_t i,
               const ScalarRecord& recorded);

// Everything of a step but which storages it uses: op, context, statics,
// scalars, geometry. No side effects.
bool MatchShape(const CallFrame& frame, std::uint32_t context,
                const StepRecord& step, BailReason* why);

// The step shape (recorder/step_shape.h) of a call.
std::uint64_t ShapeOf(const CallFrame& frame, std::uint32_t context);

// How the storage behind an argument may be used by a pending op.
enum class Access : std::uint8_t {
  kBlock,  // a block of ours
  kCopy,   // small exposed or foreign memory, only read: copied at the call
  kNo,     // must run at the call
};
Access AccessOf(c10::StorageImpl* storage, bool written, Block** block);
inline constexpr std::uint64_t kMaxCopiedBytes = policy::kMaxCopiedBytes;

// Binds the storages of all arguments to the slots of the step, in order, and
// checks those that are bound already. On a mismatch everything bound here is
// taken back. `step.args` and `frame.tensors` have the same length.
bool BindSlots(const CallFrame& frame, const TraceNode& node, Run* run,
               BailReason* why);

// The slot `storage` is bound to in this run, or -1.
std::int32_t BoundSlot(const Run& run, const c10::StorageImpl* storage,
                       const Block* block);

// Takes the bindings from `count` on back (blocks keep a stale binding, which
// BoundSlot() recognises).
void UnbindFrom(Run* run, std::size_t count);

// Makes a private copy of small memory.
SlotBinding CopyBinding(const c10::StorageImpl* storage);

}  // namespace tjit::runtime
