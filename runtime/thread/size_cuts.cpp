#include "runtime/thread/size_cuts.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "recorder/size_cuts.h"
#include "runtime/platform/settings.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/stance.h"
#include "runtime/thread/find_root.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/promotion.h"
#include "runtime/thread/region_visits.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "support/log.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

// Null: the store is full.
Trace* AddPart(TraceStore* store, TraceNode* from, std::vector<NewStep> steps,
               bool at_boundary, ThreadRegistry* registry, Counters* counters) {
  const OpId first_op = steps.front().step.op;
  BailReason why = BailReason::kCount;
  Trace* const part = store->Insert(from, std::move(steps), at_boundary, &why);
  if (part == nullptr) return nullptr;
  if (from == store->top()) registry->RecordRootOp(first_op);
  if (part->sightings.load(std::memory_order_relaxed) == 0) {
    LogFound(part);
    counters->traces.Add();
    counters->sequences.Add();
  }
  return part;
}

// The paths that say whether `trace` is to be cut; none: it is not, or not now.
std::vector<std::vector<const TraceNode*>> PathsToCompare(
    const TraceStore& store, const Trace& trace) {
  const std::int64_t more = trace.more_paths.load(std::memory_order_relaxed);
  const bool come_back = trace.runs_of_more.load(std::memory_order_relaxed) >=
                         policy::kRunsOfEachReturn * more;
  if (more % policy::kCutPaths != policy::kCutPaths - 1 || come_back ||
      trace.is_cut.load(std::memory_order_relaxed)) {
    return {};
  }
  std::vector<std::vector<const TraceNode*>> paths =
      store.PathsOf(&trace, policy::kCutPaths);
  if (paths.size() < policy::kCutPaths) paths.clear();  // some were forgotten
  return paths;
}

}  // namespace

void CutBySizes(TraceStore* store, Trace* trace, std::int64_t threshold,
                ThreadRegistry* registry, Counters* counters) {
  const std::vector<std::vector<const TraceNode*>> paths =
      PathsToCompare(*store, *trace);
  if (paths.empty()) return;
  std::vector<std::size_t> cuts = CutsBySizes(paths);
  const LoopInPath loop = FindLoop(paths);
  std::erase_if(cuts, [&](std::size_t cut) { return loop.IsInside(cut); });
  cuts.insert(cuts.end(), loop.cuts.begin(), loop.cuts.end());
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  if (cuts.empty()) return;
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(paths[0].size());
  // Each part has come whenever the whole has. More are not needed to be hot.
  const std::int64_t seen = trace->sightings.load(std::memory_order_relaxed);
  const std::int64_t sightings =
      std::max<std::int64_t>(1, std::min(seen, threshold) / policy::kCutPaths);
  for (const std::vector<const TraceNode*>& path : paths) {
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      std::vector<NewStep> steps = PartOf(path, cuts[i], cuts[i + 1]);
      // The first iteration may begin at a boundary, the others do not.
      const bool is_iteration = loop.IsIteration(cuts[i], cuts[i + 1]);
      Trace* const part =
          AddPart(store, store->top(), std::move(steps),
                  i == 0 && trace->starts_at_boundary && !is_iteration,
                  registry, counters);
      if (part == nullptr) return;
      store->MarkPart(part, /*is_last=*/i + 2 == cuts.size());
      if (is_iteration) {
        part->is_iteration.store(true, std::memory_order_relaxed);
      }
      CountSightings(store, part, static_cast<std::size_t>(sightings),
                     threshold);
    }
  }
  if (trace->has_cuts.exchange(true, std::memory_order_relaxed)) return;
  trace->cuts.assign(cuts.begin() + 1, cuts.end() - 1);
  trace->is_cut.store(true, std::memory_order_release);
  if (LogsTo(LogChannel::kDetect)) PrintCut(*trace, cuts.size() - 1);
}

bool CutAt(TraceNode* node, BailReason why, const LoopState& loops,
           TraceStore* store, ThreadRegistry* registry, Counters* counters) {
  const Trace* const trace = node->owner.load(std::memory_order_acquire);
  if (!loops.has_parts || trace == nullptr ||
      node->depth + 1 < policy::kWorthPreparing) {
    return false;
  }
  const bool has_others_that_stay =
      trace->hot.load(std::memory_order_relaxed) &&
      !trace->is_part.load(std::memory_order_relaxed) &&
      trace->IsWorthMorePaths();
  const bool is_new_size =
      why == BailReason::kMetaDiffers && !has_others_that_stay;
  if ((!is_new_size && !trace->IsCutBehind(node->depth + 1)) ||
      !MayRecord(counters, node->step.op, node->id)) {
    return false;
  }
  std::vector<NewStep> last;
  last.push_back(CopyOf(*node));
  Trace* const part = AddPart(store, node->parent, std::move(last),
                              trace->starts_at_boundary, registry, counters);
  if (part == nullptr) return false;
  store->MarkPart(part, /*is_last=*/false);
  return true;
}

// True if the recording has ended, as what it has recorded is a part of a trace
// that was cut.
bool RecordingPolicy::EndAtKnownCut() {
  if (capture_.from() != store_->top() ||
      store_->FindPart(capture_.steps()) == nullptr) {
    return false;
  }
  FinishCapture();
  loops_->rest_from = counters_.ops_seen.value();
  loops_->has_parts = true;
  at_boundary_ = true;
  return true;
}

// A part has ended before this op: if the next one is not hot yet, it is
// recorded. Where it was another one each time, that is tried ever more rarely.
// In a named region what is left of the body is recorded as a whole.
void RecordingPolicy::MaybeStartRest(const CallFrame& frame) {
  if (capture_.active() || scheduled_.period != 0 || loops_->body_from >= 0 ||
      !captures_.IsOver(detector_.position())) {
    return;
  }
  bool is_known = false;
  ForEachHotRoot(*store_, frame.entry.id,
                 [&](const TraceNode& root, const Trace&) {
                   is_known |= root.step.context == context_;
                 });
  if (is_known) return;
  const std::uint32_t tried = ++loops_->rests[frame.entry.id];
  if ((tried > policy::kTriedRests && !std::has_single_bit(tried)) ||
      !MayRecord(&counters_, frame.entry.id, frame.entry.id)) {
    return;
  }
  BeginRun();
  detector_.Break();
  StartCapture(store_->top(), 0, /*boundary=*/false);
  loops_->is_rest = true;
}

}  // namespace tjit::runtime
