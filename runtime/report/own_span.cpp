#include "runtime/report/own_span.h"

#include <string_view>

#include "recorder/schema_key.h"
#include "recorder/trace_node.h"

namespace tjit::runtime {
namespace {

constinit thread_local int t_only_own = 0;  // OnlyOwnSpans that live

// "add_" of "aten::add_.Tensor".
std::string_view ShortName(std::string_view name) {
  const std::size_t colons = name.find("::");
  if (colons != std::string_view::npos) name.remove_prefix(colons + 2);
  return name.substr(0, name.find('.'));
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

void OwnSpan::Begin(const std::string& name) {
  const at::RecordFunctionGuard on(/*is_enabled=*/true);
  span_.emplace(at::RecordScope::USER_SCOPE);
  if (span_->isActive()) span_->before("tjit: " + name);
}

}  // namespace tjit::runtime
