// Ops that run eagerly at the call and are pending then: what TJIT_SHADOW and
// TJIT_STRESS=late have in common, see eager_copies.h.
//
// TJIT_SHADOW=sample:N does so for one run of each N of a sequence. No mode is
// on between: the thread has a ModeState for that run alone, from its first op
// until what is pending at its end has run. A run that is asked for is recorded
// likewise: write_asked.cpp.
//
// An open call lasts from the decision until the eager kernel has returned. It
// is closed (the op is pending, its results' blocks are without bytes) or given
// up (the kernel threw, or its results are not what a pending op may have):
// then what is pending runs first, and what the kernel wrote is put behind it.
#include <cstring>
#include <exception>

#include "absl/strings/str_cat.h"
#include "runtime/platform/settings.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/strict.h"
#include "runtime/segment/compact_step.h"
#include "runtime/thread/fast_defer.h"
#include "runtime/thread/match.h"
#include "runtime/thread/self_check/mode_state.h"
#include "runtime/thread/self_check/modes.h"
#include "runtime/thread/thread_registry.h"

namespace tjit::runtime {
namespace {

std::string Place(const TraceNode* node) {
  const Trace* trace = node->owner.load(std::memory_order_acquire);
  return absl::StrCat(
      trace != nullptr ? absl::StrCat("TJIT_SHADOW: trace ", trace->id, ", op ",
                                      node->depth, ", ")
                       : std::string("TJIT_STRESS=late: "),
      std::string(OpName(node->step.op)));
}

}  // namespace

bool ModeState::BeginOp(const CallFrame& frame, TraceNode* node,
                        const Run& run) {
  if (is_asked || (shadows() && SequenceRecorder::IsOn())) {
    calls.Add(frame, *node, run);
  }
  if (shadows()) shadowed = node;
  return shadows();
}

bool TraceCursor::IsSampled(const Trace& trace, std::int64_t entry) {
  const std::uint64_t sample = g_settings.shadow_sample();
  if (sample == 0) return false;
  const auto number = static_cast<std::uint64_t>(entry);
  const std::uint64_t block = number / sample;
  // A place of its own in each block: a program that does something every so
  // many runs, or has two sequences in turn, does not stay in step with it.
  std::uint64_t x = (block << 32 | trace.id) * 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
  return number - block * sample == (x ^ (x >> 32)) % sample &&
         trace.hot.load(std::memory_order_relaxed);
}

// A run whose time is taken would count as a slow replay.
void TraceCursor::BeginSample() {
  const StateLock lock(this);
  if (modes_ == nullptr) {
    modes_ = std::make_unique<ModeState>();
    modes_->is_for_run = true;
  }
  modes_->is_sample = true;
  run_began_ns_ = 0;
  counters_.shadow_samples.Add();
}

void PendingQueue::EndSample() {
  if (modes_ == nullptr || !(modes_->is_sample || modes_->is_asked) ||
      !run_.pending.empty() || modes_->open) {
    return;
  }
  EndAsked();
  modes_->is_sample = false;
  if (modes_->is_for_run) modes_.reset();
}

void PendingQueue::OpenCallFor(const StepRecord& step, TraceNode* node,
                              std::size_t slots_before, StateLock lock) {
  modes_->open.emplace(std::move(lock));
  modes_->open->node = node;
  modes_->open->slots_before = slots_before;
  flushing_.store(Flushing::kOpenCall);  // for workers of the kernel
  run_.held_bytes += modes_->eager_copies.SwapIn(step, run_);
}

void PendingQueue::EndOpenCall() {
  flushing_.store(Flushing::kNo);
  modes_->open.reset();
}

void PendingQueue::OpenShadow(StateLock lock) {
  TraceNode* node = modes_->shadowed;
  modes_->shadowed = nullptr;
  OpenCallFor(node->step, node, node->slot_begin, std::move(lock));
}

void PendingQueue::OwnResult(std::uint32_t s) {
  SlotBinding& slot = run_.slots[s];
  slot.owned = true;
  slot.born_pending = true;
  run_.owned.push_back(s);
  run_.Record(slot.block, s);
  slot.block->pending.store(Block::kPendingWrite, std::memory_order_relaxed);
  slot.block->owner.store(this, std::memory_order_release);
  run_.held_bytes += modes_->eager_copies.AddResult(s, slot.block);
}

// Binds the results of the eager kernel to the slots of a step that was
// recorded; false if they are not as recorded.
bool PendingQueue::BindShadowResults(const TraceNode* node,
                                    const ResultList& results) {
  std::uint32_t i = 0;
  for (const ResultRecord& r : node->step.results) {
    if (r.kind == ResultRecord::Kind::kAlias) continue;
    c10::TensorImpl* impl =
        i < results.items().size() ? results.items()[i] : nullptr;
    ++i;
    if (r.kind == ResultRecord::Kind::kUndefined) {
      if (impl != nullptr) return false;
      continue;
    }
    if (impl == nullptr || !SameGeometry(impl, r.geometry)) return false;
    if (r.kind == ResultRecord::Kind::kEmpty) {
      if (!IsFreshEmpty(impl)) return false;
      continue;
    }
    Block* block = FreshBlock(impl, run_);
    const std::uint64_t bytes =
        node->new_slots[r.slot - node->slot_begin].bytes;
    if (block == nullptr || StorageOf(impl)->nbytes() != bytes ||
        (!impl->is_inference() &&
         impl->version_counter().current_version() != r.version)) {
      return false;
    }
    SlotBinding slot;
    slot.block = block;
    run_.slots.push_back(slot);
    run_.Record(block, static_cast<std::uint32_t>(run_.slots.size() - 1));
  }
  return i == results.items().size();
}

void ThreadState::CloseCall(CallFrame& frame, const ResultList& results,
                            torch::jit::Stack* boxed) {
  TraceNode* node = modes_->open->node;
  if (node == nullptr) {
    const std::vector<SlotBinding> bound(
        run_.slots.begin() +
            static_cast<std::ptrdiff_t>(modes_->open->slots_before),
        run_.slots.end());
    node = RecordedLate(frame, results, boxed);
    if (node == nullptr) {
      GiveUpCall(frame, bound);
      return;
    }
  } else if (!BindShadowResults(node, results)) {
    RecordMismatch({node, "results are not those that were recorded"});
    GiveUpCall(frame, /*threw=*/false);
    return;
  }
  modes_->eager_copies.SwapOut(run_);
  BeginPending();
  OwnArguments(frame, node,
               *CompactStep::Make(node, !frame.entry.may_throw_on_values));
  for (const ResultRecord& r : node->step.results) {
    if (r.kind == ResultRecord::Kind::kFresh) {
      OwnResult(static_cast<std::uint32_t>(r.slot));
    }
  }
  AddPending(node);
  EndOpenCall();
}

void ThreadState::GiveUpCall(CallFrame& frame, bool threw) {
  const OpenCall& open = *modes_->open;
  TraceNode* node = open.node;
  if (threw && node != nullptr) {
    RecordMismatch({node, "eager throws here"});
  }
  const std::vector<SlotBinding> bound(
      run_.slots.begin() + static_cast<std::ptrdiff_t>(open.slots_before),
      run_.slots.end());
  if (node == nullptr) {
    modes_->late.capture.Discard();
    modes_->late.capture.Stop();
  }
  GiveUpCall(frame, bound);
}

// `bound`: the slots that only this op has.
// THROWS: what allocation threw where pending ops could not run.
void ThreadState::GiveUpCall(CallFrame& frame,
                             const std::vector<SlotBinding>& bound) {
  TraceNode* node = modes_->open->node;
  const std::size_t slots_before = modes_->open->slots_before;
  std::vector<EagerCopies::Written> written =
      modes_->eager_copies.TakeBack(run_);
  UnbindFrom(&run_, slots_before);
  std::erase_if(run_.owned, [&](std::uint32_t s) { return s >= slots_before; });
  std::erase_if(run_.readers,
                [&](std::uint32_t s) { return s >= slots_before; });
  for (const SlotBinding& slot : bound) {
    if (slot.copied) continue;
    if (slot.owned) {
      slot.block->pending.store(0, std::memory_order_relaxed);
      slot.block->owner.store(nullptr, std::memory_order_release);
    }
    const bool dead = slot.reader && slot.block->DropReader();
    if (slot.held || dead) FreeBlock(slot.block);
  }
  std::exception_ptr error;
  if (run_.pending.empty()) {
    g_settings.CountPending(true);
    AfterFlushLocked();
  } else {
    error = RunPending(FlushReason::kOpAtCall);
  }
  // Without memory they stay pending, and the op has never been.
  const bool stays = !run_.pending.empty();
  for (const TensorRef& ref : frame.tensors) {
    if (stays) break;
    if (ref.impl == nullptr || !ref.written) continue;
    const c10::StorageImpl* storage = StorageOf(ref.impl);
    const Block* block = storage != nullptr ? BlockOf(storage) : nullptr;
    for (const EagerCopies::Written& w : written) {
      if (w.block == block && block != nullptr) {
        std::memcpy(w.block->data, w.bytes.get(), w.block->bytes);
      }
    }
  }
  CountEager(frame);
  modes_->calls.Clear();
  EndOpenCall();
  if (node != nullptr) cursor_ = node->parent;
  if (node != nullptr && !stays) LeaveTrace(BailReason::kMetaDiffers);
  if (error != nullptr) std::rethrow_exception(error);
}

void PendingQueue::RecordMismatch(const Difference& difference) {
  counters_.shadow_mismatches.Add();
  Trace* trace = difference.node->owner.load(std::memory_order_acquire);
  const std::string found =
      absl::StrCat(Place(difference.node), ": ", difference.text);
  std::string written;
  if (SequenceRecorder::IsOn()) {
    written = modes_->calls.Write(found, run_);
  } else if (trace != nullptr) {
    written = "; TJIT_REPRO_DIR=FOLDER writes it there for `tjit replay`";
  }
  PrintFinding(found, written);
  if (trace != nullptr) {
    store_->Blacklist(trace, BailReason::kShadowMismatch);
    if (InstructionLogOn()) {
      LogTraceEvent(
          LogEvent::kDetect, "Blacklisted", trace,
          absl::StrCat("reason=", BailName(BailReason::kShadowMismatch),
                       " skip=", trace->skip.load()));
    }
  }
  RecordBail(&counters_, BailReason::kShadowMismatch, difference.node->step.op);
}

void PendingQueue::CompareEagerCopies(FlushReason reason) {
  std::vector<Difference> differences;
  const PreparedSegment* const segment =
      segments_.Find(run_.pending, pending_global_);
  const bool may_be_compiled =
      segment != nullptr && segment->engine() != nullptr;
  counters_.shadow_checks.Add(
      modes_->eager_copies.Compare(run_, may_be_compiled, &differences));
  for (Difference& d : differences) {
    absl::StrAppend(&d.text, " (", run_.pending.size(),
                    " ops were pending; ran because of ", FlushName(reason),
                    ")");
    RecordMismatch(d);
  }
  if (modes_->is_asked) {
    try {
      modes_->KeepPiece(run_);
    } catch (const std::exception&) {  // no memory: the ops have run
      modes_->pieces.clear();
    }
  }
  modes_->calls.Clear();
}

}  // namespace tjit::runtime
