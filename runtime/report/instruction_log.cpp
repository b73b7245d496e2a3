#include "runtime/report/instruction_log.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/instruction_log.h"
#include "runtime/call/interpose.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/call/trace_run.h"
#include "runtime/platform/thread_context.h"
#include "support/mutex.h"

namespace tjit::runtime {

std::atomic<bool> g_instruction_log{false};

namespace {

using Words = std::vector<std::uint64_t>;

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(
      std::chrono::steady_clock::now().time_since_epoch().count());
}

// Everything of one process's log. A forked child has a new one.
struct Log {
  Mutex mutex;
  std::vector<std::unique_ptr<LogStream>> streams ABSL_GUARDED_BY(mutex);
  std::vector<LogStream*> free ABSL_GUARDED_BY(mutex);
  std::uint16_t threads ABSL_GUARDED_BY(mutex) = 0;
  bool is_open ABSL_GUARDED_BY(mutex) = false;
  LogFile file;
};
// What outlives a fork.
std::string g_path;  // set before g_instruction_log
std::uint32_t g_max_chunks = 0;  // that a part fills; 0: any number
std::uint64_t g_start_ns = 0;
bool g_is_child = false;
// Never destroyed: threads may write while the process ends.
Log* g_log = nullptr;

std::uint64_t SinceStart() { return NowNs() - g_start_ns; }

thread_local LogStream* t_stream __attribute__((tls_model("initial-exec"))) =
    nullptr;

struct StreamReturn {
  LogStream* stream = nullptr;
  Log* log = nullptr;
  ~StreamReturn() {
    t_stream = nullptr;
    if (stream == nullptr || log != g_log) return;  // the parent's
    const MutexLock lock(log->mutex);
    log->free.push_back(stream);
  }
};
thread_local StreamReturn t_return;

LogSource SourceOfThisThread(Log* log)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(log->mutex) {
  if (getpid() == gettid()) return {LogSource::Kind::kMain, 0};
  if (InParallelRegion()) return {LogSource::Kind::kWorker, 0};
  return {LogSource::Kind::kThread, ++log->threads};
}

[[gnu::noinline]] LogStream* NewStream() {
  Log* log = g_log;
  const MutexLock lock(log->mutex);
  if (!log->is_open) {
    log->is_open = true;
    log->file.Open(g_path, g_is_child, g_max_chunks);
  }
  if (log->free.empty()) {
    const auto number = static_cast<std::uint32_t>(log->streams.size());
    log->streams.push_back(std::make_unique<LogStream>(&log->file, number));
    log->free.push_back(log->streams.back().get());
  }
  t_stream = log->free.back();
  log->free.pop_back();
  t_stream->SetSource(SourceOfThisThread(log));
  t_return.stream = t_stream;
  t_return.log = log;
  return t_stream;
}

LogStream& Stream() { return t_stream != nullptr ? *t_stream : *NewStream(); }

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

// What a sequence is called: the same in every run of the program.
std::string SequenceName(const Trace* trace) {
  if (trace == nullptr) return "none";
  return absl::StrFormat("%012x", trace->key.hash & ((1ull << 48) - 1));
}

}  // namespace

void StartInstructionLog(const std::string& path, long long mb) {
  // There are two parts at a time.
  constexpr long long kChunksPerMb = (1 << 20) / kLogChunkBytes / 2;
  g_path = path;
  // A part begins one more than it fills, and has a page before them.
  g_max_chunks =
      mb == 0 ? 0 : static_cast<std::uint32_t>(mb * kChunksPerMb - 2);
  g_start_ns = NowNs();
  g_log = new Log;
  g_instruction_log.store(true, std::memory_order_release);
}

// g_instruction_log stays: a call whose kernel runs now ends as it began, and
// one that LogOnlyState() stands for has no other way to end.
void CloseInstructionLog() {
  if (g_log != nullptr) g_log->file.Close();
}

