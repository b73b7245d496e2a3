// See driver.h.
#include "tests/differential/driver.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "runtime/testing.h"
#include "tests/differential/families.h"
#include "tests/differential/generator.h"
#include "tests/differential/program_text.h"

namespace tjit::differential {
namespace {

using Clock = std::chrono::steady_clock;

void WriteAll(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n <= 0) _exit(3);
    done += static_cast<std::size_t>(n);
  }
}

// "R seed differs counted share ops runs detail\n"; newlines become '\v'. In
// front of it "C coverage\n", if there is one.
std::string Encode(std::uint64_t seed, const Verdict& verdict) {
  std::string detail = verdict.difference;
  for (char& c : detail) {
    if (c == '\n') c = '\v';
  }
  std::ostringstream text;
  if (!verdict.coverage.empty()) {
    text << "C " << EncodeCoverage(verdict.coverage) << '\n';
  }
  text << "R " << seed << ' ' << !detail.empty() << ' ' << verdict.is_counted
       << ' ' << verdict.share << ' ' << verdict.ops << ' ' << verdict.runs
       << ' ' << detail << '\n';
  return text.str();
}

bool Decode(const std::string& line, SeedResult& result) {
  std::istringstream text(line.substr(2));
  int differs = 0;
  text >> result.seed >> differs >> result.is_counted >> result.share >>
      result.ops >> result.runs;
  text.get();
  std::getline(text, result.detail);
  for (char& c : result.detail) {
    if (c == '\v') c = '\n';
  }
  if (differs) result.status = SeedResult::Status::kDiffers;
  return !text.bad();
}

Program Generate(const DriverConfig& config, std::uint64_t seed) {
  Program program = GenerateProgram(seed);
  if (config.iterations > kHotIterations) {
    program.iterations = config.iterations;
  }
  return program;
}

Verdict RunOne(const DriverConfig& config, const Program& program) {
  if (config.compare) return config.compare(program);
  testing::SetPlantedDefect(config.defect);
  if (config.covers) BeginCoverage(program);
  Verdict verdict = Compare(config.engine, program, config.max_drains);
  if (config.covers) verdict.coverage = TakeCoverage();
  testing::SetPlantedDefect("");
  if (config.print_stats) {
    std::fprintf(stderr, "seed %llu %s\n",
                 static_cast<unsigned long long>(program.seed),
                 verdict.stats_json.c_str());
  }
  return verdict;
}

// A child process and what it was last seen doing.
struct Child {
  pid_t pid = -1;
  int fd = -1;
  std::string buffer;
  Coverage coverage;       // of the result to come
  std::uint64_t next = 0;  // first seed without a result
  std::uint64_t end = 0;
  bool is_running_seed = false;
  Clock::time_point since;
};

// Runs `work` in a child that writes to a pipe.
Child Fork(const std::function<void(int fd)>& work) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  Child child;
  child.pid = fork();
  if (child.pid == 0) {
    close(ends[0]);
    work(ends[1]);
    std::fflush(nullptr);
    _exit(0);
  }
  close(ends[1]);
  child.fd = ends[0];
  child.since = Clock::now();
  return child;
}

Child StartSeeds(const DriverConfig& config, std::uint64_t first,
                 std::uint64_t end) {
  Child child = Fork([&](int fd) {
    for (std::uint64_t seed = first; seed < end; ++seed) {
      if (config.family >= 0 && FamilyOf(seed) != config.family) continue;
      if (config.wants && !config.wants(seed)) continue;
      WriteAll(fd, "B " + std::to_string(seed) + "\n");
      WriteAll(fd, Encode(seed, RunOne(config, Generate(config, seed))));
    }
  });
  child.next = first;
  child.end = end;
  return child;
}

