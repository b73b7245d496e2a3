// Runtime::Collect and Explain: what all threads and the store know, see
// recorder/explanation.h. Nothing of it is on the way of an op but the counts.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "recorder/explanation.h"
#include "recorder/region_table.h"
#include "recorder/sightings.h"
#include "runtime/bit_exact/product_verdicts.h"
#include "runtime/bit_exact/verdict_text.h"
#include "runtime/call/kernel_state.h"
#include "runtime/intercept/kernel_wrap.h"
#include "runtime/memory/block.h"
#include "runtime/platform/settings.h"
#include "runtime/report/log.h"
#include "runtime/report/options_resolution.h"
#include "runtime/report/sequence_name.h"
#include "runtime/report/sequence_times.h"
#include "runtime/report/stats_sum.h"
#include "runtime/runtime.h"
#include "runtime/thread/exit_notes.h"
#include "runtime/thread/exposure_notes.h"
#include "runtime/thread/functions/jit_functions.h"
#include "runtime/thread/region_report.h"
#include "runtime/thread/region_visits.h"
#include "runtime/thread/thread_state.h"
#include "runtime/tier2/tier2.h"
#include "support/kept_bytes.h"
#include "support/process_info.h"
#include "tjit/tjit.h"

namespace tjit {
namespace runtime {
namespace {

// More than these are in nobody's interest.
constexpr std::size_t kMaxSequences = 1000;
constexpr std::size_t kMaxOps = 100;

// The reasons that were met. `counts`: by the enum.
template <class Reason>
CountsByName ByName(const std::vector<std::int64_t>& counts,
                    const char* (*name_of)(Reason)) {
  CountsByName named;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) named[name_of(static_cast<Reason>(i))] = counts[i];
  }
  return named;
}

const char* StateOf(const Trace& trace, std::int64_t replays) {
  if (!trace.hot.load(std::memory_order_relaxed)) return kStateSeen;
  if (trace.blacklisted.load(std::memory_order_relaxed)) {
    return kStateBlacklisted;
  }
  if (trace.skip.load(std::memory_order_relaxed) > 0) return kStatePaused;
  if (trace.trial.is_off()) return kStateOff;
  return replays == 0 ? kStateHot : kStateReplayed;
}

RegionId RegionOf(const std::vector<const TraceNode*>& path) {
  return path.empty() ? kNoRegion : RegionOfContext(path.front()->step.context);
}

ExplainedSequence ExplainOne(const TraceStore& store, const Trace& trace,
                             std::int64_t threshold) {
  ExplainedSequence s;
  s.id = trace.id;
  s.name = SequenceName(trace);
  s.ops = trace.length;
  s.first_ops = Describe(store, &trace, 6);
  s.sightings = trace.sightings.load(std::memory_order_relaxed);
  s.threshold = SightingsNeeded(trace.length, threshold);
  s.replays = ReplaysOf(trace);
  s.skip = trace.skip.load(std::memory_order_relaxed);
  s.state = StateOf(trace, s.replays);
  const SequenceTimes times = TimesOf(trace);
  s.eager_ns = times.eager_ns;
  s.replay_ns = times.replay_ns;
  s.executed_ns = times.executed_ns;
  for (std::size_t i = 0; i < trace.left.size(); ++i) {
    const std::int64_t n = trace.left[i].load(std::memory_order_relaxed);
    if (n != 0) s.left[BailName(static_cast<BailReason>(i))] = n;
  }
  const std::vector<const TraceNode*> path = store.PathOf(&trace);
  const RegionId region = RegionOf(path);
  if (region != kNoRegion) {
    s.region = RegionTable::Get().NameOf(region);
    if (!g_settings.compile_all()) {
      const auto of_region = RegionTable::Get().SettingsOf(region).threshold;
      s.threshold =
          SightingsNeeded(trace.length, of_region.value_or(threshold));
    }
  }
  for (const TraceNode* node : path) {
    if (node->step.kind != StepKind::kAtCall) continue;
    const std::string op(OpName(node->step.op));
    ++s.at_call[op];
    const char* const why = RegionTable::Get().WhyAtCall(
        RegionOfContext(node->step.context), node->step.op);
    if (*why != '\0') s.why_at_call[op] = why;
  }
  return s;
}

std::string WhyEager(const std::string& name) {
  const OpEntry* entry = FindEntry(name);
  switch (entry == nullptr ? OpClass::kForeign : entry->op_class.load()) {
    case OpClass::kPlain:
    case OpClass::kEmpty:
      return "";
    case OpClass::kSync:
      return "reads values";
    case OpClass::kRandom:
      return "draws random numbers at the call";
    case OpClass::kMetadata:
      return "changes sizes only";
    case OpClass::kResize:
      return "resizes at the call";
    case OpClass::kReader:
      return "reads bytes in its own way";
    case OpClass::kForeign:
      return "not one of libtorch's CPU kernels";
    case OpClass::kOpaque:
      return "tjit::mark_opaque(), or a kernel that is not libtorch's";
  }
  return "";
}

}  // namespace

