#include "tools/tjit/report_command.h"

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>

#include "absl/strings/str_format.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/output_text.h"
#include "tools/tjit/report_page.h"
#include "tools/tjit/report_pictures.h"
#include "tools/tjit/run_command.h"
#include "tools/tjit/stats_file.h"

namespace tjit::tools {
namespace {

constexpr char kWhat[] =
    "Writes a page (HTML) about a run: what tjit won, where the time went, "
    "each "
    "sequence,\nwhy not more, and what to do. FILE is what the run wrote as "
    "TJIT_STATS=FILE or\n`tjit run --stats=FILE`. The page needs no network "
    "and no other file.\n";

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit report: %s\n", text);
  return kUsageStatus;
}

// The page would take the place of the counters. Paths that lead nowhere are
// another error, said when they are read or written.
bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code none;
  return std::filesystem::equivalent(a, b, none);
}

// Takes the path of a file to read.
std::function<std::string(const std::string&)> SetFile(std::string* path) {
  return [path](const std::string& value) -> std::string {
    if (value.empty()) return "a path is wanted";
    *path = value;
    return "";
  };
}

// Returns "" or what is wrong.
std::string Write(const std::string& path, const std::string& page) {
  OutputText file;
  const std::string wrong = file.Open(path, {"report", kReportBeginning});
  if (!wrong.empty()) return wrong;
  file.Write(page);
  return file.Close();
}

}  // namespace

int ReportCommand(int count, char** arguments) {
  Arguments line("tjit report", "FILE -o PATH", kWhat);
  std::string path, output, log, dump;
  line.AddHelp();
  line.AddOutput(&output, "where to write the page");
  line.AddValue("--log", "LOG",
                "with a timeline of the run, from its instruction log",
                SetFile(&log));
  line.AddValue("--dump", "DUMP",
                "with graphs of what was compiled, from what the run wrote as\n"
                "TJIT_DUMP_FILE=DUMP with TJIT_DUMP=ir",
                SetFile(&dump));
  line.AddFile(&path, "one file is wanted");
  if (const auto status = line.Read(count, arguments)) return *status;
  StatsFile stats;
  std::string wrong = ReadStatsFile(path, &stats);
  for (const std::string& read : {path, log, dump}) {
    if (wrong.empty() && IsSameFile(read, output)) {
      wrong = output + " is the file to read: name another one behind -o";
    }
  }
  ReportPictures pictures;
  if (wrong.empty() && !log.empty()) {
    wrong = AddTimeline(log, stats.explanation, &pictures);
  }
  if (wrong.empty() && !dump.empty()) wrong = AddGraphs(dump, &pictures);
  if (wrong.empty()) wrong = Write(output, ReportPage(stats, pictures));
  return wrong.empty() ? 0 : Fail(wrong);
}

}  // namespace tjit::tools
