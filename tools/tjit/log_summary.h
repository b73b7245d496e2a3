// Sums an instruction log up: ops by count, bytes and time, sequences by
// replays and time won, waits, and the share of ops that were deferred.
// Tested by: tests/acceptance/log_test.py
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "recorder/instruction_log_reader.h"
#include "tools/tjit/json.h"
#include "tools/tjit/won_time.h"

namespace tjit::tools {

class LogSummary {
 public:
  void Add(const LogRow& row);
  // On stdout.
  void Print() const;
  // "ops" and "sequences".
  void AddTo(Json* json) const;
  // Of the last row, since the log began.
  std::uint64_t last_ns() const { return last_ns_; }

 private:
  struct Op {
    std::uint64_t calls = 0, deferred = 0, bytes = 0;
    double eager_ns = 0;  // of those that ran at the call
  };
  struct Sequence {
    std::uint64_t replays = 0, replayed_ops = 0, drains = 0, exits = 0;
    double replay_ns = 0, compile_ns = 0, drain_ns = 0;
    WonTime won;
    std::string what;
  };
  struct Wait {
    std::uint64_t times = 0;
    double ns = 0;
  };

  static void AddDetect(const LogRow& row, Sequence* sequence);

  std::map<std::string, Op> ops_;
  std::map<std::string, Wait> waits_;  // by what was waited for
  std::map<std::string, Sequence> sequences_;
  std::uint64_t last_ns_ = 0;
};

}  // namespace tjit::tools
