// Options of tjit::enable(). Each has an environment variable that wins over
// it, and the file that TJIT_CONFIG names may set those that the program does
// not: what it says for a field is that field's initial value. docs/options.md
// lists all three names of each.
#pragma once

#include <cstdint>
#include <string>

#include "tjit/export.h"

namespace tjit {

// Test modes (TJIT_STRESS); several may be combined with |, but kHide.
// kHide     hides every result of a wrapped op until it is legally read, so
//           that a reader tjit does not know ends in an error with two stacks
//           instead of wrong numbers
// kLate     defers every op that may be deferred from its first sighting, and
//           compares what it gives with eager's bits when it runs
// kCheck    looks whether an op changes what its schema says it only reads
// kShuffle  runs what is pending at random points
enum class Stress : std::uint8_t {
  kNone = 0,
  kHide = 1,
  kLate = 2,
  kCheck = 4,
  kShuffle = 8,
};
constexpr Stress operator|(Stress a, Stress b) {
  return static_cast<Stress>(static_cast<unsigned>(a) |
                             static_cast<unsigned>(b));
}

// What runs a sequence that repeats (TJIT_BACKEND).
// kReplay       library calls without the dispatcher
// kInterpreter  that, and groups of ops in the compiler's interpreter: slow, a
//               check of the compiler
// kLlvm         that, and groups of ops as machine code
// kTorchscript  that, and groups of ops in TorchScript's interpreter: slow, for
//               looking at the graphs and for a second opinion
enum class Backend : std::uint8_t {
  kReplay,
  kInterpreter,
  kLlvm,
  kTorchscript
};

// What happens where a sequence would be recorded, promoted or compiled anew
// (set_stance() in tjit.h). The names are those of torch.compiler.set_stance().
// kDefault           it is
// kEagerOnRecompile  it is not: what is not replayed yet runs eagerly
// kFailOnRecompile   the same, and it is a c10::Error
enum class Stance : std::uint8_t {
  kDefault,
  kEagerOnRecompile,
  kFailOnRecompile
};

namespace internal {
// What the file of TJIT_CONFIG says for an option, else `built_in`.
TJIT_API std::int64_t FromFile(const char* key, std::int64_t built_in);
TJIT_API bool FromFile(const char* key, bool built_in);
TJIT_API Stress FromFile(const char* key, Stress built_in);
TJIT_API Backend FromFile(const char* key, Backend built_in);
TJIT_API std::string FromFile(const char* key, const char* built_in);
}  // namespace internal

struct Options {
  // Complete sightings of a sequence before its ops are deferred. At least 2.
  std::int64_t hot_threshold =
      internal::FromFile("hot_threshold", std::int64_t{10});
  // What runs sequences that repeat (TJIT_BACKEND).
  Backend backend = internal::FromFile("backend", Backend::kLlvm);
  // Backward passes over CPU tensors run without libtorch's engine
  // (TJIT_BACKWARD); docs/design/backward.md says which those are.
  bool own_backward = internal::FromFile("backward", true);
  // Matrix products run by own code where that has the library's bits and takes
  // less time (TJIT_PRODUCTS); docs/bit-exact.md says how both are found out.
  bool own_products = internal::FromFile("products", true);
  // Uniform, normal and bernoulli numbers, those of dropout too, are drawn by
  // own code from the same generator (TJIT_RANDOM); docs/bit-exact.md says
  // which.
  bool own_random = internal::FromFile("random", true);
  // Where compiled code is kept for later processes (TJIT_CACHE_DIR): a folder,
  // "off" for none, or empty for the user's cache folder.
  std::string cache_dir = internal::FromFile("cache_dir", "");
  // Promote every sequence after its first full run (TJIT_COMPILE).
  bool compile_all = internal::FromFile("compile_all", false);
  // `[COMPILE]` lines on stderr (TJIT_DEBUG_COMPILE).
  bool debug_compile = internal::FromFile("debug_compile", false);
  // Machine code may compute functions with a few units of the last place from
  // eager's bits where that is faster; docs/fast-math.md has the bounds
  // (TJIT_FAST_MATH).
  bool fast_math = internal::FromFile("fast_math", false);
  // What is kept of sequences: steps, 100 to 100000000 (TJIT_MAX_TRACE_STEPS),
  // and their records in MB, 1 to 1000000 (TJIT_MAX_TRACE_MB). Where either is
  // nearly reached, the half that was run least is forgotten.
  std::int64_t max_trace_steps =
      internal::FromFile("max_trace_steps", std::int64_t{400000});
  std::int64_t max_trace_mb =
      internal::FromFile("max_trace_mb", std::int64_t{32});
  // All that is kept of sequences, in MB: records, what is prepared of them on
  // each thread, machine code and what the compiler keeps, about (stats():
  // trace_bytes, plan_bytes, code_bytes). 1 to 1000000 (TJIT_MAX_MEMORY_MB); 0:
  // the two bounds above alone. Where it is reached, the sequences that were
  // run least are forgotten, and their code with them; one that would need more
  // for itself is not recorded. Memory of tensors does not count.
  std::int64_t max_memory_mb =
      internal::FromFile("max_memory_mb", std::int64_t{0});
  // Names the ops that make NaN or infinity out of numbers (TJIT_NAN). Nothing
  // is deferred. With `strict` the first one is a c10::Error at that op.
  bool nan = internal::FromFile("nan", false);
  // Runs what is replayed eagerly too and compares bit by bit; a sequence that
  // differs is reported and not replayed again (TJIT_SHADOW).
  bool shadow = internal::FromFile("shadow", false);
  // N > 0: about one of N runs of each sequence is compared so, the others run
  // as ever (TJIT_SHADOW=sample:N); 0: none. `shadow` compares all.
  std::int64_t shadow_sample =
      internal::FromFile("shadow_sample", std::int64_t{0});
  // Each unexpected fallback is a c10::Error that names op and reason, at the
  // op that caused it or the next one (TJIT_STRICT).
  bool strict = internal::FromFile("strict", false);
  // Test modes (TJIT_STRESS).
  Stress stress = internal::FromFile("stress", Stress::kNone);
  // Stress::kShuffle: the same points for the same seed; 0: by the clock.
  std::int64_t shuffle_seed =
      internal::FromFile("shuffle_seed", std::int64_t{0});
  // Where the counters go at exit, as JSON (TJIT_STATS); empty: nowhere.
  std::string stats_path = internal::FromFile("stats_path", "");
};

}  // namespace tjit
