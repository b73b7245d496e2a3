// tjit-replay: what `tjit replay` does with libtorch, which the command tjit
// never loads itself.
//
//   tjit-replay replay|print FILE... [--backend=NAME] [--seconds=N]
//   tjit-replay bisect FILE [--backend=NAME] [--seconds=N]
//   tjit-replay minimise FILE --output=SMALL [--backend=NAME] [--seconds=N]
//   tjit-replay one FILE BACKEND       (a process of these, replay_process.h)
//
// Tested by: tests/acceptance/replay_command_test.py
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <tjit/sequence.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "support/output_file.h"
#include "tools/replay/bisect.h"
#include "tools/replay/minimise.h"
#include "tools/replay/replay_process.h"
#include "tools/replay/sequence_text.h"

namespace {

using tjit::Backend;
using tjit::Sequence;
using tjit::tools::ReplayAnswer;
using tjit::tools::ReplaySettings;
using tjit::tools::ReplayStatus;

constexpr int kDiffers = 1, kUsage = 2;

struct Words {
  std::string action, output;
  std::vector<std::string> paths;
  std::string path;  // the one that is looked at
  std::optional<Backend> backend;
  int seconds = tjit::tools::kSeconds;
};

std::string CountOf(std::size_t n, const char* what) {
  return absl::StrCat(n, " ", what, n == 1 ? "" : "s");
}

std::size_t CallsOf(const Sequence& sequence) {
  return sequence.runs.back().calls.size();
}

void PrintHead(const std::string& path, const Sequence& sequence) {
  absl::PrintF("%s: %s, written by tjit %s with libtorch %s, %s\n", path,
               CountOf(CallsOf(sequence), "op"), sequence.tjit, sequence.torch,
               CountOf(static_cast<std::size_t>(sequence.threads), "thread"));
  absl::PrintF("found: %s\n", sequence.found);
}

void PrintSaid(const ReplayAnswer& answer) {
  if (answer.status != ReplayStatus::kSame && !answer.said.empty()) {
    absl::FPrintF(stderr, "%s", answer.said);
  }
}

std::vector<Backend> BackendsOf(const Words& words) {
  return words.backend ? std::vector<Backend>{*words.backend}
                       : tjit::tools::AllBackends();
}

ReplaySettings SettingsOf(const Words& words, Backend backend) {
  ReplaySettings settings;
  settings.backend = backend;
  settings.seconds = words.seconds;
  settings.path = words.path;
  return settings;
}

// A backend that did nothing has eager's bits, too.
std::string ResultText(const ReplayAnswer& answer, Backend backend) {
  if (answer.status != ReplayStatus::kSame) return answer.text;
  const char* const but =
      answer.result.ops_replayed == 0 ? ", but nothing was replayed"
      : backend != Backend::kReplay && answer.result.ops_fused == 0
          ? ", but nothing was compiled"
          : "";
  return absl::StrCat("the same bits as eager", but);
}

// "1.26 times as fast".
std::string SpeedText(const tjit::tools::ReplayTimes& times) {
  constexpr double kNoise = 1.03;  // less is none
  const double factor =
      static_cast<double>(times.eager_ns) /
      static_cast<double>(std::max<std::int64_t>(times.replay_ns, 1));
  if (factor >= kNoise) {
    return absl::StrFormat("replayed: %.2f times as fast", factor);
  }
  if (factor > 1 / kNoise) return "as fast as each other";
  return absl::StrFormat("eagerly: %.2f times as fast", 1 / factor);
}

// One row for each backend whose replays were timed.
class TimesTable {
 public:
  void Add(Backend backend, const tjit::tools::ReplayTimes& times) {
    if (times.runs == 0) return;
    absl::StrAppendFormat(&rows_, "%-11s %6d %9.2f us %9.2f us  %s\n",
                          tjit::tools::NameOf(backend), times.runs,
                          1e-3 * static_cast<double>(times.eager_ns),
                          1e-3 * static_cast<double>(times.replay_ns),
                          SpeedText(times));
  }
  void Print() const {
    if (rows_.empty()) return;
    absl::PrintF("%-11s %6s %12s %12s  faster\n%s", "a run takes", "timed",
                 "eagerly", "replayed", rows_);
  }

