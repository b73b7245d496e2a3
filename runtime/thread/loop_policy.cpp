// The part of ThreadState that knows loops beside the period that holds:
// regions from branch point to branch point, and several iterations as one
// trace.
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/memory/block.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/match.h"
#include "runtime/thread/region_visits.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15ull;

// True if the second iteration uses what the first one made or wrote. What
// does not may as well be many programs: merged, all but the last result
// would be dead when they run.
bool FeedOneAnother(const std::vector<NewStep>& steps, std::size_t period) {
  std::vector<std::int32_t> made;
  for (std::size_t i = 0; i < period; ++i) {
    for (const ArgRecord& arg : steps[i].step.args) {
      if (arg.written) made.push_back(arg.slot);
    }
    for (const ResultRecord& result : steps[i].step.results) {
      if (result.kind == ResultRecord::Kind::kFresh) {
        made.push_back(result.slot);
      }
    }
  }
  for (std::size_t i = period; i < 2 * period; ++i) {
    for (const ArgRecord& arg : steps[i].step.args) {
      if (arg.slot != kNoSlot &&
          std::find(made.begin(), made.end(), arg.slot) != made.end()) {
        return true;
      }
    }
  }
  return false;
}

// Leaves whole iterations of `period` steps.
void TrimToIterations(std::size_t period, std::vector<NewStep>* steps) {
  const std::size_t iterations = steps->size() / period;
  if (iterations < 2) return;
  const bool merges = FeedOneAnother(*steps, period);
  steps->resize((merges ? iterations : 1) * period);
}

}  // namespace

// Note [Regions]
// A stream in which nothing periodic was found for kStarvingOps recorded ops is
// *starving*; where one was found whose trip count varies, it is soon after, as
// no period lies around that. From then on it is cut at its branch points
// (branch_finder.h): from one branch point, or the end of a run, to the next
// the ops are captured from the top of the store; and branches end at branch
// points too. A region also begins where usual ops come behind new sizes, and
// has kShortestRegion ops at least. So regions begin where others end, and
// chain in any order. A capture that comes by a place that is not usual is
// given up, with a pause that doubles: a stream that never repeats costs
// tokens, not records.
//
// A period whose sizes are too many (Note [New sizes] in record.cpp) is no
// period for replay either, so the stream starves although it holds. Its
// forward pass over new sizes has no usual place; its optimizer is a region.
// Sizes that come back after thousands of ops are not usual: what is prepared
// for them has left the cache by then, and replaying it costs as much as eager
// does.
[[gnu::hot]] void RecordingPolicy::RecordKind(const CallFrame& frame) {
  if (!IsLearning()) return;
  std::uint64_t kind = std::uint64_t{frame.entry.id} << 32 | context_;
  if (!frame.tensors.empty()) {
    const c10::TensorImpl* impl = frame.tensors[0].impl;
    if (impl != nullptr && IsPlain(impl)) {
      kind ^= static_cast<std::uint64_t>(impl->numel()) * kPrime;
    }
  }
  LoopState& loops = *loops_;
  loops.next = loops.regions.Observe(kind, BlocksOfThread());
  loops.due = (loops.next == BranchFinder::Next::kBranchPoint ||
               loops.next == BranchFinder::Next::kBegin) &&
              loops.regions.is_usual() && IsStarving();
}

bool RecordingPolicy::IsLearning() {
  LoopState& loops = *loops_;
  const std::uint64_t position = detector_.position();
  const std::uint64_t first =
      loops.starves_from -
      std::min(loops.starves_from, policy::kLearningOps / 2);
  loops.learn_from = std::max(loops.learn_from, first);
  if (position < loops.learn_from) {
    loops.LearnNothing();
    return false;
  }
  if (position >= loops.learn_from + policy::kLearningOps) {
    loops.learn_from = position + policy::kLearningPause;
    return IsLearning();
  }
  return true;
}

// A period was captured. One whose trip count varies has no period around it,
// so the stream starves soon.
void RecordingPolicy::RecordPeriod(std::vector<NewStep>* steps) {
  LoopState& loops = *loops_;
  TrimToIterations(loops.period, steps);
  if (loops.distance == 0) {
    detector_.RecordCapture(loops.period, /*in_vain=*/false);
  }
  const std::uint64_t position = detector_.position();
  if (!loops.varies) {
    loops.starves_from = position + policy::kStarvingOps;
    return;
  }
  CutSoon();
}

