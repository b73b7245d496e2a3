// Runs programs in the engines under test and compares them with eager.
//
// How: every run starts from tjit::clear() and the program's seed. Counters are
// read before and after the hot phase (the last iterations), without a flush.
// Invariants:
// (1) Outside RunIn() tjit is disabled.
// (2) A comparison counts only if the engine ran at least kCountedShare of the
//     ops of the hot phase, and threads shared a loop where they should; a
//     silent fallback to eager proves nothing.
// Thread: one at a time; the engines are process-wide.
// Tested by: tests/differential/harness_test.cpp
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/differential/coverage.h"
#include "tests/differential/log.h"
#include "tests/differential/program.h"

namespace tjit::differential {

enum class Engine : std::uint8_t {
  kEager,
  kTier1,
  kInterpreter,  // tier 2, groups interpreted
  kLlvm,         // tier 2, groups as machine code
  kPlain,        // the same of what was lowered as it is: no pass, no fusion
  kTorchscript,  // tier 2, groups as graphs of TorchScript
  kForcedDrain,  // drains at op k of each run, for every k
  kSideExit,     // machine code that is left at op k in one iteration, for
                 // every k, and runs again in the next
  kThreads,      // machine code whose loops two threads share; of eager, too
  kJit,          // the body of the loop is a function of tjit::jit()
};

inline constexpr double kCountedShare = 0.8;
// Those of tier 2 count if groups ran that share of the ops besides.
inline constexpr double kFusedShare = 0.1;
inline constexpr int kHotIterations = 8;

// In the order of Engine: "eager", "tier1", "interpreter", "llvm", "plain",
// "torchscript", "drain", "exit", "threads", "jit".
const std::vector<std::string_view>& EngineNames();
// False if `name` is none of them.
bool ParseEngine(std::string_view name, Engine& engine);

struct RunResult {
  Log log;
  std::int64_t ops_seen = 0;  // executed in the hot phase, as the following
  std::int64_t ops_replayed = 0;
  std::int64_t ops_drained = 0;
  std::int64_t ops_fused = 0;  // of the replayed ones
  std::int64_t exits = 0;      // iterations that were left on purpose
  std::int64_t shared = 0;     // loops that two threads ran
  std::int64_t functions = 0;  // iterations that a function was replayed for
  std::string stats_json;  // all counters of the hot phase
};

// One run of `program`, on one thread of libtorch's or so many. `drain_at` is
// used by kForcedDrain only, `exits_from` by kSideExit: from this iteration on
// every second one is left, at op 0, 1, 2...
RunResult RunIn(Engine engine, const Program& program,
                std::int64_t drain_at = -1, std::int64_t exits_from = -1,
                int threads = 1);

struct Verdict {
  bool is_counted = false;
  double share = 0;         // of the hot phase, in the engine
  double fused_share = 0;   // of that, in compiled groups
  std::int64_t ops = 0;     // in the hot phase
  int runs = 0;             // in the engine
  std::string difference;   // "" if there is none
  std::string stats_json;   // of the last run
  Coverage coverage;        // if somebody asked for it
};

// Eager against `engine`; of kJit without statements that work on the host.
// kForcedDrain tries each k below the number of ops of
// an iteration, but at most `max_drains` of them, spread evenly; it counts if
// the deepest drain reached the share. kSideExit tries each of them in one run,
// made longer, behind one without exits; it counts if so many iterations were
// left.
Verdict Compare(Engine engine, const Program& program, int max_drains);

// Removes statements and simplifies as long as `fails` still holds.
Program Shrink(const Program& program,
               const std::function<bool(const Program&)>& fails);

}  // namespace tjit::differential
