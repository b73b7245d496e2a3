#include "recorder/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

namespace tjit {

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
