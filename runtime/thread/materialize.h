// The single place that forces values; the .cpp lists every sync point.
//
// All functions may be called on any thread, and do nothing while a kernel
// runs on this thread (its inputs are complete then).
// Tested by: tests/runtime/intercept/interpose_test.cpp,
// tests/acceptance/pending_reads.py
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "runtime/memory/block.h"
#include "support/bail.h"

namespace tjit::runtime {

// False where a hook or an interposed function has nothing to do: tjit is
// off, nothing is pending anywhere, or this thread is inside a kernel. Cheap.
bool MayHavePending() noexcept;

// Runs what must run before the bytes of `storage` are read / written.
void MaterializeForRead(c10::StorageImpl* storage, FlushReason reason);
void MaterializeForWrite(c10::StorageImpl* storage, FlushReason reason);
// The same for a tensor; null, undefined and storage-less ones are skipped.
void MaterializeForRead(const c10::TensorImpl* tensor, FlushReason reason);
void MaterializeForWrite(const c10::TensorImpl* tensor, FlushReason reason);

// For a function of tjit::jit() that runs on this thread: it reads a value on
// the host, or runs a kernel that is no wrapped op. REQUIRES:
// t_context.in_function.
void RecordHostRead();
void RecordForeignKernel();

// False for null, and where there is no block.
bool IsExposed(const c10::TensorImpl* tensor);
// Who has made `tensor`, which has a storage, lets go of the pointer that it
// was filled through. Does nothing where somebody else has it.
void ForgetFill(const at::TensorBase& tensor);

// Runs the pending ops of this thread / of all threads.
void FlushThisThread(FlushReason reason);
void FlushAllThreads(FlushReason reason);
// The same before state of the process is changed that kernels read. Inside a
// parallel region it waits for no segment that runs just now: this thread may
// be one that the segment's kernel waits for, and what the segment was recorded
// under is in force for it (GlobalContext).
void FlushAllBeforeChange();

// Somebody touched a block that has no memory yet, and nothing announced it:
// runs what is to fill it and marks it as exposed. False if it has none then.
bool FaultIn(Block* block);

}  // namespace tjit::runtime
