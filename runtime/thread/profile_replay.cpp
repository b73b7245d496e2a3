// The part of ThreadState that promotes what a profile knows.
//
// Note [Known sequences]
// A hot profile (recorder/profile.h) holds sequences that were hot in earlier
// processes. Where a known first step is called, the ops are captured, as at
// the top of any sequence, beside a walk through the profile: each step is
// compared once it has been recorded. At the end of the longest known sequence
// the capture is a trace that is hot at once; its second run is replayed. At a
// step that is not known the capture ends at the last sequence that was
// complete, or is given up. So nothing of a profile is used but its advice when
// to begin, when to end and not to wait; what is replayed was recorded here.
// First steps whose captures come to nothing are not tried for ever: a first
// op that is frequent makes false starts, and there the detector is as good.
// What the detector proposes, and branches, is promoted at once as well if it
// turns out to be known.
#include <algorithm>
#include <utility>
#include <vector>

#include "recorder/step_shape.h"
#include "runtime/platform/settings.h"
#include "runtime/report/log.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/match.h"
#include "runtime/thread/promotion.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "runtime/tier2/hot_profile.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

// Wasted steps a first step is forgiven: two runs of its longest sequence.
bool MayTry(const LoopState& loops, const KnownNode* root) {
  const auto found = loops.tries.find(root);
  if (found == loops.tries.end()) return true;
  const LoopState::Tries& tries = found->second;
  return !tries.is_done && tries.failures < policy::kMostProfileFailures &&
         tries.wasted <= 2 * root->longest;
}

}  // namespace

void RecordingPolicy::MaybeStartKnown(const CallFrame& frame) {
  const Profile* profile = registry_->hot_profile().known();
  if (profile == nullptr || !profile->IsRootOp(frame.entry.id) ||
      capture_.active() || scheduled_.period != 0) {
    return;
  }
  BailReason why;
  for (const std::uint64_t shape :
       {ShapeOf(frame, context_), AtCallShape(frame.entry.id, context_)}) {
    const std::vector<KnownNode*>* roots = profile->RootsOf(shape);
    if (roots == nullptr) continue;
    for (const KnownNode* root : *roots) {
      if ((!root->anywhere && !at_boundary_) || !MayTry(*loops_, root) ||
          !MatchShape(frame, context_, root->step, &why)) {
        continue;
      }
      BeginRun();
      StartCapture(store_->top(), 0, !root->anywhere);
      loops_->profile = profile;
      loops_->known_root = root;
      loops_->known = nullptr;
      loops_->known_size = loops_->complete = 0;
      return;
    }
  }
}

// Behind each op.
void RecordingPolicy::FollowKnown() {
  LoopState& loops = *loops_;
  if (!capture_.active()) {
    loops.profile = nullptr;
    return;
  }
  if (capture_.size() == loops.known_size) return;  // it was not recorded
  const KnownNode* next =
      loops.profile->NextRecorded(loops.known, capture_.steps().back().step);
  if (next == nullptr) return FinishKnown();
  loops.known = next;
  loops.known_size = capture_.size();
  if (next->ends) loops.complete = loops.known_size;
  if (!next->children.empty()) return;
  FinishKnown();
  at_boundary_ = true;  // the next run begins here
}

// Before each op: a shorter sequence is complete where no longer one goes on.
void RecordingPolicy::EndKnown(const CallFrame& frame) {
  const KnownNode* known = loops_->known;
  if (known == nullptr || !known->ends) return;
  BailReason why;
  for (const KnownNode* child : known->children) {
    if (MatchShape(frame, context_, child->step, &why)) return;
  }
  FinishKnown();
  at_boundary_ = true;
}

void RecordingPolicy::GiveUpKnown() {
  LoopState& loops = *loops_;
  LoopState::Tries& tries = loops.tries[loops.known_root];
  tries.wasted += capture_.size();
  ++tries.failures;
  loops.profile = nullptr;
  StopCapture();
}

void RecordingPolicy::FinishKnown() {
  LoopState& loops = *loops_;
  if (loops.complete == 0 || !g_settings.may_compile()) return GiveUpKnown();
  loops.profile = nullptr;
  loops.tries[loops.known_root].is_done = true;
  loops.starves_from = detector_.position() + policy::kStarvingOps;
  std::vector<std::size_t> ends;  // the longest first
  bool splits = false;
  for (const KnownNode* n = loops.known; n != nullptr; n = n->parent) {
    if (n->ends) ends.push_back(n->depth + 1);
    splits |= !n->joined.empty();
  }
  const bool boundary = capture_.at_boundary();
  std::vector<NewStep> steps = capture_.ReleaseSteps(splits);
  UnbindFrom(&run_, 0);
  steps.resize(loops.complete);
  MarkKnown(store_->top(), &steps);
  const OpId first_op = steps.front().step.op;
  for (const std::size_t end : ends) {
    std::vector<NewStep> some(steps.begin(),
                              steps.begin() + static_cast<std::ptrdiff_t>(end));
    BailReason why = BailReason::kCount;
    Trace* trace =
        store_->Insert(store_->top(), std::move(some), boundary, &why);
    const bool is_new = trace != nullptr && trace->sightings.load() == 0;
    if (is_new) LogFound(trace);  // before it can be forgotten
    registry_->MaybeEvict(store_, why == BailReason::kStoreFull);
    if (trace == nullptr) return CountBail(why, 0, first_op);
    registry_->RecordRootOp(first_op);
    if (is_new) {
      counters_.sequences.Add();
      counters_.traces.Add();
    }
    Promote(trace);
  }
  captures_.Succeed();
}

// True if the profile knows the sequence that `steps` end behind `from`. Then
// scalars that were seen to vary are arguments of compiled code from the start.
bool RecordingPolicy::MarkKnown(const TraceNode* from,
                            std::vector<NewStep>* steps) const {
  const Profile* profile = registry_->hot_profile().known();
  if (profile == nullptr) return false;
  std::vector<const StepRecord*> records;
  for (const TraceNode* n = from; n != nullptr && n->parent != nullptr;
       n = n->parent) {
    records.push_back(&n->step);
  }
  std::reverse(records.begin(), records.end());
  for (const NewStep& step : *steps) records.push_back(&step.step);
  const KnownNode* end = profile->Find(records);
  const KnownNode* known = end;
  for (auto step = steps->rbegin(); known != nullptr && step != steps->rend();
       ++step, known = known->parent) {
    std::vector<ScalarRecord>& scalars = step->step.scalars;
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      if (known->step.scalars[i].IsRuntime()) scalars[i].MarkRuntime();
    }
  }
  return end != nullptr && end->ends;
}

void RecordingPolicy::Promote(Trace* trace) {
  if (trace->hot.load(std::memory_order_acquire)) return;
  trace->known.store(true, std::memory_order_relaxed);
  counters_.traces_known.Add();
  if (store_->CountSighting(trace, /*threshold=*/1)) OnPromoted(*store_, trace);
}

}  // namespace tjit::runtime
