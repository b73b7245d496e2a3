#include "runtime/thread/recorded_names.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/library_calls/call_names.h"
#include "runtime/memory/block.h"
#include "runtime/memory/tensor_names.h"
#include "runtime/thread/match.h"

namespace tjit::runtime {
namespace {

using SlotNames = std::vector<std::pair<std::int32_t, std::string>>;

struct RecordedResult {
  std::uint32_t index = 0;
  std::shared_ptr<void> call;
};
// Of the last recording.
struct RecordedResults {
  std::uint64_t run = 0;  // BindingOf() of its slot 0
  absl::flat_hash_map<std::uint64_t, RecordedResult> by_binding;
};
// Null: this thread has recorded nothing.
struct NamesOfThread {
  const Run* run = nullptr;  // that is recorded
  SlotNames names;           // in the order in which they were given
  std::unique_ptr<RecordedResults> results;
};
thread_local std::unique_ptr<NamesOfThread> t_names;

// Their blocks may be gone: only what they were bound to is looked at.
void KeepResults(const Run& run, const NewStep& step) {
  const std::vector<ResultRecord>& results = step.step.results;
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    if (results[i].kind != ResultRecord::Kind::kFresh) continue;
    const auto slot = static_cast<std::uint32_t>(results[i].slot);
    t_names->results->by_binding[run.BindingOf(slot)] = {i, step.payload};
  }
}

void NameKeptResult(const Block* block, const std::string& name) {
  if (t_names == nullptr || t_names->results == nullptr || block == nullptr ||
      block->is_shared()) {
    return;
  }
  RecordedResults& results = *t_names->results;
  const std::uint64_t binding = block->binding.load(std::memory_order_relaxed);
  const auto found = results.by_binding.find(binding);
  if (found != results.by_binding.end()) {
    RecordCallName({/*is_result=*/true, found->second.index, name},
                   static_cast<CapturedCall*>(found->second.call.get()));
  } else if (binding >> 48 == results.run >> 48 &&
             binding > (results.run | Run::kSlotMask)) {
    t_names->results = nullptr;  // of a later run of this thread
  }
}

// Where the step uses or makes what is in the slot.
void RecordSlotName(const NewStep& step, std::int32_t slot,
                    const std::string& name) {
  auto* const call = static_cast<CapturedCall*>(step.payload.get());
  const auto record = [&](const auto& tensors, bool is_result) {
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].slot == slot) RecordCallName({is_result, i, name}, call);
    }
  };
  record(step.step.args, /*is_result=*/false);
  record(step.step.results, /*is_result=*/true);
}

}  // namespace

void BeginRecordedNames(const Run* run) {
  // Without memory there are no names.
  if (t_names == nullptr) t_names.reset(new (std::nothrow) NamesOfThread);
  if (t_names == nullptr) return;
  if (t_names->run != nullptr) t_names->names.clear();
  if (HasTensorNames()) t_names->results = nullptr;
  t_names->run = run;
}

void EndRecordedNames() {
  if (t_names == nullptr) return;
  if (std::exchange(t_names->run, nullptr) != nullptr) t_names->names.clear();
}

void RecordName(const c10::TensorImpl* impl, const std::string& name) {
  if (!IsPlain(impl) || impl->storage_offset() != 0) return;
  const Block* const block = BlockOf(StorageOf(impl));
  if (t_names == nullptr || t_names->run == nullptr) {
    return NameKeptResult(block, name);
  }
  const std::int32_t slot = BoundSlot(*t_names->run, block);
  if (slot >= 0) t_names->names.emplace_back(slot, name);
}

void ApplyRecordedNames(const Run* run, const std::vector<NewStep>& steps) {
  if (t_names == nullptr || t_names->run != run || !HasTensorNames()) return;
  t_names->results = std::make_unique<RecordedResults>();
  t_names->results->run = run->BindingOf(0);
  for (const NewStep& step : steps) {
    if (step.payload != nullptr) KeepResults(*run, step);
  }
  for (const auto& [slot, name] : t_names->names) {
    for (const NewStep& step : steps) {
      if (step.payload != nullptr) RecordSlotName(step, slot, name);
    }
  }
}

}  // namespace tjit::runtime
