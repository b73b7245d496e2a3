#include "runtime/call/inner_calls.h"

#include <functional>
#include <string_view>

namespace tjit::runtime {

void InnerCalls::Begin(const at::RecordFunction& call) {
  Call& kept = calls_.emplace_back();
  kept.depth = depth_++;
  if (const std::optional<c10::OperatorName> name = call.operator_name()) {
    kept.op = c10::Dispatcher::singleton().findOp(*name);
  }
  if (!kept.op.has_value()) kept.name = call.name();
}

void InnerCalls::Show() const {
  for (std::size_t at = 0; at < calls_.size();) at = Show(at);
}

// One with what it calls; returns the next of its depth.
std::size_t InnerCalls::Show(std::size_t at) const {
  const Call& call = calls_[at];
  at::RecordFunction span(at::RecordScope::FUNCTION);
  if (call.op.has_value()) {
    span.before(std::cref(call.op->schema()));
  } else {
    span.before(std::string_view(call.name));
  }
  ++at;
  while (at < calls_.size() && calls_[at].depth > call.depth) at = Show(at);
  return at;
}

}  // namespace tjit::runtime
