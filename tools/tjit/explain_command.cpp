#include "tools/tjit/explain_command.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "recorder/explanation.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/run_command.h"
#include "tools/tjit/stats_file.h"

namespace tjit::tools {
namespace {

constexpr char kWhat[] =
    "Prints what tjit won in a run, why not more, and what to do. FILE is what "
    "the run\nwrote as TJIT_STATS=FILE or `tjit run --stats=FILE`; "
    "TJIT_STATS=- prints the same\nwhen the program ends.\n";

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit explain: %s\n", text);
  return kUsageStatus;
}

struct Wanted {
  bool verbose = false, json = false;
};

int Print(const std::string& path, Wanted wanted) {
  StatsFile stats;
  if (const std::string wrong = ReadStatsFile(path, &stats); !wrong.empty()) {
    return Fail(wrong);
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
  line.AddFile(&file, "one file is wanted");
  if (const auto status = line.Read(count, arguments)) return *status;
  return Print(file, wanted);
}

}  // namespace tjit::tools
