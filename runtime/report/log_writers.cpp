#include "runtime/report/log_writers.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/call/interpose.h"
#include "runtime/platform/biased_lock.h"
#include "support/mutex.h"

namespace tjit::runtime {

struct LogWriter {
  OwnerLock lock;
  std::unique_ptr<LogStream> stream ABSL_GUARDED_BY(lock);
  bool has_source ABSL_GUARDED_BY(lock) = false;
  // Of the stream's log.
  std::uint64_t log ABSL_GUARDED_BY(lock) = 0;
  std::uint64_t start_ns ABSL_GUARDED_BY(lock) = 0;
};

namespace {

struct Log {
  std::string path;
  std::uint32_t max_chunks = 0;  // that a part fills; 0: any number
  bool is_passing = false;
  bool is_child = false;
  bool is_open = false;
  std::uint64_t number = 0;
  std::uint64_t start_ns = 0;
  std::uint32_t streams = 0;
  std::uint16_t threads = 0;
  LogFile file;
};

// Everything of one process. A forked child has a new one. Locks are taken in
// this order: a writer's, the mutex, that of a file.
struct Writers {
  Mutex mutex;
  std::unique_ptr<Log> log ABSL_GUARDED_BY(mutex);  // null: none is written
  std::uint64_t logs ABSL_GUARDED_BY(mutex) = 0;    // that were begun
  std::vector<std::unique_ptr<LogWriter>> all ABSL_GUARDED_BY(mutex);
  std::vector<LogWriter*> free ABSL_GUARDED_BY(mutex);
};

// Never destroyed: threads may write while the process ends.
Writers* TheWriters(Writers* next = nullptr) {
  static Writers* writers = new Writers;
  if (next != nullptr) writers = next;
  return writers;
}

thread_local LogWriter* t_writer __attribute__((tls_model("initial-exec"))) =
    nullptr;

thread_local bool t_has_ended __attribute__((tls_model("initial-exec"))) =
    false;

struct WriterReturn {
  LogWriter* writer = nullptr;
  Writers* of = nullptr;
  ~WriterReturn() {
    t_writer = nullptr;
    t_has_ended = true;
    if (writer == nullptr || of != TheWriters()) return;  // the parent's
    {
      writer->lock.LockAsOwner();
      writer->has_source = false;
      writer->lock.UnlockAsOwner();
    }
    const MutexLock lock(of->mutex);
    of->free.push_back(writer);
  }
};
thread_local WriterReturn t_return;

[[gnu::noinline]] LogWriter* NewWriter() {
  Writers* const writers = TheWriters();
  const MutexLock lock(writers->mutex);
  if (writers->free.empty()) {
    writers->all.push_back(std::make_unique<LogWriter>());
    writers->free.push_back(writers->all.back().get());
  }
  t_writer = writers->free.back();
  writers->free.pop_back();
  t_return.writer = t_writer;
  t_return.of = writers;
  return t_writer;
}

LogSource SourceOfThisThread(Log* log) {
  if (getpid() == gettid()) return {LogSource::Kind::kMain, 0};
  if (InParallelRegion()) return {LogSource::Kind::kWorker, 0};
  return {LogSource::Kind::kThread, ++log->threads};
}

// Gives the writer a stream of the present log, if there is one, and this
// thread to it.
[[gnu::noinline]] void Prepare(LogWriter* writer)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer->lock) {
  Writers* const writers = TheWriters();
  const MutexLock lock(writers->mutex);
  Log* const log = writers->log.get();
  if (log == nullptr) return;
  if (!log->is_open) {
    log->is_open = true;
    log->file.Open(log->path, log->is_child, log->max_chunks);
  }
  if (writer->stream == nullptr) {
    writer->stream = std::make_unique<LogStream>(&log->file, log->streams++);
    writer->log = log->number;
    writer->start_ns = log->start_ns;
  }
  writer->stream->SetSource(SourceOfThisThread(log));
  writer->has_source = true;
}

std::uint32_t ChunksOfPart(long long mb) {
  // There are two parts at a time.
  constexpr long long kChunksPerMb = (1 << 20) / kLogChunkBytes / 2;
  // A part begins one more than it fills, and has a page before them.
  return mb == 0 ? 0 : static_cast<std::uint32_t>(mb * kChunksPerMb - 2);
}

void Begin(std::unique_ptr<Log> log) {
  log->start_ns = LogNowNs();
  Writers* const writers = TheWriters();
  const MutexLock lock(writers->mutex);
  log->number = ++writers->logs;
  writers->log = std::move(log);
}

}  // namespace

