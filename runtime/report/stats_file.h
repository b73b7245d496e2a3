// The file that TJIT_STATS names, and which process writes it.
//
// Variables are inherited, so wrappers (timeout, a shell), children and forks
// all load tjit with the same path. The first process in which tjit sees an op
// holds the file, locked, until it ends. Another one that sees ops meanwhile
// writes PATH.PID; so does a forked child, with what it did after the fork. A
// process that saw no op writes its zeros, and why, only if nobody who saw some
// wrote since it began; `tjit run` writes such a file before the program starts
// (recorder/no_stats.h). A file that is none of these stays (output_file.h).
//
// The path "-" stands for a readable report on stderr, from each process that
// saw ops and from one that saw none but is no child of such a one.
//
// A path that cannot be written is said once, at the first op.
// Thread: Claim() under Runtime::mutex_, BeforeFork() on the thread that forks,
// Write() at exit.
// Tested by: tests/error/bad_setup_test.py
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "recorder/explanation.h"
#include "tjit/stats.h"

namespace tjit::runtime {

class StatsFile {
 public:
  StatsFile();
  StatsFile(const StatsFile&) = delete;
  StatsFile& operator=(const StatsFile&) = delete;

  // tjit sees ops in this process; `path` may be empty.
  void Claim(const std::string& path);
  // The process is about to fork.
  void BeforeFork(const Stats& now) { at_fork_ = now; }
  // The process ends. `why_none`: why it saw no op, if it saw none.
  using Explainer = std::function<Explanation(const Stats&)>;
  void Write(const std::string& path, const Stats& stats,
             const std::string& why_none, const Explainer& explain);

 private:
  void WriteTo(int fd, const std::string& path, const std::string& text);

  const pid_t pid_;
  const timespec began_;
  std::string claimed_;  // path asked for last; may be lost to another process
  int fd_ = -1;          // of claimed_, or of PATH.PID
  Stats at_fork_;
};

}  // namespace tjit::runtime
