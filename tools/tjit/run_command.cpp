#include "tools/tjit/run_command.h"

#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

#include "support/env.h"
#include "tools/tjit/program_file.h"
#include "tools/tjit/run_files.h"

namespace tjit::tools {
namespace {

struct Option {
  const char* name;
  const char* value;  // what to call it; null: the option takes none
  const char* variable;
  const char* what;
};

constexpr Option kOptions[] = {
    {"--compile", nullptr, "TJIT_COMPILE",
     "promote a sequence after its first full run"},
    {"--config", "FILE", "TJIT_CONFIG",
     "read options from that file: YAML, docs/options.md has the keys"},
    {"--debug", nullptr, "TJIT_DEBUG_COMPILE",
     "write [COMPILE] lines to stderr"},
    {"--fast-math", nullptr, "TJIT_FAST_MATH",
     "allow functions within a few units of the last place of eager's"},
    {"--hot-threshold", "N", "TJIT_HOT_THRESHOLD",
     "complete sightings of a sequence before its ops are deferred"},
    {"--log", "FILE", "TJIT_INSTRUCTION_LOG",
     "write a row per op there; `tjit log FILE` prints them"},
    {"--print-config", nullptr, "TJIT_PRINT_CONFIG",
     "write each option and where it comes from to stderr"},
    {"--shadow", nullptr, "TJIT_SHADOW",
     "run eagerly too and compare bit by bit"},
    {"--stats", "FILE", "TJIT_STATS",
     "write the counters there as JSON at the end"},
    {"--stress", "MODES", "TJIT_STRESS",
     "test modes: hide, or some of late, check, shuffle[:SEED]"},
    {"--strict", nullptr, "TJIT_STRICT",
     "make each unexpected fallback an error"},
};

// As support/params.def has it.
constexpr long kMinThreshold = 2, kMaxThreshold = 1000000;

bool IsThreshold(const std::string& value) {
  long number = 0;
  const char* end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end &&
         number >= kMinThreshold && number <= kMaxThreshold;
}

// As support/env.cpp has it.
bool IsStress(std::string_view value) {
  constexpr std::string_view kSeeded = "shuffle:";
  if (value == "hide") return true;
  for (;;) {
    const std::size_t comma = value.find(',');
    std::string_view mode = value.substr(0, comma);
    if (mode.starts_with(kSeeded)) {
      mode.remove_prefix(kSeeded.size());
      if (mode.empty() ||
          mode.find_first_not_of("0123456789") != std::string_view::npos) {
        return false;
      }
    } else if (mode != "late" && mode != "check" && mode != "shuffle") {
      return false;
    }
    if (comma == std::string_view::npos) return true;
    value.remove_prefix(comma + 1);
  }
}

void PrintHelp() {
  std::puts(
      "usage: tjit run [options] -- program [arguments]\n\n"
      "Runs a program, C++ or Python, with tjit in every process of it "
      "that uses libtorch.\nOptions set the environment variable named "
      "behind them; one that is set already\nwithout an option stays, "
      "TJIT_AUTO_COMPILE=0 too. TJIT_DISABLE=1 runs the program\nas if tjit "
      "were not there.\n");
  for (const Option& o : kOptions) {
    const std::string left =
        o.value == nullptr ? o.name : std::string(o.name) + "=" + o.value;
    std::printf("  %-18s %s (%s)\n", left.c_str(), o.what, o.variable);
  }
}

int UsageError(const std::string& text) {
  std::fprintf(stderr, "tjit run: %s\n", text.c_str());
  return kUsageStatus;
}

std::string Accepted() {
  std::string text = "accepted are --help";
  for (const Option& o : kOptions) {
    text += std::string(", ") + o.name;
    if (o.value != nullptr) text += std::string("=") + o.value;
  }
  return text;
}

const Option* FindOption(std::string_view name) {
  for (const Option& o : kOptions) {
    if (name == o.name) return &o;
  }
  return nullptr;
}

// Sets the variable of one option, --name or --name=value. Returns what is
// wrong with it, else "".
std::string Apply(std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string name(word.substr(0, equals));
  const Option* option = FindOption(name);
  if (option == nullptr) {
    return "unknown option " + name + "; " + Accepted();
  }
  const bool has_value = equals != std::string_view::npos;
  if (!has_value && option->value != nullptr) {
    return name + " needs a value: " + name + "=" + option->value;
  }
  std::string value = has_value ? std::string(word.substr(equals + 1)) : "1";
  if (option->value == nullptr) {
    bool is_on = false;
    if (!ParseSwitch(value, &is_on)) {
      return name + "=" + value + " is not used, accepted is " + kSwitchWords;
    }
    value = is_on ? "1" : "0";
  }
  if (value.empty()) return name + "= needs a value behind it";
  if (name == "--hot-threshold" && !IsThreshold(value)) {
    return name + "=" + value +
           " is not used, accepted is a whole number from " +
           std::to_string(kMinThreshold) + " to " +
           std::to_string(kMaxThreshold);
  }
  if (name == "--stress" && !IsStress(value)) {
    return name + "=" + value +
           " is not used, accepted is hide, or some of late, check, shuffle, "
           "shuffle:SEED with commas between";
  }
  setenv(option->variable, value.c_str(), 1);
  return {};
}

// The file of the shim; empty if it does not lie where it belongs.
std::string FindShim() {
  char self[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (n <= 0) return {};
  const std::string path(self, static_cast<std::size_t>(n));
  const std::string folder = path.substr(0, path.rfind('/'));
  for (const char* lib : {TJIT_BIN_TO_LIB, "../lib"}) {
    const std::string shim = folder + "/" + lib + "/libtjit_preload.so";
    char real[PATH_MAX];
    if (realpath(shim.c_str(), real) != nullptr) return real;
  }
  return {};
}

// Puts the shim before what is preloaded already. Returns what is wrong.
std::string Preload() {
  const std::string shim = FindShim();
  if (shim.empty()) {
    return "libtjit_preload.so does not lie in " TJIT_BIN_TO_LIB
           " beside this command: is tjit installed completely?";
  }
  if (shim.find_first_of(" :") != std::string::npos) {
    return "the loader cannot preload " + shim +
           ": its path has a space or a colon";
  }
  const char* old = std::getenv("LD_PRELOAD");
  const std::string others = old == nullptr ? "" : old;
  if (others.find(shim) == std::string::npos) {
    const std::string all = others.empty() ? shim : shim + ":" + others;
    setenv("LD_PRELOAD", all.c_str(), /*overwrite=*/1);
  }
  setenv("TJIT_AUTO_COMPILE", "1", /*overwrite=*/0);
  return {};
}

int Start(char** program) {
  const std::string file = FindProgram(program[0]);
  const std::string why_not = WhyNotPreloaded(file);
  const bool is_disabled = ParseEnvironment(environ).disable;
  PrepareFiles(is_disabled ? "TJIT_DISABLE=1 keeps tjit off"
               : why_not.empty()
                   ? ""
                   : "tjit cannot be preloaded into the program: " + why_not);
  if (is_disabled) {
    // The operator's word: the program runs as it would without tjit.
  } else if (!why_not.empty()) {
    std::fprintf(stderr, "tjit run: %s runs without tjit: %s\n", program[0],
                 why_not.c_str());
  } else {
    const std::string wrong = Preload();
    if (!wrong.empty()) {
      std::fprintf(stderr, "tjit run: %s\n", wrong.c_str());
      return kCannotRunStatus;
    }
  }
  std::fflush(nullptr);
  execvp(program[0], program);
  const int error = errno;
  std::fprintf(stderr, "tjit run: cannot run %s: %s\n", program[0],
               std::strerror(error));
  return error == ENOENT ? kNotFoundStatus : kCannotRunStatus;
}

}  // namespace

int RunCommand(int count, char** arguments) {
  int i = 0;
  for (; i < count && arguments[i][0] == '-'; ++i) {
    const std::string_view word = arguments[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (word == "--help" || word == "-h") {
      PrintHelp();
      return 0;
    }
    const std::string wrong = Apply(word);
    if (!wrong.empty()) return UsageError(wrong);
  }
  if (i == count) {
    return UsageError(
        "no program given: tjit run [options] -- program "
        "[arguments]");
  }
  return Start(arguments + i);
}

}  // namespace tjit::tools