// Ends the child; what a seed that it left unfinished is called.
SeedResult Reap(Child& child, bool timed_out) {
  if (timed_out) kill(child.pid, SIGKILL);
  int status = 0;
  waitpid(child.pid, &status, 0);
  close(child.fd);
  child.fd = -1;
  SeedResult result;
  result.seed = child.next;
  result.status = timed_out ? SeedResult::Status::kTimedOut
                            : SeedResult::Status::kCrashed;
  if (timed_out) {
    result.detail = "no end within the time limit";
  } else if (WIFSIGNALED(status)) {
    result.detail = std::string("signal: ") + strsignal(WTERMSIG(status));
  } else {
    result.detail = "exit status " + std::to_string(WEXITSTATUS(status));
  }
  return result;
}

// Reads what is there. False at the end of the stream.
bool ReadLines(Child& child, std::vector<SeedResult>& results) {
  char chunk[4096];
  ssize_t n = read(child.fd, chunk, sizeof chunk);
  if (n <= 0) return false;
  child.buffer.append(chunk, static_cast<std::size_t>(n));
  for (std::size_t end; (end = child.buffer.find('\n')) != std::string::npos;) {
    std::string line = child.buffer.substr(0, end);
    child.buffer.erase(0, end + 1);
    child.since = Clock::now();
    if (line[0] == 'B') {
      child.next = std::stoull(line.substr(2));
      child.is_running_seed = true;
      continue;
    }
    if (line[0] == 'C') {
      child.coverage = DecodeCoverage(line.substr(2));
      continue;
    }
    SeedResult result;
    if (!Decode(line, result)) continue;
    result.coverage = std::exchange(child.coverage, {});
    results.push_back(result);
    child.next = result.seed + 1;
    child.is_running_seed = false;
  }
  return true;
}

void Add(Summary& summary, const SeedResult& result) {
  ++summary.programs;
  Merge(summary.coverage, result.coverage);
  summary.counted += result.is_counted;
  summary.runs += result.runs;
  summary.share += result.share * static_cast<double>(result.ops);
  summary.ops += result.ops;
  if (result.status == SeedResult::Status::kSame) return;
  ++summary.failed;
  summary.failures.push_back(result);
}

// All children and the seeds that they still have to run.
class Pool {
 public:
  Pool(const DriverConfig& config,
       const std::function<bool(const SeedResult&)>& on_result)
      : config_(config), on_result_(on_result), next_(config.first) {}
  ~Pool() {
    for (Child& child : children_) Reap(child, /*timed_out=*/true);
  }

  Summary Run() {
    while (!stopped_ && Fill()) Wait();
    if (summary_.ops > 0) summary_.share /= static_cast<double>(summary_.ops);
    return std::move(summary_);
  }

 private:
  bool Fill() {
    while (static_cast<int>(children_.size()) < config_.jobs &&
           next_ < config_.last) {
      std::uint64_t end = std::min<std::uint64_t>(
          config_.last,
          next_ + static_cast<std::uint64_t>(config_.seeds_per_child));
      children_.push_back(StartSeeds(config_, next_, end));
      next_ = end;
    }
    return !children_.empty();
  }

  void Wait() {
    std::vector<pollfd> fds;
    for (const Child& child : children_) fds.push_back({child.fd, POLLIN, 0});
    poll(fds.data(), fds.size(), 1000);
    for (std::size_t i = fds.size(); i-- > 0;) {
      Child& child = children_[i];
      bool has_ended = false;
      std::vector<SeedResult> results;
      if (fds[i].revents != 0) has_ended = !ReadLines(child, results);
      for (const SeedResult& result : results) Deliver(result);
      bool is_late = Clock::now() - child.since >
                     std::chrono::seconds(config_.timeout_seconds);
      if (has_ended || is_late) Replace(i, is_late);
    }
  }

  void Replace(std::size_t i, bool is_late) {
    Child child = std::move(children_[i]);
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
    bool is_unfinished = child.is_running_seed || is_late;
    SeedResult result = Reap(child, is_late);
    if (!is_unfinished) return;
    Deliver(result);
    if (result.seed + 1 < child.end) {
      children_.push_back(StartSeeds(config_, result.seed + 1, child.end));
    }
  }

