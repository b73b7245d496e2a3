// An instruction log as the subcommands open it, with what they say of one that
// is not whole.
// Tested by: tests/acceptance/log_test.py, timeline_test.py, why_test.py
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recorder/instruction_log_reader.h"

namespace tjit::tools {

// Returns "" or what is wrong: "a.log cannot be printed: it is empty", where
// `what` is "printed".
std::string OpenLog(const std::string& path, const std::string& what,
                    InstructionLog* log);

// How the log ended: "closed", "no space", "killed" or "running".
const char* EndName(const InstructionLog& log);

// Sentences about what is missing, behind the last row. `is_damaged`: rows are
// missing that were there.
std::vector<std::string> WhatIsMissing(const std::string& path,
                                       const InstructionLog& log,
                                       bool* is_damaged);

// "" unless the program goes on: then that `what` ("the trace") has what it did
// until now.
std::string StillRuns(const std::string& path, const InstructionLog& log,
                      const std::string& what);

// The end of a log: --last=N rows, --last=Ns seconds.
struct Last {
  std::uint64_t rows = 0;
  double seconds = 0;
  bool is_given() const { return rows != 0 || seconds != 0; }
};
// Returns "" or what is wrong with the value.
std::string SetLast(const std::string& value, Last* last);

// Where the last rows of a log begin.
struct Start {
  std::uint64_t row = 0;  // of those that match, from 0
  std::uint64_t time_ns = 0;
};
// Reads the whole log, keeping nothing of it.
Start FindStart(const Last& last, InstructionLog* log,
                const std::function<bool(const LogRow&)>& matches);

}  // namespace tjit::tools
