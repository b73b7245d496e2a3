#include "runtime/thread/region_report.h"

#include <algorithm>
#include <new>

#include "recorder/region_table.h"
#include "runtime/call/kernel_state.h"

namespace tjit::runtime {
namespace {

constexpr char kExcluded[] = "excluded";

const char* WhyAtCall(const CallFrame& frame, const char* why) {
  switch (frame.entry.op_class.load()) {
    case OpClass::kOpaque:
      return "opaque";
    case OpClass::kSync:
      return "reads values";
    case OpClass::kRandom:
      return "draws random numbers";
    case OpClass::kMetadata:
    case OpClass::kResize:
      return "changes sizes";
    case OpClass::kReader:
      return "reads bytes in its own way";
    case OpClass::kForeign:
      return "not one of libtorch's CPU kernels";
    case OpClass::kPlain:
    case OpClass::kEmpty:
      break;
  }
  return why;
}

}  // namespace

void SplitBody(RegionId region, const std::vector<const TraceNode*>& path,
               ExplainedRegion* explained) {
  explained->sequences = explained->ops_at_call = 0;
  explained->at_call.clear();
  bool is_in_sequence = false;
  for (const TraceNode* node : path) {
    const bool is_deferred = node->step.kind == StepKind::kDeferred;
    if (is_deferred && !is_in_sequence) ++explained->sequences;
    is_in_sequence = is_deferred;
    if (is_deferred) continue;
    ++explained->ops_at_call;
    explained->at_call[std::string(OpName(node->step.op))] =
        RegionTable::Get().WhyAtCall(region, node->step.op);
  }
}

std::vector<const TraceNode*> PathTo(const TraceNode* end) {
  std::vector<const TraceNode*> path;
  for (const TraceNode* n = end; n->parent != nullptr; n = n->parent) {
    path.push_back(n);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::string DescribeRegion(RegionId region,
                           const std::vector<const TraceNode*>& path) {
  ExplainedRegion explained;
  explained.name = RegionTable::Get().NameOf(region);
  SplitBody(region, path, &explained);
  return "Region " + explained.name + ": " + SequencesText(explained);
}

bool IsExcludedByRegion(const CallFrame& frame, std::uint32_t context) {
  const RegionId region = RegionOfContext(context);
  if (region == kNoRegion) return false;
  return RegionTable::Get().SettingsOf(region).Excludes(frame.entry.name);
}

void RecordAtCall(const CallFrame& frame, std::uint32_t context,
                  const char* why) {
  const bool is_excluded = IsExcludedByRegion(frame, context);
  try {
    RegionTable::Get().RecordAtCall(
        RegionOfContext(context), frame.entry.id,
        is_excluded ? kExcluded : WhyAtCall(frame, why));
  } catch (const std::bad_alloc&) {  // it is not said then
  }
}

}  // namespace tjit::runtime
