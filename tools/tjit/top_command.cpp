#include "tools/tjit/top_command.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
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
#include "tools/tjit/long_log.h"
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

SequenceCounts CountsOf(const Moment& moment, const std::string& id) {
  const auto at = moment.sequences.find(id);
  return at == moment.sequences.end() ? SequenceCounts() : at->second;
}

class Top {
 public:
  explicit Top(const LongLog* log) : log_(log) {}

  // What was done since the last call, and since the log began.
  std::string Picture(bool has_ended);

 private:
  void AddHead(const LogCounts& all, bool has_ended, std::string* out) const;
  void AddReasons(std::string* out) const;
  void AddSequences(const Moment& now, double seconds, std::string* out) const;

  const LongLog* const log_;
  bool has_before_ = false;
  Moment before_;
};

void Top::AddHead(const LogCounts& all, bool has_ended,
                  std::string* out) const {
  const LogChunks& file = log_->file();
  const LogTail& tail = log_->tail();
  const LogTail& earlier = log_->earlier();
  std::set<std::uint32_t> threads = tail.threads();
  threads.insert(earlier.threads().begin(), earlier.threads().end());
  const std::uint32_t pid = file.header().pid;
  const std::uint64_t kib = has_ended ? 0 : ResidentKiB(pid);
  absl::StrAppendFormat(
      out, "tjit top: %s\npid %d, %s, %d threads, log %.3f s, memory %s\n",
      Printable(file.program()), pid,
      IsDetached(file) ? "log ended"
      : has_ended      ? "ended"
                       : "running",
      threads.size(), 1e-9 * static_cast<double>(all.last_ns),
      kib == 0 ? "-"
               : absl::StrFormat("%.1f MiB", static_cast<double>(kib) / 1024));
  if (!log_->has_all()) {
    absl::StrAppendFormat(
        out, "since start: the log is long, %.0f %% of it has been read\n",
        Percent(tail.chunks_read() + earlier.chunks_read(),
                tail.chunks() + earlier.chunks()));
  }
  absl::StrAppendFormat(out, "\n%-22s %12s %14s\n", "", "now", "since start");
}

// The most frequent ones.
void Top::AddReasons(std::string* out) const {
  std::map<std::string, std::uint64_t> counts = log_->tail().exit_reasons();
  for (const auto& [reason, count] : log_->earlier().exit_reasons()) {
    counts[reason] += count;
  }
  std::vector<std::pair<std::uint64_t, std::string>> reasons;
  for (const auto& [reason, count] : counts) {
    reasons.emplace_back(count, reason);
  }
  std::sort(reasons.rbegin(), reasons.rend());
  constexpr std::size_t kReasons = 3;
  for (std::size_t i = 0; i < std::min(kReasons, reasons.size()); ++i) {
    absl::StrAppend(out, i == 0 ? "  " : ", ", Printable(reasons[i].second),
                    " ", reasons[i].first);
  }
}

std::string Top::Picture(bool has_ended) {
  Moment now{log_->tail().counts(), log_->tail().sequences(), Clock::now()};
  const LogCounts& live = now.counts;
  const LogCounts& old = before_.counts;
  LogCounts all = live;
  all.Add(log_->earlier().counts());
  const double seconds =
      has_before_ && !has_ended
          ? std::chrono::duration<double>(now.at - before_.at).count()
          : 0;
  std::string out;
  AddHead(all, has_ended, &out);
  // A line without its end.
  const auto line = [&](const char* name, std::uint64_t LogCounts::* count) {
    const auto done = static_cast<double>(live.*count - old.*count);
    absl::StrAppendFormat(
        &out, "%-22s %12s %14d", name,
        seconds <= 0 ? "-" : absl::StrFormat("%.1f", done / seconds),
        all.*count);
  };
  const auto timed_line = [&](const char* name,
                              std::uint64_t LogCounts::* count, double ns) {
    line(name, count);
    absl::StrAppendFormat(&out, "  %.1f ms\n", 1e-6 * ns);
  };
  line("ops/s, ops", &LogCounts::ops);
  const std::string share =
      seconds <= 0 || live.ops == old.ops
          ? "-"
          : absl::StrFormat(
                "%.1f", std::min(100.0, Percent(live.replayed - old.replayed,
                                                live.ops - old.ops)));
  absl::StrAppendFormat(&out, "\n%-22s %12s %14.1f\n", "replayed %", share,
                        Percent(all.replayed, all.ops));
  // A thread's ops may be read before the run that another made of them.
  const std::uint64_t done = all.replayed + all.drained;
  absl::StrAppendFormat(&out, "%-22s %12d\n", "ops pending",
                        all.deferred - std::min(all.deferred, done));
  line("segments run/s, run", &LogCounts::runs);
  out += "\n";
  line("drains/s, drains", &LogCounts::drains);
  out += "\n";
  line("side exits/s, exits", &LogCounts::exits);
  AddReasons(&out);
  out += "\n";
  timed_line("prepared/s, tier 1", &LogCounts::prepared, all.prepared_ns);
  timed_line("compiled/s, tier 2", &LogCounts::compiled, all.compiled_ns);
  timed_line("waits/s, waits", &LogCounts::waits, all.wait_ns);
  AddSequences(now, seconds, &out);
  before_ = std::move(now);
  has_before_ = true;
  return out;
}

