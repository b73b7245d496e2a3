#include "tools/tjit/explain_why.h"

#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "recorder/instruction_log_reader.h"
#include "tools/tjit/log_command.h"
#include "tools/tjit/log_details.h"
#include "tools/tjit/log_file.h"
#include "tools/tjit/run_command.h"
#include "tools/tjit/sequence_story.h"
#include "tools/tjit/stats_file.h"
#include "tools/tjit/story_text.h"

namespace tjit::tools {
namespace {

constexpr char kGetLog[] = "`tjit run --log=run.log -- program` writes one";

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit explain: %s\n", text);
  return kUsageStatus;
}

// What is wrong with a file that is no log: `why`, and how to get one.
std::string NoLog(const std::string& path, const std::string& why) {
  StatsFile stats;
  if (ReadStatsFile(path, &stats).empty()) {
    return absl::StrCat(path,
                        " is a file of TJIT_STATS, which has no times; --why "
                        "wants an instruction log: ",
                        kGetLog);
  }
  return absl::StrCat(why, "; --why wants an instruction log: ", kGetLog);
}

// Why there is no one sequence of that number, and which there are.
std::string WhichOnes(const std::string& wanted, const std::string& path,
                      const SequenceStories& stories,
                      const std::vector<std::string>& found) {
  if (stories.all().empty()) {
    return absl::StrCat(path, " knows no sequence: of the ", stories.ops(),
                        " ops in it none were found to repeat for long enough");
  }
  if (found.size() > 1) {
    return absl::StrCat("--why=", wanted, " may mean ", found.size(),
                        " sequences, as numbers are given again behind "
                        "tjit::clear(); name one as --why=NAME: ",
                        absl::StrJoin(found, ", "));
  }
  return absl::StrCat(
      wanted.empty() ? "--why needs the number of a sequence: --why=N"
                     : absl::StrCat("there is no sequence ", Printable(wanted)),
      "; ", path, " knows\n", ListText(stories));
}

// Says on stderr what is missing in the log; returns the exit status.
int SayWhatIsMissing(const std::string& path, const InstructionLog& log) {
  bool is_damaged = false;
  for (const std::string& sentence : WhatIsMissing(path, log, &is_damaged)) {
    Fail(sentence);
  }
  if (const std::string runs = StillRuns(path, log, "the story");
      !runs.empty()) {
    Fail(runs);
  }
  return is_damaged ? kDamagedStatus : 0;
}

}  // namespace

int ExplainWhy(const std::string& number_or_name, const std::string& path) {
  InstructionLog log;
  if (const std::string why = OpenLog(path, "explained", &log); !why.empty()) {
    return Fail(NoLog(path, why));
  }
  SequenceStories stories;
  LogRow row;
  while (log.Next(/*is_live=*/false, &row)) stories.Add(row);
  const std::vector<std::string> found = stories.Find(number_or_name);
  if (number_or_name.empty() || found.size() != 1) {
    std::string text = WhichOnes(number_or_name, path, stories, found);
    while (text.ends_with('\n')) text.pop_back();
    Fail(text);
    SayWhatIsMissing(path, log);
    return kUsageStatus;
  }
  std::fputs(ToText(stories.all().at(found.front()),
                    {log.program(), log.tjit_version(), EndName(log),
                     stories.last_ns()})
                 .c_str(),
             stdout);
  std::fflush(stdout);
  return SayWhatIsMissing(path, log);
}

std::string WhatIfLog(const std::string& path) {
  InstructionLog log;
  if (!OpenLog(path, "explained", &log).empty()) return "";
  return absl::StrCat(path, " is an instruction log; `tjit explain --why=N ",
                      path,
                      "` follows one of its sequences, and `tjit log` prints "
                      "its rows");
}

}  // namespace tjit::tools
