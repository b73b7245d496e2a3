#include "tools/tjit/won_time.h"

#include <algorithm>

#include "tools/tjit/log_details.h"

namespace tjit::tools {
namespace {

// A damaged row may say anything.
std::int64_t Bounded(const std::string& details, const char* name) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  return std::clamp<std::int64_t>(NumberOf(details, name), 0, kMost);
}

}  // namespace

WonRow::WonRow(const std::string& command, const std::string& details) {
  if (command == "Finished") kind = Kind::kFinished;
  if (command == "Forgotten") kind = Kind::kForgotten;
  if (command != "Timed") return;
  kind = Kind::kTimed;
  eager_ns = Bounded(details, "eager_ns");
  replay_ns = Bounded(details, "replay_ns");
  replays = Bounded(details, "replays");
  is_beginning = ValueOf(details, "known") == "attach";
}

void WonTime::Add(const WonRow& row, std::uint64_t time_ns) {
  switch (row.kind) {
    case WonRow::Kind::kNone:
      return;
    case WonRow::Kind::kFinished:
      ++finished_;
      return;
    case WonRow::Kind::kForgotten:
      earlier_ns_ = won_ns();
      eager_ns_ = replay_ns_ = finished_ = said_ = before_ = 0;
      timed_at_ns_ = 0;
      return;
    case WonRow::Kind::kTimed:
      break;
  }
  if (row.is_beginning) before_ = row.replays;
  if (time_ns < timed_at_ns_) return;
  timed_at_ns_ = time_ns;
  eager_ns_ = row.eager_ns;
  replay_ns_ = row.replay_ns;
  said_ = std::max(said_, row.replays);
}

void WonTime::Add(const WonTime& other) {
  if (other.timed_at_ns_ >= timed_at_ns_) {
    timed_at_ns_ = other.timed_at_ns_;
    eager_ns_ = other.eager_ns_;
    replay_ns_ = other.replay_ns_;
  }
  said_ = std::max(said_, other.said_);
  before_ = std::max(before_, other.before_);
  finished_ += other.finished_;
  earlier_ns_ += other.earlier_ns_;
}

std::int64_t WonTime::replays() const {
  return std::max(said_, before_ + finished_);
}

double WonTime::won_ns() const {
  if (!is_timed()) return earlier_ns_;
  return earlier_ns_ + static_cast<double>(eager_ns_ - replay_ns_) *
                           static_cast<double>(replays());
}

}  // namespace tjit::tools
