// The file of the instruction log and the chunks of it.
//
// A disk that is full or a file that cannot be written ends the log with one
// line on stderr; the program goes on. The file stays locked while this process
// has parts of it mapped: who emptied it then would make the next store a
// SIGBUS.
//
// Note [Parts]. A bounded log goes on in a new part where the present one has
// half of what is allowed. No row may mean a text of another part: so streams
// look at part() before each row, and begin anew where it is another one. They
// begin the part themselves where IsFull(): a file that is full takes the rest
// of rows that have begun. A chunk of an earlier part stays mapped for rows
// that are open there, and until the thread's next row: so a thread that does
// nothing any more keeps a part on the disk whose name is gone.
// Threads: any. Tested by: tests/recorder/instruction_log_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "recorder/instruction_log_format.h"
#include "support/mutex.h"

namespace tjit {

class LogFile {
 public:
  LogFile() = default;
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Empties `path`; PATH.PID if another process writes it now, or in a forked
  // child, whose parent's it is. False, with a line on stderr, if that cannot
  // be written, or holds what is no log (output_file.h).
  // `max_chunks`: that a part fills; one more is begun. 0: all in one part.
  bool Open(const std::string& path, bool is_child,
            std::uint32_t max_chunks = 0);
  // The same for who waits for an answer: "" or what stands against it. A file
  // that another process writes stands against it, too.
  std::string OpenOrSayWhy(const std::string& path, std::uint32_t max_chunks);
  // Says that no more rows come, and how it ended.
  void Close(LogEnd end = LogEnd::kClosed);
  // Lets the file go without a word: the parent of this process writes it.
  // REQUIRES: no other thread uses it: it ends, or this is the child of a fork.
  void Abandon() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // The part that is written now, and whether it is full.
  std::uint32_t part() const { return PartOf(state()); }
  bool IsFull() const { return (state() & kFull) != 0; }
  // Begins the part behind `part`, which is full, if nobody has.
  void BeginPartAfter(std::uint32_t part);

  // A mapped chunk with its header; null if the log has ended, or another part
  // than `part` is written. Free it by munmap().
  LogRecord* NewChunk(const LogChunkHeader& header, std::uint32_t part);

  void LockForFork() { mutex_.LockForFork(); }
  void UnlockAfterFork() { mutex_.UnlockAfterFork(); }

 private:
  static constexpr std::uint32_t kFull = 1;
  static std::uint32_t PartOf(std::uint32_t state) { return state / 2; }
  std::uint32_t state() const { return state_.load(std::memory_order_relaxed); }
  int OpenLocked(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool BeginFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Begin(std::uint32_t part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool PrepareParts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MakeOld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Empty() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Extend(std::uint32_t chunks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Stop(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::string path_ ABSL_GUARDED_BY(mutex_);
  // Who asked for the log, for lines on stderr; and where to say instead why it
  // cannot be.
  const char* asked_by_ ABSL_GUARDED_BY(mutex_) = "TJIT_INSTRUCTION_LOG";
  std::string* why_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int fd_ ABSL_GUARDED_BY(mutex_) = -1;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  LogFileHeader* header_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::uint32_t max_chunks_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: any number
  std::uint32_t streams_ ABSL_GUARDED_BY(mutex_) = 0;     // that have written
  std::atomic<std::uint32_t> state_{0};                   // 2 * part, and kFull
};

}  // namespace tjit
