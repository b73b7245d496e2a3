#include "compiler/driver/segment_steps.h"

#include <algorithm>
#include <string_view>

namespace tjit {

PartitionStep DescribeStep(const SegmentStep& step) {
  PartitionStep p;
  p.is_list = step.op.find("_foreach_") != std::string_view::npos ||
              step.op.find("_fused_") != std::string_view::npos;
  for (const ArgRecord& arg : step.record.args) {
    if (arg.slot == kNoSlot) continue;
    p.reads.push_back(arg.slot);
    if (arg.written) p.writes.push_back(arg.slot);
    p.elements = std::max(p.elements, arg.geometry.numel());
  }
  for (const ResultRecord& result : step.record.results) {
    if (result.kind != ResultRecord::Kind::kFresh) continue;
    p.writes.push_back(result.slot);
    p.elements = std::max(p.elements, result.geometry.numel());
  }
  return p;
}

std::vector<std::int32_t> SlotsOf(const PartitionStep& step) {
  std::vector<std::int32_t> slots = step.reads;
  slots.insert(slots.end(), step.writes.begin(), step.writes.end());
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

std::vector<std::vector<std::uint32_t>> ByContext(
    const SegmentInput& input, const std::vector<std::uint32_t>& steps) {
  std::vector<std::vector<std::uint32_t>> parts;
  for (const std::uint32_t s : steps) {
    const std::uint32_t context = input.steps[s].record.context;
    if (parts.empty() ||
        input.steps[parts.back()[0]].record.context != context) {
      parts.emplace_back();
    }
    parts.back().push_back(s);
  }
  return parts;
}

}  // namespace tjit
