// Options of tjit::enable(). Each has an environment variable that wins over
// it, and the file that TJIT_CONFIG names may set those that the program does
// not: what it says for a field is that field's initial value. docs/options.md
// lists all three names of each.
#pragma once

#include <cstdint>
#include <string>

#include "tjit/export.h"

namespace tjit {

// Test modes (TJIT_STRESS). kHide hides every result of a wrapped op until it
// is legally read, so that a reader tjit does not know ends in an error with
// two stacks instead of wrong numbers.
enum class Stress : std::uint8_t { kNone, kHide };

namespace internal {
// What the file of TJIT_CONFIG says for an option, else `built_in`.
TJIT_API std::int64_t FromFile(const char* key, std::int64_t built_in);
TJIT_API bool FromFile(const char* key, bool built_in);
TJIT_API Stress FromFile(const char* key, Stress built_in);
TJIT_API std::string FromFile(const char* key, const char* built_in);
}  // namespace internal

struct Options {
  // Complete sightings of a sequence before its ops are deferred. At least 2.
  std::int64_t hot_threshold = internal::FromFile("hot_threshold", std::int64_t{10});
  // Promote every sequence after its first full run (TJIT_COMPILE).
  bool compile_all = internal::FromFile("compile_all", false);
  // `[COMPILE]` lines on stderr (TJIT_DEBUG_COMPILE).
  bool debug_compile = internal::FromFile("debug_compile", false);
  // Test mode (TJIT_STRESS=hide).
  Stress stress = internal::FromFile("stress", Stress::kNone);
  // Where the counters go at exit, as JSON (TJIT_STATS); empty: nowhere.
  std::string stats_path = internal::FromFile("stats_path", "");
};

}  // namespace tjit
