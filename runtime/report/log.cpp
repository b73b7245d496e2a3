#include "runtime/report/log.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/log_word.h"
#include "recorder/region_table.h"
#include "runtime/call/kernel_state.h"
#include "runtime/call/trace_run.h"
#include "runtime/platform/settings.h"
#include "runtime/report/instruction_log.h"
#include "support/log.h"
#include "support/mutex.h"
#include "support/printed_name.h"

namespace tjit::runtime {
namespace {

// Run times of one trace, for the speed-up line.
struct Times {
  double eager_ns = 0, replay_ns = 0;
  int eager_runs = 0, replay_runs = 0;
  bool said = false;
};
// Runs that go into the mean of a side.
constexpr int kRunsMeasured = 10;

// "mm -> relu -> sum", at most `limit` names.
std::string DescribePath(const std::vector<const TraceNode*>& path,
                         std::size_t limit) {
  std::string text;
  for (std::size_t n = 0; n < path.size(); ++n) {
    if (n == limit) return text + " -> ...";
    std::string_view name = OpName(path[n]->step.op);
    name.remove_prefix(name.find("::") + 2);
    if (n != 0) text += " -> ";
    text += name.substr(0, name.find('.'));
  }
  return text;
}

// The path that was recorded first.
std::vector<const TraceNode*> FirstPathOf(const Trace& trace) {
  std::vector<const TraceNode*> path;
  const TraceNode* node = trace.first_end.load(std::memory_order_acquire);
  for (; node != nullptr && node->parent != nullptr; node = node->parent) {
    path.push_back(node);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

// "region=train%20one ", or nothing outside of regions.
std::string RegionDetail(const std::vector<const TraceNode*>& path) {
  const RegionId region =
      path.empty() ? kNoRegion : RegionOfContext(path.front()->step.context);
  if (region == kNoRegion) return {};
  return absl::StrCat("region=", LogWordOf(RegionTable::Get().NameOf(region)),
                      " ");
}

}  // namespace

bool PrintsCompile() {
  return g_settings.debug_compile() || LogsTo(LogChannel::kCompile);
}

void PrintCompile(std::string_view text) {
  if (!PrintsCompile()) return;
  LogLine(LogLevel::kInfo, absl::StrCat("[COMPILE] ", std::string(text)));
}

void LogWarning(std::string_view text) {
  if (!LogsTo(LogChannel::kWarning)) return;
  LogLine(LogLevel::kWarning, absl::StrCat("tjit: ", std::string(text)));
}

std::string Describe(const TraceStore& store, const Trace* trace,
                     std::size_t limit) {
  return DescribePath(store.PathOf(trace), limit);
}

void PrintProposed(std::uint32_t period, std::uint32_t until_cut,
                   bool at_boundary) {
  LogLine(LogLevel::kInfo,
          absl::StrCat("[DETECT] A period of ", period, " ops repeats; it is "
                       "captured from the op after ", until_cut,
                       at_boundary ? " more, a boundary" : " more"));
}

void PrintAbandoned(std::size_t ops) {
  LogLine(LogLevel::kInfo, absl::StrCat("[DETECT] A capture of ", ops,
                                        " ops came to nothing"));
}

void PrintCut(const Trace& trace, std::size_t parts) {
  LogLine(LogLevel::kInfo,
          absl::StrCat("[DETECT] Trace ", trace.id, " of ", trace.length,
                       " ops is cut into ", parts,
                       " parts, as their sizes vary on their own"));
}

void PrintFlush(const Run& run, FlushReason reason, bool drained) {
  LogLine(LogLevel::kInfo,
          absl::StrCat("[FLUSH] ", run.pending.size(), " ops from ",
                       std::string(OpName(run.pending.front()->step.op)),
                       drained ? " drained: " : ": ", FlushText(reason)));
}

void PrintExposed(std::uint64_t bytes, bool by_fault, const std::string& name) {
  LogLine(LogLevel::kInfo,
          absl::StrCat(
              "[MEMORY] A tensor of ", bytes, " bytes",
              name.empty() ? "" : absl::StrCat(" called ", PrintedName(name)),
              " is exposed: ",
              by_fault ? "its memory was touched unannounced"
                       : "the program took a pointer to write"));
}

namespace {

// `known`: "", or " known=WHY" of one that nobody found just now.
void LogFoundRow(const Trace& trace, const char* known) {
  constexpr std::size_t kOpsNamed = 8;
  const std::vector<const TraceNode*> path = FirstPathOf(trace);
  LogTraceEvent(LogEvent::kDetect, "Found", &trace,
                absl::StrCat("id=", trace.id, " ", RegionDetail(path),
                             "ops=", trace.length, known, " ",
                             DescribePath(path, kOpsNamed)));
}

// " names=x,layer1.weight", as many as there is room for in a row.
std::string NamesDetail(const std::vector<std::string>& names) {
  constexpr std::size_t kMostBytes = 300;
  std::string text;
  for (const std::string& name : names) {
    const bool is_full = text.size() + name.size() > kMostBytes;
    absl::StrAppend(&text, text.empty() ? "" : ",",
                    is_full ? "..." : PrintedName(name));
    if (is_full) break;
  }
  return text.empty() ? "" : absl::StrCat(" names=", LogWordOf(text));
}

void LogHotRow(const TraceStore& store, const Trace& trace, const char* known,
               const std::vector<std::string>& names) {
  LogTraceEvent(LogEvent::kDetect, "Promoted", &trace,
                absl::StrCat("ops=", trace.length, known,
                             " executed=", trace.sightings.load(),
                             NamesDetail(names), " ", Describe(store, &trace)));
}

}  // namespace

void LogFound(const Trace* trace) {
  if (InstructionLogOn()) LogFoundRow(*trace, "");
}

void LogKnown(const TraceStore& store) {
  for (const Trace* trace : store.traces()) {
    if (!trace->hot.load(std::memory_order_acquire)) continue;
    LogFoundRow(*trace, " known=attach");
    LogHotRow(store, *trace, " known=attach", {});
  }
}

void LogHot(const TraceStore& store, const Trace* trace,
            const std::vector<std::string>& names) {
  if (InstructionLogOn()) {
    LogHotRow(store, *trace, trace->known.load() ? " known=profile" : "",
              names);
  }
  if (!PrintsCompile()) return;
  LogLine(LogLevel::kInfo,
          absl::StrCat("[COMPILE] Detected hot sequence: ",
                       Describe(store, trace), " (", trace->length,
                       " ops, executed ", trace->sightings.load(), " times)"));
}

void LogPreparing(const TraceNode& first, std::size_t steps) {
  if (!PrintsCompile()) return;
  LogLine(LogLevel::kInfo,
          absl::StrCat("[COMPILE] Compiling segment of ", steps,
                       " ops for tier 1 (from op ", first.depth, ", ",
                       std::string(OpName(first.step.op)), ")"));
}

void LogPrepared(std::size_t direct, std::size_t steps, std::uint64_t ns) {
  if (!PrintsCompile()) return;
  LogLine(LogLevel::kInfo,
          absl::StrFormat("[COMPILE] Compilation complete (%.1f ms), %d of %d "
                          "ops as direct calls",
                          1e-6 * static_cast<double>(ns), direct, steps));
}

void LogExit(const Trace& trace, const TraceNode& node, BailReason why) {
  if (InstructionLogOn()) {
    const std::int64_t skip = trace.skip.load();
    LogTraceEvent(
        LogEvent::kExit, "Side exit", &trace,
        absl::StrCat("after=", node.depth + 1, " ",
                     std::string(OpName(node.step.op)),
                     " reason=", BailName(why),
                     skip <= 0 ? "" : absl::StrCat(" skip=", skip),
                     trace.blacklisted.load() ? " blacklisted=1" : ""));
  }
  if (!PrintsCompile()) return;
  LogLine(LogLevel::kInfo,
          absl::StrCat("[COMPILE] Fallback: ", BailText(why), " (trace ",
                       trace.id, " after op ", node.depth, ", ",
                       std::string(OpName(node.step.op)), ")"));
}

void LogBail(BailReason why, std::uint32_t trace_id) {
  if (!PrintsCompile()) return;
  LogLine(LogLevel::kInfo, absl::StrCat("[COMPILE] Fallback: ", BailText(why),
                                        " (trace ", trace_id, ")"));
}

void PrintGivenUp(const Trace& trace) {
  if (InstructionLogOn()) {
    LogTraceEvent(LogEvent::kDetect, "Switched off", &trace,
                  absl::StrCat("eager_ns=", trace.trial.eager_ns(),
                               " replay_ns=", trace.trial.replay_ns(),
                               " runs=", TraceTrial::kAgain));
  }
  PrintCompile(absl::StrFormat(
      "Fallback: trace %d runs eagerly, as that is faster: %.2f us instead of "
      "%.2f us from run to run; replaying it is tried again after %d runs",
      trace.id, 1e-3 * static_cast<double>(trace.trial.eager_ns()),
      1e-3 * static_cast<double>(trace.trial.replay_ns()), TraceTrial::kAgain));
}

void PrintLeftAlone(const ThreadTrial& trial) {
  if (InstructionLogOn()) {
    LogTraceEvent(LogEvent::kDetect, "Left alone", nullptr,
                  absl::StrFormat("rest_ns=%d slower_percent=%.1f",
                                  trial.rest_ns(), 100 * trial.loss()));
  }
  PrintCompile(absl::StrFormat(
      "Left alone: a thread's ops run eagerly for %d s, as tjit made them %.1f "
      "%% slower; then it is tried again",
      trial.rest_ns() / 1'000'000'000, 100 * trial.loss()));
}

void RecordRunTime(std::uint64_t lineage, const Trace& trace, bool deferred,
                   std::uint64_t ns) {
  if (!PrintsCompile()) return;
  static Mutex mutex;
  static auto* times =
      new std::map<std::pair<std::uint64_t, std::uint32_t>, Times>;
  const MutexLock lock(mutex);
  Times& t = (*times)[{lineage, trace.id}];
  if (t.said) return;
  // The first replay prepares the segment: not counted.
  const bool first_replay = deferred && t.replay_runs++ == 0;
  if (first_replay) return;
  (deferred ? t.replay_ns : t.eager_ns) += static_cast<double>(ns);
  if (!deferred) ++t.eager_runs;
  if (t.eager_runs == 0 || t.replay_runs <= kRunsMeasured) return;
  t.said = true;
  const double eager_ns = t.eager_ns / t.eager_runs;
  const double replay_ns = t.replay_ns / (t.replay_runs - 1);
  LogLine(LogLevel::kInfo, absl::StrFormat("[COMPILE] Speedup: %.1fx on "
                                           "subsequent executions",
                                           eager_ns / replay_ns));
}

void LogStepThrew(const TraceNode& step, std::string_view what) {
  LogLine(LogLevel::kError,
          absl::StrCat("tjit: the deferred kernel of ",
                       std::string(OpName(step.step.op)),
                       " threw: ", std::string(what),
                       ". Please report this; TJIT_AUTO_COMPILE=0 switches "
                       "tjit off."));
}

}  // namespace tjit::runtime
