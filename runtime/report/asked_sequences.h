// Which sequences are to be written as files for `tjit replay`, and which have
// been: TJIT_REPRO and tjit::write_sequences().
//
// A sequence is written once, when a run of it that was replayed is complete.
// Where a run begins nobody knows yet which sequence it will be, so the calls
// of a run are recorded if one that begins so is asked for and not written
// (MayBeAsked), and at its end it is decided (TakeAsked). TJIT_REPRO=slow asks
// for what a trial found to be slower than eager: a sequence that runs eagerly
// from then on (trace_trial.h), and one of whose segments the machine code was
// switched off (code_trial.h).
//
// Nobody asks: a run pays one load of a number.
// Threads: any. Tested by:
// tests/runtime/thread/self_check/asked_sequences_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "recorder/trace.h"
#include "support/repro_list.h"

namespace tjit::runtime {

// Which runs have to be looked at when they begin.
enum class Asking : std::uint8_t {
  kNone,
  kGivenUp,  // those of sequences that run eagerly, as that is faster
  kEachRun,
};
extern constinit std::atomic<Asking> g_asking;

inline bool AsksForSequences() {
  return g_asking.load(std::memory_order_relaxed) != Asking::kNone;
}
inline bool AsksAtEachRun() {
  return g_asking.load(std::memory_order_relaxed) == Asking::kEachRun;
}

// From now on, in place of what was asked for before; all sequences of the list
// are written, though they were before. `folder`: from the working folder of
// now on. `by`: who asks, for the files.
void AskForSequences(const ReproList& list, const std::string& folder,
                     const std::string& by);
// As TJIT_REPRO and TJIT_REPRO_DIR say; nothing where they say nothing.
void AskAsEnvironmentSays();

// A run that begins at `root` may be one of a sequence that is to be written.
bool MayBeAsked(const TraceStore& store, const TraceNode& root);
// The run that began at `root` is one of `trace`: it is to be written. At most
// one thread is told so.
bool TakeAsked(const TraceNode& root, const Trace& trace);
// A run was recorded, and is not one that can be written.
void RecordInVain(const TraceNode& root);
// The machine code of a segment of `trace` was switched off, as it was slower.
void RecordSlowCode(const Trace& trace);

// Where they go, and who asks.
struct AskedPlace {
  std::string folder, by;
};
AskedPlace PlaceOfAsked();

// Around a fork, inside the locks of all threads' states.
void LockAskedForFork();
void UnlockAskedAfterFork();

// The process ends: says on stderr which of those that TJIT_REPRO names were
// not written. REQUIRES: it names some.
void PrintNotWritten();

}  // namespace tjit::runtime
