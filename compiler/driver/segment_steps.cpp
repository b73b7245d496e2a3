#include "compiler/driver/segment_steps.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace tjit {

namespace {

// Measured, f32 [64, 256] on Zen 5, microseconds of the call and of own code:
// tanh 41 and 11, gelu 16 and 6, softmax 9 and 4, hardswish 3 and 1. Others
// that have own code (sigmoid, elu, relu, sums) take as long either way.
constexpr std::string_view kWorthAlone[] = {
    "aten::tanh",          "aten::tanh_",    "aten::gelu",
    "aten::gelu_backward", "aten::_softmax", "aten::hardswish",
    "aten::hardswish_",
};

// Of few elements the call itself takes most of the time: relu of 256 takes 56
// ns on Zen 4, own code 12.
constexpr std::int64_t kFewElements = 2048;
constexpr std::string_view kWorthAloneOfFew[] = {
    "aten::add",           "aten::add_",
    "aten::clamp_min",     "aten::div",
    "aten::leaky_relu",    "aten::mul",
    "aten::relu",          "aten::relu_",
    "aten::sigmoid",       "aten::sigmoid_backward",
    "aten::sub",           "aten::sub_",
    "aten::tanh_backward", "aten::threshold_backward",
};

bool IsWorthAlone(std::string_view op, std::int64_t elements) {
  if (op.find("_foreach_") != std::string_view::npos ||
      op.find("_fused_") != std::string_view::npos) {
    return true;
  }
  const std::string_view name = op.substr(0, op.find('.'));
  const auto has_name = [&](std::string_view other) { return other == name; };
  return std::any_of(std::begin(kWorthAlone), std::end(kWorthAlone),
                     has_name) ||
         (elements <= kFewElements &&
          std::any_of(std::begin(kWorthAloneOfFew), std::end(kWorthAloneOfFew),
                      has_name));
}

}  // namespace

PartitionStep DescribeStep(const SegmentStep& step) {
  PartitionStep p;
  for (const ArgRecord& arg : step.record.args) {
    if (arg.slot == kNoSlot) continue;
    p.reads.push_back(arg.slot);
    if (arg.written) p.writes.push_back(arg.slot);
    p.elements = std::max(p.elements, arg.geometry->numel());
  }
  for (const ResultRecord& result : step.record.results) {
    if (result.kind != ResultRecord::Kind::kFresh) continue;
    p.writes.push_back(result.slot);
    p.elements = std::max(p.elements, result.geometry->numel());
  }
  p.is_worth_alone = IsWorthAlone(step.op, p.elements);
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