 private:
  std::string rows_;
};

int Replay(const Words& words, const Sequence& sequence) {
  PrintHead(words.path, sequence);
  absl::PrintF("%-11s %6s %12s %10s  result\n", "backend", "runs",
               "ops replayed", "ops fused");
  bool differs = false;
  TimesTable times;
  for (const Backend backend : BackendsOf(words)) {
    ReplaySettings settings = SettingsOf(words, backend);
    settings.is_timed = true;
    const ReplayAnswer answer = ReplayInProcess(sequence, settings);
    TORCH_CHECK(answer.status != ReplayStatus::kRefused, words.path, ": ",
                tjit::tools::NameOf(backend), ": ", answer.text, "\n",
                answer.said);
    differs |= answer.is_finding();
    absl::PrintF("%-11s %6d %12d %10d  %s\n", tjit::tools::NameOf(backend),
                 answer.result.runs, answer.result.ops_replayed,
                 answer.result.ops_fused, ResultText(answer, backend));
    std::fflush(stdout);
    PrintSaid(answer);
    times.Add(backend, answer.result.times);
  }
  times.Print();
  return differs ? kDiffers : 0;
}

// The first backend that differs. None: what it gives is said.
std::optional<Backend> FirstThatDiffers(const Words& words,
                                        const Sequence& sequence,
                                        ReplayAnswer* answer) {
  for (const Backend backend : BackendsOf(words)) {
    *answer = ReplayInProcess(sequence, SettingsOf(words, backend));
    TORCH_CHECK(answer->status != ReplayStatus::kRefused, words.path, ": ",
                tjit::tools::NameOf(backend), ": ", answer->text);
    if (answer->is_finding()) return backend;
  }
  absl::PrintF("%s: the same bits as eager, nothing to look for\n", words.path);
  return std::nullopt;
}

int Minimise(const Words& words, const Sequence& sequence) {
  // Before the tries, which take long.
  const std::string why =
      tjit::WhyNotReplaced(words.output, tjit::kSequenceFile);
  TORCH_CHECK(why.empty(), why);
  ReplayAnswer answer;
  const auto backend = FirstThatDiffers(words, sequence, &answer);
  if (!backend) return 0;
  tjit::tools::Minimised small =
      tjit::tools::Minimise(sequence, answer, SettingsOf(words, *backend));
  const std::string text =
      absl::StrCat(tjit::tools::NameOf(*backend), ": ", small.answer.text);
  small.sequence.found = absl::StrCat("by `tjit replay --minimise`, ", text,
                                      "; before: ", sequence.found);
  save_sequence(small.sequence, words.output);
  absl::PrintF("%s: %d of %s left, in %d tries\n", words.output,
               CallsOf(small.sequence), CountOf(CallsOf(sequence), "op"),
               small.candidates);
  absl::PrintF("%s\n", text);
  return kDiffers;
}

int Bisect(const Words& words, const Sequence& sequence) {
  ReplayAnswer answer;
  const auto backend = FirstThatDiffers(words, sequence, &answer);
  if (!backend) return 0;
  const tjit::tools::Bisected found =
      tjit::tools::Bisect(sequence, SettingsOf(words, *backend), answer.status);
  const char* const name = tjit::tools::NameOf(*backend);
  if (found.limit < 0) {
    absl::PrintF("%s: %s differs, and with a TJIT_OPT_LIMIT it does not\n",
                 words.path, name);
  } else if (found.limit == 0) {
    absl::PrintF(
        "%s: %s differs without any pass (TJIT_OPT_LIMIT=0): look at how the "
        "ops are replayed, lowered or made machine code\n",
        words.path, name);
  } else {
    absl::PrintF(
        "%s: %s differs from TJIT_OPT_LIMIT=%d on, when pass %s has run; %d "
        "tries\n",
        words.path, name, found.limit, found.pass, found.processes);
  }
  return kDiffers;
}

int Print(const Words& words, const Sequence& sequence) {
  PrintHead(words.path, sequence);
  const std::string last = tjit::tools::TextOf(sequence.runs.back());
  const std::string first = tjit::tools::TextOf(sequence.runs.front());
  if (first != last) absl::PrintF("as it was recorded:\n%s", first);
  const bool is_asked = sequence.found.starts_with(tjit::kAskedFor);
  absl::PrintF("the run that %s:\n%s", is_asked ? "was asked for" : "differed",
               last);
  return 0;
}

int Usage() {
  absl::FPrintF(stderr,
                "tjit replay: usage: tjit-replay replay|print|bisect|minimise "
                "FILE... [--backend=NAME] [--seconds=N] [--output=SMALL]\n");
  return kUsage;
}

bool ReadWords(int argc, char** argv, Words* words) {
  words->action = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      words->paths.push_back(word);
      continue;
    }
    const std::size_t is = word.find('=');
    if (is == std::string::npos) return false;
    const std::string name = word.substr(0, is), value = word.substr(is + 1);
    if (name == "--backend") {
      Backend backend = Backend::kLlvm;
      if (!tjit::tools::ParseBackendName(value, &backend)) return false;
      words->backend = backend;
    } else if (name == "--seconds") {
      if (!absl::SimpleAtoi(value, &words->seconds) || words->seconds < 1) {
        return false;
      }
    } else if (name == "--output") {
      words->output = value;
    } else {
      return false;
    }
  }
  return true;
}

// THROWS: c10::Error if there is no such sequence, or it cannot be run.
int Do(const Words& words) {
  const Sequence sequence = tjit::load_sequence(words.path);
  if (words.action == "replay") return Replay(words, sequence);
  if (words.action == "print") return Print(words, sequence);
  if (words.action == "bisect") return Bisect(words, sequence);
  if (words.action == "minimise" && !words.output.empty()) {
    return Minimise(words, sequence);
  }
  return Usage();
}

// A file that cannot be replayed is said, and the others are replayed.
int DoOne(const Words& words) {
  try {
    return Do(words);
  } catch (const c10::Error& error) {
    absl::FPrintF(stderr, "tjit replay: %s\n", error.what_without_backtrace());
  } catch (const std::exception& error) {
    absl::FPrintF(stderr, "tjit replay: %s\n", error.what());
  }
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) return Usage();
  if (std::string(argv[1]) == "one") {
    int seconds = 0;
    if (argc != 5 || !absl::SimpleAtoi(argv[4], &seconds)) return Usage();
    return tjit::tools::ReplayOne(argv[2], argv[3], seconds);
  }
  Words words;
  if (!ReadWords(argc, argv, &words) || words.paths.empty()) return Usage();
  // This process only forks, see replay_process.h.
  at::set_num_threads(1);
  int status = 0;
  for (std::size_t i = 0; i < words.paths.size(); ++i) {
    if (i != 0) absl::PrintF("\n");
    words.path = words.paths[i];
    status = std::max(status, DoOne(words));
    std::fflush(stdout);
  }
  return status;
} catch (const c10::Error& error) {
  absl::FPrintF(stderr, "tjit replay: %s\n", error.what_without_backtrace());
  return kUsage;
} catch (const std::exception& error) {
  absl::FPrintF(stderr, "tjit replay: %s\n", error.what());
  return kUsage;
}
