#include "tools/tjit/explain_command.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/explanation.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/explain_why.h"
#include "tools/tjit/run_command.h"
#include "tools/tjit/stats_file.h"

namespace tjit::tools {
namespace {

constexpr char kWhyOption[] = "--why";
constexpr char kWhat[] =
    "Prints what tjit won in a run, why not more, and what to do. FILE is what "
    "the run\nwrote as TJIT_STATS=FILE or `tjit run --stats=FILE`; "
    "TJIT_STATS=- prints the same\nwhen the program ends.\n"
    "\n"
    "With --why=N it follows sequence N from the moment when it was found to "
    "now. FILE is\nthen an instruction log, which the run wrote as "
    "TJIT_INSTRUCTION_LOG=FILE or `tjit\nrun --log=FILE`.\n";

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit explain: %s\n", text);
  return kUsageStatus;
}

struct Wanted {
  bool verbose = false, json = false;
  std::optional<std::string> why;  // a sequence; "" if it is not named
};

// "--why 3 run.log" is "--why=3 run.log", and so is "run.log --why 3". The only
// word that may be the file stays what it is.
std::vector<std::string> JoinNumber(int count, char** arguments) {
  std::vector<std::string> words(arguments, arguments + count);
  const auto is_name = [](const std::string& word) {
    return !word.empty() &&
           word.find_first_not_of("0123456789abcdef") == std::string::npos;
  };
  const auto files = std::count_if(
      words.begin(), words.end(),
      [](const std::string& word) { return !word.starts_with("-"); });
  for (std::size_t i = 0; files > 1 && i + 1 < words.size(); ++i) {
    if (words[i] != kWhyOption || !is_name(words[i + 1])) continue;
    words[i] = absl::StrCat(kWhyOption, "=", words[i + 1]);
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return words;
}

int Print(const std::string& path, Wanted wanted) {
  StatsFile stats;
  if (const std::string wrong = ReadStatsFile(path, &stats); !wrong.empty()) {
    const std::string log = WhatIfLog(path);
    return Fail(log.empty() ? wrong : log);
  }
  std::fputs(wanted.json ? stats.text.c_str()
                         : ToText(stats.explanation, wanted.verbose).c_str(),
             stdout);
  return 0;
}

}  // namespace

int ExplainCommand(int count, char** arguments) {
  Arguments line("tjit explain", "[options] FILE", kWhat);
  Wanted wanted;
  std::string file;
  line.AddHelp();
  line.AddFlag("-v,--verbose",
               "where the numbers of functions in compiled code come from, too",
               &wanted.verbose);
  line.AddFlag("--json",
               "the same as JSON, with version, program and wall time",
               &wanted.json);
  line.AddOptionalValue(kWhyOption, "N",
                        "what happened to sequence N, of an instruction log;\n"
                        "without N: which sequences there are",
                        [&wanted](const std::string& value) {
                          wanted.why = value;
                          return std::string();
                        });
  line.AddOptionalFile(&file, "one file is wanted");
  std::vector<std::string> words = JoinNumber(count, arguments);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  if (const auto status =
          line.Read(static_cast<int>(pointers.size()), pointers.data())) {
    return *status;
  }
  if (file.empty()) {
    return line.Fail(wanted.why ? "no instruction log given: tjit explain "
                                  "--why=N LOG; `tjit run --log=LOG -- "
                                  "program` writes one"
                                : "no file given: tjit explain [options] FILE");
  }
  if (!wanted.why) return Print(file, wanted);
  if (wanted.json || wanted.verbose) {
    return line.Fail(absl::StrCat("--why and ",
                                  wanted.json ? "--json" : "--verbose",
                                  " do not go together; name one of them"));
  }
  return ExplainWhy(*wanted.why, file);
}

}  // namespace tjit::tools
