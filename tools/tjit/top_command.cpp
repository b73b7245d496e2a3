#include "tools/tjit/top_command.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/log_command.h"
#include "tools/tjit/log_details.h"
#include "tools/tjit/log_tail.h"
#include "tools/tjit/process_log.h"
#include "tools/tjit/run_command.h"
#include "tools/tjit/terminal.h"

namespace tjit::tools {
namespace {

constexpr char kWords[] = "[options] LOG | PID";
constexpr char kWhat[] =
    "Shows what a running program does, by the instruction log that it writes\n"
    "(tjit run --log=FILE). q or Ctrl-C ends it. LOG is the file, PID the "
    "number\nof the process.\n";
constexpr int kPartTries = 20;
constexpr std::chrono::milliseconds kPartPause(50);
constexpr double kMinInterval = 0.05, kMaxInterval = 3600;

using Clock = std::chrono::steady_clock;

struct Request {
  std::string word, pid;
  double interval_s = 1;
  std::uint64_t pictures = std::numeric_limits<std::uint64_t>::max();
};

// One state of the log, to be compared with the one before.
struct Moment {
  LogCounts counts;
  std::map<std::string, SequenceCounts> sequences;
  Clock::time_point at;
};

double Percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0
             ? 0
             : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// The log is over, the program may not be.
bool IsDetached(const LogChunks& file) {
  return static_cast<LogEnd>(file.header().end) == LogEnd::kDetached;
}

class Top {
 public:
  Top(const LogChunks* file, const LogTail* tail) : file_(file), tail_(tail) {}

  // What was done since the last call, and since the log began.
  std::string Picture(bool has_ended);

 private:
  void AddSequences(const Moment& now, double seconds, std::string* out) const;

