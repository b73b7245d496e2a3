#include "runtime/report/instruction_log.h"

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/instruction_log.h"
#include "recorder/sightings.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/call/trace_run.h"
#include "runtime/report/log_writers.h"
#include "runtime/report/sequence_name.h"
#include "runtime/report/sequence_times.h"

namespace tjit::runtime {

namespace {

std::atomic<bool> g_from_the_start{false};

using Words = std::vector<std::uint64_t>;

// Words in place for the usual call.
class WordList {
 public:
  void Add(const c10::TensorImpl* impl) {
    if (impl == nullptr) {
      words_.push_back(kLogUndefinedTensor);
      return;
    }
    if (!HasPlainVtable(impl) || impl->has_symbolic_sizes_strides()) {
      words_.push_back(kLogOpaqueTensor);
      return;
    }
    const caffe2::TypeMeta dtype = impl->dtype();
    const c10::IntArrayRef sizes = impl->sizes();
    words_.push_back(LogTensorHead(
        static_cast<std::uint8_t>(c10::typeMetaToScalarType(dtype)),
        static_cast<std::uint8_t>(dtype.itemsize()),
        static_cast<std::uint16_t>(sizes.size())));
    for (const std::int64_t size : sizes) {
      words_.push_back(static_cast<std::uint64_t>(size));
    }
  }
  LogWords view() const { return {words_.data(), words_.size()}; }

