#include "runtime/report/sequence_times.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log_writers.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

// Between two rows of a sequence: where its times have changed, where not.
constexpr std::uint64_t kSoonNs = 100'000'000, kLateNs = 1'000'000'000;
// What counts as a change: one part in so many.
constexpr std::int64_t kPart = 16;

struct Said {
  std::uint64_t log = 0, at_ns = 0;
  SequenceTimes times;
};

struct AllSaid {
  Mutex mutex;
  // By the key of the trace.
  absl::flat_hash_map<std::uint64_t, Said> by_hash ABSL_GUARDED_BY(mutex);
};

AllSaid& TheSaid() {
  static auto& said = *new AllSaid;  // never destroyed
  return said;
}

bool IsNear(std::int64_t value, std::int64_t before) {
  return std::max(value, before) - std::min(value, before) <= before / kPart;
}

bool IsMeasured(const SequenceTimes& times) {
  return times.eager_ns != 0 && times.replay_ns != 0;
}

// Sets `times` to what a row is to say; false if there is to be none.
bool IsTimeForRow(const Trace& trace, SequenceTimes* times) {
  constexpr std::size_t kMaxSequences = 1 << 16;
  const std::uint64_t log = NumberOfLog(), now_ns = LogNowNs();
  AllSaid& all = TheSaid();
  const MutexLock lock(all.mutex);
  if (all.by_hash.size() >= kMaxSequences) all.by_hash.clear();
  Said& said = all.by_hash[trace.key.hash];
  const bool is_known = said.log == log;
  const std::uint64_t age_ns = now_ns - std::min(now_ns, said.at_ns);
  if (is_known && age_ns < kSoonNs) return false;
  *times = TimesOf(trace);
  if (!IsMeasured(*times)) return false;
  if (is_known && age_ns < kLateNs &&
      IsNear(times->eager_ns, said.times.eager_ns) &&
      IsNear(times->replay_ns, said.times.replay_ns)) {
    return false;
  }
  said = {log, now_ns, *times};
  return true;
}

void AddRow(const Trace& trace, const SequenceTimes& times, const char* known) {
  LogTraceEvent(
      LogEvent::kDetect, "Timed", &trace,
      absl::StrCat("eager_ns=", times.eager_ns, " replay_ns=", times.replay_ns,
                   " replays=", ReplaysOf(trace), known));
}

}  // namespace

// Not inlined into a loop: GCC 12 warns of std::sort() then.
[[gnu::noinline]] SequenceTimes TimesOf(const Trace& trace) {
  SequenceTimes times;
  // Of runs that nobody followed, where there were some; those before it was
  // hot carry the recorder's work.
  const std::uint64_t unseen_ns = trace.trial.eager_run_ns();
  times.eager_ns = static_cast<std::int64_t>(
      unseen_ns != 0 ? unseen_ns : trace.eager_times.Median());
  times.replay_ns = static_cast<std::int64_t>(trace.replay_times.Median());
  times.executed_ns = static_cast<std::int64_t>(trace.executed_times.Median());
  if (trace.trial.is_off()) {  // with what is between runs
    times.eager_ns = static_cast<std::int64_t>(trace.trial.eager_ns());
    times.replay_ns = static_cast<std::int64_t>(trace.trial.replay_ns());
  }
  return times;
}

std::int64_t ReplaysOf(const Trace& trace) {
  // The second first: a run counts there after it counts here.
  const std::int64_t eager =
      trace.eager_completions.load(std::memory_order_relaxed);
  return std::max<std::int64_t>(
      trace.completions.load(std::memory_order_relaxed) - eager, 0);
}

void LogTimes(const Trace& trace) {
  SequenceTimes times;
  if (IsTimeForRow(trace, &times)) AddRow(trace, times, "");
}

void LockTimesForFork() { TheSaid().mutex.LockForFork(); }
void UnlockTimesAfterFork() { TheSaid().mutex.UnlockAfterFork(); }

void LogAllTimes(const TraceStore& store, bool is_beginning) {
  for (const Trace* trace : store.traces()) {
    const SequenceTimes times = TimesOf(*trace);
    if (!IsMeasured(times)) continue;
    AddRow(*trace, times, is_beginning ? " known=attach" : "");
  }
}

}  // namespace tjit::runtime
