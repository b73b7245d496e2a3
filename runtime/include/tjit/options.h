// Options of tjit::enable(). Each has an environment variable of the name
// TJIT_<FIELD> that wins over it; docs/options.md lists both.
#pragma once

#include <cstdint>
#include <string>

namespace tjit {

// Test modes (TJIT_STRESS). kHide hides every result of a wrapped op until it
// is legally read, so that a reader tjit does not know ends in an error with
// two stacks instead of wrong numbers.
enum class Stress : std::uint8_t { kNone, kHide };

struct Options {
  // Complete sightings of a sequence before its ops are deferred. At least 2.
  std::int64_t hot_threshold = 10;
  // Promote every sequence after its first full run (TJIT_COMPILE).
  bool compile_all = false;
  // `[COMPILE]` lines on stderr (TJIT_DEBUG_COMPILE).
  bool debug_compile = false;
  // Test mode (TJIT_STRESS=hide).
  Stress stress = Stress::kNone;
  // Where the counters go at exit, as JSON (TJIT_STATS); empty: nowhere.
  std::string stats_path;
};

}  // namespace tjit
