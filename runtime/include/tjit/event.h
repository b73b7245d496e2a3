// What tjit does with a program, told as it happens:
//
//   const auto id = tjit::on_event([](const tjit::Event& event) {
//     std::clog << event.to_json() << "\n";
//   });
//   ...
//   tjit::remove_on_event(id);
//
// Callbacks run one after another, on one thread of tjit's own, in the order in
// which things happened and a moment after them. So a slow one holds up no op,
// and no lock of tjit is held. Inside, every function of tjit and libtorch may
// be called: ops run there as under a tjit::Pause, and are no part of what is
// recorded. wait_for_events() returns at once there. The signals of the program
// come to its other threads. docs/events.md tells more.
//
// Cost: none without a callback. Threads: any.
// Tested by: tests/runtime/event_test.cpp
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tjit/export.h"

namespace tjit {

enum class EventKind : std::uint8_t {
  // A sequence was seen often enough: its ops are deferred from its next run
  // on. Or a function of tjit::jit() was recorded and confirmed.
  kPromoted,
  // The compiler is done with a segment of a sequence.
  kCompiled,
  // A run left its sequence with ops deferred: these ran eagerly, and so does
  // what comes.
  kFellBack,
  // A sequence runs eagerly for a long while, as runs left it too often
  // ("blacklisted") or eager is faster ("slower"). Or a function is not
  // replayed.
  kGivenUp,
  // The sequences that are run least were forgotten, as a limit was near, or
  // what was recorded of sequences before they were cut into parts.
  kEvicted,
};

struct Event {
  EventKind kind = EventKind::kPromoted;
  std::string sequence;  // its name, as explain() has it; may be empty
  std::string region;    // its tjit::Region; empty: outside of all
  std::string function;  // its name, if tjit::jit() has recorded it
  // Of the sequence; kCompiled: of the segment; kFellBack: that had come when
  // another one came; kEvicted: that were forgotten.
  std::int64_t ops = 0;

  // kCompiled: how long it took, and what became of its groups of ops.
  std::int64_t took_ns = 0;
  std::int64_t kernels_compiled = 0;
  std::int64_t kernels_reused = 0;
  std::int64_t kernels_failed = 0;

  // kFellBack and kGivenUp: why, as a name of docs/counters.md and in words.
  std::string reason;
  std::string why;
  // kFellBack: the op that the sequence goes on with, what it was recorded with
  // and what came instead; empty where nothing can be said.
  std::string op;
  std::string expected;
  std::string actual;

  // Times that it happened. kFellBack and kGivenUp of sequences are told once a
  // second for each sequence and reason; the details are those of the first
  // time.
  std::int64_t times = 1;
  // Events before this one that are not told, as callbacks were too slow: no
  // more than 4,096 wait.
  std::int64_t missed = 0;

  // One object with these names. "kind" is "promoted", "compiled",
  // "fell_back", "given_up" or "evicted".
  TJIT_API std::string to_json() const;
};

// Calls `call` for everything that happens from now on. Returns its number,
// which is above 0. An exception that leaves it is said on stderr the first
// time and ends nothing. A forked child has the callbacks, too, and is told of
// its own events alone. None is called once the exit of the process has begun,
// which waits for one that runs. THROWS: c10::Error if `call` is empty, or no
// thread can be had.
TJIT_API std::uint64_t on_event(std::function<void(const Event&)> call);

// `call` is not called any more, and does not run when this returns, unless it
// is a callback itself that says so. Hold no lock meanwhile that the callback
// may want. False if there is none of that number.
TJIT_API bool remove_on_event(std::uint64_t id);

// Waits until everything that has happened so far was told, but no longer than
// `timeout`. Returns whether it is so.
TJIT_API bool wait_for_events(
    std::chrono::milliseconds timeout = std::chrono::minutes(1));

}  // namespace tjit
