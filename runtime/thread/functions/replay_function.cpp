// Defers a whole function at once: binds what it takes, makes what it returns
// and appends all of its steps.
//
// Nothing changes before everything is bound; what was bound is let go where
// something does not fit, and the function runs.
#include <cstring>
#include <exception>
#include <utility>

#include "runtime/call/kernel_state.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/memory/deferred_storage.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/thread/copied_slot.h"
#include "runtime/thread/fast_defer.h"
#include "runtime/thread/functions/bind_function.h"
#include "runtime/thread/functions/draws.h"
#include "runtime/thread/functions/function_calls.h"
#include "runtime/thread/functions/host_reads.h"
#include "runtime/thread/functions/parts.h"
#include "runtime/thread/functions/run_at_once.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/thread_registry.h"

namespace tjit::runtime {

using Kind = FunctionSlot::Kind;

FunctionCalls::Bound FunctionCalls::BindStorage(const FunctionSlot& from,
                                                c10::StorageImpl* storage,
                                                std::int64_t shift) {
  const auto s = static_cast<std::uint32_t>(run_.slots.size());
  if (!LiesIn(from, *storage, shift)) return Bound::kNo;
  const std::int64_t begin = from.begin + shift, end = from.end + shift;
  Block* block = BlockOf(storage);
  if (block == nullptr) block = AdoptStorage(storage);
  if (block == nullptr || block->exposed.load(std::memory_order_relaxed)) {
    const auto size = static_cast<std::uint64_t>(end - begin);
    if (from.written || size > policy::kMaxCopiedOfPointwise ||
        storage->device() != c10::kCPU || storage->data() == nullptr) {
      return Bound::kNo;
    }
    AddCopyOf({static_cast<const char*>(storage->data()) + begin, size},
              from.begin, &run_);
    counters_.inputs_copied.Add();
    return Bound::kYes;
  }
  if (!HasSizeFor(from, *storage, *block)) return Bound::kNo;
  if (BoundSlot(run_, block) >= 0 && !Planted(Defect::kLostAlias)) {
    return Bound::kNo;
  }
  run_.slots.emplace_back().shift = shift;
  return BindBlock(s, from.written, storage, block);
}

FunctionCalls::Bound FunctionCalls::BindBlock(std::uint32_t s, bool written,
                                              c10::StorageImpl* storage,
                                              Block* block) {
  run_.Record(block, s);
  run_.slots[s].block = block;
  if (!ClaimBound(s, written)) return Bound::kOwnedByOthers;
  ArmStorage(storage, block);
  return Bound::kYes;
}

// False: another thread owns it.
bool FunctionCalls::ClaimBound(std::uint32_t s, bool written) {
  if (!ClaimSlot(s, written)) return false;
  const SlotBinding& slot = run_.slots[s];
  if (slot.owned) {
    const std::uint8_t use =
        Block::kPendingRead | (written ? Block::kPendingWrite : 0);
    if (written) slot.block->ForgetContent();
    std::atomic<std::uint8_t>& pending = slot.block->pending;
    pending.store(pending.load(std::memory_order_relaxed) | use,
                  std::memory_order_relaxed);
  }
  return true;
}

std::string BytesOfConstant(double number, std::size_t bytes) {
  const auto bytes_of = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  if (bytes == sizeof(double)) return bytes_of(number);
  if (bytes == sizeof(float)) return bytes_of(static_cast<float>(number));
  return {};
}

std::string NumberOfConstant(const FunctionPlan& plan, std::uint32_t at,
                             c10::ArrayRef<double> numbers) {
  for (const NumberUse& use : plan.uses) {
    if (use.where != NumberUse::Where::kConstant || use.at != at) continue;
    return BytesOfConstant(plan.key.NumberAt(use.number, numbers),
                           plan.constants[at].size());
  }
  return {};
}

// The slots that the run has not bound yet.
FunctionCalls::Bound FunctionCalls::BindFunction(const FunctionPlan& plan,
                                                 const FunctionInputs& inputs) {
  const std::vector<FunctionSlot>& slots = plan.record->slots;
  for (std::size_t s = run_.slots.size(); s < slots.size(); ++s) {
    const FunctionSlot& from = slots[s];
    Bound bound = Bound::kYes;
    switch (from.kind) {
      case Kind::kBorn:
      case Kind::kInside:
      case Kind::kDrawn:   // BindDrawn()
      case Kind::kCalled:  // PartCalls::BindCalled()
        while (s + 1 < slots.size() && slots[s + 1].kind <= Kind::kCalled) ++s;
        run_.slots.resize(s + 1);
        break;
      case Kind::kArgument:
      case Kind::kCaptured: {
        const OutsideStorage outside = OutsideOf(plan, from, inputs);
        bound = BindStorage(from, outside.storage, outside.shift);
        break;
      }
      case Kind::kConstant: {
        const std::string* bytes = &plan.constants[from.index];
        const std::string number =
            NumberOfConstant(plan, from.index, inputs.numbers);
        if (!number.empty()) bytes = &number;
        AddCopyOf({bytes->data(), bytes->size()}, from.begin, &run_);
        break;
      }
    }
    if (bound != Bound::kYes) return bound;
  }
  return Bound::kYes;
}

bool IndicesHold(const FunctionPlan& plan, const Run& run) {
  if (Planted(Defect::kLateError)) return true;
  for (const FunctionIndex& index : plan.record->indices) {
    const SlotBinding& slot = run.slots[static_cast<std::size_t>(index.slot)];
    if (!IndicesPass(index.geometry, slot.block->data + slot.shift,
                     index.allowed)) {
      return false;
    }
  }
  return true;
}

void FunctionCalls::BindDrawn(const FunctionPlan& plan, const at::Tensor* drawn,
                              std::size_t from_slot) {
  if (plan.record->drawn.empty()) return;
  const std::vector<FunctionSlot>& slots = plan.record->slots;
  for (auto s = static_cast<std::uint32_t>(from_slot); s < slots.size(); ++s) {
    if (slots[s].kind != Kind::kDrawn) continue;
    c10::StorageImpl* const storage =
        StorageOf(drawn[slots[s].index].unsafeGetTensorImpl());
    // It is new: nobody else uses it.
    BindBlock(s, slots[s].written, storage, BlockOf(storage));
  }
  if (from_slot != 0) return;  // the draws count already
  const auto draws = static_cast<std::int64_t>(plan.record->draws.size());
  counters_.ops_seen.Add(draws);
  counters_.ops_eager.Add(draws);
}

// As if it had never been bound. What a tensor of `fresh` had is let go before
// that dies.
void FunctionCalls::UnbindFunction() {
  for (const std::uint32_t s : run_.readers) {
    SlotBinding& slot = run_.slots[s];
    slot.reader = false;
    static_cast<void>(slot.block->DropReader());  // the program owns it, too
  }
  run_.readers.clear();
  for (const std::uint32_t s : run_.owned) {
    SlotBinding& slot = run_.slots[s];
    slot.owned = false;
    slot.block->pending.store(0, std::memory_order_relaxed);
    slot.block->owner.store(nullptr, std::memory_order_release);
  }
  run_.owned.clear();
  UnbindFrom(&run_, 0);
}

namespace {

// Defect::kReusedResult: the result of the replay before, where it is as large.
void ReuseLast(at::Tensor* tensor, Block** block) {
  static auto& last = *new at::Tensor;
  if (last.defined() && last.sizes() == tensor->sizes()) {
    *tensor = last;
    *block = BlockOf(last.storage().unsafeGetStorageImpl());
  }
  last = *tensor;
}

}  // namespace

Block* FunctionCalls::MakeFresh(const FreshTensor& fresh, at::Tensor* tensor) {
  const CompactResult result{fresh.form.get(), fresh.bytes, fresh.version,
                             ResultRecord::Kind::kFresh, fresh.size_class};
  Block* block = nullptr;
  *tensor = MakeSurvivor(result, fresh.context, &block);
  if (Planted(Defect::kReusedResult)) ReuseLast(tensor, &block);
  return block;
}

// A step that is about to be pending makes it.
void FunctionCalls::OwnFresh(std::uint32_t s, Block* block) {
  SlotBinding& slot = run_.slots[s];
  slot.block = block;
  slot.owned = true;
  slot.born_pending = true;
  run_.owned.push_back(s);
  run_.Record(block, s);
  block->pending.store(Block::kPendingWrite, std::memory_order_relaxed);
  block->owner.store(this, std::memory_order_release);
}

void FunctionCalls::KeepNumbers(const FunctionPlan& plan,
                                c10::ArrayRef<double> numbers) {
  const std::size_t count = plan.scalars.size();
  if (run_.scalars.size() < count) run_.scalars.resize(2 * count);
  std::copy(plan.scalars.begin(), plan.scalars.end(), run_.scalars.begin());
  for (const NumberUse& use : plan.uses) {
    if (use.where != NumberUse::Where::kStep) continue;
    ScalarValue& scalar = run_.scalars[use.at];
    if (!Planted(Defect::kStaleScalar)) {
      const double number = plan.key.NumberAt(use.number, numbers);
      std::memcpy(scalar.bits, &number, sizeof(double));
    }
  }
  run_.has_other_scalars = plan.has_other_scalars || !plan.uses.empty();
}

void FunctionCalls::FlushOwnersOf(const FunctionPlan& plan,
                                  const FunctionInputs& inputs) {
  for (const FunctionSlot& slot : plan.record->slots) {
    if (slot.kind != Kind::kArgument && slot.kind != Kind::kCaptured) continue;
    Block* const block = BlockOf(OutsideOf(plan, slot, inputs).storage);
    if (block == nullptr) continue;
    PendingQueue* const owner = block->owner.load(std::memory_order_acquire);
    if (owner != nullptr && owner != this) {
      owner->Flush(FlushReason::kOtherThread);
    }
    if (slot.written) FlushReaders(block, FlushReason::kOtherThread);
  }
}

void FunctionCalls::AppendSteps(const FunctionPlan& plan, std::size_t first,
                                std::size_t end) {
  const auto begin = plan.record->nodes.begin();
  run_.pending.assign(begin + static_cast<std::ptrdiff_t>(first),
                      begin + static_cast<std::ptrdiff_t>(end));
  const auto ops = static_cast<std::int64_t>(end - first);
  pending_count_.store(static_cast<std::uint32_t>(ops),
                       std::memory_order_relaxed);
  counters_.ops_seen.Add(ops);
  counters_.ops_deferred.Add(ops);
}

// kYes: the steps behind the last host read are pending. Else what was bound is
// to be let go. REQUIRES: a run has begun.
FunctionCalls::Bound FunctionCalls::DeferFunction(
    FunctionReplay* replay, const FunctionInputs& inputs) {
  const FunctionPlan& plan = *replay->plan;
  const std::size_t fresh = plan.fresh.size();
  replay->made.resize(fresh + plan.record->drawn.size());
  at::Tensor* const drawn = replay->made.data() + fresh;
  if (!HoldOutside(plan, inputs, replay)) return Bound::kNo;
  const Bound bound = BindFunction(plan, inputs);
  if (bound != Bound::kYes) return bound;
  if (!IndicesHold(plan, run_) || !MakeDrawn(*plan.record, drawn))
    return Bound::kNo;
  SaveWritten(run_, replay);
  BeginPending();
  replay->has_begun = true;
  for (std::size_t f = 0; f < fresh; ++f) {
    OwnFresh(plan.fresh[f].slot, MakeFresh(plan.fresh[f], &replay->made[f]));
  }
  KeepNumbers(plan, inputs.numbers);
  run_.pending.reserve(plan.record->nodes.size());
  // Behind this an index that is computed may be one on which the op throws.
  DrawScope draws(plan, drawn, &replay->moves);
  BindDrawn(plan, drawn, 0);
  std::size_t first = 0;
  if (!plan.record->reads.empty()) [[unlikely]] {
    const Bound ran = RunToLastRead(replay, inputs);
    if (ran != Bound::kYes) return ran;
    first = replay->plan->record->reads.back().step;
  }
  const std::size_t end = replay->plan->record->nodes.size();
  if (first != end) AppendSteps(*replay->plan, first, end);
  draws.Keep();
  return Bound::kYes;
}

FunctionCalls::Replayed FunctionCalls::ReplayFunction(
    FunctionReplay* replay, const FunctionInputs& inputs) {
  const bool is_behind_function = cursor_ == nullptr
                                      ? AtOnceCall(this).IsBehind()
                                      : cursor_ == function_end_;
  if (!is_behind_function || capture_.active()) {
    LeaveForFunction();
  } else if (store_.get() != registry_->store()) {
    LeaveForFunction();
  }
  if (!HasStore(replay->plan->record->store)) return Replayed::kNo;
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    {
      const OwnerStateLock lock(this);
      if (!g_settings.may_defer()) return Replayed::kNo;  // see FollowFast()
      FlushLocked(FlushReason::kSegmentEnd);
      if (cursor_ != nullptr) store_->RecordUse(cursor_);
      if (attempt == 0 && AtOnceCall(this).Try(replay, inputs)) {
        return Replayed::kYes;
      }
      BeginRun();
      cursor_ = nullptr;
      Bound bound = Bound::kNo;
      replay->has_begun = false;
      try {
        bound = DeferFunction(replay, inputs);
      } catch (const std::exception&) {  // no memory, or what an op throws: the
        bound = Bound::kNo;              // function may have some, or throws it
      }
      if (bound == Bound::kYes) {
        root_ = replay->plan->record->nodes.front();
        cursor_ = replay->plan->record->nodes.back();
        function_end_ = cursor_;
        run_began_ns_ = 0;
        loops_->BeginBody(counters_.ops_seen.value());
        return Replayed::kYes;
      }
      if (replay->has_begun) AfterFlushLocked();
      RestoreWritten(replay);
      UnbindFunction();
      replay->made.clear();
      if (bound == Bound::kNo) return Replayed::kNo;
      if (bound == Bound::kOtherValue) return Replayed::kOtherValue;
      if (bound == Bound::kAnew) continue;
    }
    FlushOwnersOf(*replay->plan, inputs);
  }
  return Replayed::kBusy;
}

}  // namespace tjit::runtime