Stats Runtime::Collect() {
  Stats sum;
  sum.flushes.assign(static_cast<std::size_t>(FlushReason::kCount), 0);
  sum.side_exits.assign(static_cast<std::size_t>(BailReason::kCount), 0);
  sum.backwards_left.assign(static_cast<std::size_t>(BackwardReason::kCount),
                            0);
  for (ThreadState* state : threads_->States()) Add(&sum, state->counters());
  const std::shared_ptr<TraceStore> store = threads_->HoldStore();
  sum.trace_steps = store->node_count();
  sum.trace_bytes = static_cast<std::int64_t>(store->bytes());
  sum.plan_bytes = static_cast<std::int64_t>(KeptBytes(Kept::kPlans));
  sum.code_bytes = static_cast<std::int64_t>(KeptBytes(Kept::kCode));
  Add(&sum, tier2_->counters());
  Add(&sum, process_counters_);
  sum.memory_peak_bytes = PeakBytes();
  return sum;
}

void WriteStatsFile() { Runtime::Get().WriteStats(); }

std::vector<ExplainedOp> Runtime::EagerOps() {
  std::vector<std::int64_t> calls(OpCounts::kMaxOps);
  for (const ThreadState* state : threads_->States()) {
    for (OpId op = 0; op < OpCounts::kMaxOps; ++op) {
      calls[op] += state->eager_ops().value(op);
    }
  }
  std::vector<ExplainedOp> ops;
  for (OpId op = 0; op < OpCounts::kMaxOps; ++op) {
    if (calls[op] == 0) continue;
    const std::string name(OpName(op));
    ops.push_back({name, calls[op], ""});
  }
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) {
    return a.calls > b.calls;
  });
  if (ops.size() > kMaxOps) ops.resize(kMaxOps);
  for (ExplainedOp& op : ops) op.why = WhyEager(op.name);
  return ops;
}

std::vector<ExplainedRegion> Runtime::ExplainRegions() {
  RegionTable& table = RegionTable::Get();
  std::vector<ExplainedRegion> regions(table.size());
  for (RegionId id = 1; id < regions.size(); ++id) {
    ExplainedRegion& r = regions[id];
    r.name = table.NameOf(id);
    r.is_excluded = table.SettingsOf(id).excludes_all();
    RegionSums sums;
    for (ThreadState* state : threads_->States()) {
      const RegionVisits* const visits = VisitsOf(*state);
      if (visits != nullptr) visits->AddTo(id, state->counters(), &sums);
    }
    r.entries = sums.entries;
    r.ops_seen = sums.ops_seen;
    r.ops_eager = sums.ops_eager;
    r.ops_replayed = sums.ops_replayed;
    r.ops_drained = sums.ops_drained;
  }
  const std::shared_ptr<const TraceStore> store = threads_->HoldStore();
  std::vector<std::int64_t> most(regions.size(), 0);
  for (const Trace* trace : store->traces()) {
    const std::vector<const TraceNode*> path = store->PathOf(trace);
    const RegionId id = RegionOf(path);
    if (id == kNoRegion || id >= regions.size()) continue;
    ++regions[id].bodies;
    const std::int64_t replays = ReplaysOf(*trace);
    if (replays <= most[id]) continue;
    most[id] = replays;
    SplitBody(id, path, &regions[id]);
  }
  std::erase_if(regions, [](const ExplainedRegion& r) {
    return r.name.empty() || r.entries == 0;
  });
  return regions;
}

Explanation Runtime::Explain(const Stats& stats) {
  Explanation e;
  e.version = Version();
  e.program = CommandLine();
  e.wall_ns = WallNs();
#define TJIT_COUNTER(name, what) e.counters[#name] = stats.name;
#include "support/counters.def"
#undef TJIT_COUNTER
  e.flushes = ByName(stats.flushes, &FlushName);
  e.left = ByName(stats.side_exits, &BailName);
  e.backwards_left = ByName(stats.backwards_left, &BackwardName);
  e.not_compiled = tier2_->Failures();
  e.compiled_segments = tier2_->Measured();
  e.functions = tier2_->Functions();
  for (ExplainedFunction& product :
       ExplainVerdicts(VerdictsOfProducts().Recorded())) {
    e.functions.push_back(std::move(product));
  }
  const std::int64_t threshold =
      g_settings.compile_all() ? 1 : g_settings.hot_threshold();
  const std::shared_ptr<const TraceStore> traces = threads_->HoldStore();
  for (const Trace* trace : traces->traces()) {
    if (e.sequences.size() == kMaxSequences) break;
    e.sequences.push_back(ExplainOne(*traces, *trace, threshold));
  }
  e.regions = ExplainRegions();
  e.exits = RecordedExits(traces->lineage());
  e.eager_ops = EagerOps();
  e.exposures = RecordedExposures();
  e.jit_functions = ExplainJitFunctions();
  return e;
}

std::string Runtime::WhyNoOps() const {
  if (!inert_.empty()) return inert_;
  if (IsDisabled()) return "TJIT_DISABLE=1 keeps tjit off";
  if (!was_enabled_) {
    return "nobody switched tjit on: TJIT_AUTO_COMPILE is not 1, and the "
           "program did not call tjit::enable()";
  }
  return "the program called no op of libtorch on the CPU while tjit was on";
}

void Runtime::WriteStats() {
  stats_file_.Write(was_enabled_ ? stats_path_ : StatsPath(), Collect(),
                    WhyNoOps(),
                    [this](const Stats& stats) { return Explain(stats); });
}

}  // namespace runtime

std::string explain(bool verbose) {
  runtime::Runtime& runtime = runtime::Runtime::Get();
  return ToText(runtime.Explain(runtime.Collect()), verbose);
}

}  // namespace tjit
