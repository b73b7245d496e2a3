// The part of ThreadState that captures: where a candidate's steps begin to be
// recorded, where that ends, and what becomes of them.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "recorder/step_shape.h"
#include "runtime/call/token.h"
#include "runtime/platform/settings.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/stance.h"
#include "runtime/report/strict.h"
#include "runtime/thread/find_root.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/match.h"
#include "runtime/thread/promotion.h"
#include "runtime/thread/region_visits.h"
#include "runtime/thread/size_cuts.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "support/log.h"
#include "support/policy.h"

namespace tjit::runtime {

namespace {

std::uint32_t IterationsOf(const HotDetector::Candidate& candidate) {
  if (candidate.cut_at_boundary || candidate.distance != 0 ||
      candidate.period >= policy::kTinyLoop) {
    return 1;
  }
  return (policy::kMergedOps + candidate.period - 1) / candidate.period;
}

}  // namespace

// Note [Captures in vain]
// What a capture that came to nothing was of is not kept: in a
// stream of repetitions that never last (a Fibonacci word) it is another
// sequence each time, so that a memory of sequences would hold none that comes
// again. What comes again is the failure: each one in a row doubles the number
// of ops before the next capture. In vain is
// (1) an open capture without an end (AbandonCapture);
// (2) one that the store has no room for: it will have none for the next;
// (3) a new trace where those before hardly ever ran again: periods that do not
//     last, regions that differ in what is no part of a branch point (a
//     number).

void RecordingPolicy::OnCandidate(const HotDetector::Candidate& candidate) {
  if (scheduled_.period != 0 || candidate.period > kMaxTraceSteps ||
      !captures_.IsOver(detector_.position())) {
    return;
  }
  if (capture_.active()) {
    if (loops_->profile != nullptr) return;
    // An open capture that has been through the loop twice has missed its end.
    const std::size_t twice = 2 * std::size_t{candidate.period};
    if (capture_.length() != 0 || capture_.size() + 1 < twice) return;
    AbandonCapture();
  }
  if (cursor_ != nullptr) {
    const Trace* trace = cursor_->owner.load(std::memory_order_relaxed);
    if (trace == nullptr || candidate.period <= trace->length) return;
  }
  scheduled_ = {candidate.until_cut,       candidate.period,
                candidate.cut_at_boundary, candidate.times,
                IterationsOf(candidate),   candidate.varies,
                candidate.distance};
  if (LogsTo(LogChannel::kDetect)) {
    PrintProposed(candidate.period, candidate.until_cut,
                  candidate.cut_at_boundary);
  }
}

void RecordingPolicy::MaybeStartCapture(bool due) {
  if (capture_.active()) {
    // A period may begin anywhere, a stretch only where it does.
    if (due && scheduled_.distance != 0) scheduled_ = {};
    return;
  }
  if (scheduled_.period != 0) {
    if (!due) return;
    const Scheduled s = scheduled_;
    scheduled_ = {};
    counters_.sequences.Add();
    BeginRun();
    StartCapture(store_->top(), s.period * s.iterations, s.boundary);
    loops_->period = s.period;
    loops_->sightings = s.times;
    loops_->varies = s.varies;
    loops_->distance = s.distance;
    loops_->first_of_capture = loops_->last;
  } else if (g_settings.compile_all() && at_boundary_) {
    BeginRun();
    StartCapture(store_->top(), 0, true);
  }
}

void RecordingPolicy::StartCapture(TraceNode* from, std::uint32_t length,
                               bool boundary, std::size_t open_limit) {
  open_limit_ = open_limit;
  loops_->to_branch_point = false;
  loops_->to_edge = loops_->is_rest = false;
  loops_->stretch_length = 0;
  loops_->profile = nullptr;
  capture_.Start(from, length, boundary, &run_);
}

// Note [Ends of a capture]
// A capture of known length ends there, with the period, or where a hot trace
// begins that the period does not hold: its replays are not in the stream.
// An open one ends
// (1) at a boundary, if it began at one and the steps are a known trace with
//     other sizes, or the program is at a known root;
// (2) without boundaries, at the same two places, but after no more steps than
//     the trace has whose sizes were missed;
// (3) at mark_step;
// (4) at a loop: when a period has closed twice in it, see OnCandidate();
// (5) after kMaxTraceSteps;
// (6) at a branch point, if the stream is starving: see Note [Regions].
// (7) at an edge of a named region, and only there or where a hot trace begins
//     if it began at one: see Note [Named regions] in region_edge.cpp.
// One of a stretch in other sizes (Note [Stretches] in hot_detector.cpp) has as
// many steps as the stretch, whatever hot traces lie in it.
// One that walks a profile ends where that says: see Note [Known sequences].
void RecordingPolicy::MaybeEndCapture(const CallFrame& frame) {
  if (capture_.size() == 0) return;
  if (loops_->profile != nullptr) return EndKnown(frame);
  if (capture_.length() != 0) {
    if (IsHotRoot(frame) && !IsExpected(frame)) FinishCapture();
    return;
  }
  if (loops_->to_edge) {
    if (IsHotRoot(frame)) FinishCapture();
  } else if (!loops_->to_branch_point || capture_.from() != store_->top()) {
    EndOpenCapture(frame);
  }
  if (capture_.active() && capture_.size() >= open_limit_) AbandonCapture();
}

bool RecordingPolicy::IsHotRoot(const CallFrame& frame) const {
  if (!registry_->IsRootOp(frame.entry.id)) return false;
  return FindRoot(frame, [&](const TraceNode* n) {
           const Trace* trace = n->owner.load(std::memory_order_acquire);
           return trace != nullptr && n->hot.load(std::memory_order_relaxed) &&
                  (!trace->starts_at_boundary || at_boundary_) &&
                  trace->skip.load(std::memory_order_relaxed) <= 0;
         }) != nullptr;
}

namespace {

// The trace of what was captured, with or without a slot for each place.
const Trace* FindCaptured(TraceStore& store, const StepRecorder& capture) {
  const Trace* trace = store.Find(capture.from(), capture.steps());
  return trace != nullptr || !capture.has_places()
             ? trace
             : store.Find(capture.from(), capture.SplitSteps());
}

// True if the places that the steps read are to be slots: where some have moved
// on the way here, or the sequence is known and yet was not followed. Else one
// slot serves them, which costs less.
bool PlacesMove(TraceStore& store, const StepRecorder& capture) {
  return capture.has_places() && (capture.has_moving_places() ||
                                  FindCaptured(store, capture) != nullptr);
}

}  // namespace

void RecordingPolicy::EndOpenCapture(const CallFrame& frame) {
  if (EndAtKnownCut() || (capture_.at_boundary() && !at_boundary_)) return;
  if (loops_->stretch_length != 0) {  // traces that lie in it do not cut it
    if (capture_.size() >= loops_->stretch_length) FinishCapture();
    return;
  }
  if (g_settings.compile_all() && at_boundary_) {
    FinishCapture();
    return;
  }
  // The same sequence with other sizes is complete where its trace is. That
  // with a slot for each place takes longer to be looked for.
  const Trace* const known =
      capture_.size() < open_limit_
          ? store_->Find(capture_.from(), capture_.steps())
          : FindCaptured(*store_, capture_);
  if (known != nullptr) {
    FinishCapture();
    return;
  }
  if (registry_->IsRootOp(frame.entry.id) &&
      FindRoot(frame, [](const TraceNode*) { return true; }) != nullptr) {
    FinishCapture();
  }
}

void RecordingPolicy::StopCapture() {
  capture_.Stop();
  UnbindFrom(&run_, 0);
}

void RecordingPolicy::AbandonCapture() {
  captures_.Fail(detector_.position(), capture_.size());
  if (capture_.length() != 0 && loops_->distance == 0) {
    detector_.RecordCapture(loops_->period, /*in_vain=*/true);
  }
  if (loops_->to_edge) {
    VisitsOf(*this)->RecordBody(/*is_new=*/true, counters_.ops_seen.value(),
                                capture_.size());
  }
  CountBail(BailReason::kNotRepeated, 0, kNoOp);
  if (LogsTo(LogChannel::kDetect)) PrintAbandoned(capture_.size());
  StopCapture();
}

void RecordingPolicy::FinishCapture() {
  // It began before the stance was set.
  if (!MayRecord(&counters_, capture_.steps().front().step.op,
                 capture_.size())) {
    loops_->profile = nullptr;
    return StopCapture();
  }
  if (loops_->profile != nullptr) {  // a known sequence may hold several steps
    if (loops_->complete == capture_.size()) FinishKnown();
    return;
  }
  const bool is_body = loops_->to_edge;
  RegionVisits* const visits = VisitsOf(*this);
  const std::int64_t seen = counters_.ops_seen.value();
  if (IsExact(visits) && FindCaptured(*store_, capture_) != nullptr)
    return DropCapture();
  const bool fresh = capture_.length() != 0;
  if (fresh && IsOneSizeTooMany()) return DropCapture();
  if (fresh) loops_->period_of_sizes = 0;
  if (loops_->to_branch_point && IsOneSizeTooMany()) return GiveUpRegion();
  const bool boundary = capture_.at_boundary();
  TraceNode* from = capture_.from();
  TraceStore& store = *store_;
  std::vector<NewStep> steps =
      capture_.ReleaseSteps(PlacesMove(store, capture_));
  UnbindFrom(&run_, 0);
  if (fresh) RecordPeriod(&steps);
  const bool from_top = from == store.top();
  const OpId first_op = steps.front().step.op;
  const std::size_t recorded = steps.size();
  loops_->longest =
      std::max(loops_->longest, static_cast<std::uint32_t>(recorded));
  BailReason why = BailReason::kCount;
  const std::size_t iterations =
      fresh ? std::max(steps.size() / loops_->period, std::size_t{1}) : 1;
  const bool known = MarkKnown(from, &steps);
  const std::vector<NewStep> merged =
      iterations > 1 ? steps : std::vector<NewStep>();
  bool is_new = false;
  Trace* trace = store.Insert(from, std::move(steps), boundary, &why, &is_new);
  const bool new_trace = trace != nullptr && trace->sightings.load() == 0;
  if (new_trace) LogFound(trace);  // before it can be forgotten
  registry_->MaybeEvict(store_, why == BailReason::kStoreFull);
  if (trace == nullptr) {
    CountBail(why, 0, first_op);
    if (is_body) visits->RecordBody(/*is_new=*/true, seen, recorded);
    return FailCapture(recorded);
  }
  EndAtIterations(from, merged, boundary);
  if (from_top) registry_->RecordRootOp(first_op);
  if (!fresh && is_new && trace->hot.load(std::memory_order_acquire) &&
      trace->IsWorthMorePaths()) {
    // It is the sizes that were new: others may come, each for the first time.
    (from_top ? missed_roots_[first_op].in_vain : exits_[from->id].in_vain) = 0;
    Trace* const charged = from->owner.load(std::memory_order_acquire);
    if (charged != nullptr) store.Reward(charged);
  }
  if (new_trace && !is_body) loops_->CountTrace();
  if (fresh && loops_->distance != 0) {
    loops_->RecordStretch(*trace, static_cast<std::uint32_t>(recorded));
  }
  loops_->RecordCaptureEnd(*trace, first_op, is_new, new_trace, seen);
  if (is_body) {
    visits->RecordBody(new_trace, seen, recorded);
  } else if (!new_trace || loops_->IsWorthMoreTraces()) {
    captures_.Succeed();
  } else {
    FailCapture(recorded);
  }
  if (new_trace) counters_.traces.Add();
  if (new_trace && !fresh) counters_.sequences.Add();
  if (known) Promote(trace);
  // The periods that closed before the capture were sightings as well.
  const std::size_t times =
      fresh && new_trace ? loops_->sightings + iterations : 1;
  CountSightings(&store, trace, times, ThresholdIn(visits));
  if (is_new && !is_body) {
    CutBySizes(&store, trace, ThresholdIn(visits), registry_, &counters_);
  }
}

void RecordingPolicy::FailCapture(std::size_t recorded) {
  captures_.Fail(detector_.position(), recorded);
  loops_->region_captures.PauseUntil(captures_.until());
}

// Note [New sizes]
// A size of a hot trace that comes for the first time runs eagerly and is
// recorded; before its second run its steps are prepared, which takes as long
// as one to two eager runs; from then on it is replayed, and soon, as nothing
// is compiled, with the code of the other sizes. Six to ten runs win back what
// that takes, four where a run saves most of its time. So a trace counts the
// runs of its sizes: where those so far stayed, each new one is recorded at
// once; else as any other miss is, after 1, 2, 4, 8, ... of them, or when it
// has come 32 times in a row. A size that comes back after others, without
// being recorded, will come again: the cache of a decoder grows anew with each
// sentence. It is recorded as long as those so far ran twice each and are not
// short. So a size that comes for the first time is no reason to let entries
// pass, but for programs in which that goes on. Periods that the detector finds
// in such a stream are dropped, but for sizes that come again.

// The period that was captured is a hot trace's in sizes that, going by those
// before, will not stay. If they come again they do. Or it is any trace's, and
// the region wants its first sizes alone (`shapes: exact`).
bool RecordingPolicy::IsOneSizeTooMany() {
  const Trace* trace = FindCaptured(*store_, capture_);
  if (trace == nullptr) return false;
  if (trace->is_cut.load(std::memory_order_relaxed)) return true;
  if (!trace->hot.load(std::memory_order_acquire) ||
      trace->IsWorthMorePaths()) {
    return false;
  }
  const std::uint64_t shape = ShapeOf(capture_.steps().front().step);
  return std::exchange(loops_->dropped_shape, shape) != shape;
}

// No failure: the loop is there. What keeps its sizes in it is found as regions
// are.
void RecordingPolicy::DropCapture() {
  if (IsExact(VisitsOf(*this))) {  // other sizes stay eager
    VisitsOf(*this)->RecordBody(/*is_new=*/true, counters_.ops_seen.value(),
                                capture_.size());
    return StopCapture();
  }
  loops_->period_of_sizes = loops_->period;
  CutSoon();
  captures_.PauseUntil(detector_.position() +
                       policy::kDroppedSizePause * capture_.size());
  if (LogsTo(LogChannel::kDetect)) PrintAbandoned(capture_.size());
  StopCapture();
}

namespace {

// How much of the sizes of a call is that of a step: dims, and one for each
// tensor of its kind. A weight is the same in all sizes of a batch.
std::size_t SizesAlike(const CallFrame& frame, const StepRecord& step) {
  if (frame.tensors.size() != step.args.size()) return 0;
  std::size_t alike = 0;
  for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {
    const c10::TensorImpl* const impl = frame.tensors[i].impl;
    const TensorGeometry& g = step.args[i].geometry;
    if (impl == nullptr || step.args[i].slot == kNoSlot || !IsPlain(impl) ||
        impl->dim() != g.ndim) {
      continue;
    }
    ++alike;
    for (int d = 0; d < g.ndim; ++d) {
      if (impl->sizes()[static_cast<std::size_t>(d)] == g.sizes[d]) ++alike;
    }
  }
  return alike;
}

// True if an iteration is awaited and one begins with such an op. The first of
// them is the one, if any is.
bool TakeAwaitedIteration(const TraceStore& store, const CallFrame& frame,
                          LoopState* loops) {
  if (!loops->awaits_iteration) return false;
  bool is_one = false;
  ForEachHotRoot(store, frame.entry.id,
                 [&](const TraceNode&, const Trace& trace) {
                   is_one |= trace.is_iteration.load(std::memory_order_relaxed);
                 });
  loops->awaits_iteration = !is_one;
  return is_one;
}

}  // namespace

// A hot trace may begin with this op, in other sizes: these are recorded once.
// Of several traces those say whether that pays whose sizes are most alike.
// Elsewhere than at a boundary, after a run, where a stretch begins or where an
// iteration is awaited it is only an op like that.
void RecordingPolicy::RecordMissedRoot(const CallFrame& frame) {
  if (scheduled_.period != 0) return;
  const std::uint32_t stretch_length = loops_->StretchFrom([&] {
    return PeekToken(frame, context_, run_.stream, detector_.position() + 1);
  });
  const bool is_iteration = TakeAwaitedIteration(*store_, frame, loops_.get());
  if (!at_boundary_ && stretch_length == 0 && !is_iteration) return;
  if (IsExact(VisitsOf(*this))) return;
  Misses& misses = missed_roots_[frame.entry.id];
  ++misses.in_vain;
  const std::uint64_t shape = ShapeOf(frame, context_);
  misses.same = misses.shape == shape ? misses.same + 1 : 1;
  misses.shape = shape;
  const std::uint64_t place = ~std::uint64_t{frame.entry.id};
  const bool is_back = misses.same == 1 && loops_->CameBefore(place, shape);
  const bool stays = misses.same == policy::kStayingSize;
  const bool is_due = std::has_single_bit(misses.in_vain) || stays ||
                      (is_iteration && misses.in_vain <= policy::kTriedRests);
  if (!is_due && !is_back) return;
  std::uint32_t missed = 0;  // steps of the longest such trace
  bool missed_at_boundary = false;
  bool is_worth_it = stays;
  std::size_t most_alike = 0;
  ForEachHotRoot(
      *store_, frame.entry.id, [&](const TraceNode& root, const Trace& trace) {
        if (is_iteration && !trace.is_iteration.load()) return;
        const std::size_t alike = SizesAlike(frame, root.step);
        if (alike < most_alike) return;
        if (std::exchange(most_alike, alike) < alike) {
          missed = 0;
          missed_at_boundary = false;
          is_worth_it = stays;
        }
        missed = std::max(missed, trace.length);
        missed_at_boundary |= trace.starts_at_boundary;
        is_worth_it |= LoopState::IsWorthIt(trace) ||
                       (is_due && (trace.length >= policy::kShortestRegion ||
                                   trace.IsWorthMorePaths()));
      });
  if (missed == 0) --misses.in_vain;
  if (missed == 0 || !is_worth_it) return;
  if (!MayRecord(&counters_, frame.entry.id, shape)) return;
  BeginRun();
  detector_.Break();
  if (stretch_length != 0 || is_iteration) missed_at_boundary = false;
  StartCapture(
      store_->top(), 0, missed_at_boundary,
      missed_at_boundary ? kMaxTraceSteps : std::max(missed, stretch_length));
  loops_->stretch_length = stretch_length;
}

}  // namespace tjit::runtime
