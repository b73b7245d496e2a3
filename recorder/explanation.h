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
  // "566f0d7d4c59", in every run of the program; may be empty.
  std::string name;
  std::int64_t ops = 0;
  std::string first_ops;  // "mm -> relu -> sum"
  std::string region;     // in which it runs; empty: outside of all
  std::string state;      // kSeen, ... below
  std::int64_t sightings = 0;
  std::int64_t threshold = 0;  // sightings that it takes
  std::int64_t replays = 0;    // complete ones
  std::int64_t skip = 0;       // entries to let pass before the next try
  // Medians of measured complete runs, from op to op; 0: none was measured.
  std::int64_t eager_ns = 0;
  std::int64_t replay_ns = 0;
  std::int64_t executed_ns = 0;  // of replay_ns: what was deferred ran
  CountsByName left;     // with deferred ops, by the name of a BailReason
  CountsByName at_call;  // steps that run at the call, by op
  // Why, by op, as far as it is known: of the last such call in the region.
  std::map<std::string, std::string> why_at_call;

  // Over all replays; negative if they cost time. 0 if nothing was measured.
  bool is_measured() const { return eager_ns != 0 && replay_ns != 0; }
  std::int64_t won_ns() const {
    return is_measured() ? (eager_ns - replay_ns) * replays : 0;
  }
};

// States of a sequence.
inline constexpr char kStateSeen[] = "seen";          // not often enough yet
inline constexpr char kStateHot[] = "hot";            // not replayed so far
inline constexpr char kStateReplayed[] = "replayed";
inline constexpr char kStatePaused[] = "paused";      // left too often lately
inline constexpr char kStateBlacklisted[] = "blacklisted";
inline constexpr char kStateOff[] = "off";  // eager is faster

// A named region (tjit::Region), of all threads, without the regions inside.
struct ExplainedRegion {
  std::string name;
  bool is_excluded = false;  // all of it
  std::int64_t entries = 0;
  std::int64_t ops_seen = 0;
  std::int64_t ops_eager = 0;
  std::int64_t ops_replayed = 0;
  std::int64_t ops_drained = 0;
  std::int64_t bodies = 0;  // sequences that were recorded
  // Of the one that was replayed most: what ops at the call split it into.
  std::int64_t sequences = 0;
  std::int64_t ops_at_call = 0;
  std::map<std::string, std::string> at_call;  // why, by op
};

// A segment that was compiled, and whose runs were measured with the compiled
// code and with library calls.
struct ExplainedCode {
  std::int64_t ops = 0;  // that run
  std::string first_op;
  std::string sequence;  // its name; may be empty
  bool pays = false;  // else it was switched off
  std::int64_t compile_ns = 0;  // of all times that it was compiled
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

// The first time that a run with deferred ops left a sequence for a reason.
struct ExplainedExit {
  std::int64_t sequence = 0;
  std::int64_t after_ops = 0;
  std::string reason;    // the name of a BailReason
  std::string op;        // that the sequence goes on with
  std::string expected;  // "tensor 1 f32[3,4]"; empty: nothing can be said
  std::string actual;
  std::string place;  // "Train(Batch const&)+0x21 in program"; may be empty
};

// A place in the program that took raw pointers to tensors.
struct ExplainedExposure {
  std::string place;       // as of ExplainedExit; empty: a call from Python
  std::int64_t times = 0;  // of the pointers that were looked at
  std::int64_t bytes = 0;  // of the largest storage
  std::string tensor{};    // its name (tjit::name); may be empty
};

// A function of tjit::jit().
struct ExplainedJit {
  std::string name;
  std::int64_t calls = 0;
  std::int64_t replays = 0;  // calls that did not run it
  std::int64_t ways = 0;     // one for each form of the arguments
  std::string why;           // it is not replayed; empty: the last call was
  std::string parts;         // that ops at the call split it into, or empty
};

struct ExplainedOp {
  std::string name;
  std::int64_t calls = 0;  // that ran eagerly
  std::string why;         // "reads a value"; empty: an op like any other
};

struct Explanation {
  // Why tjit saw no op, where it saw none and that is known.
  std::string why;
  std::string version;  // of tjit
  std::string program;  // its command line
  std::int64_t wall_ns = 0;  // since the process began; 0: not known
  CountsByName counters;  // of counters.def
  CountsByName flushes;   // by the name of a FlushReason
  CountsByName left;      // by the name of a BailReason
  CountsByName backwards_left;  // by the name of a BackwardReason
  CountsByName not_compiled;  // groups of ops, by what stood against it
  std::vector<ExplainedSequence> sequences;
  std::vector<ExplainedRegion> regions;
  std::vector<ExplainedExit> exits;
  std::vector<ExplainedCode> compiled_segments;
  std::vector<ExplainedFunction> functions;
  std::vector<ExplainedOp> eager_ops;
  std::vector<ExplainedExposure> exposures;
  std::vector<ExplainedJit> jit_functions;
};

// "9 ops from aten::mul: 1.7 us a run instead of 5.6 us, compiled in 30 ms,
// which 7693 runs win back".
std::string ToText(const ExplainedCode& code);

// "3 traced sequences, 2 ops at the call (aten::tanh: opaque)".
std::string SequencesText(const ExplainedRegion& region);

// Lines, each with its newline. The first ones say what was won, why not more
// and what to do; behind them is what that was made of. `verbose`: where the
// numbers of functions come from, too.
std::string ToText(const Explanation& explanation, bool verbose = false);

// `stats_json` (Stats::to_json) with "schema", "tjit" (the version), "program"
// and "wall_ns", the lists "sequence_details", "exits", "compiled_segments",
// "functions", "regions", "eager_ops", "exposures" and "jit_functions", and
// "why" if it says anything.
std::string WithLists(std::string stats_json, const Explanation& explanation);

}  // namespace tjit
