// Tier 2 of the process: which engine, a queue of segments to compile, and the
// one thread that compiles them.
//
// A variant of a prepared segment asks once; its task holds plain data (copies
// of the steps), is compiled on the worker and published by one atomic store.
// The executing thread looks at its next run. Both hold the task, so either
// may go first: a segment that is thrown out, a thread that ends, clear().
//
// The worker is started by the first task, blocks the program's signals, ends
// after two seconds without work (so that it keeps no process alive), is
// waited for at exit and stands still around fork(); the child starts its own.
// Invariants: (1) A task's code does not change once it is done. (2) At most
// kMaxQueued tasks wait; what comes then is asked for again later.
// Thread: any; mutex_ guards the queue. Never taken with a state's mutex
// wanted.
// Tested by: tests/runtime/tier2_test.cpp, tests/runtime/worker_jobs_test.cpp
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "compiler/cache/object_cache.h"
#include "compiler/driver/segment_code.h"
#include "recorder/explanation.h"
#include "runtime/bit_exact/fast_math_functions.h"
#include "runtime/bit_exact/math_probe.h"
#include "runtime/bit_exact/verdict_store.h"
#include "runtime/bit_exact/verdict_text.h"
#include "support/counters.h"
#include "support/dump_file.h"
#include "tjit/options.h"

namespace tjit::runtime {

// False if it ended before it was done, because `hurry` was set: it is done
// again later.
using WorkerJob = std::function<bool(const std::atomic<bool>& hurry)>;

struct CompileTask {
  enum class State : std::uint8_t { kWaiting, kDone, kDropped };

  SegmentInput input;  // the worker's
  Engine* engine = nullptr;
  bool is_again = false;
  SegmentCode code;    // the asker's, once it is done
  std::int64_t ns = 0;
  std::atomic<State> state{State::kWaiting};
  WorkerJob job;  // what is done instead, if it is not null
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
  // Null: nothing is compiled.
  Engine* engine() const { return engine_.load(std::memory_order_relaxed); }

  // Where TJIT_DUMP goes; null: it was not asked for.
  DumpFile* dump() const { return dump_.get(); }

  // Queues `input`; null if the queue is full or no thread can be had.
  std::shared_ptr<CompileTask> Ask(SegmentInput input, bool is_again);
  // Of a segment whose code will probably be asked for: the worker does all but
  // the code (PrecompileSegment()).
  void Foresee(SegmentInput input, Engine* engine);
  // Runs `job` on the worker; false if no thread can be had.
  bool Post(WorkerJob job);
  // disable(): what waits is dropped but for jobs; its askers may ask again.
  void DropQueued();
  // clear(): kernels and failures are forgotten.
  void Forget();
  // At exit: waits for the kernel that is being compiled and ends the worker.
  // Jobs are stopped, and dropped; PauseForFork() stops them as well.
  void Stop();
  // From now on Stop() is the first thing that the exit does. Objects that are
  // made later are destroyed before it: called once the worker has begun, has
  // loaded LLVM and has done a task, by when all that it uses is there.
  static void StopFirstAtExit();
  // Waits until the worker is between two tasks, where it stays until
  // UnlockAfterFork(). The caller holds no lock: what the worker does may need
  // one of the runtime for a moment.
  void PauseForFork();
  void LockForFork() { mutex_.lock(); }  // REQUIRES: the worker is paused
  void UnlockAfterFork(bool is_child);

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
  void NoteMeasured(ExplainedCode code);
  std::vector<ExplainedCode> Measured();
  // What one segment may take from now on; negative: what is usual (tests).
  void SetBudget(std::int64_t ns) { planted_budget_ns_.store(ns); }
  // Waits until nothing is queued or compiled (tests).
  void WaitUntilIdle();

 private:
  static constexpr std::size_t kMaxQueued = 256;
  static constexpr std::size_t kMaxReasons = 100;
  static constexpr std::size_t kMaxMeasured = 1000;

  cache::ObjectCache* CacheFor(const std::string& folder);
  bool StartWorker();
  void Work();
  bool DoJob(CompileTask* task);
  void Compile(CompileTask* task);
  void SaveVerdicts();
  void DropQueuedLocked(bool with_jobs);

  std::atomic<Engine*> engine_{nullptr};
  std::mutex mutex_;
  // By pointer: the child of a fork takes a new one.
  std::condition_variable* changed_ = new std::condition_variable;
  std::deque<std::shared_ptr<CompileTask>> queue_;
  bool has_worker_ = false;
  bool is_busy_ = false;
  int pauses_ = 0;  // forks under way
  bool is_stopped_ = false;
  bool cannot_start_ = false;
  bool had_worker_ = false;  // ever
  bool did_task_ = false;    // ever
  bool forget_ = false;
  std::atomic<std::int64_t> planted_budget_ns_{-1};
  std::atomic<bool> give_up_{false};
  std::atomic<bool> hurry_{false};  // a fork or the exit waits
  std::map<std::string, std::int64_t> failures_;
  std::vector<ExplainedCode> measured_;
  MathProbe functions_;
  FastMath fast_functions_{&functions_};
  std::unique_ptr<DumpFile> dump_;  // made by the first SetBackend()
  // By backend, and whether it computes with fast_functions_.
  std::map<std::pair<Backend, bool>, std::unique_ptr<Engine>> engines_;
  // By folder; the worker's but for the pointer.
  std::map<std::string, std::unique_ptr<cache::ObjectCache>> caches_;
  std::atomic<cache::ObjectCache*> cache_{nullptr};
  VerdictStore verdicts_{&cache_};  // the worker's
  KernelCache kernels_;  // the worker's
  std::int64_t probed_ = 0;  // functions, when the last task was done
  Counters counters_;
};

}  // namespace tjit::runtime
