// Adds what one thread has counted to the statistics of the process.
// Tested by: tests/runtime/report/stats_test.cpp
#pragma once

#include "support/counters.h"
#include "tjit/stats.h"

namespace tjit::runtime {

// REQUIRES: the reasons of `sum` have room for all.
void Add(Stats* sum, const Counters& counters);

}  // namespace tjit::runtime
