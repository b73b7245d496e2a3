// Lines on stderr, through spdlog. The only user of it.
//
// Thread: any; lines do not mix. Nothing is printed unasked but warnings and
// errors; what is asked for (TJIT_DEBUG_COMPILE) goes through kInfo.
#pragma once

#include <cstdint>
#include <string_view>

namespace tjit {

enum class LogLevel : std::uint8_t { kInfo, kWarning, kError };

void LogLine(LogLevel level, std::string_view text);

}  // namespace tjit