void RecordingPolicy::CutSoon() {
  LoopState& loops = *loops_;
  const std::uint64_t position = detector_.position();
  if (loops.starves_from <= position) return;
  loops.starves_from =
      std::min(loops.starves_from, position + policy::kVaryingLoopOps);
  loops.learn_from = position;
}

void RecordingPolicy::RecordRunEnd() {
  LoopState& loops = *loops_;
  if (!IsLearning()) return;
  if (run_deferred_) loops.regions.Restart(BlocksOfThread());
  loops.due = IsStarving();
}

bool RecordingPolicy::IsStarving() const {
  const std::uint64_t position = detector_.position();
  return position >= loops_->starves_from &&
         counters_.ops_seen.value() >= loops_->cut_from &&
         loops_->region_captures.IsOver(position) &&
         (detector_.run() < policy::kMayCloseRun ||
          detector_.period() == loops_->period_of_sizes);
}

// A body of a named region is recorded in the same way, from its first op on
// (Note [Named regions] in region_edge.cpp). It is not where that op was none
// for this: it was replayed, or a mode took it.
void RecordingPolicy::MaybeStartRegion() {
  const std::int64_t body_from = std::exchange(loops_->body_from, -1);
  if (capture_.active() || scheduled_.period != 0) return;
  const bool is_body = body_from >= 0;
  if (is_body) {
    const std::int64_t seen = counters_.ops_seen.value();
    const RegionVisits* const visits = VisitsOf(*this);
    if (body_from + 1 != seen || visits == nullptr ||
        !visits->MayRecord(seen)) {
      return;
    }
  }
  BeginRun();
  StartCapture(store_->top(), 0, /*boundary=*/is_body);
  loops_->to_branch_point = !is_body;
  loops_->to_edge = is_body;
}

void RecordingPolicy::MaybeEndRegion() {
  LoopState& loops = *loops_;
  if (!loops.to_branch_point || !capture_.active() || capture_.size() == 0)
    return;
  const bool is_branch = capture_.from() != store_->top();
  if (loops.next == BranchFinder::Next::kBranchPoint &&
      (is_branch || capture_.size() >= policy::kShortestRegion)) {
    loops.learn_from = detector_.position();  // there may be more
    loops.region_captures.Succeed();  // FinishCapture() may take that back
    FinishCapture();
    at_boundary_ = true;  // the next region begins here
    return;
  }
  const bool is_known =
      loops.next != BranchFinder::Next::kUnknown && loops.regions.is_usual();
  if (is_branch || (is_known && capture_.size() < policy::kLongestRegion)) {
    return;
  }
  GiveUpRegion();
}

// What ends at its first op was no try: behind each replayed region new sizes
// may come.
void RecordingPolicy::GiveUpRegion() {
  if (capture_.size() > 1) {
    loops_->region_captures.Fail(detector_.position(), capture_.size());
  }
  loops_->due = false;
  StopCapture();
}

// Note [Iterations]
// A tiny loop (`iterations` > 1) is captured several times over and becomes
// one trace, so that a segment has enough ops to pay for itself; a trace ends
// after each of its iterations as well, so the loop may end at any of them.
void RecordingPolicy::OnBrokenPeriod() {
  if (capture_.size() >= 2 * std::size_t{loops_->period}) {
    FinishCapture();
  } else {
    AbandonCapture();
  }
}

void RecordingPolicy::EndAtIterations(TraceNode* from,
                                  const std::vector<NewStep>& steps,
                                  bool boundary) {
  const std::size_t period = loops_->period;
  for (std::size_t n = period; n < steps.size(); n += period) {
    std::vector<NewStep> some(steps.begin(),
                              steps.begin() + static_cast<std::ptrdiff_t>(n));
    BailReason why = BailReason::kCount;
    if (store_->Insert(from, std::move(some), boundary, &why) == nullptr) {
      return;  // the store is full: the trace has fewer ends
    }
  }
}

// An exit that recurs is the end of a shorter run: its segment is prepared
// once. Others are drained.
bool TraceCursor::IsUsualExit(const TraceNode* node) const {
  const auto exits = exits_.find(node->id);
  return exits != exits_.end() && exits->second.times >= policy::kUsualExits &&
         run_.pending.size() >= policy::kWorthPreparing;
}

}  // namespace tjit::runtime
