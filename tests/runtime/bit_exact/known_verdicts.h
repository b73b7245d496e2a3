// Verdicts in memory, for tests of probes.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/bit_exact/verdicts.h"

namespace tjit::runtime {

struct KnownVerdicts : Verdicts {
  std::optional<std::string> Find(const std::string& question) override {
    const auto found = answers.find(question);
    if (found == answers.end()) return std::nullopt;
    return found->second;
  }
  void Add(const std::string& question, const std::string& answer) override {
    ++added;
    answers[question] = answer;
  }

  std::map<std::string, std::string> answers;
  int added = 0;
};

}  // namespace tjit::runtime
