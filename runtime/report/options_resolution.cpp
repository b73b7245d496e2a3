#include "runtime/report/options_resolution.h"

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "recorder/region_table.h"
#include "runtime/report/log.h"
#include "support/log.h"
#include "support/mutex.h"
#include "support/sibling_library.h"

namespace tjit::runtime {
namespace {

// The reader of the libtjit_yaml.so that lies beside this library; null, and
// *why says why, if it cannot be had.
decltype(&tjit_read_yaml) LoadReader(std::string* why) {
  const std::string path =
      FolderOfCode(reinterpret_cast<void*>(&Configured)) + "libtjit_yaml.so";
  // Not closed: what yaml-cpp keeps in static objects lives in it.
  void* library =
      dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | kOwnSymbolsFirst);
  void* reader =
      library == nullptr ? nullptr : dlsym(library, "tjit_read_yaml");
  if (reader == nullptr) *why = dlerror();
  return reinterpret_cast<decltype(&tjit_read_yaml)>(reader);
}

ConfigFile Load() {
  const std::string& path = Environment().config_path;
  if (path.empty()) return {};
  std::string text;
  std::string why = ReadConfig(path, &text);
  decltype(&tjit_read_yaml) reader = nullptr;
  if (why.empty()) reader = LoadReader(&why);
  if (reader != nullptr) return ParseConfig(path, text, reader);
  ConfigFile none;
  none.options.complaints.push_back("TJIT_CONFIG: cannot read \"" + path +
                                    "\": " + why + "; no option is taken " +
                                    "from it");
  return none;
}

static_assert(static_cast<unsigned>(Stress::kHide) == kStressHide &&
              static_cast<unsigned>(Stress::kLate) == kStressLate &&
              static_cast<unsigned>(Stress::kCheck) == kStressCheck &&
              static_cast<unsigned>(Stress::kShuffle) == kStressShuffle);

static_assert(static_cast<unsigned>(Backend::kReplay) ==
                  static_cast<unsigned>(BackendName::kReplay) &&
              static_cast<unsigned>(Backend::kInterpreter) ==
                  static_cast<unsigned>(BackendName::kInterpreter) &&
              static_cast<unsigned>(Backend::kLlvm) ==
                  static_cast<unsigned>(BackendName::kLlvm) &&
              static_cast<unsigned>(Backend::kTorchscript) ==
                  static_cast<unsigned>(BackendName::kTorchscript));

std::string ToText(Backend value) {
  return NameOf(static_cast<BackendName>(value));
}
std::string ToText(std::int64_t value) { return std::to_string(value); }
std::string ToText(bool value) { return value ? "true" : "false"; }
std::string ToText(Stress value) {
  const auto modes = static_cast<unsigned>(value);
  std::string text;
  const auto add = [&](unsigned mode, const char* name) {
    if ((modes & mode) == 0) return;
    if (!text.empty()) text += ",";
    text += name;
  };
  add(kStressHide, "hide");
  add(kStressLate, "late");
  add(kStressCheck, "check");
  add(kStressShuffle, "shuffle");
  return text.empty() ? "none" : text;
}
std::string ToText(const std::string& value) { return "\"" + value + "\""; }

// Settles one option after the other and notes where each comes from.
class Resolver {
 public:
  template <class T, class BuiltIn>
  void ResolveOne(const char* key, bool in_environment, const T& environment,
                  T* option, BuiltIn built_in) {
    const std::string from =
        Settle(key, in_environment, environment, option, built_in);
    Record(key, ToText(*option), from);
  }

  // Who does something: tjit itself, or `other`.
  void ResolveOwn(const char* key, const char* other, bool in_environment,
                  bool environment, bool* option) {
    const std::string from =
        Settle(key, in_environment, environment, option, true);
    Record(key, *option ? "own" : other, from);
  }

  // Settles it, and returns where its value comes from.
  template <class T, class BuiltIn>
  std::string Settle(const char* key, bool in_environment, const T& environment,
                     T* option, BuiltIn built_in) {
    std::string from = "set by the program";
    if (in_environment) {
      *option = environment;
      from = VariableOfKey(key);
    } else if (*option == T(internal::FromFile(key, built_in))) {
      from = Origin(key);
    }
    return from;
  }

  // Its two fields, which the environment and a file set together.
  void ResolveShadow(const EnvOptions& env, Options* o) {
    std::string from =
        Settle("shadow", env.has_shadow, env.shadow, &o->shadow, false);
    const std::string from_sample =
        Settle("shadow_sample", env.has_shadow, std::int64_t{env.shadow_sample},
               &o->shadow_sample, std::int64_t{0});
    const bool samples = !o->shadow && o->shadow_sample != 0;
    if (env.has_shadow) {
      from = VariableOfKey("shadow");
    } else if (samples) {
      from = from_sample == "default" ? Origin("shadow") : from_sample;
    }
    Record(
        "shadow",
        samples ? absl::StrCat("sample:", o->shadow_sample) : ToText(o->shadow),
        from);
  }

