#include "runtime/report/own_span.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "recorder/schema_key.h"
#include "recorder/trace_node.h"
#include "runtime/call/shape_tensor.h"

namespace tjit::runtime {
namespace {

constinit thread_local int t_only_own = 0;  // OnlyOwnSpans that live

// "add_" of "aten::add_.Tensor".
std::string_view ShortName(std::string_view name) {
  const std::size_t colons = name.find("::");
  if (colons != std::string_view::npos) name.remove_prefix(colons + 2);
  return name.substr(0, name.find('.'));
}

// One for each slot, as it is first used.
std::vector<c10::IValue> ShapesRead(const std::vector<TraceNode*>& nodes) {
  std::vector<c10::IValue> shapes;
  absl::flat_hash_set<std::int32_t> known;
  for (const TraceNode* node : nodes) {
    for (const ArgRecord& arg : node->step.args) {
      if (arg.slot == kNoSlot || !known.insert(arg.slot).second) continue;
      const TensorGeometry& g = arg.geometry;
      shapes.emplace_back(
          ShapeTensor({g.sizes, static_cast<std::size_t>(g.ndim)},
                      {g.strides, static_cast<std::size_t>(g.ndim)},
                      static_cast<at::ScalarType>(g.dtype)));
    }
    for (const ResultRecord& result : node->step.results) {
      if (result.kind == ResultRecord::Kind::kFresh) known.insert(result.slot);
    }
  }
  return shapes;
}

}  // namespace

std::string OpsText(const std::vector<TraceNode*>& nodes) {
  const auto name_of = [](const TraceNode* node) {
    return ShortName(OpName(node->step.op));
  };
  std::string text = std::to_string(nodes.size());
  text.append(nodes.size() == 1 ? " op " : " ops ")
      .append(name_of(nodes.front()));
  if (nodes.size() > 1) text.append(" ... ").append(name_of(nodes.back()));
  return text;
}

OnlyOwnSpans::OnlyOwnSpans() { ++t_only_own; }
OnlyOwnSpans::~OnlyOwnSpans() { --t_only_own; }

[[gnu::cold]] bool OwnSpan::IsSeen() {
  return t_only_own != 0 || at::hasCallbacks();
}

void OwnSpan::Begin(const std::string& name,
                    const std::vector<TraceNode*>& nodes) {
  const at::RecordFunctionGuard on(/*is_enabled=*/true);
  span_.emplace(at::RecordScope::USER_SCOPE);
  if (!span_->isActive()) return;
  std::vector<c10::IValue> inputs;
  if (span_->needsInputs()) inputs = ShapesRead(nodes);
  span_->before("tjit: " + name,
                c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
}

}  // namespace tjit::runtime
