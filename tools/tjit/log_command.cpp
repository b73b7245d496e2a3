#include "tools/tjit/log_command.h"

#include <fnmatch.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/instruction_log_reader.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/json.h"
#include "tools/tjit/log_summary.h"
#include "tools/tjit/run_command.h"

namespace tjit::tools {
namespace {

constexpr int kDecimals = 3, kMicroDecimals = 6;
constexpr std::chrono::milliseconds kPollEvery(100);

struct Wanted {
  std::string op, event, source;
  double from_s = 0, to_s = std::numeric_limits<double>::infinity();
  bool follow = false, summary = false, micros = false, json = false;
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
                 "only OP, DETECT, COMPILE, REPLAY, DRAIN or EXIT",
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
  line->AddFlag("--micros", "times with six decimals", &wanted->micros);
  line->AddFlag("--follow", "go on while the program runs", &wanted->follow);
  line->AddFlag("--summary", "ops by time, sequences, and the share deferred",
                &wanted->summary);
  line->AddFlag("--json",
                "an object a line: program, rows, end; with --summary\n"
                "one object",
                &wanted->json);
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

// All rows that are there. `is_live`: those that are finished.
void Collect(const Wanted& wanted, bool is_live, InstructionLog* log,
             LogSummary* summary) {
  LogRow row;
  while (log->Next(is_live, &row)) {
    if (!Matches(wanted, row)) continue;
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

const char* EndName(const InstructionLog& log) {
  switch (log.end()) {
    case LogEnd::kClosed:
      return "closed";
    case LogEnd::kNoSpace:
      return "no space";
    case LogEnd::kRunning:
      return log.HasEnded() ? "killed" : "running";
  }
  return "?";
}

int Print(const Wanted& wanted) {
  InstructionLog log;
  std::string why;
  switch (log.Open(wanted.file, &why)) {
    case InstructionLog::Opened::kYes:
      break;
    case InstructionLog::Opened::kUnreadable:
      return Fail("cannot read " + wanted.file + ": " + why);
    case InstructionLog::Opened::kNotALog:
      return Fail(wanted.file + " cannot be printed: " + why);
  }
  LogSummary summary;
  Json json = JsonHead(log.tjit_version(), log.program());
  if (wanted.json && !wanted.summary) {
    std::puts(JsonText(json).c_str());
    json.clear();
  }
  while (wanted.follow && !log.HasEnded()) {
    Collect(wanted, /*is_live=*/true, &log, &summary);
    std::fflush(stdout);
    if (std::ferror(stdout) != 0) return kDamagedStatus;
    std::this_thread::sleep_for(kPollEvery);
    log.Update();
  }
  log.Update();
  Collect(wanted, /*is_live=*/false, &log, &summary);
  if (wanted.json) {
    json["end"] = EndName(log);
    json["wall_ns"] = summary.last_ns();
    if (wanted.summary) summary.AddTo(&json);
    std::puts(JsonText(json).c_str());
  } else if (wanted.summary) {
    summary.Print();
  }
  std::fflush(stdout);
  const bool is_damaged = !log.Damage().empty();
  if (is_damaged) {
    // What the header says of the end is the lesser news.
  } else if (log.end() == LogEnd::kNoSpace) {
    absl::FPrintF(stderr,
                  "tjit log: the program went on after the last row: it could "
                  "not write more\n");
  } else if (log.end() == LogEnd::kRunning && log.HasEnded()) {
    absl::FPrintF(
        stderr,
        "tjit log: the program ended without closing the log (killed, "
        "crashed or _exit): the last row is what it did then\n");
  }
  for (const std::string& sentence : log.Damage()) {
    absl::FPrintF(stderr, "tjit log: %s: %s\n", wanted.file, sentence);
  }
  return is_damaged ? kDamagedStatus : 0;
}

}  // namespace

int LogCommand(int count, char** arguments) {
  Arguments line("tjit log", "[options] FILE", kWhat);
  Wanted wanted;
  AddOptions(&line, &wanted);
  if (const auto status = line.Read(count, arguments)) return *status;
  return Print(wanted);
}

}  // namespace tjit::tools
