#include "runtime/thread/functions/run_at_once.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>

#include "runtime/memory/block.h"
#include "runtime/platform/small_stack.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/platform/thread_context.h"
#include "runtime/report/log.h"
#include "runtime/thread/functions/bind_function.h"
#include "runtime/thread/loop_state.h"
#include "support/log.h"

namespace tjit::runtime {

using Kind = FunctionSlot::Kind;

FunctionAtOnce AtOnceOf(const FunctionPlan& plan) {
  static std::atomic<std::uint64_t> last_id{0};
  const FunctionRecord& record = *plan.record;
  FunctionAtOnce at_once;
  const bool has_more = !record.reads.empty() || !record.parts.empty() ||
                        !record.draws.empty() || !record.drawn.empty() ||
                        !record.indices.empty() || !record.restored.empty() ||
                        !plan.uses.empty() || plan.has_other_scalars;
  if (has_more) return at_once;
  for (std::uint32_t s = 0; s < record.slots.size(); ++s) {
    const FunctionSlot& slot = record.slots[s];
    if (slot.kind < Kind::kArgument) continue;
    if (slot.kind == Kind::kConstant && slot.written) return {};
    at_once.outside.push_back(s);
  }
  for (const FreshTensor& fresh : plan.fresh) {
    at_once.made.push_back(fresh.slot);
  }
  at_once.id = last_id.fetch_add(1, std::memory_order_relaxed) + 1;
  return at_once;
}

namespace {

// True if a slot before number `end` has the block.
bool IsAmong(const FunctionPlan& plan, const FunctionInputs& inputs,
             std::size_t end, const Block* block) {
  const std::vector<std::uint32_t>& outside = plan.at_once.outside;
  return std::any_of(
      outside.begin(), outside.begin() + static_cast<std::ptrdiff_t>(end),
      [&](std::uint32_t s) {
        const FunctionSlot& slot = plan.record->slots[s];
        return slot.kind != Kind::kConstant &&
               BlockOf(OutsideOf(plan, slot, inputs).storage) == block;
      });
}

// Nobody's pending ops have it, nor the program a raw pointer. What is written
// has to lie where it was recorded.
bool IsFreeAtOnce(const FunctionSlot& slot, const Block& block,
                  std::int64_t shift) {
  return !block.exposed.load(std::memory_order_relaxed) &&
         block.owner.load(std::memory_order_seq_cst) == nullptr &&
         (!slot.written || (shift == 0 && !block.has_readers()));
}

}  // namespace

// The first byte of each slot from outside. THROWS: as EnsureMemory().
bool AtOnceCall::Place(const FunctionPlan& plan, const FunctionInputs& inputs,
                       Tier2Variant::Unbound* run) {
  calls_.run_.NextId();  // the binding words of blocks name it
  const std::vector<std::uint32_t>& outside = plan.at_once.outside;
  for (std::size_t i = 0; i < outside.size(); ++i) {
    const std::uint32_t s = outside[i];
    const FunctionSlot& slot = plan.record->slots[s];
    if (slot.kind == Kind::kConstant) {
      // It is only read.
      run->SetPlace(
          s, const_cast<char*>(plan.constants[slot.index].data()) - slot.begin);
      continue;
    }
    const OutsideStorage place = OutsideOf(plan, slot, inputs);
    Block* const block = BlockOf(place.storage);
    if (block == nullptr || !LiesIn(slot, *place.storage, place.shift) ||
        !HasSizeFor(slot, *place.storage, *block) ||
        !IsFreeAtOnce(slot, *block, place.shift)) {
      return false;
    }
    // A word that another thread has written says nothing.
    const std::uint64_t word = block->binding.load(std::memory_order_relaxed);
    const bool is_own = word == 0 || word >> 48 == calls_.run_.stream;
    const bool is_bound =
        is_own ? (word & ~Run::kSlotMask) == calls_.run_.BindingOf(0)
               : IsAmong(plan, inputs, i, block);
    if (is_bound) return false;
    block->binding.store(calls_.run_.BindingOf(s), std::memory_order_relaxed);
    EnsureMemory(block);
    if (slot.written) block->ForgetContent();
    run->SetPlace(s, block->data + place.shift);
  }
  return true;
}

bool AtOnceCall::Try(FunctionReplay* replay, const FunctionInputs& inputs) {
  const FunctionPlan& plan = *replay->plan;
  if (!replay->runs_at_once || plan.at_once.id == 0 ||
      calls_.modes_ != nullptr || ReportsAllocations() ||
      LogsTo(LogChannel::kFlush) || ForcedDrainAt() >= 0 || HasSmallStack()) {
    return false;
  }
  // The call found that this is the state of the process.
  const GlobalContext global{plan.key.global};
  Tier2Variant::Unbound run(calls_.segments_.Find(plan.record->nodes, global),
                            plan.at_once.id, plan.at_once.outside,
                            plan.at_once.made);
  if (!run.is_ready()) return false;
  const std::size_t fresh = plan.fresh.size();
  // For MakeSurvivor(). Nor are allocations filled.
  calls_.pending_reports_ = false;
  calls_.pending_is_plain_ = true;
  FunctionCalls::Attempt attempt;
  try {
    if (!Place(plan, inputs, &run)) return false;
    replay->made.resize(fresh);
    for (std::size_t f = 0; f < fresh; ++f) {
      Block* const block = calls_.MakeFresh(plan.fresh[f], &replay->made[f]);
      run.SetPlace(plan.fresh[f].slot, block->data);
    }
    attempt = RunPlaced(plan, global, &run);
  } catch (const std::exception&) {
    attempt.error = std::current_exception();
  }
  if (!attempt.has_run) {  // there is no memory, or may be some by now
    replay->made.clear();
    return false;
  }
  End(plan, run.is_alone());
  if (attempt.error != nullptr) std::rethrow_exception(attempt.error);
  return true;
}

// As RunPending() runs what is pending.
FunctionCalls::Attempt AtOnceCall::RunPlaced(const FunctionPlan& plan,
                                             const GlobalContext& global,
                                             Tier2Variant::Unbound* run) {
  const ScalarValue* const scalars = plan.scalars.data();
  if (!run->is_alone()) {
    calls_.pending_global_ = global;
    return calls_.TrySegment(plan.record->nodes, FlushReason::kSyncCall,
                             [&](PreparedSegment** segment) {
                               *segment = run->segment();
                               run->Run(scalars, &calls_.counters_);
                             });
  }
  const KernelScope inside;
  const QuietScope quiet;
  try {
    run->Run(scalars, &calls_.counters_);
  } catch (const std::exception&) {
    return {run->segment()->has_begun(), std::current_exception()};
  }
  return {true, nullptr};
}

void AtOnceCall::End(const FunctionPlan& plan, bool is_alone) {
  const std::vector<TraceNode*>& nodes = plan.record->nodes;
  const auto ops = static_cast<std::int64_t>(nodes.size());
  calls_.counters_.ops_seen.Add(ops);
  calls_.counters_.ops_deferred.Add(ops);
  if (is_alone) calls_.counters_.replays_alone.Add();
  CountSegment(FlushReason::kSyncCall, nodes.size(), &calls_.counters_);
  calls_.store_->RecordUse(nodes.back());
  calls_.pending_is_plain_ = false;
  calls_.root_ = calls_.cursor_ = nullptr;
  calls_.at_once_until_ = calls_.counters_.ops_seen.value();
  calls_.loops_->BeginBody(calls_.at_once_until_);
}

bool AtOnceCall::IsBehind() const {
  return calls_.at_once_until_ == calls_.counters_.ops_seen.value() &&
         calls_.unseen_node_ == nullptr;
}

}  // namespace tjit::runtime