ThreadState* LogOnlyState() {
  static char state;
  return reinterpret_cast<ThreadState*>(&state);
}

void LogEagerCall(const CallFrame& frame) {
  WordList arguments;
  AddArguments(frame, &arguments);
  Stream().BeginOp(frame.entry.id, arguments.view(), SinceStart());
}

void LogEagerResults(const CallFrame& frame, const ResultList& results) {
  const std::uint64_t now_ns = SinceStart();
  WordList words;
  for (const c10::TensorImpl* impl : results.items()) words.Add(impl);
  AddAliases(frame, &words);
  Stream().EndOp(words.view(), now_ns);
}

void LogThrow() { Stream().EndOpThrew(SinceStart()); }

void LogDeferredCall(const CallFrame& frame) {
  WordList arguments;
  AddArguments(frame, &arguments);
  WordList results;
  for (std::uint32_t i = 0; i < frame.results.size(); ++i) {
    results.Add(frame.results[i]);
  }
  AddAliases(frame, &results);
  Stream().AddDeferred(frame.entry.id, arguments.view(), results.view(),
                       SinceStart());
}

void LogTraceEvent(LogEvent event, const char* what, const Trace* trace,
                   const std::string& details, std::uint64_t ns) {
  const LogStream::Text text{what,
                             absl::StrCat("sequence=", SequenceName(trace),
                                          details.empty() ? "" : " ", details)};
  const std::string both = absl::StrCat(text.command, " ", text.details);
  const Words key(both.begin(), both.end());
  const std::uint64_t now_ns = SinceStart();
  LogStream& stream = Stream();
  stream.EndEvent(stream.BeginEvent(event, {key.data(), key.size()},
                                    now_ns - ns, [&] { return text; }),
                  now_ns);
}

const Trace* TraceOfSegment(const TraceNode& last) {
  const Trace* trace = last.ends.load(std::memory_order_acquire);
  return trace != nullptr ? trace : last.owner.load(std::memory_order_acquire);
}

void LogSighting(const Trace& trace, std::int64_t threshold, bool is_hot_now) {
  if (!is_hot_now && trace.hot.load(std::memory_order_relaxed)) return;
  LogTraceEvent(LogEvent::kDetect, "Seen", &trace,
                absl::StrCat("sightings=", trace.sightings.load(),
                             " threshold=", threshold));
}

// One for each run: its text is made once.
void LogFinished(const Trace& trace) {
  const std::uint64_t key[] = {trace.key.hash};
  const std::uint64_t now_ns = SinceStart();
  LogStream& stream = Stream();
  stream.EndEvent(
      stream.BeginEvent(LogEvent::kDetect, {key, std::size(key)}, now_ns,
                        [&] {
                          return LogStream::Text{
                              "Finished",
                              absl::StrCat("sequence=", SequenceName(&trace))};
                        }),
      now_ns);
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
  row_ = Stream().BeginEvent(event, {key, std::size(key)}, SinceStart(), [&] {
    return LogStream::Text{event == LogEvent::kDrain ? "Drained" : "Executed",
                           absl::StrCat("sequence=", SequenceName(trace),
                                        " ops=", run.pending.size(),
                                        " reason=", FlushName(reason))};
  });
}

void SegmentRow::End() { Stream().EndEvent(row_, SinceStart()); }

void LockInstructionLogForFork() {
  if (g_log == nullptr) return;
  g_log->mutex.LockForFork();
  g_log->file.LockForFork();
}

void UnlockInstructionLogAfterFork() {
  if (g_log == nullptr) return;
  g_log->file.UnlockAfterFork();
  g_log->mutex.UnlockAfterFork();
}

// The parent's chunks must not be written here.
void ForgetInstructionLogInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (g_log == nullptr) return;
  for (const auto& stream : g_log->streams) stream->Unmap();
  g_log->file.Abandon();
  g_log = new Log;
  g_is_child = true;
  t_stream = nullptr;
}

}  // namespace tjit::runtime