std::uint64_t LogNowNs() {
  return static_cast<std::uint64_t>(
      std::chrono::steady_clock::now().time_since_epoch().count());
}

std::uint64_t NumberOfLog() {
  Writers* const writers = TheWriters();
  const MutexLock lock(writers->mutex);
  return writers->log == nullptr ? 0 : writers->log->number;
}

bool LogHasBegun() {
  Writers* const writers = TheWriters();
  const MutexLock lock(writers->mutex);
  return writers->log != nullptr && writers->log->is_open;
}

// The main thread goes on, with what runs at the exit.
bool HasThreadEnded() { return t_has_ended && getpid() != gettid(); }

bool IsLockOfLog(const OwnerLock* lock) {
  Writers* const writers = TheWriters();
  const MutexLock held(writers->mutex);
  return std::any_of(writers->all.begin(), writers->all.end(),
                     [lock](const auto& w) { return &w->lock == lock; });
}

void BeginWholeLog(const std::string& path, long long mb) {
  auto log = std::make_unique<Log>();
  log->path = path;
  log->max_chunks = ChunksOfPart(mb);
  Begin(std::move(log));
}

std::string BeginPassingLog(const std::string& path, long long mb) {
  auto log = std::make_unique<Log>();
  std::string why = log->file.OpenOrSayWhy(path, ChunksOfPart(mb));
  if (!why.empty()) return why;
  log->is_passing = log->is_open = true;
  Begin(std::move(log));
  return {};
}

void EndPassingLog() {
  std::unique_ptr<Log> log;
  std::vector<LogWriter*> all;
  {
    Writers* const writers = TheWriters();
    const MutexLock lock(writers->mutex);
    log = std::move(writers->log);
    for (const auto& writer : writers->all) all.push_back(writer.get());
  }
  if (log == nullptr) return;
  // Whoever writes a row does so to its end; nobody gets a stream any more.
  for (LogWriter* writer : all) {
    writer->lock.LockAsOther();
    writer->stream.reset();
    writer->has_source = false;
    writer->log = 0;
    writer->lock.UnlockAsOther();
  }
  log->file.Close(LogEnd::kDetached);
}

// Calls are in kernels: their streams stay.
void CloseLog() {
  Writers* const writers = TheWriters();
  const MutexLock lock(writers->mutex);
  if (writers->log != nullptr) writers->log->file.Close();
}

StreamScope::StreamScope() ABSL_NO_THREAD_SAFETY_ANALYSIS
    : writer_(t_writer != nullptr ? t_writer : NewWriter()) {
  writer_->lock.LockAsOwner();
  if (!writer_->has_source) [[unlikely]]
    Prepare(writer_);
  stream_ = writer_->stream.get();
  log_ = writer_->log;
  start_ns_ = writer_->start_ns;
}

StreamScope::~StreamScope() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  writer_->lock.UnlockAsOwner();
}

LogRecord* BeginRow(LogEvent event, LogWords key,
                    const std::function<LogStream::Text()>& make,
                    std::uint64_t* log) {
  const StreamScope scope;
  if (scope.stream() == nullptr) return nullptr;
  *log = scope.log();
  return scope.stream()->BeginEvent(event, key, scope.Since(LogNowNs()), make);
}

void EndRow(LogRecord* row, std::uint64_t log) {
  const StreamScope scope;
  if (scope.stream() == nullptr || scope.log() != log) return;
  scope.stream()->EndEvent(row, scope.Since(LogNowNs()));
}

void LockWritersForFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Writers* const writers = TheWriters();
  writers->mutex.LockForFork();
  if (writers->log != nullptr) writers->log->file.LockForFork();
}

void UnlockWritersAfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Writers* const writers = TheWriters();
  if (writers->log != nullptr) writers->log->file.UnlockAfterFork();
  writers->mutex.UnlockAfterFork();
}

// The parent's chunks must not be written here.
std::string ForgetWritersInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Writers* const before = TheWriters();
  for (const auto& writer : before->all) {
    if (writer->stream != nullptr) writer->stream->Unmap();
  }
  TheWriters(new Writers);
  t_writer = nullptr;
  Log* const parent = before->log.get();
  if (parent == nullptr) return {};
  parent->file.Abandon();
  if (parent->is_passing) return {};
  auto log = std::make_unique<Log>();
  log->path = parent->path;
  log->max_chunks = parent->max_chunks;
  log->start_ns = parent->start_ns;
  log->is_child = true;
  Writers* const writers = TheWriters();
  log->number = ++writers->logs;
  writers->log = std::move(log);
  return absl::StrCat(parent->path, ".", getpid());
}

}  // namespace tjit::runtime
