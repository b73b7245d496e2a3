// Which instruction log is written now, and who writes it.
//
// Each thread that logs has a writer, which keeps its stream of the present
// log; a thread that ends hands the writer back for the next one. A log may
// begin and end while calls are in flight on any thread: rows are written under
// the writer's lock, which is the thread's own and costs it two instructions.
// Who ends a log takes each writer's lock in turn, and its stream away: then
// nobody writes to what is unmapped. A row that is open then stays so, and who
// comes to end it finds that its log is gone.
//
// A log that the process writes from its start on opens its file at the first
// row, so that a shell or a launcher leaves it alone.
// Threads: any. Tested by: tests/runtime/report/attach_test.cpp,
// tests/acceptance/log_test.py
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "recorder/instruction_log.h"

namespace tjit::runtime {

class OwnerLock;
struct LogWriter;

// A log into `path`; `mb`: that it may take, 0 for any number. One at a time.
void BeginWholeLog(const std::string& path, long long mb);
// The same, at once. Returns "" or what stands against it.
std::string BeginPassingLog(const std::string& path, long long mb);
// Its file is complete and nobody's any more.
void EndPassingLog();
// The process ends: no more rows come.
void CloseLog();

// Steady time.
std::uint64_t LogNowNs();

// Of the log that is written now; no two have the same. 0: none.
std::uint64_t NumberOfLog();
// There is a log, and its file has been opened.
bool LogHasBegun();
// This thread has handed its writer back: it would be another one to the log.
bool HasThreadEnded();
// It is that of a writer.
bool IsLockOfLog(const OwnerLock* lock);

// This thread's stream, for the length of a scope. REQUIRES: no other one of
// this thread lives.
class StreamScope {
 public:
  StreamScope();
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  // Null: no log is written (any more).
  LogStream* stream() const { return stream_; }
  // Of the log; no two have the same. 0: none.
  std::uint64_t log() const { return log_; }
  // A steady time since the log began.
  std::uint64_t Since(std::uint64_t ns) const {
    return ns > start_ns_ ? ns - start_ns_ : 0;
  }

 private:
  LogWriter* const writer_;
  LogStream* stream_ = nullptr;
  std::uint64_t log_ = 0, start_ns_ = 0;
};

// A row of no op, which is open until EndRow(). Null: no log is written. Sets
// `log`, in which it stands.
LogRecord* BeginRow(LogEvent event, LogWords key,
                    const std::function<LogStream::Text()>& make,
                    std::uint64_t* log);
// Nothing happens where that log has ended meanwhile. `row` may be null.
void EndRow(LogRecord* row, std::uint64_t log);

// Around fork(). A child goes on with a file of its own, whose path is
// returned, if the log is one from the start on; else it has none, and "" is
// returned.
void LockWritersForFork();
void UnlockWritersAfterFork();
std::string ForgetWritersInChild();

}  // namespace tjit::runtime
