// Runs a sequence again and again under one backend and compares each run with
// eager.
//
// The runs differ: that by which the sequence was recorded and the one that
// failed take turns, their numbers of floating types lie in another order in
// every second run, and the storages move. Half of the time the sequence is
// learnt by the one, then, from nothing, by the other. Eager's bits of each of
// these are computed before tjit is switched on.
// Thread: one for each process; it switches tjit on for good.
// Tested by: tests/acceptance/replay_command_test.py
#pragma once

#include <tjit/options.h>
#include <tjit/sequence.h>

#include <cstdint>
#include <string>

namespace tjit::tools {

struct ReplayResult {
  std::int64_t runs = 0;
  std::int64_t ops_replayed = 0, ops_fused = 0;
  std::string difference;  // "" : each run had eager's bits
};

// Ends with the first run that differs, or begins no other after `seconds`.
// THROWS: c10::Error if this libtorch cannot run the sequence, or gives other
// bits each time.
ReplayResult ReplaySequence(const Sequence& sequence, Backend backend,
                            int seconds);

}  // namespace tjit::tools
