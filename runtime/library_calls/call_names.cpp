#include "runtime/library_calls/call_names.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/memory/tensor_names.h"
#include "support/printed_name.h"

namespace tjit::runtime {
namespace {

std::vector<NamedTensor> NamesOf(const TraceNode& node) {
  const auto* call = static_cast<const CapturedCall*>(node.payload.get());
  return call == nullptr ? std::vector<NamedTensor>() : NamesOfCall(*call);
}

}  // namespace

std::vector<NamedTensor> NamesOfCall(const CapturedCall& call) {
  if (!HasTensorNames()) return {};
  const MutexLock lock(MutexOfNames());
  return call.names == nullptr ? std::vector<NamedTensor>() : *call.names;
}

void RecordCallName(NamedTensor named, CapturedCall* call) {
  const MutexLock lock(MutexOfNames());
  if (call->names == nullptr) {
    call->names = std::make_shared<std::vector<NamedTensor>>();
  }
  for (NamedTensor& known : *call->names) {
    if (known.is_result != named.is_result || known.index != named.index) {
      continue;
    }
    known.name = std::move(named.name);
    return;
  }
  call->names->push_back(std::move(named));
}

void RecordArgumentNames(const CallFrame& frame, CapturedCall* call) {
  if (!HasTensorNames()) return;
  for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {
    std::string name = TensorNameOf(frame.tensors[i].impl);
    if (name.empty()) continue;
    RecordCallName({/*is_result=*/false, i, std::move(name)}, call);
  }
}

std::string RecordedName(const TraceNode& node, bool is_result,
                         std::size_t index) {
  for (NamedTensor& named : NamesOf(node)) {
    if (named.is_result == is_result && named.index == index) {
      return std::move(named.name);
    }
  }
  return "";
}

std::string RecordedNameText(const char* before, const TraceNode& node,
                             bool is_result, std::size_t index) {
  const std::string name = RecordedName(node, is_result, index);
  return name.empty() ? "" : absl::StrCat(before, PrintedName(name));
}

std::int32_t SlotOf(const StepRecord& step, const NamedTensor& named) {
  if (named.is_result) {
    return named.index < step.results.size() ? step.results[named.index].slot
                                             : kNoSlot;
  }
  return named.index < step.args.size() ? step.args[named.index].slot : kNoSlot;
}

void AddSlotNames(const TraceNode& node, std::vector<std::string>* names) {
  for (NamedTensor& named : NamesOf(node)) {
    const std::int32_t slot = SlotOf(node.step, named);
    if (slot == kNoSlot) continue;
    std::string& name = names->at(static_cast<std::size_t>(slot));
    if (name.empty()) name = std::move(named.name);
  }
}

}  // namespace tjit::runtime
