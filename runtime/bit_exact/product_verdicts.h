// What was found of own products, by all threads of the process, on disk in an
// entry of its own beside the one of verdict_store.h.
//
// Threads that run segments ask and add while the worker uses the folder, so
// this has its own cache::ObjectCache on it, as another process would.
// Thread: any.
// Tested by: tests/runtime/bit_exact/product_probe_test.cpp
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "compiler/cache/object_cache.h"
#include "runtime/bit_exact/verdict_store.h"
#include "runtime/bit_exact/verdicts.h"
#include "support/mutex.h"

namespace tjit::runtime {

class ProductVerdicts : public Verdicts {
 public:
  // enable(): where verdicts are kept from now on; "": nowhere, and those of
  // packages are known.
  void UseFolder(const std::string& folder);

  std::optional<std::string> Find(const std::string& question) override;
  void Add(const std::string& question, const std::string& answer) override;
  void Record(const std::string& question, const std::string& answer) override;

  std::map<std::string, std::string> Recorded() const {
    return store_.Recorded();
  }
  // Writes what is new. Without memory for it, the next process probes.
  void Save() noexcept;

 private:
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<cache::ObjectCache>> caches_
      ABSL_GUARDED_BY(mutex_);  // by folder
  std::atomic<cache::ObjectCache*> cache_{nullptr};
  VerdictStore store_{&cache_, "products"};  // but for Recorded(), the mutex's
};

// The process's.
ProductVerdicts& VerdictsOfProducts();

}  // namespace tjit::runtime
