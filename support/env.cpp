#include "support/env.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "support/env_others.h"
#include "support/log.h"
#include "support/nearest_name.h"
#include "support/repro_list.h"

namespace tjit {
namespace {

constexpr std::string_view kPrefix = "TJIT_";
constexpr std::string_view kXdg = "XDG_CACHE_HOME=", kHome = "HOME=";

// Relative folders are not used, as the XDG specification has it.
std::string UserCacheDir(std::string_view xdg, std::string_view home) {
  if (xdg.starts_with('/')) return std::string(xdg) + "/tjit";
  return home.starts_with('/') ? std::string(home) + "/.cache/tjit" : "";
}

// From params.def: the range and the default of each option.
#define TJIT_PARAM(type, field, name, initial, min, max, what) \
  struct Param_##field {                                       \
    static constexpr long long kDefault = initial;             \
    static constexpr long long kMin = min;                     \
    static constexpr long long kMax = max;                     \
  };
#include "support/params.def"
#undef TJIT_PARAM

constexpr std::string_view kOn[] = {"1", "y", "yes", "on", "true"};
constexpr std::string_view kOff[] = {"0", "n", "no", "off", "false"};

// `word` is in lower case.
bool SameWord(std::string_view value, std::string_view word) {
  return std::equal(value.begin(), value.end(), word.begin(), word.end(),
                    [](char a, char b) {
                      return a == b || (a >= 'A' && a <= 'Z' && a + 32 == b);
                    });
}

// 0 or 1 in one of its spellings.
template <bool EnvOptions::*has, bool EnvOptions::*field>
bool SetSwitch(std::string_view value, EnvOptions* o) {
  o->*has = ParseSwitch(value, &(o->*field));
  return o->*has;
}
template <bool EnvOptions::*field>
bool SetFlag(std::string_view value, EnvOptions* o) {
  return ParseSwitch(value, &(o->*field));
}

constexpr const char* kBackends[] = {"replay", "interpreter", "llvm",
                                     "torchscript"};

bool SetBackend(std::string_view value, EnvOptions* o) {
  o->has_backend = ParseBackend(value, &o->backend);
  return o->has_backend;
}

// "own", or who does it otherwise: libtorch, or a library of its.
template <bool EnvOptions::* has, bool EnvOptions::* field>
bool SetOwn(std::string_view value, std::string_view other, EnvOptions* o) {
  o->*field = value == "own";
  o->*has = o->*field || value == other;
  return o->*has;
}

bool SetBackward(std::string_view value, EnvOptions* o) {
  return SetOwn<&EnvOptions::has_own_backward, &EnvOptions::own_backward>(
      value, "libtorch", o);
}

bool SetProducts(std::string_view value, EnvOptions* o) {
  return SetOwn<&EnvOptions::has_own_products, &EnvOptions::own_products>(
      value, "library", o);
}

bool SetRandom(std::string_view value, EnvOptions* o) {
  return SetOwn<&EnvOptions::has_own_random, &EnvOptions::own_random>(
      value, "libtorch", o);
}

// Empty as in a script whose variable is not set: no cache, not the default.
bool SetCacheDir(std::string_view value, EnvOptions* o) {
  o->cache_dir = value.empty() ? kCacheOff : value;
  o->has_cache_dir = true;
  return true;
}

// A path; not an empty one.
template <std::string EnvOptions::* path>
bool SetPath(std::string_view value, EnvOptions* o) {
  o->*path = value;
  return !value.empty();
}

constexpr std::string_view kDumpNames[] = {
#define TJIT_DUMP_PART(suffix, name, what) name,
#include "support/dump_parts.def"
#undef TJIT_DUMP_PART
};

constexpr unsigned kAllDumpParts = (1u << std::size(kDumpNames)) - 1;

// "ir,passes", or "all".
bool SetDump(std::string_view value, EnvOptions* o) {
  unsigned parts = 0;
  while (true) {
    const std::size_t comma = value.find(',');
    const std::string_view word = value.substr(0, comma);
    const auto* found =
        std::find(std::begin(kDumpNames), std::end(kDumpNames), word);
    if (found != std::end(kDumpNames)) {
      parts |= 1u << (found - std::begin(kDumpNames));
    } else if (word == "all") {
      parts |= kAllDumpParts;
    } else {
      return false;
    }
    if (comma == std::string_view::npos) break;
    value.remove_prefix(comma + 1);
  }
  o->dump = parts;
  return true;
}

// A whole number in the range of `Param`.
template <class Param>
bool ParseNumber(std::string_view value, long long* out) {
  long long number = 0;
  const char* end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return false;
  if (number < Param::kMin || number > Param::kMax) return false;
  *out = number;
  return true;
}

template <class Param, bool EnvOptions::* has, long long EnvOptions::* number>
bool SetNumber(std::string_view value, EnvOptions* o) {
  o->*has = ParseNumber<Param>(value, &(o->*number));
  return o->*has;
}

struct ShadowSample {
  static constexpr long long kMin = 1, kMax = kMaxShadowSample;
};

// The bit of one mode, "shuffle:SEED" included; 0 for an unknown one.
unsigned StressMode(std::string_view mode, EnvOptions* o) {
  constexpr std::string_view kSeeded = "shuffle:";
  if (mode == "hide") return kStressHide;
  if (mode == "late") return kStressLate;
  if (mode == "check") return kStressCheck;
  if (mode == "shuffle") return kStressShuffle;
  if (!mode.starts_with(kSeeded)) return 0;
  mode.remove_prefix(kSeeded.size());
  const char* end = mode.data() + mode.size();
  const auto parsed = std::from_chars(mode.data(), end, o->shuffle_seed);
  if (parsed.ec != std::errc() || parsed.ptr != end) return 0;
  if (o->shuffle_seed < 0) return 0;
  o->has_shuffle_seed = true;
  return kStressShuffle;
}

// "sample:1000", or a switch.
bool SetShadow(std::string_view value, EnvOptions* o) {
  constexpr std::string_view kSample = "sample:";
  long long sample = 0;
  bool is_on = false;
  if (value.starts_with(kSample)) {
    value.remove_prefix(kSample.size());
    if (!ParseNumber<ShadowSample>(value, &sample)) return false;
  } else if (!ParseSwitch(value, &is_on)) {
    return false;
  }
  o->has_shadow = true;
  o->shadow = is_on;
  o->shadow_sample = sample;
  return true;
}

// "late,shuffle:7". hide forbids what the others need, pending ops.
bool SetStress(std::string_view value, EnvOptions* o) {
  unsigned modes = 0;
  while (true) {
    const std::size_t comma = value.find(',');
    const unsigned mode = StressMode(value.substr(0, comma), o);
    if (mode == 0) return false;
    modes |= mode;
    if (comma == std::string_view::npos) break;
    value.remove_prefix(comma + 1);
  }
  if ((modes & kStressHide) != 0 && modes != kStressHide) return false;
  o->has_stress = true;
  o->stress = modes;
  return true;
}

bool SetStatsPath(std::string_view value, EnvOptions* o) {
  if (value.empty()) return false;
  o->stats_path = value;
  o->has_stats_path = true;
  return true;
}

struct InstructionLogMb {
  static constexpr long long kMin = 1, kMax = 1000000;
};

bool SetInstructionLogMb(std::string_view value, EnvOptions* o) {
  o->has_instruction_log_mb =
      ParseNumber<InstructionLogMb>(value, &o->instruction_log_mb);
  return o->has_instruction_log_mb;
}

struct OptLimit {
  static constexpr long long kMin = 0, kMax = 1000000000;
};

bool SetOptLimit(std::string_view value, EnvOptions* o) {
  return ParseNumber<OptLimit>(value, &o->opt_limit);
}

bool SetRepro(std::string_view value, EnvOptions* o) {
  ReproList list;
  if (!ParseReproList(value, &list)) return false;
  o->repro = value;
  return true;
}

bool SetLog(std::string_view value, EnvOptions* o) {
  std::uint32_t channels = 0;
  if (!ParseLogChannels(value, &channels)) return false;
  o->log = value;
  return true;
}

#if defined(TJIT_PLANTED_DEFECTS)
bool SetPlantedDefect(std::string_view value, EnvOptions* o) {
  if (value.empty()) return false;
  o->planted_defect = value;
  return true;
}

bool SetThreadTrials(std::string_view value, EnvOptions* o) {
  o->thread_trials_turn = value == "turns";
  return o->thread_trials_turn || ParseSwitch(value, &o->thread_trials);
}

bool SetTraceTrials(std::string_view value, EnvOptions* o) {
  return ParseSwitch(value, &o->trace_trials);
}

struct WatchdogSeconds {
  static constexpr long long kMin = 1, kMax = 3600;
};

bool SetWatchdog(std::string_view value, EnvOptions* o) {
  return ParseNumber<WatchdogSeconds>(value, &o->watchdog_s);
}
#endif

template <class Param>
std::string RangeOf() {
  return absl::StrCat("a whole number from ", Param::kMin, " to ", Param::kMax,
                      " (default ", Param::kDefault, ")");
}

struct Variable {
  std::string_view name;
  std::string accepted;
  bool (*set)(std::string_view value, EnvOptions* options);
};

const std::vector<Variable>& Variables() {
  static const auto& table = *new std::vector<Variable>{
      {"TJIT_AUTO_COMPILE", kSwitchWords,
       SetSwitch<&EnvOptions::has_auto_compile, &EnvOptions::auto_compile>},
      {"TJIT_BACKEND", "replay, interpreter, llvm or torchscript", SetBackend},
      {"TJIT_BACKWARD", "own or libtorch", SetBackward},
      {"TJIT_BLESS", kSwitchWords, SetFlag<&EnvOptions::bless>},
      {"TJIT_CACHE_DIR", "a folder, or off", SetCacheDir},
      {"TJIT_COMPILE", kSwitchWords,
       SetSwitch<&EnvOptions::has_compile_all, &EnvOptions::compile_all>},
      {"TJIT_CONFIG", "a path to read", SetPath<&EnvOptions::config_path>},
      {"TJIT_DEBUG_COMPILE", kSwitchWords,
       SetSwitch<&EnvOptions::has_debug_compile, &EnvOptions::debug_compile>},
      {"TJIT_DISABLE", kSwitchWords, SetFlag<&EnvOptions::disable>},
      {"TJIT_DUMP",
       "all, or some of " + DumpPartNames(kAllDumpParts) +
           " with commas between",
       SetDump},
      {"TJIT_DUMP_FILE", "a path to write to", SetPath<&EnvOptions::dump_path>},
      {"TJIT_FAST_MATH", kSwitchWords,
       SetSwitch<&EnvOptions::has_fast_math, &EnvOptions::fast_math>},
      {"TJIT_HOT_THRESHOLD", RangeOf<Param_hot_threshold>(),
       SetNumber<Param_hot_threshold, &EnvOptions::has_hot_threshold,
                 &EnvOptions::hot_threshold>},
      {"TJIT_INSTRUCTION_LOG", "a path to write to",
       SetPath<&EnvOptions::instruction_log_path>},
      {"TJIT_INSTRUCTION_LOG_MB", "a whole number from 1 to 1000000",
       SetInstructionLogMb},
      {"TJIT_LOG",
       "some of " + LogChannelNames() +
           " with commas between, a minus before what is to be off",
       SetLog},
      {"TJIT_MAX_MEMORY_MB", RangeOf<Param_max_memory_mb>(),
       SetNumber<Param_max_memory_mb, &EnvOptions::has_max_memory_mb,
                 &EnvOptions::max_memory_mb>},
      {"TJIT_MAX_TRACE_MB", RangeOf<Param_max_trace_mb>(),
       SetNumber<Param_max_trace_mb, &EnvOptions::has_max_trace_mb,
                 &EnvOptions::max_trace_mb>},
      {"TJIT_MAX_TRACE_STEPS", RangeOf<Param_max_trace_steps>(),
       SetNumber<Param_max_trace_steps, &EnvOptions::has_max_trace_steps,
                 &EnvOptions::max_trace_steps>},
      {"TJIT_NAN", kSwitchWords,
       SetSwitch<&EnvOptions::has_nan, &EnvOptions::nan>},
      {"TJIT_OPT_LIMIT", "a whole number from 0 to 1000000000", SetOptLimit},
      {"TJIT_PERF_MAP", kSwitchWords,
       SetSwitch<&EnvOptions::has_perf_map, &EnvOptions::perf_map>},
#if defined(TJIT_PLANTED_DEFECTS)
      {"TJIT_PLANTED_DEFECT", "the name of a defect", SetPlantedDefect},
#endif
      {"TJIT_PRINT_CONFIG", kSwitchWords, SetFlag<&EnvOptions::print_config>},
      {"TJIT_PRODUCTS", "own or library", SetProducts},
      {"TJIT_PROFILE", "a file, or off", SetPath<&EnvOptions::profile_path>},
      {"TJIT_RANDOM", "own or libtorch", SetRandom},
      {"TJIT_REPRO", kReproWords, SetRepro},
      {"TJIT_REPRO_DIR", "a folder", SetPath<&EnvOptions::repro_dir>},
      {"TJIT_SHADOW",
       absl::StrCat(kSwitchWords,
                    ", or sample:N with a whole number N from 1 to ",
                    kMaxShadowSample),
       SetShadow},
      {"TJIT_STATS", "a path to write to, or - for a report on stderr",
       SetStatsPath},
      {"TJIT_STRESS",
       "hide, or some of late, check, shuffle, shuffle:SEED with commas "
       "between",
       SetStress},
      {"TJIT_STRICT", kSwitchWords,
       SetSwitch<&EnvOptions::has_strict, &EnvOptions::strict>},
      {"TJIT_VERIFY", kSwitchWords, SetFlag<&EnvOptions::verify>},
#if defined(TJIT_PLANTED_DEFECTS)
      {"TJIT_THREAD_TRIALS", "0, 1 or turns", SetThreadTrials},
      {"TJIT_TRACE_TRIALS", kSwitchWords, SetTraceTrials},
      {"TJIT_WATCHDOG", "a whole number of seconds from 1 to 3600",
       SetWatchdog},
#endif
  };
  return table;
}

std::string UnknownName(std::string_view name) {
  return absl::StrCat(std::string(name), " is not a variable of tjit",
                      DidYouMean(name, VariableNames()));
}

void ParseOne(std::string_view name, std::string_view value,
              EnvOptions* options) {
  std::string accepted;
  switch (SetByVariable(name, value, options, &accepted)) {
    case SetResult::kSet:
      return;
    case SetResult::kBadValue:
      options->complaints.push_back(std::string(name) + "=" +
                                    std::string(value) +
                                    " is not used, accepted is " + accepted);
      return;
    case SetResult::kUnknown:
      options->complaints.push_back(UnknownName(name));
      return;
  }
}

}  // namespace

