// What a thread does where a named region (tjit::Region) begins or ends.
//
// Note [Named regions]
// The stream of ops is cut at each edge: what is pending runs, a run along a
// trace ends, and so does a recording. The ops between two edges are a *body*.
// The program has said that it will come again, so it is recorded the first
// time, as a sequence of its own, without waiting for a period: from the first
// op behind the edge to the next edge. The id of the region is part of each
// step's context (kernel_state.h), so a body is entered in its region alone,
// and the same ops in two regions are two traces.
//
// The detector forgets its period at each edge, so that no period lies across
// one: it finds loops inside a body. A body that is nothing but a long loop is
// found by it and not recorded as a body: the recording is given up where the
// loop is seen. Such a recording, and one of a body that is new, makes the next
// one in that region rarer, until some body has come again: what lies between
// two regions may be another thing each time.
//
// A run that is in the middle of its trace at an edge is flushed, and no exit:
// it is the whole body. The second time that this happens the trace ends there
// as well. An exception that leaves a region is such an end.
//
// A body that was recorded when it was shorter, up to mark_step() or to another
// edge, is a known run at the beginning of a longer one. So what comes behind
// such a run, up to the edge, is recorded as a body, too.
//
// A function of tjit::jit() has such edges, too: it is replayed as a whole, so
// no period and no trace of the ops around it may lie across it.
#include <algorithm>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/call/interpose.h"
#include "runtime/platform/settings.h"
#include "runtime/report/log.h"
#include "runtime/report/stance.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/region_report.h"
#include "runtime/thread/region_visits.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "support/log.h"

namespace tjit::runtime {

// The body ends where its trace goes on.
void TraceCursor::CutRun() {
  TraceNode* const node = cursor_;
  {
    StateLock lock(this);
    FlushLocked(FlushReason::kRegion);
    UnbindFrom(&run_, 0);
    EndSample();
    cursor_ = nullptr;
    eager_node_ = nullptr;
  }
  if (run_deferred_) store_->RecordUse(node);
  Trace* const trace = node->owner.load(std::memory_order_acquire);
  if (++exits_[node->id].times < 2 || trace == nullptr ||
      !MayRecord(&counters_, node->step.op, node->id)) {
    return;
  }
  std::vector<NewStep> last;
  last.push_back(CopyOf(*node));
  BailReason why = BailReason::kCount;
  store_->Insert(node->parent, std::move(last), trace->starts_at_boundary,
                 &why);
}

void TraceCursor::EndAtEdge() {
  if (unseen_node_ != nullptr) EndUnseen();
  if (capture_.active()) {
    if (capture_.size() == 0) {
      StopCapture();
    } else if (loops_->profile != nullptr) {
      FinishKnown();
    } else if (capture_.length() != 0) {
      OnBrokenPeriod();
    } else {
      FinishCapture();
    }
  }
  if (cursor_ == nullptr || cursor_->parent == nullptr) {
    Flush(FlushReason::kRegion);
    cursor_ = nullptr;
  } else if (cursor_->ends.load(std::memory_order_acquire) != nullptr) {
    FinishRun(FlushReason::kRegion);
  } else {
    CutRun();
  }
  scheduled_ = {};
  detector_.Break();
  at_boundary_ = true;
  if (MakeVisits() != nullptr) loops_->BeginBody(counters_.ops_seen.value());
}

RegionVisits* OpDeferral::MakeVisits() noexcept {
  RegionVisits* visits = VisitsOf(*this);
  if (visits == nullptr) {
    visits = new (std::nothrow) RegionVisits;
    if (visits == nullptr) return nullptr;
    visits->GoTo(kNoRegion, /*is_new=*/false, counters_);
    regions_.store(visits, std::memory_order_release);
  }
  return visits;
}

// Of a run to its end. Says once what a region has become.
void TraceCursor::RecordRegionRun(const TraceNode& end) const {
  if (&end == function_end_) return;  // it is no body
  if (!VisitsOf(*this)->RecordRun(run_deferred_)) return;
  const RegionId region = RegionOfContext(end.step.context);
  if (region == kNoRegion || !RegionTable::Get().IsFirstReplay(region)) return;
  if (PrintsCompile()) PrintCompile(DescribeRegion(region, PathTo(&end)));
}

void ThreadState::OnRegionEdge(RegionId id, bool is_new) noexcept {
  try {
    // A function of tjit::jit() is one sequence whatever regions are inside.
    if (function_ == nullptr) {
      if (store_.get() != registry_->store()) AdoptNewStore();
      EndAtEdge();
    }
  } catch (const std::exception& e) {
    capture_.Stop();
    LogWarning(absl::StrCat(
        "ops stay pending at the edge of a tjit::Region until their results "
        "are read: ",
        e.what()));
  }
  RegionVisits* const visits = MakeVisits();
  if (visits == nullptr) return SetCurrentRegion(id);
  visits->GoTo(id, is_new, counters_);
  SetFastStore();
}

}  // namespace tjit::runtime