void Top::AddSequences(const Moment& now, double seconds,
                       std::string* out) const {
  std::map<std::string, SequenceCounts> all = now.sequences;
  for (const auto& [id, sequence] : log_->earlier().sequences()) {
    all[id].Add(sequence);
  }
  std::vector<std::pair<std::string, SequenceCounts>> rows;
  for (const auto& [id, sequence] : all) {
    if (sequence.runs != 0) rows.emplace_back(id, sequence);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.won.won_ns(), a.second.replay_ns) >
           std::pair(b.second.won.won_ns(), b.second.replay_ns);
  });
  absl::StrAppendFormat(out, "\n%10s %6s %9s %9s %8s %9s %10s  sequence\n",
                        "won ms", "time%", "runs/s", "runs", "ops/run",
                        "us/run", "ms");
  for (const auto& [id, s] : rows) {
    std::string share = "-", runs = "-", won = "-";
    if (s.won.is_known()) {
      won = absl::StrFormat("%.3f", s.won.won_ns() / 1e6);
    }
    if (seconds > 0) {
      const SequenceCounts live = CountsOf(now, id);
      const SequenceCounts before = CountsOf(before_, id);
      share = absl::StrFormat(
          "%.1f", 1e-7 * (live.replay_ns - before.replay_ns) / seconds);
      runs = absl::StrFormat(
          "%.1f", static_cast<double>(live.runs - before.runs) / seconds);
    }
    const auto count = static_cast<double>(s.runs);
    absl::StrAppendFormat(
        out, "%10s %6s %9s %9d %8.1f %9.1f %10.3f  %s %s\n", won, share, runs,
        s.runs, static_cast<double>(s.ops) / count, 1e-3 * s.replay_ns / count,
        1e-6 * s.replay_ns, Printable(id), Printable(s.what));
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

// Until the next picture. False if the user ends it. `terminal`: null if there
// is none.
bool Wait(double interval_s, Terminal* terminal, LongLog* log) {
  constexpr double kLookS = 0.001;
  const auto until = Clock::now() + std::chrono::duration<double>(interval_s);
  while (Clock::now() < until && log->ReadEarlier()) {
    if (terminal != nullptr && terminal->Wait(kLookS)) return false;
  }
  const double left_s = std::max(
      std::chrono::duration<double>(until - Clock::now()).count(), 0.0);
  if (terminal != nullptr) return !terminal->Wait(left_s);
  std::this_thread::sleep_for(std::chrono::duration<double>(left_s));
  return true;
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
  LongLog log(&file);
  Top top(&log);
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
      missed += log.FollowParts(path);
      has_ended |= file.HasEnded();
      file.Update();
      is_new = file.header().pid != pid;
      if (is_new) break;
      log.Read();
      if (pictures == 0) log.ReadAtOnce();
      if (has_ended) log.ReadAllEarlier();
      last = top.Picture(has_ended);
      is_drawn ? terminal.Draw(last) : Print(last);
      if (has_ended || std::ferror(stdout) != 0) break;
      if (!is_drawn && pictures + 1 == request.pictures) break;
      if (!Wait(request.interval_s, is_drawn ? &terminal : nullptr, &log)) {
        return 0;
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
  if (log.damaged() == 0) return missed == 0 ? 0 : kDamagedStatus;
  absl::FPrintF(stderr, "tjit top: %s: %d records or chunks are damaged\n",
                path, log.damaged());
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
