#include "runtime/segment/shared_step.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/call/kernel_state.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/report/strict.h"

namespace tjit::runtime {
namespace {

// A prepared step with its tensors, its iterator and the key of its class:
// measured over pointwise ops and products.
constexpr std::size_t kPreparedBytes = 3 << 10;

// Numbers the slots of `step` by first use and writes that into it.
void Renumber(StepRecord* step, std::vector<std::int32_t>* slots) {
  slots->clear();
  const auto renumber = [&](std::int32_t* slot) {
    if (*slot == kNoSlot) return;
    auto it = std::find(slots->begin(), slots->end(), *slot);
    const auto index = static_cast<std::int32_t>(it - slots->begin());
    if (it == slots->end()) slots->push_back(*slot);
    *slot = index;
  };
  for (ArgRecord& arg : step->args) renumber(&arg.slot);
  for (ResultRecord& result : step->results) renumber(&result.slot);
}

class KeyWriter {
 public:
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T> ||
             std::is_same_v<T, const void*> ||
             std::is_same_v<T, TensorGeometry>
  void Add(const T& value) {
    key_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  std::string Finish() { return std::move(key_); }

 private:
  std::string key_;
};

// Everything that preparing looks at.
std::string KeyOf(const StepRecord& step, const CapturedCall& call,
                  const std::vector<std::uint64_t>& bytes) {
  KeyWriter key;
  key.Add(static_cast<const void*>(call.entry));
  key.Add(call.key_set.raw_repr());
  key.Add(step.context);
  key.Add(GlobalContext::Now().word);
  key.Add(step.args.size());
  for (const ArgRecord& arg : step.args) {
    key.Add(arg.slot);
    key.Add(arg.written);
    key.Add(arg.geometry);
  }
  key.Add(step.statics.size());
  for (const std::uint64_t word : step.statics) key.Add(word);
  key.Add(step.scalars.size());
  for (const ScalarRecord& scalar : step.scalars) {
    key.Add(scalar.value.type);
    key.Add(scalar.value.bits[0]);
    key.Add(scalar.value.bits[1]);
    key.Add(scalar.may_vary);
  }
  key.Add(step.results.size());
  for (const ResultRecord& result : step.results) {
    key.Add(result.kind);
    key.Add(result.slot);
    key.Add(result.alias_arg);
    key.Add(result.geometry);
  }
  for (const std::uint64_t size : bytes) key.Add(size);
  return key.Finish();
}

}  // namespace

StepClass::StepClass(StepRecord step, std::shared_ptr<void> call,
                     std::vector<std::uint64_t> bytes)
    : step_(std::move(step)), call_(std::move(call)), bytes_(std::move(bytes)) {
  kept_.Set(sizeof(*this) + kPreparedBytes);
}

void StepClass::Prepare(Counters* counters) {
  try {
    TORCH_CHECK(!Planted(Defect::kThunkFails), "planted");
    // Modes of tests run most segments once.
    Trials trials{TriesAtOnce() || g_settings.HasModes(), false, counters};
    prepared_ = PrepareStep(step_, call(), bytes_, &tensors_, &trials);
    wants_trials_ = trials.are_wanted;
  } catch (const c10::Error&) {
    // Stricter than eager (an out variant that checks overlap): run it as the
    // program would.
    RecordBail(counters, BailReason::kThunkFailed, step_.op);
    prepared_ = PrepareBoxed(step_, call(), bytes_, &tensors_);
  }
}

void StepClass::PrepareWithTrials(Counters* counters) {
  wants_trials_ = false;
  counters->steps_tried.Add();
  try {
    Trials trials{true, false, counters};
    prepared_ = PrepareStep(step_, call(), bytes_, &tensors_, &trials);
    ++times_tried_;
  } catch (const c10::Error&) {  // it goes on as before
    RecordBail(counters, BailReason::kThunkFailed, step_.op);
  } catch (const std::bad_alloc&) {
    RecordBail(counters, BailReason::kThunkFailed, step_.op);
  }
}

PreparedStep& StepClass::boxed() {
  if (boxed_ == nullptr) {
    boxed_ = PrepareBoxed(step_, call(), bytes_, &tensors_);
  }
  return *boxed_;
}

StepClass* StepClasses::For(const TraceNode& node,
                            const std::vector<std::uint64_t>& slot_bytes,
                            std::vector<std::int32_t>* slots,
                            Counters* counters) {
  StepRecord step = node.step;
  Renumber(&step, slots);
  std::vector<std::uint64_t> bytes;
  for (const std::int32_t slot : *slots) bytes.push_back(slot_bytes[slot]);
  const auto& call = *static_cast<const CapturedCall*>(node.payload.get());
  std::string key = KeyOf(step, call, bytes);
  const auto found = classes_.find(key);
  if (found != classes_.end()) return found->second.get();
  auto made = std::make_unique<StepClass>(std::move(step), node.payload,
                                          std::move(bytes));
  made->Prepare(counters);
  return classes_.emplace(std::move(key), std::move(made)).first->second.get();
}

}  // namespace tjit::runtime
