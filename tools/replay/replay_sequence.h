// Runs a sequence again and again under one backend and compares each run with
// eager.
//
// The runs differ: that by which the sequence was recorded and the one that
// failed take turns, their numbers of floating types lie in another order in
// every second run, and the storages move. Half of the time the sequence is
// learnt by the one, then, from nothing, by the other. Eager's bits of each of
// these are computed before tjit is switched on.
//
// Then the last run of the file is timed: eager runs, which tjit::Pause makes,
// and replays take turns, so that a machine that slows down slows both.
// Thread: one for each process; it switches tjit on for good.
// Tested by: tests/acceptance/replay_command_test.py
#pragma once

#include <tjit/options.h>
#include <tjit/sequence.h>

#include <cstdint>
#include <string>

namespace tjit::tools {

// Medians of as many runs of each kind; 0 runs: none was timed.
struct ReplayTimes {
  std::int64_t runs = 0;
  std::int64_t eager_ns = 0, replay_ns = 0;
};

struct ReplayResult {
  std::int64_t runs = 0;
  std::int64_t ops_replayed = 0, ops_fused = 0;
  std::string difference;  // "" : each run had eager's bits
  // Of runs beside the ones above.
  ReplayTimes times;
};

// Ends with the first run that differs, or begins no other after `seconds`. If
// `is_timed`, and none differs, other runs are timed, for a tenth of that.
// THROWS: c10::Error if this libtorch cannot run the sequence, or gives other
// bits each time.
ReplayResult ReplaySequence(const Sequence& sequence, Backend backend,
                            int seconds, bool is_timed);

}  // namespace tjit::tools