  const LogChunks* const file_;
  const LogTail* const tail_;
  bool has_before_ = false;
  Moment before_;
};

std::string Top::Picture(bool has_ended) {
  Moment now{tail_->counts(), tail_->sequences(), Clock::now()};
  const LogCounts& all = now.counts;
  const LogCounts& old = before_.counts;
  const double seconds =
      has_before_ && !has_ended
          ? std::chrono::duration<double>(now.at - before_.at).count()
          : 0;
  const auto rate = [seconds](std::uint64_t value, std::uint64_t before) {
    return seconds <= 0
               ? std::string("-")
               : absl::StrFormat("%.1f",
                                 static_cast<double>(value - before) / seconds);
  };
  const std::string share =
      seconds <= 0 || all.ops == old.ops
          ? "-"
          : absl::StrFormat("%.1f",
                            std::min(100.0, Percent(all.replayed - old.replayed,
                                                    all.ops - old.ops)));
  const std::uint32_t pid = file_->header().pid;
  const std::uint64_t kib = has_ended ? 0 : ResidentKiB(pid);
  std::string out = absl::StrFormat(
      "tjit top: %s\npid %d, %s, %d threads, log %.3f s, memory %s\n\n",
      Printable(file_->program()), pid,
      IsDetached(*file_) ? "log ended"
      : has_ended        ? "ended"
                         : "running",
      tail_->threads(), 1e-9 * static_cast<double>(all.last_ns),
      kib == 0 ? "-"
               : absl::StrFormat("%.1f MiB", static_cast<double>(kib) / 1024));
  absl::StrAppendFormat(&out, "%-22s %12s %14s\n", "", "now", "since start");
  absl::StrAppendFormat(&out, "%-22s %12s %14d\n", "ops/s, ops",
                        rate(all.ops, old.ops), all.ops);
  absl::StrAppendFormat(&out, "%-22s %12s %14.1f\n", "replayed %", share,
                        Percent(all.replayed, all.ops));
  // A thread's ops may be read before the run that another made of them.
  const std::uint64_t done = all.replayed + all.drained;
  absl::StrAppendFormat(&out, "%-22s %12d\n", "ops pending",
                        all.deferred - std::min(all.deferred, done));
  absl::StrAppendFormat(&out, "%-22s %12s %14d\n", "segments run/s, run",
                        rate(all.runs, old.runs), all.runs);
  absl::StrAppendFormat(&out, "%-22s %12s %14d\n", "drains/s, drains",
                        rate(all.drains, old.drains), all.drains);
  absl::StrAppendFormat(&out, "%-22s %12s %14d", "side exits/s, exits",
                        rate(all.exits, old.exits), all.exits);
  std::vector<std::pair<std::uint64_t, std::string>> reasons;
  for (const auto& [reason, count] : tail_->exit_reasons()) {
    reasons.emplace_back(count, reason);
  }
  std::sort(reasons.rbegin(), reasons.rend());
  constexpr std::size_t kReasons = 3;
  for (std::size_t i = 0; i < std::min(kReasons, reasons.size()); ++i) {
    absl::StrAppend(&out, i == 0 ? "  " : ", ", Printable(reasons[i].second),
                    " ", reasons[i].first);
  }
  absl::StrAppendFormat(&out, "\n%-22s %12s %14d  %.1f ms\n",
                        "prepared/s, tier 1", rate(all.prepared, old.prepared),
                        all.prepared, 1e-6 * all.prepared_ns);
  absl::StrAppendFormat(&out, "%-22s %12s %14d  %.1f ms\n",
                        "compiled/s, tier 2", rate(all.compiled, old.compiled),
                        all.compiled, 1e-6 * all.compiled_ns);
  AddSequences(now, seconds, &out);
  before_ = std::move(now);
  has_before_ = true;
  return out;
}

void Top::AddSequences(const Moment& now, double seconds,
                       std::string* out) const {
  std::vector<std::pair<std::string, SequenceCounts>> rows;
  for (const auto& [id, sequence] : now.sequences) {
    if (sequence.runs != 0) rows.emplace_back(id, sequence);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.replay_ns > b.second.replay_ns;
  });
  absl::StrAppendFormat(out, "\n%6s %9s %9s %8s %9s %10s  sequence\n", "time%",
                        "runs/s", "runs", "ops/run", "us/run", "ms");
  for (const auto& [id, s] : rows) {
    std::string share = "-", runs = "-";
    const auto old = before_.sequences.find(id);
    const SequenceCounts before =
        old == before_.sequences.end() ? SequenceCounts() : old->second;
    if (seconds > 0) {
      share = absl::StrFormat(
          "%.1f", 1e-7 * (s.replay_ns - before.replay_ns) / seconds);
      runs = absl::StrFormat(
          "%.1f", static_cast<double>(s.runs - before.runs) / seconds);
    }
    const auto count = static_cast<double>(s.runs);
    absl::StrAppendFormat(out, "%6s %9s %9d %8.1f %9.1f %10.3f  %s %s\n", share,
                          runs, s.runs, static_cast<double>(s.ops) / count,
                          1e-3 * s.replay_ns / count, 1e-6 * s.replay_ns,
                          Printable(id), Printable(s.what));
  }
}

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit top: %s\n", text);
  return kUsageStatus;
}

void Print(const std::string& picture) {
  std::puts(picture.c_str());
  std::fflush(stdout);
}

// Goes on in the next part of a log of bounded size, if there is one: then the
// rest of this one is read. Returns how many parts were missed.
std::uint64_t FollowParts(const std::string& path, LogChunks* file,
                          LogTail* tail) {
  std::uint64_t missed = 0;
  while (static_cast<LogEnd>(file->header().end) == LogEnd::kContinued) {
    tail->Read();
    const LogFileHeader before = file->header();
    const LogFileHeader& now = file->header();
    std::string why;
    // For a moment the file of that name is the old one, none, or an empty one.
    for (int tries = 0; tries < kPartTries; ++tries) {
      const bool is_whole =
          file->Open(path, &why) == LogChunks::Opened::kYes && now.pid != 0;
      if (is_whole && (now.pid != before.pid || now.part > before.part)) break;
      std::this_thread::sleep_for(kPartPause);
    }
    if (now.pid != before.pid || now.part <= before.part) break;
    tail->BeginPart();
    missed += now.part - before.part - 1;
  }
  return missed;
}

