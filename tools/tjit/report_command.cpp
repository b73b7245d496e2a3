#include "tools/tjit/report_command.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_format.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/output_text.h"
#include "tools/tjit/report_page.h"
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
  std::string path, output;
  line.AddHelp();
  line.AddOutput(&output, "where to write the page");
  line.AddFile(&path, "one file is wanted");
  if (const auto status = line.Read(count, arguments)) return *status;
  StatsFile stats;
  std::string wrong = ReadStatsFile(path, &stats);
  if (wrong.empty() && IsSameFile(path, output)) {
    wrong = output + " is the file to read: name another one behind -o";
  }
  if (wrong.empty()) wrong = Write(output, ReportPage(stats));
  return wrong.empty() ? 0 : Fail(wrong);
}

}  // namespace tjit::tools
