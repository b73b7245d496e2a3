// Tier 2 of the process: which engine compiles, and what it has compiled.
//
// A variant of a prepared segment asks once; its task holds plain data (copies
// of the steps), is compiled on the worker (worker.h) and published by one
// atomic store. The executing thread looks at its next run. Both hold the task,
// so either may go first: a segment that is thrown out, a thread that ends,
// clear().
// Invariant: A task's code does not change once it is done.
// Thread: any; mutex_ guards what is named below. Nobody holds it who wants the
// mutex of a thread's state.
// Tested by: tests/runtime/tier2/tier2_test.cpp,
// tests/runtime/tier2/worker_jobs_test.cpp
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/cache/object_cache.h"
#include "compiler/driver/segment_code.h"
#include "recorder/explanation.h"
#include "recorder/region_id.h"
#include "runtime/bit_exact/fast_math_functions.h"
#include "runtime/bit_exact/math_probe.h"
#include "runtime/bit_exact/verdict_store.h"
#include "runtime/bit_exact/verdict_text.h"
#include "runtime/tier2/worker.h"
#include "support/counters.h"
#include "support/dump_file.h"
#include "support/mutex.h"
#include "tjit/options.h"

namespace tjit::runtime {

struct CompileTask {
  enum class State : std::uint8_t { kWaiting, kDone, kDropped };

  SegmentInput input;  // the worker's
  Engine* engine = nullptr;
  bool is_again = false;
  SegmentCode code;    // the asker's, once it is done
  std::int64_t ns = 0;
  std::atomic<State> state{State::kWaiting};
};

class Tier2 {
 public:
  Tier2() {
    functions_.UseVerdicts(&verdicts_);
    fast_functions_.UseVerdicts(&verdicts_);
  }

  // enable(): what compiles from now on, and the folder where machine code is
  // kept ("off": nowhere). `fast`: of machine code, fast_math.h.
  void SetBackend(Backend backend, const std::string& cache_dir, bool fast);
  // Packages brought code or verdicts: they are found without a folder, too.
  void UsePackages();
  // The folder where machine code is kept now; "": nowhere.
  std::string CacheFolder() const {
    const cache::ObjectCache* cache = cache_.load();
    return cache == nullptr ? "" : cache->folder();
  }
  // Null: nothing is compiled.
  Engine* engine() const { return engine_.load(std::memory_order_relaxed); }
  // Where the engine of a region stands, from now on until what is said of the
  // region is something else.
  const std::atomic<Engine*>& EngineIn(RegionId region);
  // True if some region has an engine that is not meant to be fast.
  bool has_slow_regions() const {
    return has_slow_regions_.load(std::memory_order_relaxed);
  }

  // Where TJIT_DUMP goes; null: it was not asked for.
  DumpFile* dump() const { return dump_.get(); }

  // Queues `input` for `engine`; null if the queue is full, no thread can be
  // had, or `engine` is null.
  std::shared_ptr<CompileTask> Ask(SegmentInput input, Engine* engine,
                                   bool is_again);
  // Of a segment whose code will probably be asked for: the worker does all but
  // the code (PrecompileSegment()).
  void Precompile(SegmentInput input, Engine* engine);
  // Does all of this, and other jobs.
  Worker& worker() { return worker_; }
  // Kernels that no segment has any more go, before the next task.
  void ForgetKernels();
  // On the worker, behind each compilation.
  void CallAfterCompiling(std::function<void()> call) {
    after_compiling_ = std::move(call);
  }
  // clear(): kernels and failures are forgotten, kernels by the worker.
  void Forget();
  // Around fork(). REQUIRES: the worker is paused.
  void LockForFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void UnlockAfterFork(bool is_child) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // What is wrong with the cache folder was said. Behind Stop().
  bool CacheHasWarned() const {
    const cache::ObjectCache* cache = cache_.load();
    return cache != nullptr && cache->has_warned();
  }
  // Written by the worker.
  const Counters& counters() const { return counters_; }
  // Why groups of ops were not compiled, and how often.
  std::map<std::string, std::int64_t> Failures();
  // Which functions have eager's bits, of those that were needed.
  std::vector<ExplainedFunction> Functions() const {
    return ExplainVerdicts(verdicts_.Recorded());
  }
  // What was measured of a compiled segment, for Explain(); of the first ones.
  void RecordMeasured(ExplainedCode code);
  std::vector<ExplainedCode> Measured();
  // What one segment may take from now on; negative: what is usual (tests).
  void SetBudget(std::int64_t ns) { planted_budget_ns_.store(ns); }

 private:
  static constexpr std::size_t kMaxReasons = 100;
  static constexpr std::size_t kMaxMeasured = 1000;

  cache::ObjectCache* CacheFor(const std::string& folder)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: that backend compiles nothing.
  Engine* EngineOf(Backend backend) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Compile(CompileTask* task);
  void SaveVerdicts();
  KernelCache& Kernels();

  static constexpr std::size_t kBackends = 4;

  std::atomic<Engine*> engine_{nullptr};
  // Of regions that compile nothing, and of those with another backend.
  const std::atomic<Engine*> no_engine_{nullptr};
  std::array<std::atomic<Engine*>, kBackends> region_engines_{};
  std::atomic<bool> has_slow_regions_{false};
  Mutex mutex_;
  bool is_fast_math_ ABSL_GUARDED_BY(mutex_) = false;
  // By backend: whether some region has it.
  std::array<bool, kBackends> region_backends_ ABSL_GUARDED_BY(mutex_){};
  std::atomic<bool> forget_{false};  // kernels_, before the next task
  std::atomic<std::int64_t> planted_budget_ns_{-1};
  std::map<std::string, std::int64_t> failures_ ABSL_GUARDED_BY(mutex_);
  std::vector<ExplainedCode> measured_ ABSL_GUARDED_BY(mutex_);
  MathProbe functions_;
  FastMath fast_functions_{&functions_};
  std::unique_ptr<DumpFile> dump_;  // made by the first SetBackend()
  // By backend, and whether it computes with fast_functions_.
  std::map<std::pair<Backend, bool>, std::unique_ptr<Engine>> engines_
      ABSL_GUARDED_BY(mutex_);
  // By folder; the worker's but for the pointer.
  std::map<std::string, std::unique_ptr<cache::ObjectCache>> caches_
      ABSL_GUARDED_BY(mutex_);
  std::atomic<cache::ObjectCache*> cache_{nullptr};
  VerdictStore verdicts_{&cache_};  // the worker's
  KernelCache kernels_;  // the worker's
  std::function<void()> after_compiling_;
  std::int64_t probed_ = 0;  // functions, when the last task was done
  Counters counters_;
  Worker worker_{[this] {
    Kernels();  // forgets them if it is to
    SaveVerdicts();
  }};
};

}  // namespace tjit::runtime
