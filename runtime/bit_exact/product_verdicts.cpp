#include "runtime/bit_exact/product_verdicts.h"

#include <exception>

#include "compiler/cache/packaged_entries.h"
#include "support/log.h"

namespace tjit::runtime {
namespace {

// What is wrong with the folder is said by the worker's cache.
void WarnOfEntry(const std::string& text) {
  const bool is_of_entry =
      text.find("compared with eager anew") != std::string::npos;
  if (is_of_entry && LogsTo(LogChannel::kWarning)) {
    LogLine(LogLevel::kWarning, "tjit: " + text);
  }
}

}  // namespace

void ProductVerdicts::UseFolder(const std::string& folder) {
  const MutexLock lock(mutex_);
  store_.RecordProcess();
  if (folder.empty() && cache::PackagedVersion() == 0) {
    return cache_.store(nullptr);
  }
  std::unique_ptr<cache::ObjectCache>& cache = caches_[folder];
  if (cache == nullptr) {
    cache = std::make_unique<cache::ObjectCache>(folder, &WarnOfEntry);
  }
  cache_.store(cache.get());
}

std::optional<std::string> ProductVerdicts::Find(const std::string& question) {
  const MutexLock lock(mutex_);
  return store_.Find(question);
}

void ProductVerdicts::Add(const std::string& question,
                          const std::string& answer) {
  const MutexLock lock(mutex_);
  store_.Add(question, answer);
}

void ProductVerdicts::Record(const std::string& question,
                             const std::string& answer) {
  store_.Record(question, answer);  // has a mutex of its own
}

void ProductVerdicts::Save() noexcept {
  const MutexLock lock(mutex_);
  if (!store_.has_news()) return;
  try {
    store_.Save();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  }
}

ProductVerdicts& VerdictsOfProducts() {
  static auto& verdicts = *new ProductVerdicts;  // never destroyed
  return verdicts;
}

}  // namespace tjit::runtime
