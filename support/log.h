// Lines on stderr, through spdlog. The only user of it.
//
// Thread: any; lines do not mix. Nothing is printed unasked but warnings and
// errors; what is asked for (TJIT_DEBUG_COMPILE, TJIT_LOG) goes through kInfo.
// Tested by: tests/support/log_channel_test.cpp,
// tests/runtime/report/log_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace tjit {

enum class LogLevel : std::uint8_t { kInfo, kWarning, kError };

void LogLine(LogLevel level, std::string_view text);

// What can be switched on and off by name.
enum class LogChannel : std::uint8_t {
#define TJIT_LOG_CHANNEL(suffix, name, on, what) k##suffix,
#include "support/log_channels.def"
#undef TJIT_LOG_CHANNEL
};

// One bit per channel.
extern std::atomic<std::uint32_t> g_log_channels;

inline bool LogsTo(LogChannel channel) {
  return (g_log_channels.load(std::memory_order_relaxed) >>
              static_cast<unsigned>(channel) &
          1) != 0;
}

// "flush,-warning": changes *channels, one bit each, by name; `v` is all, a
// name behind a minus goes off. False for an unknown name, with nothing
// changed.
bool ParseLogChannels(std::string_view text, std::uint32_t* channels);

// "v, compile, detect, ..."
std::string LogChannelNames();

}  // namespace tjit
