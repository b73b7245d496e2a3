#include "support/repro_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"

namespace tjit {
namespace {

bool IsBeginningOfName(std::string_view word) {
  return !word.empty() && word.size() <= kSequenceNameDigits &&
         word.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

bool ReproList::HasName(std::string_view name) const {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& beginning) {
                       return name.starts_with(beginning);
                     });
}

bool ParseReproList(std::string_view value, ReproList* list) {
  ReproList parsed;
  const std::vector<std::string> words =
      absl::StrSplit(std::string(value), ',');
  for (const std::string& word : words) {
    if (word == "all") {
      parsed.all = true;
    } else if (word == "slow") {
      parsed.slow = true;
    } else if (IsBeginningOfName(word)) {
      parsed.names.push_back(word);
    } else {
      return false;
    }
  }
  *list = std::move(parsed);
  return true;
}

}  // namespace tjit
