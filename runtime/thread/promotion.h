// A sequence has been seen often enough: says so to whoever wants to know.
// Thread: any. Tested by: tests/runtime/event_test.cpp,
// tests/acceptance/names_test.py
#pragma once

#include <cstddef>
#include <cstdint>

#include "recorder/trace.h"

namespace tjit::runtime {

// The [COMPILE] line, the row of the instruction log and the event.
void OnPromoted(const TraceStore& store, const Trace* trace);

// Counts so many sightings of `trace`, which is hot after `threshold`, and says
// so.
void CountSightings(TraceStore* store, Trace* trace, std::size_t times,
                    std::int64_t threshold);

}  // namespace tjit::runtime