std::string DumpPartNames(unsigned parts) {
  std::string names;
  for (std::size_t i = 0; i < std::size(kDumpNames); ++i) {
    if ((parts >> i & 1) == 0) continue;
    if (!names.empty()) names += ", ";
    names += kDumpNames[i];
  }
  return names.empty() ? "none" : names;
}

bool ParseSwitch(std::string_view value, bool* is_on) {
  const auto is_value = [&](std::string_view word) {
    return SameWord(value, word);
  };
  const bool on = std::any_of(std::begin(kOn), std::end(kOn), is_value);
  if (!on && std::none_of(std::begin(kOff), std::end(kOff), is_value)) {
    return false;
  }
  *is_on = on;
  return true;
}

bool ParseBackend(std::string_view name, BackendName* backend) {
  for (std::size_t i = 0; i < std::size(kBackends); ++i) {
    if (name != kBackends[i]) continue;
    *backend = static_cast<BackendName>(i);
    return true;
  }
  return false;
}

const char* NameOf(BackendName backend) {
  return kBackends[static_cast<std::size_t>(backend)];
}

std::vector<std::string_view> VariableNames() {
  std::vector<std::string_view> names;
  for (const Variable& v : Variables()) names.push_back(v.name);
  return names;
}

SetResult SetByVariable(std::string_view name, std::string_view value,
                        EnvOptions* options, std::string* accepted) {
  for (const Variable& v : Variables()) {
    if (v.name != name) continue;
    *accepted = v.accepted;
    return v.set(value, options) ? SetResult::kSet : SetResult::kBadValue;
  }
  return SetResult::kUnknown;
}

EnvOptions ParseEnvironment(const char* const* environment) {
  EnvOptions options;
  std::string_view xdg, home;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    if (entry.starts_with(kXdg)) xdg = entry.substr(kXdg.size());
    if (entry.starts_with(kHome)) home = entry.substr(kHome.size());
    if (!entry.starts_with(kPrefix)) continue;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    ParseOne(entry.substr(0, equals), entry.substr(equals + 1), &options);
  }
  options.user_cache_dir = UserCacheDir(xdg, home);
  return options;
}

const EnvOptions& Environment() {
  static const auto& options = *new EnvOptions(ParseEnvironment(environ));
  return options;
}

std::string SettingsOf(const std::vector<std::string_view>& prefixes) {
  std::vector<std::string> found;
  for (const char* const* at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view entry = *at;
    for (const std::string_view prefix : prefixes) {
      if (!entry.starts_with(prefix)) continue;
      found.emplace_back(entry).push_back('\n');
      break;
    }
  }
  std::sort(found.begin(), found.end());
  std::string text;
  for (const std::string& setting : found) text += setting;
  return text;
}

}  // namespace tjit
