#include "tools/replay/replay_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tjit::tools {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// Begins the line that has the answer.
constexpr char kAnswer[] = "tjit-replay-answer ";

std::string FirstLine(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  const std::string text =
      error != nullptr ? error->what_without_backtrace() : e.what();
  return text.substr(0, text.find('\n'));
}

// `seconds`: what the process may take. It uses half of them for its runs: the
// rest is for eager's and for the compiler, and no end is a finding.
std::string AnswerLine(const Sequence& sequence, Backend backend, int seconds,
                       bool is_timed) {
  Json answer;
  try {
    const ReplayResult result =
        ReplaySequence(sequence, backend, (seconds + 1) / 2, is_timed);
    answer = {{"runs", result.runs},
              {"replayed", result.ops_replayed},
              {"fused", result.ops_fused},
              {"difference", result.difference},
              {"timed", result.times.runs},
              {"eager_ns", result.times.eager_ns},
              {"replay_ns", result.times.replay_ns}};
  } catch (const std::exception& e) {
    answer = {{"refused", FirstLine(e)}};
  }
  return absl::StrCat(
      kAnswer, answer.dump(-1, ' ', true, Json::error_handler_t::replace),
      "\n");
}

void WriteAll(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void RunChild(const Sequence& sequence,
                           const ReplaySettings& settings, int fd) {
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  if (settings.opt_limit >= 0) {
    setenv("TJIT_OPT_LIMIT", absl::StrCat(settings.opt_limit).c_str(), 1);
    execl("/proc/self/exe", "tjit-replay", "one", settings.path.c_str(),
          NameOf(settings.backend), absl::StrCat(settings.seconds).c_str(),
          static_cast<char*>(nullptr));
    _exit(127);
  }
  WriteAll(fd, AnswerLine(sequence, settings.backend, settings.seconds,
                          settings.is_timed));
  _exit(0);
}

// Reads until the end, or the limit. False: that was before the end.
bool ReadAll(int fd, Clock::time_point limit, std::string* text) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        limit - Clock::now());
    if (left.count() <= 0) return false;
    pollfd wait = {fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    char chunk[4096];
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    text->append(chunk, static_cast<std::size_t>(n));
  }
}

// Takes the line of the answer out of what was said.
bool TakeAnswer(ReplayAnswer* answer) {
  const std::size_t begin = answer->said.find(kAnswer);
  if (begin == std::string::npos) return false;
  const std::size_t end = answer->said.find('\n', begin);
  if (end == std::string::npos) return false;
  const std::size_t text = begin + std::strlen(kAnswer);
  const Json json = Json::parse(answer->said.substr(text, end - text), nullptr,
                                /*allow_exceptions=*/false);
  if (json.is_discarded()) return false;
  answer->said.erase(begin, end + 1 - begin);
  if (json.contains("refused")) {
    answer->text = json["refused"];
    return true;
  }
  ReplayResult& result = answer->result;
  result = {json["runs"],
            json["replayed"],
            json["fused"],
            json["difference"],
            {json["timed"], json["eager_ns"], json["replay_ns"]}};
  answer->status =
      result.difference.empty() ? ReplayStatus::kSame : ReplayStatus::kDiffers;
  answer->text = result.difference;
  return true;
}

}  // namespace

ReplayAnswer ReplayInProcess(const Sequence& sequence,
                             const ReplaySettings& settings) {
  ReplayAnswer answer;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    answer.text = absl::StrCat("no pipe can be had: ", std::strerror(errno));
    return answer;
  }
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) RunChild(sequence, settings, ends[1]);
  close(ends[1]);
  if (child < 0) {
    answer.text = absl::StrCat("no process can be had: ", std::strerror(errno));
    close(ends[0]);
    return answer;
  }
  const bool has_ended =
      ReadAll(ends[0], Clock::now() + std::chrono::seconds(settings.seconds),
              &answer.said);
  close(ends[0]);
  if (!has_ended) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (TakeAnswer(&answer)) return answer;
  if (!has_ended) {
    answer.status = ReplayStatus::kTimedOut;
    answer.text = absl::StrCat("does not end within ", settings.seconds, " s");
  } else if (WIFSIGNALED(status)) {
    answer.status = ReplayStatus::kCrashed;
    answer.text =
        absl::StrCat("was ended by a signal: ", strsignal(WTERMSIG(status)));
  } else {
    answer.text = absl::StrCat("ended with status ", WEXITSTATUS(status),
                               " and no answer");
  }
  return answer;
}

int ReplayOne(const std::string& path, const std::string& backend,
              int seconds) {
  Backend parsed = Backend::kLlvm;
  if (!ParseBackendName(backend, &parsed)) return 2;
  const std::string answer =
      AnswerLine(load_sequence(path), parsed, seconds, /*is_timed=*/false);
  std::fflush(nullptr);
  WriteAll(STDOUT_FILENO, answer);
  return 0;
}

const std::vector<Backend>& AllBackends() {
  static const std::vector<Backend> all = {
      Backend::kReplay, Backend::kInterpreter, Backend::kLlvm,
      Backend::kTorchscript};
  return all;
}

const char* NameOf(Backend backend) {
  switch (backend) {
    case Backend::kReplay:
      return "replay";
    case Backend::kInterpreter:
      return "interpreter";
    case Backend::kLlvm:
      return "llvm";
    case Backend::kTorchscript:
      return "torchscript";
  }
  return "?";
}

bool ParseBackendName(const std::string& name, Backend* backend) {
  for (const Backend b : AllBackends()) {
    if (name != NameOf(b)) continue;
    *backend = b;
    return true;
  }
  return false;
}

}  // namespace tjit::tools
