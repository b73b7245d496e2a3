// Runs many seeds in child processes, so that a crash or a hang is one more
// failing seed and not the end of the run.
//
// Thread: one at a time. The calling process must not have started threads.
// Tested by: tests/differential/harness_test.cpp
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/differential/coverage.h"
#include "tests/differential/engine.h"

namespace tjit::differential {

struct DriverConfig {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // one past the end
  Engine engine = Engine::kTier1;
  int jobs = 1;
  int max_drains = 1000000;  // per program
  int iterations = 0;        // of each loop; 0: as generated
  int family = -1;           // only this one
  // Which seeds run; all, if empty.
  std::function<bool(std::uint64_t seed)> wants;
  std::string defect;        // planted in every child
  bool covers = false;       // collects Summary::coverage
  bool print_stats = false;  // the counters of each program, on stderr
  int seeds_per_child = 200;  // each child probes eager's functions
  int timeout_seconds = 120;  // per program
  // What a child does with a program; Compare() if empty.
  std::function<Verdict(const Program&)> compare;
};

struct SeedResult {
  enum class Status : std::uint8_t { kSame, kDiffers, kCrashed, kTimedOut };
  std::uint64_t seed = 0;
  Status status = Status::kSame;
  bool is_counted = false;
  double share = 0;
  std::int64_t ops = 0;  // of the hot phase
  int runs = 0;
  std::string detail;  // what differs, or the signal
  Coverage coverage;
};

struct Summary {
  std::int64_t programs = 0;
  std::int64_t counted = 0;
  std::int64_t runs = 0;
  std::int64_t ops = 0;
  std::int64_t failed = 0;
  double share = 0;  // of all hot ops, in the engine
  Coverage coverage;
  std::vector<SeedResult> failures;

  std::string ToString() const;
};

// Runs seeds until `last`, or until `on_result` returns false.
Summary RunSeeds(const DriverConfig& config,
                 const std::function<bool(const SeedResult&)>& on_result = {});

// Does `program` fail in a process of its own (as `status` says, at least)?
SeedResult RunAlone(const DriverConfig& config, const Program& program);

// What is left of a failing program, if it fails alone as `status` says.
Program Smaller(const DriverConfig& config, const Program& program,
                SeedResult::Status status);

// The text of a failing seed: what differs, and the program, shrunk. With
// `folder` the smaller program is written there as seedN.program, which
// --program runs, and what tjit recorded and compiled of it beside it, as
// seedN.trace.
std::string Report(const DriverConfig& config, const SeedResult& result,
                   bool shrink, const std::string& folder = "");

}  // namespace tjit::differential
