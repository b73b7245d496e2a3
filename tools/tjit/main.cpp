// tjit: the command line. Each subcommand is a file of its own.
// Tested by: tests/acceptance/run_test.py
#include <cstdio>
#include <string_view>

#include "absl/strings/str_format.h"
#include "tools/tjit/attach_command.h"
#include "tools/tjit/cache_command.h"
#include "tools/tjit/doctor_command.h"
#include "tools/tjit/explain_command.h"
#include "tools/tjit/graph_command.h"
#include "tools/tjit/log_command.h"
#include "tools/tjit/package_command.h"
#include "tools/tjit/replay_command.h"
#include "tools/tjit/report_command.h"
#include "tools/tjit/run_command.h"
#include "tools/tjit/timeline_command.h"
#include "tools/tjit/top_command.h"
#include "tools/tjit/version.h"

namespace {

constexpr char kHelp[] =
    "usage: tjit run [options] -- program [arguments]\n"
    "       tjit doctor [-- program [arguments]]\n"
    "       tjit explain FILE\n"
    "       tjit explain --why=N LOG\n"
    "       tjit report FILE -o PAGE.html\n"
    "       tjit graph [options] FILE\n"
    "       tjit log [options] FILE\n"
    "       tjit timeline [options] BEFORE AFTER -o PATH\n"
    "       tjit top [options] LOG | PID\n"
    "       tjit attach [options] PID\n"
    "       tjit replay [options] FILE\n"
    "       tjit package show|verify|run|compile FILE\n"
    "       tjit cache list|verify|clear [DIR]\n"
    "       tjit --help | --version\n"
    "\n"
    "Makes programs that use libtorch fast without changing them.\n"
    "`tjit run --help` lists the options of a subcommand. `tjit doctor` says "
    "whether a\nprogram would be served and if not, what to do, `tjit explain` "
    "what a file of\nTJIT_STATS says about a run, `tjit cache` what code is "
    "kept on disk, `tjit\n--version` for which libtorch this tjit is.\n";

int UsageError(const char* what, const char* word) {
  absl::FPrintF(stderr, "tjit: %s%s; try `tjit --help`\n", what, word);
  return tjit::tools::kUsageStatus;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return UsageError("no subcommand given", "");
  const std::string_view word = argv[1];
  if (word == "run") return tjit::tools::RunCommand(argc - 2, argv + 2);
  if (word == "doctor") return tjit::tools::DoctorCommand(argc - 2, argv + 2);
  if (word == "explain") return tjit::tools::ExplainCommand(argc - 2, argv + 2);
  if (word == "report") return tjit::tools::ReportCommand(argc - 2, argv + 2);
  if (word == "graph") return tjit::tools::GraphCommand(argc - 2, argv + 2);
  if (word == "log") return tjit::tools::LogCommand(argc - 2, argv + 2);
  if (word == "timeline")
    return tjit::tools::TimelineCommand(argc - 2, argv + 2);
  if (word == "top") return tjit::tools::TopCommand(argc - 2, argv + 2);
  if (word == "attach") return tjit::tools::AttachCommand(argc - 2, argv + 2);
  if (word == "replay") return tjit::tools::ReplayCommand(argc - 2, argv + 2);
  if (word == "package") return tjit::tools::PackageCommand(argc - 2, argv + 2);
  if (word == "cache") return tjit::tools::CacheCommand(argc - 2, argv + 2);
  if (word == "--help" || word == "-h" || word == "help") {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (word == "--version") {
    std::fputs(tjit::tools::VersionText().c_str(), stdout);
    return 0;
  }
  return UsageError(
      "accepted are run, doctor, explain, report, graph, log, timeline, top, "
      "attach, replay, package, cache, --help and --version, not ",
      argv[1]);
}