  void Record(const char* key, const std::string& value,
              const std::string& from) {
    lines_ += "\n[CONFIG] " + std::string(key) + " = " + value + " (" + from +
              ")";
  }

  // Where the value of an option that the program does not set comes from.
  static std::string Origin(const char* key) {
    const auto& where = Configured().where;
    const auto found = where.find(key);
    return found == where.end() ? "default" : found->second;
  }

  std::string lines() const { return lines_.substr(1); }

 private:
  std::string lines_;
};

void PrintOnce(const std::string& lines) {
  static Mutex mutex;
  static auto* printed = new std::string;
  const MutexLock lock(mutex);
  if (lines == *printed) return;
  *printed = lines;
  LogLine(LogLevel::kInfo, lines);
}

}  // namespace

const ConfigFile& Configured() {
  static const auto& file = *new ConfigFile(Load());
  return file;
}

void Complain() {
  static const bool said = [] {
    for (const std::string& text : Environment().complaints) LogWarning(text);
    for (const std::string& text : Configured().options.complaints) {
      LogWarning(text);
    }
    return true;
  }();
  static_cast<void>(said);
}

void UseRegionRules() {
  static const bool used = [] {
    RegionTable::Get().SetFileRules(Configured().region_rules);
    return true;
  }();
  static_cast<void>(used);
}

bool IsDisabled() { return Environment().disable; }

const std::string& StatsPath() {
  const EnvOptions& env = Environment();
  return env.has_stats_path ? env.stats_path : Configured().options.stats_path;
}

bool IsOnAtLoad() {
  if (IsDisabled()) return false;
  const EnvOptions& env = Environment();
  const EnvOptions& file = Configured().options;
  if ((env.has_stress ? env.stress : file.stress) != 0) return true;
  if (env.has_nan ? env.nan : file.nan) return true;
  return env.has_auto_compile ? env.auto_compile : file.auto_compile;
}

const std::string& InstructionLogPath() {
  const std::string& path = Environment().instruction_log_path;
  return path.empty() ? Configured().options.instruction_log_path : path;
}

long long InstructionLogMb() {
  const EnvOptions& env = Environment();
  return (env.has_instruction_log_mb ? env : Configured().options)
      .instruction_log_mb;
}

unsigned DumpParts() {
  const unsigned parts = Environment().dump;
  return parts != 0 ? parts : Configured().options.dump;
}

const std::string& DumpPath() {
  const std::string& path = Environment().dump_path;
  return path.empty() ? Configured().options.dump_path : path;
}

bool WritesPerfMap() {
  const EnvOptions& env = Environment();
  return env.has_perf_map ? env.perf_map : Configured().options.perf_map;
}

const std::string& ProfilePath() {
  const std::string& path = Environment().profile_path;
  return path.empty() ? Configured().options.profile_path : path;
}

