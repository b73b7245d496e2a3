// Verdicts on disk: what earlier processes of this program, processor and
// environment (runtime/bit_exact/verdict_key.h) found, and what this one does.
//
// How: one entry of the cache folder, "question=answer" line by line. It is
// read when a probe first asks, and written behind the segments whose probes
// found news, together with what others have written meanwhile.
// Invariants: (1) What is known is what a probe found with ordinary arithmetic:
// a thread that rounds otherwise or flushes denormals gets and adds nothing.
// (2) An entry that is damaged, or has lines that are none, is as none.
// Thread: one at a time (the worker), but for RecordProcess() and Recorded().
// Tested by: tests/runtime/bit_exact/verdict_store_test.cpp,
// tests/acceptance/verdicts_test.py
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "compiler/cache/object_cache.h"
#include "runtime/bit_exact/verdict_key.h"
#include "runtime/bit_exact/verdicts.h"
#include "support/mutex.h"

namespace tjit::runtime {

class VerdictStore : public Verdicts {
 public:
  // *cache: null is nowhere. `entry`: each name is an entry of its own.
  explicit VerdictStore(const std::atomic<cache::ObjectCache*>* cache,
                        std::string entry = "")
      : cache_(cache), entry_(std::move(entry)) {}

  // enable(); does something once.
  void RecordProcess();

  std::optional<std::string> Find(const std::string& question) override;
  void Add(const std::string& question, const std::string& answer) override;
  void Record(const std::string& question, const std::string& answer) override;

  // What was noted, by question. Any thread.
  std::map<std::string, std::string> Recorded() const;

  bool has_news() const { return !news_.empty(); }
  void Save();

  // Questions that an earlier process has answered; probes that ran.
  std::int64_t known() const { return known_count_; }
  std::int64_t probed() const { return probed_count_; }

 private:
  using Answers = std::map<std::string, std::string>;

  cache::ObjectCache* Usable();
  void Load(cache::ObjectCache* cache, Answers* answers);

  const std::atomic<cache::ObjectCache*>* const cache_;
  const std::string entry_;
  VerdictKey process_;
  bool is_recorded_ = false;
  std::string key_;                     // "": not made yet, or there is none
  cache::ObjectCache* read_ = nullptr;  // whose answers are known_
  std::int64_t packaged_ = 0;           // and those of packages until then
  Answers known_, news_;
  std::int64_t known_count_ = 0, probed_count_ = 0;
  mutable Mutex mutex_;
  Answers noted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tjit::runtime
