#include "tools/tjit/long_log.h"

#include <chrono>
#include <thread>

namespace tjit::tools {
namespace {

constexpr int kPartTries = 20;
constexpr std::chrono::milliseconds kPartPause(50);

}  // namespace

bool LongLog::ReadEarlier() {
  constexpr std::size_t kChunks = 64;
  if (!has_all_) has_all_ = earlier_.Read(kChunks);
  return !has_all_;
}

void LongLog::ReadAtOnce() {
  constexpr std::chrono::milliseconds kAtOnce(100);
  const auto until = std::chrono::steady_clock::now() + kAtOnce;
  while (std::chrono::steady_clock::now() < until && ReadEarlier()) {
  }
}

std::uint64_t LongLog::FollowParts(const std::string& path) {
  std::uint64_t missed = 0;
  while (static_cast<LogEnd>(file_->header().end) == LogEnd::kContinued) {
    ReadAllEarlier();
    Read();
    const LogFileHeader before = file_->header();
    const LogFileHeader& now = file_->header();
    std::string why;
    // For a moment the file of that name is the old one, none, or an empty one.
    for (int tries = 0; tries < kPartTries; ++tries) {
      const bool is_whole =
          file_->Open(path, &why) == LogChunks::Opened::kYes && now.pid != 0;
      if (is_whole && (now.pid != before.pid || now.part > before.part)) break;
      std::this_thread::sleep_for(kPartPause);
    }
    if (now.pid != before.pid || now.part <= before.part) break;
    tail_.BeginPart();
    missed += now.part - before.part - 1;
  }
  return missed;
}

}  // namespace tjit::tools
