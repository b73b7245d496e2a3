#include "runtime/segment/shared_step.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "runtime/call/kernel_state.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/report/strict.h"

namespace tjit::runtime {
namespace {

// A prepared step with its tensors and its iterator, about. Measured over
// pointwise ops and products.
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

void AddGeometry(const TensorGeometry& g, std::size_t* hash) {
  const std::string_view bytes(reinterpret_cast<const char*>(&g), sizeof(g));
  *hash = absl::HashOf(*hash, bytes);
}

// Of all that is compared but scalars, results and sizes of storages, which
// hardly ever differ alone.
std::size_t HashOf(const StepKey& key) {
  std::size_t hash = absl::HashOf(static_cast<const void*>(key.call.entry),
                                  key.call.key_set.raw_repr(), key.step.context,
                                  key.global, key.step.statics);
  for (const ArgRecord& arg : key.step.args) {
    hash = absl::HashOf(hash, arg.slot, arg.written);
    AddGeometry(arg.geometry, &hash);
  }
  return hash;
}

bool SameScalar(const ScalarRecord& a, const ScalarRecord& b) {
  return a.value.SameBits(b.value) && a.may_vary == b.may_vary;
}

}  // namespace

StepClass::StepClass(StepRecord step, std::shared_ptr<void> call,
                     std::vector<std::uint64_t> bytes, std::uint64_t global)
    : step_(std::move(step)),
      call_(std::move(call)),
      bytes_(std::move(bytes)),
      global_(global) {
  kept_.Set(sizeof(*this) + kPreparedBytes);
}

// Everything that preparing looks at.
bool StepClass::IsOf(const StepKey& key) const {
  return call().entry == key.call.entry && call().key_set == key.call.key_set &&
         global_ == key.global && step_.context == key.step.context &&
         step_.statics == key.step.statics && bytes_ == key.bytes &&
         SameList(step_.args, key.step.args, SameArg) &&
         SameList(step_.scalars, key.step.scalars, SameScalar) &&
         SameList(step_.results, key.step.results, SameResult);
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
  const StepKey key{step, call, bytes, GlobalContext::Now().word};
  const std::size_t hash = HashOf(key);
  const auto [first, last] = classes_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (at->second->IsOf(key)) return at->second.get();
  }
  auto made = std::make_unique<StepClass>(std::move(step), node.payload,
                                          std::move(bytes), key.global);
  made->Prepare(counters);
  return classes_.emplace(hash, std::move(made))->second.get();
}

}  // namespace tjit::runtime
