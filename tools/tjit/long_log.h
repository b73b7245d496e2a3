// An instruction log that is followed: what is shown as of now, and what came
// before, which may be long and is read bit by bit, so that nobody waits for
// it.
//
//   LongLog log(&file);       // a LogChunks that is open
//   log.Read();               // what came since
//   while (log.ReadEarlier()) // some of what is earlier
//
// Thread: one. Tested by: tests/recorder/long_log_test.cpp,
// tests/acceptance/top_test.py
#pragma once

#include <cstdint>
#include <string>

#include "recorder/instruction_log_chunks.h"
#include "tools/tjit/log_tail.h"

namespace tjit::tools {

class LongLog {
 public:
  explicit LongLog(LogChunks* file)
      : file_(file),
        ends_(FindEnds(*file)),
        tail_(file, &ends_),
        earlier_(file, &ends_, /*is_earlier=*/true) {}

  // What came since. REQUIRES: the file's Update() before.
  void Read() {
    tail_.Read();
    if (has_all_) earlier_.Read();  // rows that have ended since
  }
  // Some megabytes of what is earlier; false if all of it is read.
  bool ReadEarlier();
  // So much that nobody would wait for it.
  void ReadAtOnce();
  void ReadAllEarlier() {
    while (ReadEarlier()) {
    }
  }
  // Goes on in the next part of a log of bounded size, if there is one: then
  // the rest of this one is read. Returns how many parts were missed.
  std::uint64_t FollowParts(const std::string& path);

  const LogChunks& file() const { return *file_; }
  // From the last fresh chunks on, and what is before them.
  const LogTail& tail() const { return tail_; }
  const LogTail& earlier() const { return earlier_; }
  bool has_all() const { return has_all_; }
  std::uint64_t damaged() const { return tail_.damaged() + earlier_.damaged(); }

 private:
  LogChunks* const file_;
  const LogEnds ends_;
  LogTail tail_, earlier_;
  bool has_all_ = false;
};

}  // namespace tjit::tools
