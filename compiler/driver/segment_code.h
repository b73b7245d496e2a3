// From the steps of a segment to groups with a kernel each: what the worker of
// tier 2 does for one job.
//
//   steps -> Partition -> per group: Lower -> passes -> Engine::Compile
//
// An engine over steps (step_engine.h) gets the group as it was recorded.
//
// Equal groups, and equal functions, share a kernel (kernel_cache.h). A group
// without a kernel stays library calls, in its place.
//
// Invariant: running `order` has the effect of the steps in their order.
// Thread: a KernelCache belongs to one thread at a time; input and result are
// plain data.
// Tested by: tests/compiler/driver/segment_code_test.cpp
#pragma once

#include <atomic>

#include "compiler/driver/kernel.h"
#include "compiler/driver/kernel_cache.h"
#include "compiler/driver/segment.h"

namespace tjit {

class SegmentDump;  // segment_dump.h

// `dump`: gets what is made on the way, if there is one.
SegmentCode CompileSegment(const SegmentInput& input, Engine* engine,
                           KernelCache* cache, const CompileLimits& limits,
                           SegmentDump* dump = nullptr);

// Does ahead what CompileSegment() will need, but for the code: asks whether
// each step alone can be lowered and the engine has its functions, which takes
// long the first time, lowers the groups and runs the passes. False if `stop`
// was set meanwhile; *cache keeps what was done.
bool PrecompileSegment(const SegmentInput& input, Engine* engine,
                       KernelCache* cache, const std::atomic<bool>& stop);

}  // namespace tjit
