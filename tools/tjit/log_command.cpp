#include "tools/tjit/log_command.h"

#include <fnmatch.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/instruction_log_reader.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/chrome_trace.h"
#include "tools/tjit/json.h"
#include "tools/tjit/log_file.h"
#include "tools/tjit/log_summary.h"
#include "tools/tjit/run_command.h"

namespace tjit::tools {
namespace {

constexpr int kDecimals = 3, kMicroDecimals = 6;
constexpr std::chrono::milliseconds kPollEvery(100);
constexpr int kPartTries = 20;

struct Wanted {
  std::string op, event, source;
  double from_s = 0, to_s = std::numeric_limits<double>::infinity();
  Last last;
  Start start;
  bool follow = false, summary = false, micros = false, json = false;
  std::string chrome;  // where to, or empty
  std::string file;
};

constexpr char kWhat[] =
    "Prints the rows of an instruction log (TJIT_INSTRUCTION_LOG, or\n"
    "tjit run --log=FILE): time | #number | event | source | command | bytes "
    "|\n"
    "details. (COMPILED) marks an op that ran later, with its sequence.\n";

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit log: %s\n", text);
  return kUsageStatus;
}

// What is wrong with the value, else "".
std::string SetSeconds(const std::string& name, const std::string& value,
                       double* out) {
  char* end = nullptr;
  *out = std::strtod(value.c_str(), &end);
  if (*end == 's') ++end;
  if (*end == '\0' && std::isfinite(*out) && *out >= 0) return {};
  return absl::StrCat(
      name, "=", value,
      " is not used, accepted is a number of seconds from 0 on: 1.5");
}

std::string SetEvent(const std::string& value, std::string* out) {
  std::string known;
  for (int i = 0; i < static_cast<int>(LogEvent::kCount); ++i) {
    const std::string name = LogEventName(static_cast<LogEvent>(i));
    if (name == value) *out = value;
    known += (i == 0 ? "" : ", ") + name;
  }
  if (*out == value) return {};
  return absl::StrCat("--event=", value, " is not used, accepted are ", known);
}

void AddOptions(Arguments* line, Wanted* wanted) {
  const auto store = [](std::string* to) {
    return [to](const std::string& value) {
      *to = value;
      return std::string();
    };
  };
  const auto seconds = [](const char* name, double* to) {
    return [name, to](const std::string& value) {
      return SetSeconds(name, value, to);
    };
  };
  line->AddHelp();
  line->AddValue("--op", "GLOB", "only ops of this name: aten::mm, 'add*'",
                 store(&wanted->op));
  line->AddValue("--event", "EVENT",
                 "only OP, DETECT, COMPILE, REPLAY, DRAIN, EXIT or WAIT",
                 [wanted](const std::string& value) {
                   return SetEvent(value, &wanted->event);
                 });
  line->AddValue("--source", "SOURCE",
                 "only rows of a thread: MAIN, T1, WORKER",
                 store(&wanted->source));
  line->AddValue("--from", "SECONDS", "only rows from this time on",
                 seconds("--from", &wanted->from_s));
  line->AddValue("--to", "SECONDS", "only rows before this time",
                 seconds("--to", &wanted->to_s));
  line->AddValue("--last", "N",
                 "only the last rows, or the last seconds: 1000, 2.5s",
                 [wanted](const std::string& value) {
                   return SetLast(value, &wanted->last);
                 });
  line->AddFlag("--micros", "times with six decimals", &wanted->micros);
  line->AddFlag("--follow", "go on while the program runs", &wanted->follow);
  line->AddFlag("--summary", "ops by time, sequences, and the share deferred",
                &wanted->summary);
  line->AddFlag("--json",
                "an object a line: program, rows, end; with --summary\n"
                "one object",
                &wanted->json);
  line->AddValue("--chrome", "OUT",
                 "writes the rows there as a Chrome trace, which Perfetto\n"
                 "(ui.perfetto.dev) and chrome://tracing open",
                 store(&wanted->chrome));
  line->AddFile(&wanted->file, "one file at a time");
}

bool Matches(const Wanted& wanted, const LogRow& row) {
  const double at_s = 1e-9 * static_cast<double>(row.time_ns);
  if (at_s < wanted.from_s || at_s >= wanted.to_s) return false;
  if (!wanted.event.empty() && wanted.event != LogEventName(row.event)) {
    return false;
  }
  if (!wanted.source.empty() && wanted.source != row.source) return false;
  if (wanted.op.empty()) return true;
  if (row.event != LogEvent::kOp) return false;
  // "mm" stands for "aten::mm".
  const std::size_t colons = row.command.find("::");
  const std::size_t name = colons == std::string::npos ? 0 : colons + 2;
  return fnmatch(wanted.op.c_str(), row.command.c_str(), 0) == 0 ||
         fnmatch(wanted.op.c_str(), row.command.c_str() + name, 0) == 0;
}

Json ToJson(const LogRow& row) {
  Json json = {{"time_ns", row.time_ns},
               {"number", row.number},
               {"event", LogEventName(row.event)},
               {"source", row.source},
               {"command", row.command},
               {"bytes", row.bytes},
               {"details", row.details},
               {"took_ns", std::llround(row.took_ns)},
               {"deferred", row.is_compiled}};
  if (row.is_open) json["open"] = true;
  if (row.has_thrown) json["threw"] = true;
  return json;
}

// True for a row that matches and is one of the last ones.
bool IsOneOfTheLast(const Wanted& wanted, const LogRow& row,
                    std::uint64_t* matched) {
  return Matches(wanted, row) && (*matched)++ >= wanted.start.row &&
         row.time_ns >= wanted.start.time_ns;
}

// All rows that are there. `is_live`: those that are finished.
void Collect(const Wanted& wanted, bool is_live, InstructionLog* log,
             LogSummary* summary, std::uint64_t* matched) {
  LogRow row;
  while (log->Next(is_live, &row)) {
    if (!IsOneOfTheLast(wanted, row, matched)) continue;
    summary->Add(row);
    if (wanted.summary) continue;
    if (wanted.json) {
      std::puts(JsonText(ToJson(row)).c_str());
    } else {
      std::puts(
          ToText(row, wanted.micros ? kMicroDecimals : kDecimals).c_str());
    }
  }
}

int PrintEnd(const std::string& path, const InstructionLog& log) {
  bool is_damaged = false;
  for (const std::string& sentence : WhatIsMissing(path, log, &is_damaged)) {
    absl::FPrintF(stderr, "tjit log: %s\n", sentence);
  }
  return is_damaged ? kDamagedStatus : 0;
}

int WriteChrome(const Wanted& wanted, InstructionLog* log) {
  OutputText out;
  std::string why = out.Open(wanted.chrome, kChromeFile);
  if (!why.empty()) return Fail(why);
  ChromeTrace trace(*log, &out);
  LogRow row;
  std::uint64_t matched = 0;
  while (out.IsGood() && log->Next(/*is_live=*/false, &row)) {
    trace.Add(row, IsOneOfTheLast(wanted, row, &matched));
  }
  trace.Finish();
  why = out.Close();
  if (!why.empty()) return Fail(why);
  if (const std::string runs = StillRuns(wanted.file, *log, "the trace");
      !runs.empty()) {
    absl::FPrintF(stderr, "tjit log: %s\n", runs);
  }
  return PrintEnd(wanted.file, *log);
}

// The next part of a log of bounded size; null if it cannot be followed there.
std::unique_ptr<InstructionLog> NextPart(const std::string& path,
                                         const InstructionLog& log) {
  std::string why;
  for (int tries = 0; tries < kPartTries; ++tries) {
    // For a moment the file of that name is the old one, none, or an empty one.
    auto next = std::make_unique<InstructionLog>();
    if (next->Open(path, &why) == InstructionLog::Opened::kYes &&
        next->pid() == log.pid() && next->part() > log.part()) {
      return next;
    }
    std::this_thread::sleep_for(kPollEvery);
  }
  return nullptr;
}

int Print(const Wanted& wanted, std::unique_ptr<InstructionLog> log) {
  LogSummary summary;
  Json json = JsonHead(log->tjit_version(), log->program());
  if (wanted.json && !wanted.summary) {
    std::puts(JsonText(json).c_str());
    json.clear();
  }
  std::uint64_t matched = 0, missed = 0;
  for (;;) {
    while (wanted.follow && !log->HasEnded()) {
      Collect(wanted, /*is_live=*/true, log.get(), &summary, &matched);
      std::fflush(stdout);
      if (std::ferror(stdout) != 0) return kDamagedStatus;
      std::this_thread::sleep_for(kPollEvery);
      log->Update();
    }
    log->Update();
    Collect(wanted, /*is_live=*/false, log.get(), &summary, &matched);
    if (!wanted.follow || log->end() != LogEnd::kContinued) break;
    auto next = NextPart(wanted.file, *log);
    if (next == nullptr) break;
    missed += next->part() - log->part() - 1;
    log = std::move(next);
  }
  if (wanted.json) {
    json["end"] = EndName(*log);
    json["wall_ns"] = summary.last_ns();
    if (wanted.summary) summary.AddTo(&json);
    std::puts(JsonText(json).c_str());
  } else if (wanted.summary) {
    summary.Print();
  }
  std::fflush(stdout);
  const int status = PrintEnd(wanted.file, *log);
  if (missed == 0) return status;
  absl::FPrintF(stderr,
                "tjit log: %d parts of the log came and went before they were "
                "read; raise TJIT_INSTRUCTION_LOG_MB\n",
                missed);
  return kDamagedStatus;
}

// "" or what is wrong with the options together.
std::string WhatDoesNotGoTogether(const Wanted& wanted) {
  if (wanted.chrome.empty()) return {};
  const std::pair<bool, const char*> others[] = {{wanted.follow, "--follow"},
                                                 {wanted.summary, "--summary"},
                                                 {wanted.json, "--json"},
                                                 {wanted.micros, "--micros"}};
  for (const auto& [is_given, name] : others) {
    if (is_given) {
      return absl::StrCat("--chrome and ", name,
                          " do not go together; name one of them");
    }
  }
  return {};
}

int Run(Wanted wanted) {
  auto log = std::make_unique<InstructionLog>();
  const std::string what = wanted.chrome.empty() ? "printed" : "drawn";
  std::string why = OpenLog(wanted.file, what, log.get());
  if (!why.empty()) return Fail(why);
  if (wanted.last.is_given()) {
    InstructionLog all;
    why = OpenLog(wanted.file, what, &all);
    if (!why.empty()) return Fail(why);
    wanted.start = FindStart(wanted.last, &all, [&](const LogRow& row) {
      return Matches(wanted, row);
    });
  }
  return wanted.chrome.empty() ? Print(wanted, std::move(log))
                               : WriteChrome(wanted, log.get());
}

}  // namespace

int LogCommand(int count, char** arguments) {
  Arguments line("tjit log", "[options] FILE", kWhat);
  Wanted wanted;
  AddOptions(&line, &wanted);
  if (const auto status = line.Read(count, arguments)) return *status;
  const std::string wrong = WhatDoesNotGoTogether(wanted);
  return wrong.empty() ? Run(wanted) : line.Fail(wrong);
}

}  // namespace tjit::tools
