#include "tools/tjit/attach_command.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/instruction_log_chunks.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/attached_process.h"
#include "tools/tjit/log_command.h"
#include "tools/tjit/log_tail.h"
#include "tools/tjit/process_log.h"
#include "tools/tjit/run_command.h"

namespace tjit::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kWords[] = "[options] PID";
constexpr char kWhat[] =
    "Has a process that runs with tjit write an instruction log for some "
    "seconds, and\nsays what is in it. The process goes on as it was; Ctrl-C "
    "ends the log early.\n";
constexpr std::chrono::milliseconds kPause(10);
// How long a program may run no op: for the beginning, and for the end.
constexpr std::chrono::seconds kAnswerWithin(5), kEndWithin(1);
constexpr std::chrono::milliseconds kOnWithin(300);
constexpr double kLeastSeconds = 0.1, kMostSeconds = 1e-3 * kAttachMostMs;

struct Request {
  std::string word, path;
  double seconds = 10;
  std::uint64_t mb = 0;
};

volatile std::sig_atomic_t g_is_interrupted = 0;

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit attach: %s\n", text);
  return kUsageStatus;
}

// Waits until `is_so`, for so long at most. Returns whether it is so.
template <class Condition>
bool WaitFor(std::chrono::duration<double> time, const Condition& is_so) {
  const auto until = Clock::now() + time;
  while (!is_so()) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

// What a log has: rows, and ops among them.
struct Contents {
  std::uint64_t rows = 0;
  LogCounts counts;
  std::size_t threads = 0;
  bool has_old_part = false, is_full = false;
};

// Returns "" or why it cannot be read.
std::string Count(const std::string& path, Contents* contents) {
  LogChunks file;
  LogTail tail(&file);
  std::string why;
  if (file.Open(path, &why) != LogChunks::Opened::kYes) return why;
  if (file.header().part != 0) {
    contents->has_old_part =
        file.Open(path + kOldPart, &why) == LogChunks::Opened::kYes;
    if (contents->has_old_part) tail.Read();
    tail.BeginPart();
    if (file.Open(path, &why) != LogChunks::Opened::kYes) return why;
  }
  tail.Read();
  contents->is_full =
      static_cast<LogEnd>(file.header().end) == LogEnd::kNoSpace;
  contents->rows = tail.counts().rows + tail.open_rows();
  contents->counts = tail.counts();
  contents->threads = tail.threads().size();
  return {};
}

std::string Plural(std::uint64_t count, const std::string& word) {
  return absl::StrCat(count, " ", word, count == 1 ? "" : "s");
}

// `early`: why the log ended before its time, or "".
int PrintContents(std::uint32_t pid, const std::string& path,
                  std::string early) {
  Contents has;
  if (const std::string why = Count(path, &has); !why.empty()) {
    return Fail(absl::StrCat("process ", pid, " has written \"", path,
                             "\", which cannot be read here: ", why,
                             "; in a container it lies in /proc/", pid, "/root",
                             path));
  }
  const LogCounts& counts = has.counts;
  absl::PrintF("%s: %s of %s in %.1f s: %s (%d deferred), %s\n", path,
               Plural(has.rows, "row"), Plural(has.threads, "thread"),
               1e-9 * static_cast<double>(counts.last_ns),
               Plural(counts.ops, "op"), counts.deferred,
               Plural(counts.runs, "replayed segment"));
  if (has.has_old_part) {
    absl::PrintF("%s%s has what came right before, which is counted as well\n",
                 path, kOldPart);
  }
  absl::PrintF(
      "read it:     tjit log --summary %s\n"
      "draw it:     tjit log --chrome=trace.json %s\n"
      "compare it:  tjit timeline OTHER.log %s -o timeline.html\n",
      path, path, path);
  if (has.is_full) early = "the process could not write more of it";
  if (early.empty()) return 0;
  std::fflush(stdout);
  absl::FPrintF(stderr, "tjit attach: the log ended early: %s\n", early);
  return kDamagedStatus;
}

// Why there is no answer.
std::string WhyNoAnswer(std::uint32_t pid, const AttachedProcess& process) {
  const std::string name = absl::StrCat("process ", pid);
  if (process.HasEnded()) return absl::StrCat(name, " has ended meanwhile");
  if (!process.IsOn()) {
    return absl::StrCat("tjit is off in ", name,
                        " by now (tjit::disable()): what it runs is not seen");
  }
  return absl::StrCat(
      name, " has run no op of libtorch under tjit for ", kAnswerWithin.count(),
      " s, so it did not see the request; try again when it ", "computes");
}

// Waits for the end of a log that has begun. Returns "", or why it came early
// or not at all.
std::string WaitForEnd(double seconds, AttachedProcess* process) {
  const auto is_over = [&] {
    return process->State() != AttachState::kRuns || process->HasEnded();
  };
  WaitFor(std::chrono::duration<double>(seconds),
          [&] { return is_over() || g_is_interrupted != 0; });
  if (process->State() == AttachState::kEnded) return process->Text();
  if (process->HasEnded()) return "the process has ended meanwhile";
  if (!is_over()) {
    process->Stop();
    if (!WaitFor(kEndWithin, is_over)) {
      // All of its time has passed where nobody has cut it short.
      if (g_is_interrupted == 0) return {};
      return "the process runs no op now; its log is whole, and is closed with "
             "its next op";
    }
  }
  return process->Text();
}

int Attach(std::uint32_t pid, const Request& request) {
  AttachedProcess process;
  if (const std::string why = process.Find(pid); !why.empty()) return Fail(why);
  if (std::string own = process.OwnLog(); !own.empty()) {
    const std::string name = absl::StrCat("process ", pid);
    if (!FindLogOf(pid, &own).empty()) {
      return Fail(absl::StrCat(name, " has an instruction log of its own, ",
                               process.OwnLog(), ", which is not open: it ran ",
                               "no op yet, or could not write it"));
    }
    return Fail(absl::StrCat(
        name, " writes an instruction log already: tjit log ", own));
  }
  // One that has just begun is on in a moment.
  if (!WaitFor(kOnWithin, [&] { return process.IsOn(); })) {
    return Fail(WhyNoAnswer(pid, process));
  }
  AttachedProcess::Wanted wanted;
  wanted.path = std::filesystem::absolute(request.path).lexically_normal();
  wanted.length_ms =
      static_cast<std::uint64_t>(std::lround(1000 * request.seconds));
  wanted.mb = request.mb;
  if (wanted.path.size() >= kAttachTextBytes) {
    return Fail(absl::StrCat("the path of the log has ", wanted.path.size(),
                             " bytes, accepted are up to ",
                             kAttachTextBytes - 1));
  }
  process.Ask(wanted);
  const auto has_answered = [&] {
    return process.State() > AttachState::kStarting || process.HasEnded() ||
           g_is_interrupted != 0;
  };
  WaitFor(kAnswerWithin, has_answered);
  if (process.State() == AttachState::kNone && process.Withdraw()) {
    return Fail(g_is_interrupted != 0 ? "nothing was written"
                                      : WhyNoAnswer(pid, process));
  }
  // It has taken the request: it says soon what came of it.
  WaitFor(kAnswerWithin, [&] {
    return process.State() > AttachState::kStarting || process.HasEnded();
  });
  if (process.State() == AttachState::kRefused) {
    return Fail(
        absl::StrCat("process ", pid, " writes no log: ", process.Text()));
  }
  if (process.State() <= AttachState::kStarting) {
    process.Stop();  // what it may begin yet
    return Fail(WhyNoAnswer(pid, process));
  }
  absl::PrintF("process %d writes %s for %g s\n", pid, wanted.path,
               request.seconds);
  std::fflush(stdout);
  const std::string early = WaitForEnd(request.seconds, &process);
  return PrintContents(pid, wanted.path, early);
}

void AddOptions(Arguments* line, Request* request) {
  line->AddHelp();
  line->AddValue("--seconds", "N", "how long; 10 if not given",
                 [request](const std::string& value) -> std::string {
                   if (absl::SimpleAtod(value, &request->seconds) &&
                       request->seconds >= kLeastSeconds &&
                       request->seconds <= kMostSeconds) {
                     return {};
                   }
                   return absl::StrCat(
                       "--seconds=", value,
                       " is not used, accepted are seconds from ",
                       kLeastSeconds, " to ", kMostSeconds);
                 });
  line->AddOutput(&request->path,
                  "the log; tjit-PID.log in this folder if not given",
                  /*is_needed=*/false);
  line->AddValue("--log-mb", "N",
                 "MB that the log may take: what came last is kept",
                 [request](const std::string& value) -> std::string {
                   if (absl::SimpleAtoi(value, &request->mb) &&
                       request->mb >= 1 && request->mb <= kAttachMostMb) {
                     return {};
                   }
                   return absl::StrCat("--log-mb=", value,
                                       " is not used, accepted is a whole "
                                       "number from 1 to ",
                                       kAttachMostMb);
                 });
  line->AddOptionalFile(&request->word, "one process at a time");
}

}  // namespace

int AttachCommand(int count, char** arguments) {
  Arguments line("tjit attach", kWords, kWhat);
  Request request;
  AddOptions(&line, &request);
  if (const auto status = line.Read(count, arguments)) return *status;
  std::uint32_t pid = 0;
  if (request.word.empty()) {
    return line.Fail(absl::StrCat("no process given: tjit attach ", kWords));
  }
  if (!absl::SimpleAtoi(request.word, &pid) || pid == 0) {
    return line.Fail(absl::StrCat(request.word,
                                  " is not the number of a process; `pgrep "
                                  "program` says it"));
  }
  if (request.path.empty()) request.path = absl::StrCat("tjit-", pid, ".log");
  for (const int number : {SIGINT, SIGTERM}) {
    std::signal(number, [](int) { g_is_interrupted = 1; });
  }
  return Attach(pid, request);
}

}  // namespace tjit::tools
