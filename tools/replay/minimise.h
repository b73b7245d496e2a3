// Takes calls out of a sequence as long as it still differs from eager.
//
// A call that is taken out leaves what eager makes of it: a storage that it
// makes or writes is one of its own from there on, with eager's bytes, for the
// calls behind it. Parts are halves at first, then smaller ones, single calls
// last, until none can go (delta debugging, Zeller and Hildebrandt,
// "Simplifying and Isolating Failure-Inducing Input", 2002). Thread: one; runs
// ops. Tested by: tests/acceptance/replay_command_test.py
#pragma once

#include <tjit/sequence.h>

#include <cstddef>
#include <vector>

#include "tools/replay/replay_process.h"

namespace tjit::tools {

// `run` without the calls that are `removed`. With `keeps_inputs` what these
// read and others make counts as still there at the end, and is compared.
// THROWS: c10::Error if a call throws.
SequenceRun WithoutCalls(const SequenceRun& run,
                         const std::vector<bool>& removed, bool keeps_inputs);

struct Minimised {
  Sequence sequence;
  ReplayAnswer answer;  // what it gives
  int candidates = 0;   // processes that were run
};

// REQUIRES: `sequence` gives `answer`, which is a finding. What is left gives
// one of the same kind.
Minimised Minimise(const Sequence& sequence, const ReplayAnswer& answer,
                   const ReplaySettings& settings);

}  // namespace tjit::tools
