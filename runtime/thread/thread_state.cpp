#include "runtime/thread/thread_state.h"

#include <bit>
#include <utility>

#include "runtime/call/interpose.h"
#include "runtime/call/joined_list.h"
#include "runtime/call/token.h"
#include "runtime/call/value_checks.h"
#include "runtime/memory/deferred_storage.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/report/asked_sequences.h"
#include "runtime/report/events.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/sequence_times.h"
#include "runtime/report/stance.h"
#include "runtime/report/strict.h"
#include "runtime/thread/find_root.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/match.h"
#include "runtime/thread/observers.h"
#include "runtime/thread/promotion.h"
#include "runtime/thread/region_visits.h"
#include "runtime/thread/self_check/mode_state.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/tier2/hot_profile.h"
#include "runtime/tier2/tier2.h"
#include "support/policy.h"

namespace tjit::runtime {

[[gnu::hot]] void AfterEager(ThreadState* state, CallFrame& frame,
                             const ResultList& results,
                             torch::jit::Stack* boxed) {
  if (InstructionLogOn()) [[unlikely]] {
    if (frame.entry.op_class != OpClass::kEmpty) {
      LogEagerResults(frame, results);
    }
    if (state == LogOnlyState()) return;
  }
  state->AfterEager(frame, results, boxed);
}
void OnThrow(ThreadState* state, CallFrame& frame) {
  if (InstructionLogOn()) [[unlikely]] {
    if (frame.entry.op_class != OpClass::kEmpty) LogThrow();
    if (state == LogOnlyState()) return;
  }
  state->OnThrow(frame);
}

PendingQueue::PendingQueue(ThreadRegistry* registry, std::uint16_t stream,
                           std::shared_ptr<TraceStore> store)
    : registry_(registry),
      store_(std::move(store)),
      run_(stream),
      segments_(&registry->tier2(), &registry->hot_profile()) {}

PendingQueue::~PendingQueue() { delete regions_.load(); }

RecordingPolicy::RecordingPolicy(ThreadRegistry* registry, std::uint16_t stream,
                                 std::shared_ptr<TraceStore> store)
    : OpDeferral(registry, stream, std::move(store)),
      loops_(std::make_unique<LoopState>()) {}

RecordingPolicy::~RecordingPolicy() = default;

ThreadState::ThreadState(ThreadRegistry* registry, std::uint16_t stream,
                         std::shared_ptr<TraceStore> store, bool is_bystander)
    : FunctionCalls(registry, stream, std::move(store)),
      fast_store_(store_.get()),
      is_bystander_(is_bystander),
      is_paused_(is_bystander) {}

ThreadState::~ThreadState() = default;

namespace {

bool HasChildOf(const TraceNode& node, OpId op) {
  const TraceNode* n = node.first_child.load(std::memory_order_acquire);
  while (n != nullptr && n->step.op != op) {
    n = n->next_sibling.load(std::memory_order_acquire);
  }
  return n != nullptr;
}

// True for a long list of which no more than a quarter has a slot in the run:
// tensors that were drawn from those the program keeps. By chance some are the
// same ones as elsewhere in the run, and more or fewer are drawn. So the step
// that joins them runs at the call and binds none to a slot, once a run was
// left for that. What the run itself made is joined by a step like any other,
// and places of one storage have slots of their own.
bool JoinsDrawn(const CallFrame& frame, const Run& run) {
  if (!JoinsMany(frame)) return false;
  std::size_t bound = 0;
  const c10::StorageImpl* last = nullptr;
  for (const TensorRef& ref : frame.tensors) {
    const c10::StorageImpl* const storage =
        ref.impl == nullptr ? nullptr : StorageOf(ref.impl);
    if (storage == nullptr) continue;
    bound += storage == last || BoundSlot(run, BlockOf(storage)) >= 0;
    last = storage;
  }
  return 4 * bound <= frame.tensors.size();
}

}  // namespace

[[gnu::hot]] Decision ThreadState::Decide(CallFrame& frame) {
  if (function_ != nullptr) [[unlikely]]
    return DecideInFunction(frame);
  if (unseen_node_ != nullptr) [[unlikely]] {
    if (ContinueUnseen(frame)) return RunUnseen(frame);
  }
  Decision decision = Decision::kEager;
  if (capture_.active()) MaybeEndCapture(frame);
  switch (state()) {
    case State::kFollowing:
      if (capture_is_due()) {
        // A longer period was found around the trace that is followed.
        cursor_ = nullptr;
        UnbindFrom(&run_, 0);
        break;
      }
      [[fallthrough]];
    case State::kDeferring: {
      const TraceNode* const at = cursor_;
      if (TryFollow(frame, &decision)) return decision;
      if (JoinsMany(frame) && HasChildOf(*at, frame.entry.id)) {
        loops_->joins_vary = true;
      }
      break;
    }
    case State::kIdle:
      break;
  }
  if (!capture_.active() && registry_->IsRootOp(frame.entry.id) &&
      !(capture_is_due() && IsExpected(frame)) && TryEnter(frame, &decision)) {
    return decision;
  }
  return RunEagerly(frame);
}

[[gnu::hot]] Decision ThreadState::RunEagerly(CallFrame& frame) {
  CountEager(frame);
  if (fast_store_ != nullptr && --until_look_ == 0) {
    LookAtTrial();
    if (IsAlone()) {
      MakeReady(frame);
      return Decision::kEager;
    }
  }
  if (!g_settings.may_compile()) [[unlikely]] {
    ObserveOnly(frame);
    MakeReady(frame);
    return Decision::kEager;
  }
  DelayRecording();
  const bool due = capture_is_due();
  const bool region_due = loops_->due;
  ObserveToken(frame, HotDetector::kPlain);
  if (due || g_settings.compile_all()) {
    MaybeStartCapture(due);
  } else {
    if (registry_->hot_profile().known() != nullptr) [[unlikely]] {
      MaybeStartKnown(frame);
    }
    if (loops_->rest_from == counters_.ops_seen.value()) [[unlikely]]
      MaybeStartRest(frame);
    if (region_due) MaybeStartRegion();
  }
  if (capture_.active()) {
    if (loops_->joins_vary && JoinsDrawn(frame, run_)) frame.recordable = false;
    capture_.Before(frame, context_);
    frame.wants_capture = true;
  }
  MakeReady(frame);
  return Decision::kEager;
}

// The detector goes on, so that what would have been recorded is known: a
// period that is due, and goes on as it should. It begins anew behind that, and
// so finds the period again as long as it repeats, and where it may be recorded
// again. What a region would have been is a guess, which is counted alone.
[[gnu::cold]] void TraceCursor::ObserveOnly(const CallFrame& frame) {
  if (capture_.active()) {
    loops_->profile = nullptr;
    StopCapture();
  }
  const bool is_due = capture_is_due();
  const bool repeats = is_due && IsExpected(frame);
  const bool is_region = !is_due && loops_->due;
  const std::uint32_t period = scheduled_.period;
  ObserveToken(frame, HotDetector::kPlain);
  if (is_region) counters_.recordings_refused.Add();
  loops_->due = loops_->due && !is_region;
  if (is_due) scheduled_ = {};
  if (repeats && !MayRecord(&counters_, frame.entry.id, period)) {
    detector_.Break();
  }
  ThrowKeptFailure(&counters_);
}

[[gnu::hot]] void RecordingPolicy::ObserveToken(const CallFrame& frame,
                                            std::uint8_t flags) {
  TokenNotes notes;
  const StreamToken token =
      TokenOf(frame, context_, run_.stream, detector_.position() + 1, &notes);
  if (notes.fresh) flags |= HotDetector::kFreshExternal;
  if (frame.entry.op_class == OpClass::kSync) flags |= HotDetector::kSync;
  if (after_mark_step_) flags |= HotDetector::kAfterMarkStep;
  after_mark_step_ = false;
  if (JoinsMany(frame)) flags |= HotDetector::kJoinsMany;
  const bool was_due = capture_is_due();
  if (scheduled_.wait != 0) --scheduled_.wait;
  const HotDetector::Candidate candidate =
      detector_.Observe(token, flags, BlocksOfThread(), notes.elements);
  loops_->last = {frame.entry.id, loops_->last.op, token};
  const bool waits = scheduled_.distance != 0 && !was_due;
  if (!waits && !detector_.Holds(scheduled_.period, scheduled_.distance)) {
    scheduled_ = {};
  }
  if (capture_.active() && capture_.length() != 0 &&
      !detector_.Holds(loops_->period, loops_->distance)) {
    OnBrokenPeriod();
  }
  // Most of the time branch points are not learnt; RecordKind() would find out
  // with calls.
  LoopState& loops = *loops_;
  if (detector_.position() >= loops.learn_from) {
    RecordKind(frame);
  } else {
    loops.LearnNothing();
  }
  if (candidate.period != 0) OnCandidate(candidate);
}

// REQUIRES: the period that was scheduled or is captured has held so far.
bool RecordingPolicy::IsExpected(const CallFrame& frame) {
  const StreamToken token =
      PeekToken(frame, context_, run_.stream, detector_.position() + 1);
  const std::uint8_t flags =
      after_mark_step_ ? HotDetector::kAfterMarkStep : HotDetector::kPlain;
  const std::uint32_t distance =
      capture_.active() ? loops_->distance : scheduled_.distance;
  return detector_.Expects(token, flags, distance);
}

void OpDeferral::BeginRun() {
  UnbindFrom(&run_, 0);
  if (modes_ != nullptr) [[unlikely]]
    EndSample();  // however the run before has ended
  run_.NextId();
  run_deferred_ = false;
  SetRunKind(RunKind::kUsual);
  eager_node_ = nullptr;
}

bool TraceCursor::TryEnter(CallFrame& frame, Decision* decision) {
  if (EnterFast(frame, decision)) return true;
  TraceStore& store = *store_;
  TraceNode* root = FindRoot(frame, [&](const TraceNode* n) {
    Trace* trace = n->owner.load(std::memory_order_acquire);
    if (trace == nullptr || (trace->starts_at_boundary && !at_boundary_)) {
      return false;
    }
    if (!store.ShouldSkip(trace)) return true;
    if (InstructionLogOn()) LogLetPass(*trace, LetPass::kWasLeft);
    return false;
  });
  if (root == nullptr) {
    RecordMissedRoot(frame);
    return false;
  }
  Trace* const trace = root->owner.load(std::memory_order_relaxed);
  const std::int64_t entry =
      trace->entries.fetch_add(1, std::memory_order_relaxed);
  BeginRun();
  cursor_ = store.top();
  root_ = root;
  const bool is_watched = IsWatched();
  const bool measured =
      !is_watched && (Trace::IsMeasured(entry) || g_settings.debug_compile() ||
                      trace->trial.times_each_run());
  run_began_ns_ = 0;
  if (measured) BeginMeasured(trace, entry);
  if (modes_ == nullptr) {
    // A trial that is under way waits until nobody watches.
    const bool is_eager = is_watched ? trace->trial.is_off()
                                     : trace->trial.runs_eagerly();
    SetRunKind(is_eager     ? RunKind::kEager
               : is_watched ? RunKind::kWatched
                            : RunKind::kUsual);
  }
  if (run_kind_ == RunKind::kEager && InstructionLogOn()) [[unlikely]] {
    LogLetPass(*trace, LetPass::kRunsEagerly);
  }
  if (run_kind_ == RunKind::kUsual && g_settings.shadow_sample() != 0 &&
      IsSampled(*trace, entry)) {
    BeginSample();
  }
  if (AsksForSequences()) [[unlikely]]
    BeginIfAsked(is_watched);
  if (run_kind_ == RunKind::kEager &&
      trace->unseen_left.load(std::memory_order_relaxed) <
          policy::kMostUnseenLeft) {
    BeginUnseen(root);
    *decision = RunUnseen(frame);
    return true;
  }
  // What is replayed does not move a candidate's phase.
  if (run_kind_ == RunKind::kEager ||
      !root->hot.load(std::memory_order_relaxed)) {
    scheduled_ = {};
  }
  if (TryFollow(frame, decision)) return true;
  if (JoinsMany(frame)) loops_->joins_vary = true;
  return false;
}

// Note [Runs that nobody sees]
// A trial compares with eager runs, and a sequence that lost one runs eagerly.
// Neither may carry what following takes, so nobody looks at arguments, values or
// tokens: ops are compared by their names, along the way that was taken last. A
// run that leaves that way is no eager one of the trace; where some have, the
// trace is followed as any other, and its steps run eagerly.
void TraceCursor::BeginUnseen(TraceNode* root) {
  cursor_ = nullptr;
  scheduled_ = {};
  detector_.Break();
  unseen_node_ = root;
}

// False where the run is over, or another one.
bool TraceCursor::ContinueUnseen(const CallFrame& frame) {
  TraceNode* const node = unseen_node_;
  TraceNode* const next = node->likely.load(std::memory_order_relaxed);
  if (next != nullptr && next->step.op == frame.entry.id) {
    unseen_node_ = next;
    return true;
  }
  EndUnseen();
  return false;
}

Decision TraceCursor::RunUnseen(CallFrame& frame) {
  CountEager(frame);
  MakeReady(frame);
  return Decision::kEager;
}

void TraceCursor::EndUnseen() {
  TraceNode* const node = std::exchange(unseen_node_, nullptr);
  Trace* const trace = root_->owner.load(std::memory_order_acquire);
  if (node->ends.load(std::memory_order_acquire) != trace) {
    trace->unseen_left.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  at_boundary_ = true;
  store_->RecordUse(node);
  trace->completions.fetch_add(1, std::memory_order_relaxed);
  trace->eager_completions.fetch_add(1, std::memory_order_relaxed);
  if (run_began_ns_ == 0) return;
  const std::uint64_t ns = NowNs() - run_began_ns_;
  trace->trial.RecordUnseenRun(ns);
  RecordRunTime(store_->lineage(), *trace, /*replayed=*/false, ns);
  if (InstructionLogOn()) [[unlikely]]
    LogTimes(*trace);
}

void TraceCursor::BeginMeasured(Trace* trace, std::int64_t entry) {
  run_began_ns_ = NowNs();
  run_executed_ns_ = 0;
  if (trace->trial.times_each_run()) {
    trace->trial.BeginEagerRun(entry, run_began_ns_, this, trace->replay_times);
  }
  if (entry % TraceTrial::kBlock != 0 || modes_ != nullptr || !TraceTrials() ||
      !trace->hot.load(std::memory_order_relaxed) || g_settings.compile_all() ||
      g_settings.samples_often()) {
    return;
  }
  const Engine* const engine =
      registry_->tier2().EngineIn(RegionOfContext(context_)).load();
  if (engine != nullptr && !engine->is_for_speed()) return;
  // Windows of the thread's own trial would lie in the blocks.
  if (trial_ != nullptr && trial_->counts()) return;
  TraceTrial& trial = trace->trial;
  if (!trial.BeginBlock(entry, run_began_ns_, this, trace->replay_times)) {
    return;
  }
  counters_.traces_switched_off.Add();
  PrintGivenUp(*trace);
  TellGivenUp(store_->lineage(), *trace, /*is_slower=*/true);
}

void TraceCursor::FinishRun(FlushReason reason) {
  {
    StateLock lock(this);
    FlushLocked(reason);
    UnbindFrom(&run_, 0);
    if (modes_ != nullptr) [[unlikely]] {
      if (modes_->is_asked) WriteAsked();
      EndSample();
    }
  }
  Trace* trace = cursor_->ends.load(std::memory_order_acquire);
  TraceStore& store = *store_;
  if (VisitsOf(*this) != nullptr) RecordRegionRun(*cursor_);
  if (cursor_ != trace->first_end.load(std::memory_order_relaxed)) {
    trace->runs_of_more.fetch_add(1, std::memory_order_relaxed);
  }
  store.RecordUse(cursor_);
  loops_->longest = std::max(loops_->longest, cursor_->depth + 1);
  cursor_ = nullptr;
  at_boundary_ = true;
  const bool is_iteration = trace->is_iteration.load(std::memory_order_relaxed);
  loops_->awaits_iteration |= is_iteration;
  // The parts of a sequence are one run of it: the last one counts. Iterations
  // are runs of their own.
  const bool has_rest = trace->ends_at_cut.load(std::memory_order_relaxed);
  if (!has_rest || is_iteration) loops_->CountRun();
  loops_->RecordStretchRun(*trace, counters_.ops_seen.value());
  RecordRunEnd();
  if (has_rest && reason == FlushReason::kSegmentEnd) {
    loops_->rest_from = counters_.ops_seen.value();
    loops_->has_parts = true;
  }
  // The op that came is counted already.
  loops_->BeginRest(counters_.ops_seen.value() -
                    (reason == FlushReason::kSegmentEnd ? 1 : 0));
  // Exits are charged to the owner of the node, on a shared prefix the first
  // trace recorded there: a run that completes pays both back.
  store.Reward(trace);
  Trace* owner = root_ == nullptr
                     ? nullptr
                     : root_->owner.load(std::memory_order_acquire);
  if (owner != nullptr && owner != trace) store.Reward(owner);
  trace->completions.fetch_add(1, std::memory_order_relaxed);
  if (!run_deferred_) {
    trace->eager_completions.fetch_add(1, std::memory_order_relaxed);
  } else if (InstructionLogOn()) [[unlikely]] {
    LogFinished(*trace);
  }
  if (run_began_ns_ != 0) {
    const std::uint64_t ns = NowNs() - run_began_ns_;
    trace->RecordTime(run_deferred_, ns);
    if (run_deferred_) trace->executed_times.Add(run_executed_ns_);
    RecordRunTime(store.lineage(), *trace, run_deferred_, ns);
    if (InstructionLogOn()) [[unlikely]]
      LogTimes(*trace);
  }
  if (!trace->hot.load(std::memory_order_relaxed) &&
      !MayRecord(&counters_, root_ == nullptr ? kNoOp : root_->step.op,
                 trace->id)) {
    return;
  }
  const std::int64_t threshold = ThresholdIn(VisitsOf(*this));
  const bool is_hot_now = store.CountSighting(trace, threshold);
  if (InstructionLogOn()) [[unlikely]] {
    LogSighting(*trace, threshold, is_hot_now);
  }
  if (is_hot_now) OnPromoted(store, trace);
}

void TraceCursor::LeaveTrace(BailReason why) {
  StateLock lock(this);
  LeaveTraceLocked(why);
}

void TraceCursor::LeaveTraceLocked(BailReason why) {
  TraceNode* node = cursor_;
  const std::uint64_t shape = std::exchange(loops_->exit_shape, 0);
  const bool usual = IsUsualExit(node);
  // If it throws, the thread is still where it was.
  if (usual) {
    FlushLocked(FlushReason::kSegmentEnd);
  } else {
    DrainLocked();
  }
  if (modes_ != nullptr) [[unlikely]]
    EndSample();
  cursor_ = nullptr;
  eager_node_ = nullptr;
  if (node->parent == nullptr) return;  // nothing had matched yet
  if (usual) store_->RecordUse(node);
  Trace* trace = node->owner.load(std::memory_order_acquire);
  const LoopState::Size size =
      run_deferred_ ? loops_->SizeAt(*node, shape) : LoopState::Size::kOther;
  const bool is_back =
      size == LoopState::Size::kBack && LoopState::IsWorthIt(*trace);
  const bool is_free = is_back || size == LoopState::Size::kFree;
  if (run_deferred_) {
    trace->left[static_cast<std::size_t>(why)].fetch_add(
        1, std::memory_order_relaxed);
    RecordBail(&counters_, why, node->step.op, IsStrict(VisitsOf(*this)));
    const bool blacklisted =
        !usual && !is_free && store_->Penalize(trace, why);
    LogExit(*trace, *node, why);
    TellFellBack(store_->lineage(), *trace, *node, why);
    if (blacklisted) {
      TellGivenUp(store_->lineage(), *trace, /*is_slower=*/false);
      CountBail(BailReason::kBlacklisted, trace->id, node->step.op);
    }
    detector_.Break();
  }
  // Other sizes of a trace that is replayed are recorded where they first come,
  // or come back, anything else where it comes again.
  const bool has_other_sizes =
      (why == BailReason::kMetaDiffers || why == BailReason::kPlaceDiffers) &&
      run_deferred_ && trace->IsWorthMorePaths();
  Exits& exits = exits_[node->id];
  ++exits.times;
  ++exits.in_vain;
  // Each path that is recorded has exits of its own: where sizes are drawn
  // again and again, only the trace knows how often that came to nothing.
  const bool is_one_of_many = why == BailReason::kMetaDiffers &&
                              run_deferred_ && !trace->IsWorthMorePaths();
  const std::uint32_t in_vain =
      is_one_of_many ? ++loops_->sizes_in_vain[trace->id] : exits.in_vain;
  const bool is_due =
      (exits.times >= 2 || has_other_sizes) && std::has_single_bit(in_vain);
  const bool is_other_shape =
      why == BailReason::kMetaDiffers && IsExact(VisitsOf(*this));
  // Parts of it are recorded, and it is forgotten soon.
  const bool is_cut =
      trace != nullptr && trace->is_cut.load(std::memory_order_relaxed);
  if ((is_due || is_back) && !is_other_shape && !is_cut && !capture_.active() &&
      MayRecord(&counters_, node->step.op, node->id)) {
    StartCapture(node, 0, trace->starts_at_boundary);
    loops_->to_branch_point = !trace->starts_at_boundary && IsStarving();
  } else {
    UnbindFrom(&run_, 0);
  }
}

namespace {

// Behind a kernel, which took pointers to them.
void ArmArguments(const CallFrame& frame) {
  for (const TensorRef& ref : frame.tensors) {
    if (ref.written) ForgetContent(ref.impl);
    Arm(ref.impl);
  }
}

}  // namespace

[[gnu::hot]] void ThreadState::AfterEager(CallFrame& frame,
                                          const ResultList& results,
                                          torch::jit::Stack* boxed) {
  for (c10::TensorImpl* impl : results.items()) Arm(impl);
  if (frame.entry.op_class == OpClass::kEmpty) {
    if (function_ != nullptr) [[unlikely]]
      RecordInside(results);
    return;
  }
  ArmArguments(frame);
  if (modes_ != nullptr && AfterEagerInMode(frame, results, boxed)) {
    return;
  }
  if (frame.in_region) return;
  if (frame.wants_capture && capture_.active() && !frame.is_draw) {
    // A function may make a part of the call.
    capture_.After(
        frame, results.items(),
        function_ != nullptr ? torch::jit::Stack(*boxed) : std::move(*boxed));
  }
  if (function_ != nullptr) [[unlikely]] {
    LookAtLastCall(frame, results, boxed);
    if (eager_node_ != nullptr) BindEagerResults(results);
    return;
  }
  if (eager_node_ != nullptr) BindEagerResults(results);
  RecordWrites(frame, results);
  at_boundary_ = frame.entry.op_class == OpClass::kSync;
  if (!capture_.active()) return;
  if (loops_->profile != nullptr) [[unlikely]] FollowKnown();
  if (capture_.active() && capture_.complete()) {
    FinishCapture();
    at_boundary_ = true;  // the next period begins here
  }
  MaybeEndRegion();
}

void TraceCursor::BindEagerResults(const ResultList& results) {
  const TraceNode* node = eager_node_;
  eager_node_ = nullptr;
  if (run_kind_ == RunKind::kWatched) KeepLearntCalls(*node);
  std::uint32_t i = 0;
  for (const ResultRecord& r : node->step.results) {
    if (r.kind == ResultRecord::Kind::kAlias) continue;
    const c10::TensorImpl* impl =
        i < results.items().size() ? results.items()[i] : nullptr;
    ++i;
    if (r.kind == ResultRecord::Kind::kUndefined) continue;
    const bool is_same = impl != nullptr && SameGeometry(impl, r.geometry);
    if (is_same && r.kind == ResultRecord::Kind::kEmpty) continue;
    Block* block = is_same ? BlockOf(StorageOf(impl)) : nullptr;
    if (block == nullptr) {
      LeaveTrace(BailReason::kMetaDiffers);
      return;
    }
    run_.Record(block, static_cast<std::uint32_t>(run_.slots.size()));
    run_.slots.emplace_back().block = block;
  }
}

void RecordingPolicy::RecordWrites(const CallFrame& frame,
                                   const ResultList& results) {
  const std::uint64_t stamp = PositionStamp(run_.stream, detector_.position());
  for (const TensorRef& ref : frame.tensors) {
    if (ref.written && ref.impl != nullptr) RecordWrite(ref.impl, stamp);
  }
  for (const c10::TensorImpl* impl : results.items()) {
    if (impl != nullptr) RecordWrite(impl, stamp);
  }
}

void ThreadState::OnThrow(CallFrame& frame) {
  if (is_bystander_) return;
  if (function_ != nullptr) function_->Fail(Refusal::kThrew, frame.entry.id);
  capture_.Discard();
  ArmArguments(frame);
  if (modes_ != nullptr) OnThrowInMode(frame);
  if (eager_node_ != nullptr) {
    eager_node_ = nullptr;
    EndLearningCalls();
    LeaveTrace(BailReason::kCallThrew);
  }
}

void ThreadState::OnMarkStep() {
  ThrowKeptFailure(&counters_);
  if (function_ != nullptr) {
    function_->Fail(Refusal::kMarkStep);
    return Flush(FlushReason::kMarkStep);
  }
  if (FollowModes()) [[unlikely]]
    modes_->nan.CountStep();
  if (unseen_node_ != nullptr &&
      unseen_node_->ends.load(std::memory_order_acquire) != nullptr) {
    EndUnseen();
  }
  if (store_.get() != registry_->store()) AdoptNewStore();
  if (capture_.active() && capture_.length() == 0 && capture_.size() != 0) {
    FinishCapture();
  }
  if (cursor_ != nullptr && cursor_->parent != nullptr &&
      cursor_->ends.load(std::memory_order_acquire) != nullptr) {
    FinishRun(FlushReason::kMarkStep);
  } else {
    Flush(FlushReason::kMarkStep);
  }
  after_mark_step_ = true;
  at_boundary_ = true;
  ThrowKeptFailure(&counters_);
}

void FunctionCalls::CountThrow() {
  const auto pending = static_cast<std::int64_t>(run_.pending.size());
  counters_.ops_eager.Add(counters_.ops_seen.value() -
                          counters_.ops_eager.value() -
                          counters_.ops_replayed.value() -
                          counters_.ops_drained.value() - pending);
}

void FunctionCalls::CountBackward(std::optional<BackwardReason> left) {
  if (function_ != nullptr && left && !function_->is_backward) {
    function_->Fail(Refusal::kBackward);
  }
  if (!left) return counters_.backwards_own.Add();
  counters_.backwards_libtorch.Add();
  counters_.backwards_left[static_cast<std::size_t>(*left)].Add();
}

void FunctionCalls::CountHook(bool exposed) {
  counters_.hooks_fired.Add();
  if (exposed) counters_.blocks_exposed.Add();
}

}  // namespace tjit::runtime
