// The environment of tjit, read once: the only getenv of the project.
//
// Tested by: tests/support/env_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tjit {

// The values of TJIT_BACKEND.
enum class BackendName : std::uint8_t {
  kReplay,
  kInterpreter,
  kLlvm,
  kTorchscript
};
// Sets *backend; false for an unknown name.
bool ParseBackend(std::string_view name, BackendName* backend);
const char* NameOf(BackendName backend);

// What is on or off: 1, y, yes, on or true, and 0, n, no, off or false, in
// capitals or not. Sets *is_on; false for anything else.
bool ParseSwitch(std::string_view value, bool* is_on);
inline constexpr char kSwitchWords[] =
    "0, n, no, off, false, 1, y, yes, on or true";

// The parts of TJIT_DUMP.
enum DumpPart : unsigned {
#define TJIT_DUMP_PART(suffix, name, what) kDump##suffix##Bit,
#include "support/dump_parts.def"
#undef TJIT_DUMP_PART
#define TJIT_DUMP_PART(suffix, name, what) \
  kDump##suffix = 1u << kDump##suffix##Bit,
#include "support/dump_parts.def"
#undef TJIT_DUMP_PART
};
// Names of some of them with commas between; "none".
std::string DumpPartNames(unsigned parts);

// The modes of TJIT_STRESS.
inline constexpr unsigned kStressHide = 1, kStressLate = 2, kStressCheck = 4,
                          kStressShuffle = 8;

// The largest N of TJIT_SHADOW=sample:N.
inline constexpr long long kMaxShadowSample = 1000000000;

// The value of TJIT_CACHE_DIR for no cache.
inline constexpr std::string_view kCacheOff = "off";

struct EnvOptions {
  bool has_auto_compile = false, auto_compile = false;
  bool has_backend = false;
  BackendName backend = BackendName::kLlvm;  // TJIT_BACKEND
  // TJIT_BACKWARD: own (true) or libtorch.
  bool has_own_backward = false, own_backward = true;
  // TJIT_CACHE_DIR: a folder or kCacheOff; only with has_cache_dir.
  bool has_cache_dir = false;
  std::string cache_dir;
  // The folder of the user's caches for tjit, by XDG_CACHE_HOME and HOME;
  // empty if there is none.
  std::string user_cache_dir;
  bool has_compile_all = false, compile_all = false;
  bool has_debug_compile = false, debug_compile = false;
  bool disable = false;   // TJIT_DISABLE
  unsigned dump = 0;      // TJIT_DUMP, DumpPart bits; 0: not given
  std::string dump_path;  // TJIT_DUMP_FILE; empty: not given
  bool has_fast_math = false, fast_math = false;
  bool has_hot_threshold = false;
  long long hot_threshold = 0;
  bool has_max_memory_mb = false;
  long long max_memory_mb = 0;  // 0: unbounded
  bool has_max_trace_mb = false;
  long long max_trace_mb = 0;
  bool has_max_trace_steps = false;
  long long max_trace_steps = 0;
  bool has_perf_map = false, perf_map = false;
  bool has_nan = false, nan = false;
  // TJIT_PRODUCTS: own (true) or library.
  bool has_own_products = false, own_products = true;
  // TJIT_PROFILE: a file or kCacheOff; empty: not given.
  std::string profile_path;
  // TJIT_RANDOM: own (true) or libtorch.
  bool has_own_random = false, own_random = true;
  // TJIT_SHADOW, and the N of sample:N, else 0; only with has_shadow.
  bool has_shadow = false, shadow = false;
  long long shadow_sample = 0;
  bool has_strict = false, strict = false;
  bool has_stress = false;
  unsigned stress = 0;  // TJIT_STRESS, kStress... bits; only with has_stress
  bool has_shuffle_seed = false;
  long long shuffle_seed = 0;  // TJIT_STRESS=shuffle:SEED
  bool has_stats_path = false;
  std::string stats_path;
  std::string log;            // TJIT_LOG, valid; empty: not given
  std::string config_path;    // TJIT_CONFIG
  bool print_config = false;  // TJIT_PRINT_CONFIG
  std::string instruction_log_path;  // empty: none
  bool has_instruction_log_mb = false;
  long long instruction_log_mb = 0;  // 0: it may take any number
  // TJIT_REPRO, as ParseReproList() takes it; empty: not given.
  std::string repro;
  // TJIT_REPRO_DIR: the folder for what TJIT_SHADOW finds and TJIT_REPRO asks
  // for; empty: not given.
  std::string repro_dir;
  // TJIT_OPT_LIMIT: passes of the compiler that run; -1: all.
  long long opt_limit = -1;
  bool bless = false;  // TJIT_BLESS, tests that rewrite what they expect
  bool verify = false;  // TJIT_VERIFY, the IR after each pass, and loops
  std::string planted_defect;  // TJIT_PLANTED_DEFECT, test builds
  bool thread_trials = true;   // TJIT_THREAD_TRIALS, test builds
  bool thread_trials_turn = false;
  bool trace_trials = true;    // TJIT_TRACE_TRIALS, test builds
  long long watchdog_s = 0;    // TJIT_WATCHDOG, test builds; 0: not given
  // One sentence for each unknown TJIT_ name and each bad value, naming the
  // variable, the value and what is accepted. The bad value is not used.
  std::vector<std::string> complaints;
};

// Names of all variables, sorted.
std::vector<std::string_view> VariableNames();

// Sets what a variable of that value sets. *accepted gets what it accepts.
enum class SetResult : std::uint8_t { kSet, kUnknown, kBadValue };
SetResult SetByVariable(std::string_view name, std::string_view value,
                        EnvOptions* options, std::string* accepted);

// Parses `environ`-like strings "NAME=value"; names without TJIT_ are skipped.
EnvOptions ParseEnvironment(const char* const* environment);

// ParseEnvironment of this process, parsed at the first call.
const EnvOptions& Environment();

}  // namespace tjit