int Show(const Request& request, const std::string& path) {
  LogChunks file;
  std::string why;
  const LogChunks::Opened opened = file.Open(path, &why);
  if (opened == LogChunks::Opened::kUnreadable) {
    return Fail(absl::StrCat("cannot read ", path, ": ", why));
  }
  if (opened == LogChunks::Opened::kNotALog) {
    return Fail(absl::StrCat(path, " cannot be shown: ", why));
  }
  const std::uint32_t pid = file.header().pid;
  LogTail tail(&file);
  Top top(&file, &tail);
  bool has_ended = false, is_new = false;
  std::uint64_t missed = 0;
  std::string last;
  {
    Terminal terminal;
    const bool is_drawn = terminal.Start();
    for (std::uint64_t pictures = 0; pictures < request.pictures; ++pictures) {
      // Asked before the rows are read, so that none comes behind.
      has_ended = ResidentKiB(pid) == 0;
      file.Update();
      missed += FollowParts(path, &file, &tail);
      has_ended |= file.HasEnded();
      file.Update();
      is_new = file.header().pid != pid;
      if (is_new) break;
      tail.Read();
      last = top.Picture(has_ended);
      is_drawn ? terminal.Draw(last) : Print(last);
      if (has_ended || std::ferror(stdout) != 0) break;
      if (is_drawn && terminal.Wait(request.interval_s)) return 0;
      if (!is_drawn && pictures + 1 < request.pictures) {
        std::this_thread::sleep_for(
            std::chrono::duration<double>(request.interval_s));
      }
    }
    if (is_drawn && has_ended) {
      terminal.Stop();
      Print(last);
    }
  }
  if (is_new) return Fail(path + " is the log of another program by now");
  if (has_ended) {
    Print(IsDetached(file) ? "tjit top: the log has ended, the program goes on"
                           : "tjit top: the program has ended");
  }
  if (const std::string missing = file.Missing(); !missing.empty()) {
    absl::FPrintF(stderr, "tjit top: %s: %s\n", path, missing);
    return kDamagedStatus;
  }
  if (missed != 0) {
    absl::FPrintF(stderr,
                  "tjit top: %d parts of the log came and went before they "
                  "were read; raise TJIT_INSTRUCTION_LOG_MB\n",
                  missed);
  }
  if (tail.damaged() == 0) return missed == 0 ? 0 : kDamagedStatus;
  absl::FPrintF(stderr, "tjit top: %s: %d records or chunks are damaged\n",
                path, tail.damaged());
  return kDamagedStatus;
}

// Sets what the user named. Returns "" or what is wrong.
std::string FindPath(const Request& request, std::string* path) {
  struct stat file{};
  const bool is_file = stat(request.word.c_str(), &file) == 0;
  std::uint32_t pid = 0;
  *path = request.word;
  const std::string& number = request.pid.empty() ? request.word : request.pid;
  if (request.pid.empty() && is_file) return {};
  if (!absl::SimpleAtoi(number, &pid) || pid == 0) {
    if (request.pid.empty()) return {};  // a file that is not there
    return absl::StrCat("--pid=", number,
                        " is not used, accepted is the number of a process");
  }
  return FindLogOf(pid, path);
}

}  // namespace

int TopCommand(int count, char** arguments) {
  Arguments line("tjit top", kWords, kWhat);
  Request request;
  line.AddHelp();
  line.AddValue("--pid", "PID", "the process whose log is shown",
                [&](const std::string& value) {
                  request.pid = value;
                  return std::string();
                });
  line.AddValue("--interval", "SECONDS", "between two pictures; 1 if not given",
                [&](const std::string& value) -> std::string {
                  if (absl::SimpleAtod(value, &request.interval_s) &&
                      request.interval_s >= kMinInterval &&
                      request.interval_s <= kMaxInterval) {
                    return {};
                  }
                  return absl::StrCat("--interval=", value,
                                      " is not used, accepted are seconds "
                                      "from ",
                                      kMinInterval, " to ", kMaxInterval);
                });
  line.AddValue("--count", "N", "end after so many pictures",
                [&](const std::string& value) -> std::string {
                  if (absl::SimpleAtoi(value, &request.pictures) &&
                      request.pictures > 0) {
                    return {};
                  }
                  return absl::StrCat("--count=", value,
                                      " is not used, accepted is a whole "
                                      "number from 1 on");
                });
  line.AddOptionalFile(&request.word, "one log at a time");
  if (const auto status = line.Read(count, arguments)) return *status;
  if (request.word.empty() == request.pid.empty()) {
    return line.Fail(
        absl::StrCat("one log or process is wanted: tjit top ", kWords));
  }
  std::string path;
  const std::string wrong = FindPath(request, &path);
  return wrong.empty() ? Show(request, path) : Fail(wrong);
}

}  // namespace tjit::tools
