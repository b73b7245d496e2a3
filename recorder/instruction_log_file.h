// The file of the instruction log and the chunks of it.
//
// A disk that is full or a file that cannot be written ends the log with one
// line on stderr; the program goes on. The file stays locked while this process
// has parts of it mapped: who emptied it then would make the next store a
// SIGBUS.
// Threads: any. Tested by: tests/recorder/instruction_log_test.cpp
#pragma once

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
  bool Open(const std::string& path, bool is_child);
  // Says that no more rows come.
  void Close();
  // Lets the file go without a word: the parent of this process writes it.
  // REQUIRES: no other thread uses it: it ends, or this is the child of a fork.
  void Abandon() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // A mapped chunk with its header; null if the log has ended. Free it by
  // munmap().
  LogRecord* NewChunk(const LogChunkHeader& header);

  void LockForFork() { mutex_.LockForFork(); }
  void UnlockAfterFork() { mutex_.UnlockAfterFork(); }

 private:
  int OpenLocked(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Empty() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Extend(std::uint32_t chunks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Stop(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::string path_ ABSL_GUARDED_BY(mutex_);
  int fd_ ABSL_GUARDED_BY(mutex_) = -1;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  LogFileHeader* header_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace tjit
