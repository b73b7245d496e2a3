#include "tools/tjit/replay_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "support/env.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/own_files.h"
#include "tools/tjit/run_command.h"

namespace tjit::tools {
namespace {

constexpr char kWhat[] =
    "Runs sequences that TJIT_REPRO asked for, or TJIT_SHADOW=1 found to "
    "differ, "
    "and\nwrote into TJIT_REPRO_DIR. Each backend runs each of them in a "
    "process "
    "of its own,\ncompares it with eager bit by bit, and measures what is "
    "faster. Status 0: the bits\nare the same, 1: they differ, or a process "
    "crashed.\n";

// What is about the look inside stays, and what only builds for tests have.
constexpr const char* kPassedOn[] = {
    "TJIT_DUMP",           "TJIT_DUMP_FILE",     "TJIT_LOG",
    "TJIT_PLANTED_DEFECT", "TJIT_THREAD_TRIALS", "TJIT_TRACE_TRIALS",
    "TJIT_VERIFY",         "TJIT_WATCHDOG"};

void ForgetOptions() {
  for (const std::string_view variable : VariableNames()) {
    const bool is_passed_on =
        std::any_of(std::begin(kPassedOn), std::end(kPassedOn),
                    [&](const char* name) { return name == variable; });
    if (!is_passed_on) unsetenv(std::string(variable).c_str());
  }
  setenv("TJIT_CACHE_DIR", "off", 1);
  setenv("TJIT_PROFILE", "off", 1);
}

// Returns only if it cannot be started.
int Start(std::vector<std::string> words) {
  const std::string own = OwnPath();
  const std::string program = own.substr(0, own.rfind('/')) + "/tjit-replay";
  words.insert(words.begin(), program);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  absl::FPrintF(stderr, "tjit replay: %s cannot be started: %s\n", program,
                std::strerror(errno));
  return kUsageStatus;
}

}  // namespace

int ReplayCommand(int count, char** arguments) {
  Arguments line("tjit replay", "[options] FILE...", kWhat);
  bool prints = false, minimises = false, bisects = false;
  std::string output;
  std::vector<std::string> files, options;
  line.AddHelp();
  line.AddFlag("--print", "print the ops of each FILE instead", &prints);
  line.AddFlag("--minimise",
               "take ops out as long as the rest differs; write it to PATH",
               &minimises);
  line.AddFlag("--bisect",
               "name the pass of the compiler behind which it "
               "differs",
               &bisects);
  line.AddOutput(&output, "with --minimise: where the smaller sequence goes",
                 /*is_needed=*/false);
  line.AddValue("--backend", "NAME",
                "that one alone: replay, interpreter, llvm or torchscript",
                [&options](const std::string& value) {
                  BackendName backend = BackendName::kLlvm;
                  if (!ParseBackend(value, &backend)) {
                    return absl::StrCat("--backend=", value,
                                        " is not used, accepted are replay, "
                                        "interpreter, llvm and torchscript");
                  }
                  options.push_back("--backend=" + value);
                  return std::string();
                });
  line.AddValue("--seconds", "N", "that a process may take (60)",
                [&options](const std::string& value) {
                  const bool is_number =
                      !value.empty() && value.size() < 7 && value[0] != '0' &&
                      value.find_first_not_of("0123456789") ==
                          std::string::npos;
                  if (!is_number) {
                    return absl::StrCat("--seconds=", value,
                                        " is not used, accepted is a whole "
                                        "number from 1 to 999999");
                  }
                  options.push_back("--seconds=" + value);
                  return std::string();
                });
  line.AddManyFiles(&files);
  if (const auto status = line.Read(count, arguments)) return *status;
  if (prints + minimises + bisects > 1) {
    return line.Fail("--print, --minimise and --bisect do not go together");
  }
  if (minimises == output.empty()) {
    return line.Fail(minimises ? "--minimise needs -o PATH"
                               : "-o PATH is for --minimise alone");
  }
  if (files.size() > 1 && (minimises || bisects)) {
    return line.Fail(absl::StrCat(minimises ? "--minimise" : "--bisect",
                                  " takes one file at a time, not ", files[0],
                                  " and ", files[1]));
  }
  const char* const action = prints      ? "print"
                             : minimises ? "minimise"
                             : bisects   ? "bisect"
                                         : "replay";
  std::vector<std::string> words = {action};
  words.insert(words.end(), files.begin(), files.end());
  words.insert(words.end(), options.begin(), options.end());
  if (minimises) words.push_back("--output=" + output);
  ForgetOptions();
  return Start(std::move(words));
}

}  // namespace tjit::tools
