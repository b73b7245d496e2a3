// Runs a sequence under one backend in a process of its own: a crash, or no
// end, is an answer as well.
//
// The process is forked where its options allow it, which takes a tenth of the
// time of starting the program anew. So the parent never switches tjit on, and
// runs ops on one thread. Thread: one.
// Tested by: tests/acceptance/replay_command_test.py
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/replay/replay_sequence.h"

namespace tjit::tools {

enum class ReplayStatus : std::uint8_t {
  kSame,
  kDiffers,
  kCrashed,  // a signal ended it
  kTimedOut,
  kRefused,  // it cannot be run at all
};

struct ReplayAnswer {
  ReplayStatus status = ReplayStatus::kRefused;
  ReplayResult result;
  std::string text;  // the difference, the signal, or why it was refused
  std::string said;  // lines on stdout and stderr

  bool is_finding() const {
    return status != ReplayStatus::kSame && status != ReplayStatus::kRefused;
  }
};

// That a process may take if nobody says.
inline constexpr int kSeconds = 60;

struct ReplaySettings {
  Backend backend = Backend::kLlvm;
  int seconds = kSeconds;       // until it is ended
  std::int64_t opt_limit = -1;  // TJIT_OPT_LIMIT; needs `path`
  std::string path;             // of the file that has the sequence
  bool is_timed = false;
};

ReplayAnswer ReplayInProcess(const Sequence& sequence,
                             const ReplaySettings& settings);

// What `tjit-replay one FILE BACKEND SECONDS` does: the answer is a line on
// stdout.
int ReplayOne(const std::string& path, const std::string& backend, int seconds);

// All of them, in the order of their strictness.
const std::vector<Backend>& AllBackends();
const char* NameOf(Backend backend);
bool ParseBackendName(const std::string& name, Backend* backend);

}  // namespace tjit::tools
