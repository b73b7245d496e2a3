// The modes in which a run watches itself, as the bits of Settings::modes().
//
// Off, they cost one load and compare per op. On, ThreadState::OnCallInMode()
// stands before the ordinary way:
// clang-format off
//   hide     stress_hide.cpp  results hidden until they are legally read
//   late     stress_late.cpp  ops deferred at first sight, compared with eager
//   shadow   shadow.cpp       replayed ops compared with eager
//   check    stress_check.h   ops that change what they only read
//   shuffle  modes.cpp        pending ops run at random points
//   strict   strict.h         unexpected fallbacks are errors
//   nan      nan_check.h      ops that make NaN or infinity
// clang-format on
// Tested by: tests/runtime/thread/self_check/modes_test.cpp,
// tests/acceptance/torch_suites.py
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/platform/settings.h"

namespace tjit::runtime {

// One line on stderr about what a mode found; twenty different ones a process.
void PrintFinding(std::string_view text, std::string_view more = {});

// `given`, or one from the clock. Says on stderr how to have it again.
std::uint64_t SeedOfShuffle(std::uint64_t given);

}  // namespace tjit::runtime
