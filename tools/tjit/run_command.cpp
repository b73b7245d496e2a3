#include "tools/tjit/run_command.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "support/env.h"
#include "support/repro_list.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/own_files.h"
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
    {"--log-mb", "N", "TJIT_INSTRUCTION_LOG_MB",
     "keep the last N MB of it, about half of them in FILE.old"},
    {"--nan", nullptr, "TJIT_NAN",
     "name the ops that make NaN or infinity out of numbers"},
    {"--print-config", nullptr, "TJIT_PRINT_CONFIG",
     "write each option and where it comes from to stderr"},
    {"--repro", "WHICH", "TJIT_REPRO",
     "write sequences for `tjit replay`: all, slow, or names of them"},
    {"--repro-dir", "FOLDER", "TJIT_REPRO_DIR",
     "where these go, and each sequence that --shadow finds to differ"},
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
constexpr long kMaxLogMb = 1000000;  // as support/env.cpp has it

bool IsNumberWithin(std::string_view value, long least, long most) {
  long number = 0;
  const char* end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end && number >= least &&
         number <= most;
}

// "sample:N", as support/env.h has it.
bool IsSample(std::string_view value) {
  constexpr std::string_view kSample = "sample:";
  constexpr long kMaxShadowSample = 1000000000;
  return value.starts_with(kSample) &&
         IsNumberWithin(value.substr(kSample.size()), 1, kMaxShadowSample);
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

constexpr char kWhat[] =
    "Runs a program, C++ or Python, with tjit in every process of it that uses "
    "libtorch.\nOptions set the environment variable named behind them; one "
    "that is set already\nwithout an option stays, TJIT_AUTO_COMPILE=0 too. "
    "TJIT_DISABLE=1 runs the program\nas if tjit were not there.\n";

// Sets the variable of one option. Returns what is wrong with the value, else
// "".
std::string Apply(const Option& option, const std::string& value) {
  const std::string word = absl::StrCat(option.name, "=", value);
  bool is_on = true;
  const std::string_view name = option.name;
  if (name == "--shadow" && value.starts_with("sample:")) {
    if (!IsSample(value)) {
      return absl::StrCat(word, " is not used, accepted is ", kSwitchWords,
                          ", or sample:N with a whole number N from 1 to "
                          "1000000000");
    }
    setenv(option.variable, value.c_str(), 1);
    return {};
  }
  if (option.value == nullptr && !ParseSwitch(value, &is_on)) {
    return absl::StrCat(word, " is not used, accepted is ", kSwitchWords);
  }
  if (name == "--hot-threshold" &&
      !IsNumberWithin(value, kMinThreshold, kMaxThreshold)) {
    return absl::StrCat(word, " is not used, accepted is a whole number from ",
                        kMinThreshold, " to ", kMaxThreshold);
  }
  if (name == "--log-mb" && !IsNumberWithin(value, 1, kMaxLogMb)) {
    return absl::StrCat(word,
                        " is not used, accepted is a whole number from 1 "
                        "to ",
                        kMaxLogMb);
  }
  if (name == "--stress" && !IsStress(value)) {
    return absl::StrCat(word,
                        " is not used, accepted is hide, or some of late, "
                        "check, shuffle, shuffle:SEED with commas between");
  }
  ReproList list;
  if (name == "--repro" && !ParseReproList(value, &list)) {
    return absl::StrCat(word, " is not used, accepted is ", kReproWords);
  }
  const bool is_switch = option.value == nullptr;
  setenv(option.variable, is_switch ? (is_on ? "1" : "0") : value.c_str(), 1);
  return {};
}

// Puts the shim before what is preloaded already. Returns what is wrong.
std::string Preload() {
  const std::string shim = OwnLibrary("libtjit_preload.so");
  if (shim.empty()) {
    return "libtjit_preload.so does not lie in " TJIT_BIN_TO_LIB
           " beside this command: is tjit installed completely?";
  }
  if (shim.find_first_of(" :") != std::string::npos) {
    return absl::StrCat("the loader cannot preload ", shim,
                        ": its path has a space or a colon");
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
    absl::FPrintF(stderr, "tjit run: %s runs without tjit: %s\n", program[0],
                  why_not);
  } else {
    const std::string wrong = Preload();
    if (!wrong.empty()) {
      absl::FPrintF(stderr, "tjit run: %s\n", wrong);
      return kCannotRunStatus;
    }
  }
  std::fflush(nullptr);
  execvp(program[0], program);
  const int error = errno;
  absl::FPrintF(stderr, "tjit run: cannot run %s: %s\n", program[0],
                std::strerror(error));
  return error == ENOENT ? kNotFoundStatus : kCannotRunStatus;
}

}  // namespace

int RunCommand(int count, char** arguments) {
  Arguments line("tjit run", "[options] -- program [arguments]", kWhat);
  line.AddHelp();
  for (const Option& option : kOptions) {
    const std::string what =
        std::string(option.what) + " (" + option.variable + ")";
    const auto set = [&option](const std::string& value) {
      return Apply(option, value);
    };
    if (option.value == nullptr) {
      line.AddSwitch(option.name, what, set);
    } else {
      line.AddValue(option.name, option.value, what, set);
    }
  }
  std::vector<std::string> program;
  line.AddProgram(&program, /*is_needed=*/true);
  if (const auto status = line.Read(count, arguments)) return *status;
  // The program's words are the last ones.
  return Start(arguments + count - program.size());
}

}  // namespace tjit::tools
