// The file of the instruction log and the chunks of it.
//
// A disk that is full or a file that cannot be written ends the log with one
// line on stderr; the program goes on. The file stays locked while this process
// has parts of it mapped: who emptied it then would make the next store a
// SIGBUS.
// Threads: any. Tested by: tests/recorder/instruction_log_test.cpp
#pragma once

#include <mutex>
#include <string>

#include "recorder/instruction_log_format.h"

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
  void Abandon();

  // A mapped chunk with its header; null if the log has ended. Free it by
  // munmap().
  LogRecord* NewChunk(const LogChunkHeader& header);

  void LockForFork() { mutex_.lock(); }
  void UnlockAfterFork() { mutex_.unlock(); }

 private:
  int OpenLocked(const std::string& path);
  bool Empty();
  bool Extend(std::uint32_t chunks);
  void Stop(const std::string& why);
  void End(const std::string& why);

  std::mutex mutex_;
  std::string path_;
  int fd_ = -1;
  bool ended_ = false;
  LogFileHeader* header_ = nullptr;
};

}  // namespace tjit
