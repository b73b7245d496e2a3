// The storages whose pointers a tjit::Reading has read.
//
// libtorch clears the hook of a storage when it hands out a pointer. An op on
// the tensor would arm it again, but there may be none before the next pointer.
// So the end of the scope does.
// Thread: each has its own.
// Tested by: tests/runtime/reading_test.cpp
#pragma once

#include <c10/core/StorageImpl.h>

namespace tjit::runtime {

void BeginReading() noexcept;
void EndReading() noexcept;

// The hook of `storage` was called by a reader. False: there is no memory to
// arm it again, so its block counts as exposed.
bool WillBeArmed(c10::StorageImpl* storage) noexcept;

}  // namespace tjit::runtime
