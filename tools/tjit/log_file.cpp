#include "tools/tjit/log_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace tjit::tools {

std::string OpenLog(const std::string& path, const std::string& what,
                    InstructionLog* log) {
  std::string why;
  switch (log->Open(path, &why)) {
    case InstructionLog::Opened::kYes:
      break;
    case InstructionLog::Opened::kUnreadable:
      return absl::StrCat("cannot read ", path, ": ", why);
    case InstructionLog::Opened::kNotALog:
      return absl::StrCat(path, " cannot be ", what, ": ", why);
  }
  return {};
}

const char* EndName(const InstructionLog& log) {
  switch (log.end()) {
    case LogEnd::kClosed:
    case LogEnd::kDetached:
      return "closed";
    case LogEnd::kNoSpace:
      return "no space";
    case LogEnd::kContinued:
      return "continued";
    case LogEnd::kRunning:
      return log.HasEnded() ? "killed" : "running";
  }
  return "?";
}

std::vector<std::string> WhatIsMissing(const std::string& path,
                                       const InstructionLog& log,
                                       bool* is_damaged) {
  std::vector<std::string> said;
  for (const std::string& sentence : log.Damage()) {
    said.push_back(absl::StrCat(path, ": ", sentence));
  }
  *is_damaged = !said.empty();
  // What the header says of the end is the lesser news.
  if (*is_damaged) return said;
  if (log.part() != 0) {
    said.push_back(absl::StrCat(
        path, " is part ", log.part() + 1, " of a log of bounded size",
        log.end() == LogEnd::kContinued
            ? ", and the next part goes on from here"
            : absl::StrCat(": what came right before is in ", path, kOldPart)));
  } else if (log.end() == LogEnd::kContinued) {
    said.push_back(absl::StrCat(
        path,
        " is the first part of a log of bounded size, and the next part "
        "goes on from here"));
  }
  if (log.end() == LogEnd::kNoSpace) {
    said.push_back(
        "the program went on after the last row: it could not write more");
  } else if (log.end() == LogEnd::kRunning && log.HasEnded()) {
    said.push_back(
        "the program ended without closing the log (killed, crashed or _exit): "
        "the last row is what it did then");
  }
  return said;
}

std::string StillRuns(const std::string& path, const InstructionLog& log,
                      const std::string& what) {
  if (log.end() != LogEnd::kRunning || log.HasEnded()) return {};
  return absl::StrCat("the program of ", path, " still runs: ", what,
                      " has what it has done until now");
}

std::string SetLast(const std::string& value, Last* last) {
  const char* const end = value.data() + value.size();
  const auto rows = std::from_chars(value.data(), end, last->rows);
  if (rows.ec == std::errc() && rows.ptr == end && last->rows > 0) return {};
  last->rows = 0;
  if (value.ends_with('s')) {
    char* stopped = nullptr;
    last->seconds = std::strtod(value.c_str(), &stopped);
    if (stopped == end - 1 && std::isfinite(last->seconds) &&
        last->seconds > 0) {
      return {};
    }
  }
  return absl::StrCat("--last=", value,
                      " is not used, accepted are a number of rows from 1 on, "
                      "or of seconds: 1000, 2.5s");
}

Start FindStart(const Last& last, InstructionLog* log,
                const std::function<bool(const LogRow&)>& matches) {
  std::uint64_t rows = 0, last_ns = 0;
  LogRow row;
  while (log->Next(/*is_live=*/false, &row)) {
    last_ns = std::max(last_ns, row.time_ns);
    if (matches(row)) ++rows;
  }
  Start start;
  if (last.rows != 0) {
    start.row = rows - std::min(rows, last.rows);
  } else {
    const double back_ns = 1e9 * last.seconds;
    const auto last_time_ns = static_cast<double>(last_ns);
    if (back_ns < last_time_ns) {
      start.time_ns = last_ns - static_cast<std::uint64_t>(back_ns);
    }
  }
  return start;
}

}  // namespace tjit::tools
