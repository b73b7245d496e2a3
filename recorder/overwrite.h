// Steps that fill memory whatever was in it: copy_, fill_ and zero_ of a whole
// storage, as `clone` makes them.
//
// What such a step fills first of all pending ops is as good as a result of
// it: if the program drops it while it is pending, its memory is free at once,
// and the segment puts the value where it puts its own temporaries, or keeps it
// in the registers of a kernel.
//
// Thread: any. Tested by: tests/recorder/overwrite_test.cpp,
// tests/runtime/memory/dropped_memory_test.cpp
#pragma once

#include <cstdint>

#include "recorder/op_record.h"

namespace tjit {

// True if the step writes every byte of the storage behind `arg`, of `bytes`
// bytes, and reads none of them. REQUIRES: `arg` is one of step.args.
bool OverwritesAll(const StepRecord& step, const ArgRecord& arg,
                   std::uint64_t bytes);

}  // namespace tjit