Options Resolve(Options o) {
  UseRegionRules();
  const EnvOptions& env = Environment();
  Resolver r;
  r.Record("auto_compile", ToText(IsOnAtLoad()),
           env.disable            ? "TJIT_DISABLE"
           : env.has_auto_compile ? "TJIT_AUTO_COMPILE"
                                  : Resolver::Origin("auto_compile"));
  r.ResolveOne("backend", env.has_backend, static_cast<Backend>(env.backend),
               &o.backend, Backend::kLlvm);
  r.ResolveOwn("backward", "libtorch", env.has_own_backward, env.own_backward,
               &o.own_backward);
  if (!env.has_cache_dir && o.cache_dir.empty()) {
    o.cache_dir = env.user_cache_dir.empty() ? std::string(kCacheOff)
                                             : env.user_cache_dir;
    r.Record("cache_dir", ToText(o.cache_dir), "default");
  } else {
    r.ResolveOne("cache_dir", env.has_cache_dir, env.cache_dir, &o.cache_dir,
                 "");
  }
  r.ResolveOne("compile_all", env.has_compile_all, env.compile_all,
               &o.compile_all, false);
  r.ResolveOne("debug_compile", env.has_debug_compile, env.debug_compile,
               &o.debug_compile, false);
  r.Record("dump", DumpPartNames(DumpParts()),
           env.dump != 0 ? "TJIT_DUMP" : Resolver::Origin("dump"));
  r.Record(
      "dump_file", ToText(DumpPath()),
      env.dump_path.empty() ? Resolver::Origin("dump_file") : "TJIT_DUMP_FILE");
  r.ResolveOne("fast_math", env.has_fast_math, env.fast_math, &o.fast_math,
               false);
  r.ResolveOne("hot_threshold", env.has_hot_threshold,
               std::int64_t{env.hot_threshold}, &o.hot_threshold,
               std::int64_t{10});
  r.Record("instruction_log", ToText(InstructionLogPath()),
           env.instruction_log_path.empty()
               ? Resolver::Origin("instruction_log")
               : "TJIT_INSTRUCTION_LOG");
  r.Record("instruction_log_mb",
           InstructionLogMb() == 0 ? "unbounded"
                                   : std::to_string(InstructionLogMb()),
           env.has_instruction_log_mb ? "TJIT_INSTRUCTION_LOG_MB"
                                      : Resolver::Origin("instruction_log_mb"));
  r.ResolveOne("max_memory_mb", env.has_max_memory_mb,
               std::int64_t{env.max_memory_mb}, &o.max_memory_mb,
               std::int64_t{0});
  r.ResolveOne("max_trace_mb", env.has_max_trace_mb,
               std::int64_t{env.max_trace_mb}, &o.max_trace_mb,
               std::int64_t{32});
  r.ResolveOne("max_trace_steps", env.has_max_trace_steps,
               std::int64_t{env.max_trace_steps}, &o.max_trace_steps,
               std::int64_t{400000});
  r.ResolveOne("nan", env.has_nan, env.nan, &o.nan, false);
  r.Record("perf_map", ToText(WritesPerfMap()),
           env.has_perf_map ? "TJIT_PERF_MAP" : Resolver::Origin("perf_map"));
  r.ResolveOwn("products", "library", env.has_own_products, env.own_products,
               &o.own_products);
  r.Record(
      "profile", ToText(ProfilePath()),
      env.profile_path.empty() ? Resolver::Origin("profile") : "TJIT_PROFILE");
  r.ResolveOwn("random", "libtorch", env.has_own_random, env.own_random,
               &o.own_random);
  r.ResolveShadow(env, &o);
  r.ResolveOne("stats_path", env.has_stats_path, env.stats_path, &o.stats_path,
               "");
  r.ResolveOne("stress", env.has_stress, static_cast<Stress>(env.stress),
               &o.stress, Stress::kNone);
  r.ResolveOne("strict", env.has_strict, env.strict, &o.strict, false);
  if (env.has_shuffle_seed) o.shuffle_seed = env.shuffle_seed;
  for (const RegionLine& line : Configured().region_lines) {
    r.Record(absl::StrCat("regions.", line.pattern, ".", line.option).c_str(),
             line.value, line.where);
  }
  if (env.print_config) PrintOnce(r.lines());
  return o;
}

}  // namespace tjit::runtime

namespace tjit::internal {
namespace {

const EnvOptions& File() { return runtime::Configured().options; }

}  // namespace

std::int64_t FromFile(const char* key, std::int64_t built_in) {
  const std::string_view name = key;
  if (name == "shuffle_seed" && File().has_shuffle_seed) {
    return File().shuffle_seed;
  }
  if (name == "shadow_sample" && File().has_shadow) {
    return File().shadow_sample;
  }
  if (name == "hot_threshold" && File().has_hot_threshold) {
    return File().hot_threshold;
  }
  if (name == "max_memory_mb" && File().has_max_memory_mb) {
    return File().max_memory_mb;
  }
  if (name == "max_trace_mb" && File().has_max_trace_mb) {
    return File().max_trace_mb;
  }
  if (name == "max_trace_steps" && File().has_max_trace_steps) {
    return File().max_trace_steps;
  }
  return built_in;
}

bool FromFile(const char* key, bool built_in) {
  const std::string_view name = key;
  if (name == "backward" && File().has_own_backward) {
    return File().own_backward;
  }
  if (name == "compile_all" && File().has_compile_all) {
    return File().compile_all;
  }
  if (name == "debug_compile" && File().has_debug_compile) {
    return File().debug_compile;
  }
  if (name == "fast_math" && File().has_fast_math) return File().fast_math;
  if (name == "nan" && File().has_nan) return File().nan;
  if (name == "products" && File().has_own_products) {
    return File().own_products;
  }
  if (name == "random" && File().has_own_random) return File().own_random;
  if (name == "shadow" && File().has_shadow) return File().shadow;
  if (name == "strict" && File().has_strict) return File().strict;
  return built_in;
}

Stress FromFile(const char*, Stress built_in) {
  return File().has_stress ? static_cast<Stress>(File().stress) : built_in;
}

Backend FromFile(const char*, Backend built_in) {
  return File().has_backend ? static_cast<Backend>(File().backend) : built_in;
}

std::string FromFile(const char* key, const char* built_in) {
  const std::string_view name = key;
  if (name == "cache_dir" && File().has_cache_dir) return File().cache_dir;
  const bool is_stats = name == "stats_path";
  return is_stats && File().has_stats_path ? File().stats_path : built_in;
}

}  // namespace tjit::internal