 private:
  FrameArray<std::uint64_t, 64> words_;
};

void AddArguments(const CallFrame& frame, WordList* words) {
  for (const TensorRef& ref : frame.tensors) words->Add(ref.impl);
}

// Results that are arguments, behind the fresh ones.
void AddAliases(const CallFrame& frame, WordList* words) {
  if (!frame.entry.writes_anything) return;
  for (const ReturnInfo& result : frame.entry.returns) {
    if (result.alias_arg < 0) continue;
    for (const TensorRef& ref : frame.tensors) {
      if (static_cast<int>(ref.arg) == result.alias_arg) words->Add(ref.impl);
    }
  }
}

// "none" where rows are of no sequence.
std::string NameOrNone(const Trace* trace) {
  return trace == nullptr ? "none" : SequenceName(*trace);
}

}  // namespace

void StartInstructionLog(const std::string& path, long long mb) {
  BeginWholeLog(path, mb);
  g_from_the_start.store(true);
  RefuseAttach(path);
}

bool LogsFromTheStart() {
  return g_from_the_start.load(std::memory_order_relaxed);
}

// InstructionLogOn() stays: a call whose kernel runs now ends as it began, and
// one that LogOnlyState() stands for has no other way to end.
void CloseInstructionLog(const TraceStore& store) {
  if (InstructionLogOn() && LogHasBegun())
    LogAllTimes(store, /*is_beginning=*/false);
  CloseLog();
  EndAttachAtExit();
}

ThreadState* LogOnlyState() {
  static char state;
  return reinterpret_cast<ThreadState*>(&state);
}

void LogEagerCall(const CallFrame& frame) {
  WordList arguments;
  AddArguments(frame, &arguments);
  const StreamScope log;
  if (log.stream() == nullptr) return;
  log.stream()->BeginOp(frame.entry.id, arguments.view(),
                        log.Since(LogNowNs()));
}

void LogEagerResults(const CallFrame& frame, const ResultList& results) {
  const std::uint64_t now_ns = LogNowNs();
  WordList words;
  for (const c10::TensorImpl* impl : results.items()) words.Add(impl);
  AddAliases(frame, &words);
  const StreamScope log;
  if (log.stream() == nullptr) return;
  log.stream()->EndOp(words.view(), log.Since(now_ns));
}

void LogThrow() {
  const StreamScope log;
  if (log.stream() == nullptr) return;
  log.stream()->EndOpThrew(log.Since(LogNowNs()));
}

void LogDeferredCall(const CallFrame& frame) {
  WordList arguments;
  AddArguments(frame, &arguments);
  WordList results;
  for (std::uint32_t i = 0; i < frame.results.size(); ++i) {
    results.Add(frame.results[i]);
  }
  AddAliases(frame, &results);
  const StreamScope log;
  if (log.stream() == nullptr) return;
  log.stream()->AddDeferred(frame.entry.id, arguments.view(), results.view(),
                            log.Since(LogNowNs()));
}

namespace {

// A row that has ended already.
void LogEndedEvent(LogEvent event, LogWords key, std::uint64_t took_ns,
                   const std::function<LogStream::Text()>& make) {
  const std::uint64_t now_ns = LogNowNs();
  const StreamScope log;
  if (log.stream() == nullptr) return;
  log.stream()->EndEvent(
      log.stream()->BeginEvent(event, key, log.Since(now_ns - took_ns), make),
      log.Since(now_ns));
}

}  // namespace

void LogTraceEvent(LogEvent event, const char* what, const Trace* trace,
                   const std::string& details, std::uint64_t ns) {
  const LogStream::Text text{what,
                             absl::StrCat("sequence=", NameOrNone(trace),
                                          details.empty() ? "" : " ", details)};
  const std::string both = absl::StrCat(text.command, " ", text.details);
  const Words key(both.begin(), both.end());
  LogEndedEvent(event, {key.data(), key.size()}, ns, [&] { return text; });
}

const Trace* TraceOfSegment(const TraceNode& last) {
  const Trace* trace = last.ends.load(std::memory_order_acquire);
  return trace != nullptr ? trace : last.owner.load(std::memory_order_acquire);
}

void LogSighting(const Trace& trace, std::int64_t threshold, bool is_hot_now) {
  if (!is_hot_now && trace.hot.load(std::memory_order_relaxed)) return;
  LogTraceEvent(
      LogEvent::kDetect, "Seen", &trace,
      absl::StrCat("sightings=", trace.sightings.load(),
                   " threshold=", SightingsNeeded(trace.length, threshold)));
}

namespace {

// One for each run: its text is made once. `why`: a literal, or null.
void LogRunOf(const Trace& trace, const char* what, const char* why) {
  const std::uint64_t key[] = {trace.key.hash,
                               reinterpret_cast<std::uintptr_t>(what),
                               reinterpret_cast<std::uintptr_t>(why)};
  LogEndedEvent(LogEvent::kDetect, {key, std::size(key)}, 0, [&] {
    return LogStream::Text{what, absl::StrCat("sequence=", SequenceName(trace),
                                              why == nullptr ? "" : " why=",
                                              why == nullptr ? "" : why)};
  });
}

}  // namespace

void LogFinished(const Trace& trace) { LogRunOf(trace, "Finished", nullptr); }

void LogLetPass(const Trace& trace, LetPass why) {
  LogRunOf(trace, "Let pass",
           why == LetPass::kWasLeft ? "left"
           : trace.trial.is_off()   ? "off"
                                    : "trial");
}

void LogForgotten(const TraceStore& before, const TraceStore& after) {
  const bool is_copy = before.lineage() == after.lineage();
  std::set<std::uint32_t> kept;  // by id
  if (is_copy) {
    for (const Trace* trace : after.traces()) kept.insert(trace->id);
  }
  for (const Trace* trace : before.traces()) {
    if (kept.contains(trace->id)) continue;
    LogTraceEvent(LogEvent::kDetect, "Forgotten", trace,
                  is_copy ? "why=room" : "why=clear");
  }
}

void SegmentRow::Begin(LogEvent event, const Run& run, FlushReason reason) {
  const Trace* trace = TraceOfSegment(*run.pending.back());
  const std::uint64_t key[] = {trace == nullptr ? 0 : trace->key.hash,
                               run.pending.size(),
                               static_cast<std::uint64_t>(reason)};
  const auto make = [&] {
    return LogStream::Text{event == LogEvent::kDrain ? "Drained" : "Executed",
                           absl::StrCat("sequence=", NameOrNone(trace),
                                        " ops=", run.pending.size(),
                                        " reason=", FlushName(reason))};
  };
  row_ = BeginRow(event, {key, std::size(key)}, make, &log_);
}

void SegmentRow::End() { EndRow(row_, log_); }

void LockInstructionLogForFork() {
  LockTimesForFork();
  LockAttachForFork();
  LockWritersForFork();
}

void UnlockInstructionLogAfterFork() {
  UnlockWritersAfterFork();
  UnlockAttachAfterFork();
  UnlockTimesAfterFork();
}

void ForgetInstructionLogInChild() {
  const std::string path = ForgetWritersInChild();
  OfferAttachInChild(/*logs=*/!path.empty());
  if (!path.empty()) RefuseAttach(path);
}

}  // namespace tjit::runtime
