// What tjit did and why not more, for people: every sequence it knows with its
// state, what ran eagerly, what made deferred ops run.
//
// runtime/explain.cpp fills an Explanation in the process, tools/tjit/ reads
// one from the file of TJIT_STATS; both print it by ToText().
//
// Tested by: tests/recorder/explanation_test.cpp, tests/acceptance/explain_test.py
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tjit {

using CountsByName = std::map<std::string, std::int64_t>;

struct ExplainedSequence {
  std::int64_t id = 0;
  std::int64_t ops = 0;
  std::string first_ops;  // "mm -> relu -> sum"
  std::string state;      // kSeen, ... below
  std::int64_t sightings = 0;
  std::int64_t threshold = 0;  // sightings that it takes
  std::int64_t replays = 0;    // complete ones
  std::int64_t skip = 0;       // entries to let pass before the next try
  // Medians of measured complete runs, from op to op; 0: none was measured.
  std::int64_t eager_ns = 0;
  std::int64_t replay_ns = 0;
  CountsByName left;     // by the name of a BailReason
  CountsByName at_call;  // steps that run at the call, by op

  // Over all replays; negative if they cost time. 0 if nothing was measured.
  std::int64_t won_ns() const {
    const bool measured = eager_ns != 0 && replay_ns != 0;
    return measured ? (eager_ns - replay_ns) * replays : 0;
  }
};

// States of a sequence.
inline constexpr char kStateSeen[] = "seen";          // not often enough yet
inline constexpr char kStateHot[] = "hot";            // not replayed so far
inline constexpr char kStateCompiled[] = "compiled";  // replayed
inline constexpr char kStatePaused[] = "paused";      // left too often lately
inline constexpr char kStateBlacklisted[] = "blacklisted";
inline constexpr char kStateOff[] = "off";  // eager is faster

// A segment that was compiled, and whose runs were measured with the compiled
// code and with library calls.
struct ExplainedCode {
  std::int64_t ops = 0;  // that run
  std::string first_op;
  bool pays = false;  // else it was switched off
  std::int64_t compile_ns = 0;
  // Medians of a run.
  std::int64_t library_ns = 0;
  std::int64_t compiled_ns = 0;

  // Runs after which the time of compiling is won back; 0: never.
  std::int64_t break_even_runs() const {
    const std::int64_t saved = library_ns - compiled_ns;
    return pays && saved > 0 ? (compile_ns + saved - 1) / saved : 0;
  }
};

// Where the numbers of a function come from that has eager's bits.
struct ExplainedFunction {
  std::string name;  // of an op: "tanh"
  std::string dtype;
  std::string from;  // "MKL's vmsTanh, ..."; or why it is a library call
};

struct ExplainedOp {
  std::string name;
  std::int64_t calls = 0;  // that ran eagerly
  std::string why;         // "reads a value"; empty: an op like any other
};

struct Explanation {
  // Why tjit saw no op, where it saw none and that is known.
  std::string why;
  CountsByName counters;  // of counters.def
  CountsByName flushes;   // by the name of a FlushReason
  CountsByName left;      // by the name of a BailReason
  CountsByName not_compiled;  // groups of ops, by what stood against it
  std::vector<ExplainedSequence> sequences;
  std::vector<ExplainedCode> compiled_segments;
  std::vector<ExplainedFunction> functions;
  std::vector<ExplainedOp> eager_ops;
};

// "9 ops from aten::mul: 1.7 us a run instead of 5.6 us, compiled in 30 ms,
// which 7693 runs win back".
std::string ToText(const ExplainedCode& code);

// Lines, each with its newline.
std::string ToText(const Explanation& explanation);

// `stats_json` (Stats::to_json) with the lists "sequence_details",
// "compiled_segments", "functions" and "eager_ops", and "why" if it says
// anything.
std::string WithLists(std::string stats_json, const Explanation& explanation);

}  // namespace tjit