  void Deliver(const SeedResult& result) {
    Add(summary_, result);
    if (on_result_ && !on_result_(result)) stopped_ = true;
  }

  const DriverConfig& config_;
  const std::function<bool(const SeedResult&)>& on_result_;
  std::uint64_t next_;
  std::vector<Child> children_;
  Summary summary_;
  bool stopped_ = false;
};

// This program once more, with a dump; whatever comes of it.
void DumpTo(const std::string& dump, Engine engine, const std::string& file) {
  const std::string name(EngineNames()[static_cast<std::size_t>(engine)]);
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("TJIT_DUMP", "trace,ir,loops,plan", 1);
    setenv("TJIT_DUMP_FILE", dump.c_str(), 1);
    execl("/proc/self/exe", "differential", "--program", file.c_str(),
          "--engine", name.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  waitpid(pid, nullptr, 0);
}

// "", or a line that says where it lies.
std::string WriteProgram(const DriverConfig& config, const Program& program,
                         const std::string& folder) {
  const std::string stem = folder + "/seed" + std::to_string(program.seed);
  std::ofstream out(stem + ".program");
  const std::string_view engine =
      EngineNames()[static_cast<std::size_t>(config.engine)];
  out << "# engine " << engine << '\n' << Format(program);
  out.close();
  if (!out) return "cannot write " + stem + ".program\n";
  DumpTo(stem + ".trace", config.engine, stem + ".program");
  return "written: " + stem + ".program, " + stem + ".trace\n";
}

}  // namespace

std::string Summary::ToString() const {
  char text[200];
  std::snprintf(text, sizeof text,
                "%lld programs, %lld counted, %lld runs, %.1f %% of %lld hot "
                "ops in the engine, %lld failed",
                static_cast<long long>(programs),
                static_cast<long long>(counted), static_cast<long long>(runs),
                100 * share, static_cast<long long>(ops),
                static_cast<long long>(failed));
  return text;
}

Summary RunSeeds(const DriverConfig& config,
                 const std::function<bool(const SeedResult&)>& on_result) {
  return Pool(config, on_result).Run();
}

SeedResult RunAlone(const DriverConfig& config, const Program& program) {
  Child child = Fork([&](int fd) {
    WriteAll(fd, "B " + std::to_string(program.seed) + "\n");
    WriteAll(fd, Encode(program.seed, RunOne(config, program)));
  });
  std::vector<SeedResult> results;
  auto limit = std::chrono::seconds(config.timeout_seconds);
  bool is_late = false;
  for (;;) {
    pollfd fd = {child.fd, POLLIN, 0};
    if (poll(&fd, 1, 1000) > 0 && !ReadLines(child, results)) break;
    is_late = Clock::now() - child.since > limit;
    if (is_late) break;
  }
  SeedResult unfinished = Reap(child, is_late);
  return results.empty() ? unfinished : results.front();
}

Program Smaller(const DriverConfig& config, const Program& program,
                SeedResult::Status status) {
  return Shrink(program, [&](const Program& smaller) {
    return RunAlone(config, smaller).status == status;
  });
}

std::string Report(const DriverConfig& config, const SeedResult& result,
                   bool shrink, const std::string& folder) {
  Program program = Generate(config, result.seed);
  std::string text = "seed " + std::to_string(result.seed) + ": " +
                     result.detail + "\n";
  DriverConfig quick = config;
  quick.timeout_seconds = 20;
  const SeedResult alone = RunAlone(quick, program);
  if (alone.status == SeedResult::Status::kSame) {
    return text + "(only after the seeds before it)\n" + program.ToString();
  }
  if (!shrink) return text + program.ToString();
  program = Smaller(quick, program, alone.status);
  text += "shrunk: " + RunAlone(quick, program).detail + "\n";
  if (!folder.empty()) text += WriteProgram(config, program, folder);
  return text + program.ToString();
}

}  // namespace tjit::differential
