// Blocks with an address and no memory yet, for deferred values that died
// before they were computed in earlier runs: most are never touched. One that
// must exist after all gets memory where it stands (MapReservedSlot()): when
// pending ops run, or when somebody touches it that nothing announced: the
// access faults, what is pending runs, and the access is made again.
//
//   | unused | Block | data, page-aligned ...
//   | header page, readable | PROT_NONE until MapReservedSlot()
//
// For 64 KiB to 16 MiB: below, a page for each header costs more than it
// saves; above, memory that cannot be had is better said at the call. A slot
// is two mappings (vm.max_map_count allows 65,530), so there are at most 4,096.
//
// A fault that is none of ours goes to the handler that was there before, with
// its mask and on its stack. Where that is the alternate one, what is pending
// runs on a new stack: kernels need more.
//
// Threads: any; the fault handler takes no lock of this file.
// Tested by: tests/runtime/memory/reserved_block_test.cpp
#pragma once

#include <bit>
#include <cstddef>

#include "runtime/memory/size_classes.h"

namespace tjit::runtime {

struct Block;

constexpr std::size_t kMinReservedBytes = 64 << 10;
constexpr std::size_t kMaxReservedBytes = 16 << 20;
static_assert(kMinReservedBytes << (kSlotClasses - 1) == kMaxReservedBytes);

inline bool MayFault(std::size_t bytes) {
  return bytes >= kMinReservedBytes && bytes <= kMaxReservedBytes;
}

// Its size class: 64 KiB << 0 .. 8. REQUIRES: MayFault(bytes).
constexpr unsigned SlotClassOf(std::size_t bytes) {
  return static_cast<unsigned>(std::bit_width((bytes - 1) / kMinReservedBytes));
}

// A slot for `bytes`, its header as the last owner left it; null if there is
// none. REQUIRES: MayFault(bytes).
Block* AcquireReservedSlot(std::size_t bytes);
// Takes a slot back, with or without memory.
void ReleaseReservedSlot(Block* block);
// Maps memory behind the data; false if there is none.
bool MapReservedSlot(Block* block);

// Called by the fault handler on the thread that touched `block`: makes its
// bytes exist. False if it cannot.
using FaultHandler = bool (*)(Block* block);
// REQUIRES: called before the first slot is taken. Once.
void InstallFaultHandler(FaultHandler handler);

}  // namespace tjit::runtime
