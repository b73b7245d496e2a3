#include "support/process_info.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tjit {
namespace {

std::string ContentsOf(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

const char* Version() { return TJIT_VERSION; }

std::string CommandLine() {
  std::string words = ContentsOf("/proc/self/cmdline");
  if (!words.empty()) words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

std::int64_t WallNs() {
  // The 22nd word, the second of which is a name that may hold blanks.
  const std::string stat = ContentsOf("/proc/self/stat");
  std::istringstream words(stat.substr(std::min(stat.rfind(')'), stat.size())));
  std::string word;
  for (int i = 0; i < 21; ++i) words >> word;
  const std::int64_t ticks = std::strtoll(word.c_str(), nullptr, 10);
  timespec now{};
  if (ticks <= 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  constexpr std::int64_t kSecond = 1'000'000'000;
  return now.tv_sec * kSecond + now.tv_nsec -
         ticks * (kSecond / sysconf(_SC_CLK_TCK));
}

}  // namespace tjit
