#include "runtime/bit_exact/product_verdicts.h"

#include <exception>

namespace tjit::runtime {

void ProductVerdicts::UseFolder(const std::string& folder) {
  const MutexLock lock(mutex_);
  store_.RecordProcess();
  if (folder.empty()) return cache_.store(nullptr);
  std::unique_ptr<cache::ObjectCache>& cache = caches_[folder];
  if (cache == nullptr) {
    // What is wrong with the folder is said by the worker's.
    cache =
        std::make_unique<cache::ObjectCache>(folder, [](const std::string&) {});
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
