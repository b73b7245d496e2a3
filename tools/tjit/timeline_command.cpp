#include "tools/tjit/timeline_command.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/instruction_log_reader.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/log_command.h"
#include "tools/tjit/log_file.h"
#include "tools/tjit/output_text.h"
#include "tools/tjit/run_command.h"
#include "tools/tjit/timeline_data.h"
#include "tools/tjit/timeline_picture.h"

namespace tjit::tools {
namespace {

constexpr char kWords[] = "[options] BEFORE AFTER -o PATH";
constexpr char kWhat[] =
    "Draws two instruction logs (tjit run --log=FILE) as one picture with the "
    "same\nscale of time: BEFORE, mostly a run with TJIT_AUTO_COMPILE=0, and "
    "AFTER, one\nwith tjit. PATH ends in .svg or .html.\n";

struct Request {
  std::string before, after, out;
  Last last;
};

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit timeline: %s\n", text);
  return kUsageStatus;
}

// Opens the log, and says what is wrong.
bool Open(const std::string& path, InstructionLog* log) {
  const std::string why = OpenLog(path, "drawn", log);
  if (!why.empty()) Fail(why);
  return why.empty();
}

// False if rows are missing.
bool PrintEnd(const std::string& path, const InstructionLog& log) {
  bool is_damaged = false;
  if (log.end() == LogEnd::kRunning && !log.HasEnded()) {
    absl::FPrintF(stderr,
                  "tjit timeline: the program of %s still runs: the picture "
                  "has what it has done until now\n",
                  path);
  }
  for (const std::string& sentence : WhatIsMissing(path, log, &is_damaged)) {
    absl::FPrintF(stderr, "tjit timeline: %s\n", sentence);
  }
  return !is_damaged;
}

int Draw(const Request& request) {
  const std::string* const paths[] = {&request.before, &request.after};
  TimelineData runs[] = {TimelineData(request.last),
                         TimelineData(request.last)};
  bool is_whole = true;
  for (int i = 0; i < 2; ++i) {
    InstructionLog log;
    if (!Open(*paths[i], &log)) return kUsageStatus;
    runs[i].Measure(*paths[i], &log);
    is_whole = PrintEnd(*paths[i], log) && is_whole;
    if (runs[i].ops() == 0) {
      return Fail(
          absl::StrCat(*paths[i], " cannot be drawn: it has no rows of ops"));
    }
  }
  const std::uint64_t column_ns = TimelineColumnNs(runs[0], runs[1]);
  for (int i = 0; i < 2; ++i) {
    InstructionLog log;
    if (!Open(*paths[i], &log)) return kUsageStatus;
    runs[i].Fill(&log, column_ns, kTimelineColumns);
  }
  const bool is_page = request.out.ends_with(".html");
  const FileKind kind{"timeline", is_page ? kPageBeginning : kSvgBeginning};
  OutputText out;
  std::string why = out.Open(request.out, kind);
  if (!why.empty()) return Fail(why);
  const std::string svg = TimelineSvg(runs[0], runs[1], column_ns);
  out.Write(is_page ? TimelinePage(svg) : svg);
  why = out.Close();
  if (!why.empty()) return Fail(why);
  return is_whole ? 0 : kDamagedStatus;
}

}  // namespace

int TimelineCommand(int count, char** arguments) {
  Arguments line("tjit timeline", kWords, kWhat);
  Request request;
  line.AddHelp();
  line.AddOutput(&request.out, "where to, a path in .svg or .html");
  line.AddValue("--last", "N",
                "only the last ops with all that tjit did since, or the last\n"
                "seconds: 1000, 2.5s",
                [&request](const std::string& value) {
                  return SetLast(value, &request.last);
                });
  line.AddFiles(&request.before, &request.after);
  if (const auto status = line.Read(count, arguments)) return *status;
  if (!request.out.ends_with(".svg") && !request.out.ends_with(".html")) {
    return line.Fail(absl::StrCat(
        "-o ", request.out,
        " is not used, accepted is a path that ends in .svg or .html"));
  }
  return Draw(request);
}

}  // namespace tjit::tools
