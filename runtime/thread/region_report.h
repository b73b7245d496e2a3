// What became of the named regions (tjit::Region), for tjit::region_stats(),
// tjit::explain() and the [COMPILE] lines.
// Thread: any. Tested by: tests/runtime/thread/region_test.cpp
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recorder/explanation.h"
#include "recorder/region_id.h"
#include "recorder/trace.h"
#include "runtime/call/call_frame.h"

namespace tjit::runtime {

// The steps from the first one to `end`.
std::vector<const TraceNode*> PathTo(const TraceNode* end);

// Sets what ops at the call split the body `path` of a region into.
void SplitBody(RegionId region, const std::vector<const TraceNode*>& path,
               ExplainedRegion* explained);
// "Region solve: 3 traced sequences, 2 ops at the call (aten::tanh: opaque)" of
// a region whose body is `path`.
std::string DescribeRegion(RegionId region,
                           const std::vector<const TraceNode*>& path);

// True if the call, which is recorded in that context, is in a region that
// excludes its op.
bool IsExcludedByRegion(const CallFrame& frame, std::uint32_t context);
// Keeps why the call runs at the call. `why` holds for an op whose class does
// not say it, and lives for ever.
void RecordAtCall(const CallFrame& frame, std::uint32_t context,
                  const char* why);

}  // namespace tjit::runtime
