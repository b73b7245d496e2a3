// The public functions of tjit.h and region.h, and what happens when the
// library loads.
#include "tjit/tjit.h"

#include <c10/util/Exception.h>

#include <chrono>

#include "recorder/region_table.h"
#include "runtime/call/interpose.h"
#include "runtime/call/kernel_state.h"
#include "runtime/intercept/kernel_wrap.h"
#include "runtime/memory/block_cache.h"
#include "runtime/memory/read_pointers.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/platform/thread_context.h"
#include "runtime/platform/watchdog.h"
#include "runtime/report/asked_sequences.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/options_resolution.h"
#include "runtime/report/strict.h"
#include "runtime/runtime.h"
#include "runtime/testing.h"
#include "runtime/thread/functions/package_file.h"
#include "runtime/thread/materialize.h"
#include "runtime/thread/thread_state.h"
#include "runtime/tier2/hot_profile.h"
#include "runtime/tier2/tier2.h"
#include "support/env.h"
#include "support/log.h"
#include "tjit/jit.h"
#include "tjit/reading.h"
#include "tjit/region.h"

namespace tjit {
namespace {

using runtime::Complain;
using runtime::IsOnAtLoad;
using runtime::Resolve;
using runtime::Runtime;

// disable() was called, and enable() not since.
std::atomic<bool> was_disabled{false};

struct AtLoad {
  AtLoad() {
    const EnvOptions& env = Environment();
    std::uint32_t channels = g_log_channels.load();
    if (!env.log.empty() && ParseLogChannels(env.log, &channels)) {
      g_log_channels.store(channels);
    }
    Complain();
#if defined(TJIT_PLANTED_DEFECTS)
    if (!env.planted_defect.empty() &&
        !testing::SetPlantedDefect(env.planted_defect)) {
      runtime::LogWarning("TJIT_PLANTED_DEFECT: unknown defect \"" +
                          env.planted_defect + "\"");
    }
    runtime::g_thread_trials.store(
        env.thread_trials_turn ? runtime::TrialsOf::kTurns
        : env.thread_trials    ? runtime::TrialsOf::kThreads
                               : runtime::TrialsOf::kNone);
    runtime::g_trace_trials.store(env.trace_trials);
    if (env.watchdog_s != 0) {
      runtime::StartWatchdog(env.watchdog_s, [] {
        return Runtime::Get().threads().DescribeStates();
      });
    }
#endif
    const std::string& log = runtime::InstructionLogPath();
    if (!log.empty() && !runtime::IsDisabled()) Runtime::Get().StartLog(log);
    runtime::AskAsEnvironmentSays();
    if (IsOnAtLoad()) enable();
  }
  ~AtLoad() {
    runtime::g_enabled.store(false);
    Runtime::Get().tier2().worker().Stop();
    runtime::PrintKeptFailures();
    // A launcher of the process that computes has nothing to write.
    if (!Environment().repro.empty() && !runtime::IsDisabled() &&
        Runtime::Get().Collect().ops_seen != 0) {
      runtime::PrintNotWritten();
    }
    const auto store = Runtime::Get().threads().HoldStore();
    Runtime::Get().hot_profile().SaveAtExit(
        *store, Runtime::Get().tier2().CacheHasWarned());
    runtime::CloseInstructionLog(*store);
    runtime::WriteStatsFile();
  }
};
AtLoad at_load;

[[gnu::cold, gnu::noinline]] RegionId EnterNewRegion(RegionId outer,
                                                     std::string_view name) {
  const std::string why = RegionTable::WhyNoName(name);
  TORCH_CHECK(why.empty(), "tjit::Region: \"", std::string(name),
              "\" is no name of a region: ", why,
              "; give words with / between, like \"solve/newton\"");
  const RegionId id = RegionTable::Get().Enter(outer, name);
  static std::atomic<bool> said{false};
  if (id == outer && !said.exchange(true)) {
    runtime::LogWarning(
        "tjit::Region: \"" + std::string(name) +
        "\" is none: the program has as many regions as there can be (" +
        std::to_string(kMaxRegions - 1) + "), or its whole name is too long");
  }
  return id;
}

// Where the thread's state has nothing to end: inside of a kernel, and on a
// thread of a team, no op is recorded.
void GoToRegion(RegionId id, bool is_new) {
  const runtime::ThreadContext& c = runtime::t_context;
  // A thread's first region may begin before its first op.
  if (c.state == nullptr && is_new &&
      (runtime::g_process_enabled.load(std::memory_order_relaxed) ||
       c.scoped_on != 0)) {
    static_cast<void>(runtime::ActiveState());
  }
  if (c.state == nullptr || c.inside != 0 || c.held != nullptr || c.off ||
      runtime::InParallelRegion()) {
    return runtime::SetCurrentRegion(id);
  }
  c.state->OnRegionEdge(id, is_new);
}

RegionSettings SettingsOf(const RegionOptions& o) {
  RegionSettings s;
  s.compile = o.compile;
  s.threshold = o.threshold;
  if (o.backend.has_value()) s.backend = static_cast<BackendName>(*o.backend);
  if (o.shapes.has_value()) s.is_exact = *o.shapes == Shapes::kExact;
  s.strict = o.strict;
  if (o.exclude.has_value()) s.exclude = RegionExclusion{*o.exclude, {}};
  if (!o.exclude_ops.empty()) s.exclude = RegionExclusion{false, o.exclude_ops};
  return s;
}

}  // namespace

Region::Region(std::string_view name) : outer_(runtime::CurrentRegion()) {
  if (!runtime::g_enabled.load(std::memory_order_relaxed)) return;
  RegionId id = RegionTable::Get().FindInside(outer_, name);
  if (id == kNoRegion) id = EnterNewRegion(outer_, name);
  if (id == outer_) return;  // there are too many
  is_entered_ = true;
  GoToRegion(id, /*is_new=*/true);
}

Region::~Region() {
  if (is_entered_) GoToRegion(outer_, /*is_new=*/false);
}

void set_region_options(std::string_view pattern,
                        const RegionOptions& options) {
  TORCH_CHECK(!pattern.empty(),
              "tjit::set_region_options: the pattern is empty; give the name "
              "of a region, or * for all");
  TORCH_CHECK(!options.threshold.has_value() ||
                  (*options.threshold >= kLeastThreshold &&
                   *options.threshold <= kMostThreshold),
              "tjit::set_region_options: threshold of \"", std::string(pattern),
              "\" is ", options.threshold.value_or(0), "; accepted are ",
              kLeastThreshold, " to ", kMostThreshold);
  TORCH_CHECK(!options.exclude.has_value() || options.exclude_ops.empty(),
              "tjit::set_region_options: both exclude and exclude_ops of \"",
              std::string(pattern), "\" are given; give one of them");
  for (const std::string& op : options.exclude_ops) {
    TORCH_CHECK(!op.empty(), "tjit::set_region_options: exclude_ops of \"",
                std::string(pattern),
                "\" holds an empty name; give "
                "\"ns::op.overload\", \"ns::op\", \"ns::\" or \"ns::op*\"");
  }
  // The rules of the file come before.
  Complain();
  runtime::UseRegionRules();
  RegionRule rule{std::string(pattern), SettingsOf(options), true};
  if (RegionTable::Get().AddRule(std::move(rule))) clear();
}

RegionStats region_stats(std::string_view name) {
  RegionStats stats;
  for (ExplainedRegion& r : Runtime::Get().ExplainRegions()) {
    if (r.name != name) continue;
    stats = {r.entries,      r.ops_seen,    r.ops_eager,
             r.ops_replayed, r.ops_drained, r.bodies,
             r.sequences,    r.ops_at_call, std::move(r.at_call)};
  }
  return stats;
}

bool enable(const Options& options) {
  was_disabled.store(false, std::memory_order_relaxed);
  Complain();
  return Runtime::Get().Enable(Resolve(options), /*for_thread=*/false);
}

void disable() {
  was_disabled.store(true, std::memory_order_relaxed);
  Runtime::Get().Disable();
}

bool is_enabled() noexcept {
  return runtime::g_enabled.load(std::memory_order_relaxed) &&
         runtime::PausesOfThread() == 0 &&
         (runtime::g_process_enabled.load(std::memory_order_relaxed) ||
          runtime::t_context.scoped_on > 0);
}

AutoCompile::AutoCompile(Scope scope, const Options& options)
    : scope_(scope),
      was_on_(runtime::g_process_enabled.load(std::memory_order_relaxed)) {
  Complain();
  const bool for_thread = scope == Scope::kThread;
  Runtime::Get().Enable(Resolve(options), for_thread);
  if (for_thread) ++runtime::t_context.scoped_on;
}

AutoCompile::~AutoCompile() {
  try {
    if (scope_ == Scope::kThread) {
      runtime::FlushThisThread(FlushReason::kSyncCall);
    } else if (!was_on_) {
      disable();
    }
  } catch (const std::exception& e) {
    runtime::LogWarning(
        std::string("the end of tjit::AutoCompile leaves ops pending until "
                    "their results are read: ") +
        e.what());
  }
  if (scope_ == Scope::kThread) --runtime::t_context.scoped_on;
}

Pause::Pause() {
  runtime::ThreadState* const state = runtime::t_context.state;
  if (state != nullptr) state->SetPaused(true);
  ++runtime::PausesOfThread();
}

Pause::~Pause() {
  runtime::ThreadState* const state = runtime::t_context.state;
  if (--runtime::PausesOfThread() == 0 && state != nullptr)
    state->SetPaused(false);
}

Reading::Reading() noexcept { runtime::BeginReading(); }
Reading::~Reading() { runtime::EndReading(); }

bool wait_until_compiled(std::chrono::milliseconds timeout) {
  return Runtime::Get().tier2().worker().WaitUntilIdle(timeout);
}

void set_stance(Stance stance) { runtime::g_settings.SetStance(stance); }

Stance stance() noexcept { return runtime::g_settings.stance(); }

void mark_step() {
  runtime::ThreadState* state = runtime::ActiveState();
  if (state != nullptr && state != runtime::LogOnlyState() &&
      !state->is_paused()) {
    state->OnMarkStep();
  }
}

void sync() {
  runtime::FlushAllThreads(FlushReason::kSyncCall);
  if (runtime::ThreadState* state = runtime::ActiveState()) {
    runtime::ThrowKeptFailure(&state->counters());
  }
}

void clear() { Runtime::Get().Clear(); }

void reset_memory_peak() { runtime::ResetPeak(); }

void mark_opaque(std::string_view name) {
  TORCH_CHECK(!name.empty(),
              "tjit::mark_opaque: the name is empty; give \"ns::op.overload\", "
              "\"ns::op\" or \"ns::\"");
  // Traces that defer it are to be forgotten.
  if (runtime::MarkOpaque(name) != 0) clear();
}

std::int64_t prewarm(const std::string& file) {
  return Runtime::Get().hot_profile().Prewarm(file, &Runtime::Get().tier2());
}

std::int64_t save_profile(const std::string& file) {
  return Runtime::Get().hot_profile().Save(
      file, *Runtime::Get().threads().HoldStore());
}

Stats stats() { return Runtime::Get().Collect(); }

namespace internal {

void TurnOnForJit() {
  if (runtime::g_enabled.load(std::memory_order_relaxed) ||
      was_disabled.load(std::memory_order_relaxed)) {
    return;
  }
  Complain();
  static_cast<void>(Runtime::Get().Enable(Resolve({}), /*for_thread=*/true));
}

}  // namespace internal

namespace runtime {

void UsePackagedCode() { Runtime::Get().tier2().UsePackages(); }
std::string FolderOfCode() { return Runtime::Get().tier2().CacheFolder(); }

}  // namespace runtime

}  // namespace tjit
