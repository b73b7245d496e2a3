#include "tools/replay/bisect.h"

#include <utility>

namespace tjit::tools {
namespace {

// More passes than any sequence has.
constexpr std::int64_t kMost = 1 << 20;

class Bisection {
 public:
  Bisection(const Sequence& sequence, ReplaySettings settings,
            ReplayStatus status)
      : sequence_(sequence), settings_(std::move(settings)), status_(status) {}

  Bisected Run() {
    if (Differs(0)) {
      found_.limit = 0;
      return found_;
    }
    // (same, differs]
    std::int64_t same = 0, differs = 1;
    while (!Differs(differs)) {
      if (differs >= kMost) return found_;
      same = differs;
      differs *= 2;
      // It was never reached: all passes have run.
      if (pass_.empty()) {
        settings_.opt_limit = -1;
        if (Ask().status != status_) return found_;
      }
    }
    while (differs - same > 1) {
      const std::int64_t middle = same + (differs - same) / 2;
      (Differs(middle) ? differs : same) = middle;
    }
    found_.limit = differs;
    found_.pass = differing_pass_;
    return found_;
  }

 private:
  ReplayAnswer Ask() {
    ++found_.processes;
    ReplayAnswer answer = ReplayInProcess(sequence_, settings_);
    TORCH_CHECK(answer.status != ReplayStatus::kRefused, answer.text,
                answer.said);
    return answer;
  }

  bool Differs(std::int64_t limit) {
    settings_.opt_limit = limit;
    const ReplayAnswer answer = Ask();
    constexpr char kLast[] = ": the last pass that runs is ";
    const std::size_t at = answer.said.find(kLast);
    pass_.clear();
    if (at != std::string::npos) {
      const std::size_t begin = at + sizeof(kLast) - 1;
      pass_ = answer.said.substr(begin, answer.said.find(',', begin) - begin);
    }
    const bool differs = answer.status == status_;
    if (differs) differing_pass_ = pass_;
    return differs;
  }

  const Sequence& sequence_;
  ReplaySettings settings_;
  const ReplayStatus status_;
  std::string pass_;            // of the last limit
  std::string differing_pass_;  // of the last one that differs
  Bisected found_;
};

}  // namespace

Bisected Bisect(const Sequence& sequence, ReplaySettings settings,
                ReplayStatus status) {
  return Bisection(sequence, std::move(settings), status).Run();
}

}  // namespace tjit::tools
