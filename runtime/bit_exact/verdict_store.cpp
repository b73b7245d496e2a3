#include "runtime/bit_exact/verdict_store.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/cache/packaged_entries.h"
#include "runtime/platform/fp_environment.h"

namespace tjit::runtime {

void VerdictStore::RecordProcess() {
  if (!std::exchange(is_recorded_, true)) process_.RecordProcess();
}

// Null: nothing is known nor kept. Else known_ is what it has.
cache::ObjectCache* VerdictStore::Usable() {
  cache::ObjectCache* const cache = cache_->load();
  if (cache == nullptr || !is_recorded_ || !HasUsualArithmetic()) {
    return nullptr;
  }
  const std::int64_t packaged = cache::PackagedVersion();
  if (cache == read_ && packaged == packaged_) return cache;
  if (key_.empty()) key_ = process_.Text();
  if (key_.empty()) return nullptr;
  read_ = cache;
  packaged_ = packaged;
  known_.clear();
  Load(cache, &known_);
  return cache;
}

// Adds what the entry has.
void VerdictStore::Load(cache::ObjectCache* cache, Answers* answers) {
  std::string text;
  if (!cache->Find(key_ + entry_, &text, cache::EntryKind::kVerdicts)) return;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    answers->emplace(line.substr(0, equals), line.substr(equals + 1));
  }
}

std::optional<std::string> VerdictStore::Find(const std::string& question) {
  if (Usable() == nullptr) return std::nullopt;
  const auto found = known_.find(question);
  if (found == known_.end()) return std::nullopt;
  ++known_count_;
  return found->second;
}

void VerdictStore::Add(const std::string& question, const std::string& answer) {
  ++probed_count_;
  if (Usable() != nullptr) news_[question] = answer;
}

void VerdictStore::Record(const std::string& question,
                          const std::string& answer) {
  const MutexLock lock(mutex_);
  noted_[question] = answer;
}

std::map<std::string, std::string> VerdictStore::Recorded() const {
  const MutexLock lock(mutex_);
  return noted_;
}

void VerdictStore::Save() {
  cache::ObjectCache* const cache = Usable();
  if (cache == nullptr || news_.empty()) return;
  Load(cache, &news_);  // what others have written since
  news_.insert(known_.begin(), known_.end());
  std::string text;
  for (const auto& [question, answer] : news_) {
    absl::StrAppend(&text, question, "=", answer, "\n");
  }
  cache->Store(key_ + entry_, text, cache::EntryKind::kVerdicts);
  known_ = std::exchange(news_, {});
}

}  // namespace tjit::runtime
