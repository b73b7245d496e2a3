#include "runtime/call/inner_calls.h"

#include <functional>
#include <string_view>

#include "runtime/call/shape_tensor.h"

namespace tjit::runtime {

void InnerCalls::Begin(const at::RecordFunction& call) {
  Call& kept = calls_.emplace_back();
  kept.depth = depth_++;
  if (const std::optional<c10::OperatorName> name = call.operator_name()) {
    kept.op = c10::Dispatcher::singleton().findOp(*name);
  }
  if (!kept.op.has_value()) kept.name = call.name();
  for (const c10::IValue& input : call.inputs()) {
    kept.inputs.push_back(ShapesOf(input));
  }
}

void InnerCalls::Show() const {
  for (std::size_t at = 0; at < calls_.size();) at = Show(at);
}

// One with what it calls; returns the next of its depth.
std::size_t InnerCalls::Show(std::size_t at) const {
  const Call& call = calls_[at];
  at::RecordFunction span(at::RecordScope::FUNCTION);
  const c10::ArrayRef<const c10::IValue> inputs(
      call.inputs.data(), span.needsInputs() ? call.inputs.size() : 0);
  if (call.op.has_value()) {
    span.before(std::cref(call.op->schema()), inputs);
  } else {
    span.before(std::string_view(call.name), inputs);
  }
  ++at;
  while (at < calls_.size() && calls_[at].depth > call.depth) at = Show(at);
  return at;
}

}  // namespace tjit::runtime
