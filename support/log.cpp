#include "support/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <iterator>
#include <memory>

namespace tjit {
namespace {

struct Channel {
  std::string_view name;
  bool on;
};
constexpr Channel kChannels[] = {
#define TJIT_LOG_CHANNEL(suffix, name, on, what) {#name, on},
#include "support/log_channels.def"
#undef TJIT_LOG_CHANNEL
};

constexpr std::uint32_t Defaults() {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < std::size(kChannels); ++i) {
    bits |= std::uint32_t{kChannels[i].on} << i;
  }
  return bits;
}

// The bits that a name stands for; 0: none.
std::uint32_t BitsOf(std::string_view name) {
  if (name == "v") return (1u << std::size(kChannels)) - 1;
  for (std::size_t i = 0; i < std::size(kChannels); ++i) {
    if (kChannels[i].name == name) return 1u << i;
  }
  return 0;
}

}  // namespace

std::atomic<std::uint32_t> g_log_channels{Defaults()};

bool ParseLogChannels(std::string_view text, std::uint32_t* channels) {
  std::uint32_t now = *channels;
  for (;;) {
    const std::size_t comma = text.find(',');
    std::string_view name = text.substr(0, comma);
    const bool off = name.starts_with('-');
    if (off) name.remove_prefix(1);
    const std::uint32_t bits = BitsOf(name);
    if (bits == 0) return false;
    now = off ? now & ~bits : now | bits;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  *channels = now;
  return true;
}

std::string LogChannelNames() {
  std::string names = "v";
  for (const Channel& channel : kChannels) {
    names += ", ";
    names += channel.name;
  }
  return names;
}

void LogLine(LogLevel level, std::string_view text) {
  // Never destroyed: deleters of the program may log after main().
  static auto* logger = [] {
    auto* l = new spdlog::logger(
        "tjit", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l->set_pattern("%v");
    l->flush_on(spdlog::level::info);
    return l;
  }();
  switch (level) {
    case LogLevel::kInfo:
      logger->info("{}", text);
      return;
    case LogLevel::kWarning:
      logger->warn("{}", text);
      return;
    case LogLevel::kError:
      logger->error("{}", text);
      return;
  }
}

}  // namespace tjit
