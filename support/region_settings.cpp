#include "support/region_settings.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace tjit {
namespace {

// True if the pattern stands for all of `text`.
bool IsGlobOf(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool IsWild(char c) { return c == '*' || c == '?'; }

// Of two rules for one region the one with the larger rank wins.
std::tuple<bool, std::size_t, bool> RankOf(const RegionRule& rule) {
  const std::string& p = rule.pattern;
  const auto wild =
      static_cast<std::size_t>(std::count_if(p.begin(), p.end(), &IsWild));
  return {rule.is_from_program, p.size() - wild, wild == 0};
}

template <class T>
void Take(const std::optional<T>& from, std::optional<T>* to) {
  if (from.has_value()) *to = from;
}

bool SetSwitch(std::string_view value, std::optional<bool>* to) {
  bool is_on = false;
  if (!ParseSwitch(value, &is_on)) return false;
  *to = is_on;
  return true;
}

bool SetBackend(std::string_view value, RegionSettings* s) {
  BackendName backend = BackendName::kLlvm;
  if (!ParseBackend(value, &backend)) return false;
  s->backend = backend;
  return true;
}

bool SetCompile(std::string_view value, RegionSettings* s) {
  return SetSwitch(value, &s->compile);
}

bool SetExclude(std::string_view value, RegionSettings* s) {
  bool is_all = false;
  if (!ParseSwitch(value, &is_all)) return false;
  s->exclude = RegionExclusion{is_all, {}};
  return true;
}

bool SetShapes(std::string_view value, RegionSettings* s) {
  if (value != "any" && value != "exact") return false;
  s->is_exact = value == "exact";
  return true;
}

bool SetStrict(std::string_view value, RegionSettings* s) {
  return SetSwitch(value, &s->strict);
}

bool SetThreshold(std::string_view value, RegionSettings* s) {
  std::int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || rest != end || number < kLeastThreshold ||
      number > kMostThreshold) {
    return false;
  }
  s->threshold = number;
  return true;
}

struct Option {
  std::string_view name;
  bool (*set)(std::string_view, RegionSettings*);
  std::string accepted;
};

const std::vector<Option>& Options() {
  static const auto& options = *new std::vector<Option>{
      {"backend", &SetBackend, "replay, interpreter, llvm or torchscript"},
      {"compile", &SetCompile, kSwitchWords},
      {"exclude", &SetExclude,
       absl::StrCat(kSwitchWords, ", or a list of names of ops")},
      {"shapes", &SetShapes, "any or exact"},
      {"strict", &SetStrict, kSwitchWords},
      {"threshold", &SetThreshold,
       absl::StrCat("a whole number from ", kLeastThreshold, " to ",
                    kMostThreshold)},
  };
  return options;
}

}  // namespace

void RegionSettings::TakeFrom(const RegionSettings& over) {
  Take(over.backend, &backend);
  Take(over.compile, &compile);
  Take(over.exclude, &exclude);
  Take(over.is_exact, &is_exact);
  Take(over.strict, &strict);
  Take(over.threshold, &threshold);
}

bool RegionSettings::Excludes(std::string_view op) const {
  if (!exclude.has_value()) return false;
  return exclude->is_all ||
         std::any_of(exclude->ops.begin(), exclude->ops.end(),
                     [&](const std::string& p) { return NamesOp(p, op); });
}

bool NamesOp(std::string_view pattern, std::string_view op) {
  if (pattern.ends_with('*')) {
    return op.starts_with(pattern.substr(0, pattern.size() - 1));
  }
  return pattern == op || pattern == op.substr(0, op.find('.')) ||
         (pattern.ends_with("::") && op.starts_with(pattern));
}

bool IsForRegion(std::string_view pattern, std::string_view name) {
  while (!IsGlobOf(pattern, name)) {
    const std::size_t slash = name.rfind('/');
    if (slash == std::string_view::npos) return false;
    name = name.substr(0, slash);
  }
  return true;
}

RegionSettings SettleRegion(std::string_view name,
                            const std::vector<RegionRule>& rules) {
  std::vector<const RegionRule*> for_it;
  for (const RegionRule& rule : rules) {
    if (IsForRegion(rule.pattern, name)) for_it.push_back(&rule);
  }
  std::stable_sort(for_it.begin(), for_it.end(),
                   [](const RegionRule* a, const RegionRule* b) {
                     return RankOf(*a) < RankOf(*b);
                   });
  RegionSettings settled;
  for (const RegionRule* rule : for_it) settled.TakeFrom(rule->settings);
  return settled;
}

std::vector<std::string_view> RegionOptionNames() {
  std::vector<std::string_view> names;
  for (const Option& option : Options()) names.push_back(option.name);
  return names;
}

SetResult SetRegionOption(std::string_view option, std::string_view value,
                          RegionSettings* settings, std::string* accepted) {
  for (const Option& o : Options()) {
    if (o.name != option) continue;
    *accepted = o.accepted;
    return o.set(value, settings) ? SetResult::kSet : SetResult::kBadValue;
  }
  return SetResult::kUnknown;
}

}  // namespace tjit
