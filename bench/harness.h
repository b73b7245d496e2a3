// Runs rows under Google Benchmark and reports what tjit did meanwhile.
//
// How: a row's workload is made once per process, runs its fixed warm-up
// (during which tjit finds and promotes it), its result is hashed into the
// label ("bits=..."), then it is timed. Counters cover the timed part only.
// Flags beside Google Benchmark's: --threads=N (default 1), --mark_step
// (tells tjit where a step ends), --enable_disable (switches tjit on for the
// warm-up and off again for the timing), --jit (functions of a step are wrapped
// by tjit::jit(), where the row has one), --row=NAME with --steps=N (no timing:
// N steps of one row in CountedSteps(), for an instruction counter), with these
// two --memory (no timing: what N steps need, as one line of JSON), and
// --warm_up=N (another number of warm-up steps) and --results=FILE (the bytes
// of the results after the warm-up go there, one tensor after the other).
// Thread: one.
// Tested by: tests in bench/CMakeLists.txt
#pragma once

#include <vector>

#include "bench/workloads.h"

namespace tjit::bench {

// Runs `count` steps and nothing else; never inlined, so that a profiler can
// count what happens inside.
void CountedSteps(const Workload& workload, std::int64_t count);

// The body of main().
int RunRows(int argc, char** argv, const std::vector<Row>& rows);

}  // namespace tjit::bench
