#include "runtime/tier2/tier2.h"

#include <ATen/Version.h>
#include <ATen/record_function.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "compiler/abi/kernel_abi.h"
#include "compiler/driver/segment_dump.h"
#include "runtime/platform/fp_environment.h"
#include "runtime/platform/own_memory.h"
#include "runtime/platform/parallel.h"
#include "runtime/platform/thread_context.h"
#include "runtime/report/log.h"
#include "runtime/report/options_resolution.h"
#include "runtime/runtime.h"
#include "runtime/tier2/llvm_engine.h"
#include "runtime/tier2/torchscript_engine.h"
#include "support/env.h"

namespace tjit::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kIdle{2};
// After which no group of a segment is begun; those left stay library calls. A
// worker beside busy processors has a tenth of one.
constexpr std::chrono::seconds kBudget{20};

// Blocks what the program has handlers for, but not what the kernel sends for
// the thread's own doing.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
      sigdelset(&all, own);
    }
    pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t saved_;
};

// Lowering claims the roundings of eager's AVX2 and AVX-512 kernels, where a
// product and a sum are one. Other kernels round twice.
bool KernelsContract() {
  const std::string capability = at::get_cpu_capability();
  if (capability == "AVX2" || capability == "AVX512") return true;
  static bool said = false;
  if (!std::exchange(said, true)) {
    LogWarning("libtorch runs its " + capability +
               " kernels, whose roundings compiled code has not; sequences are "
               "replayed by library calls. For compiled code run on a CPU with "
               "AVX2, without ATEN_CPU_CAPABILITY=default");
  }
  return false;
}

std::uint32_t LlvmFlags() {
  std::uint32_t flags = 0;
  if (WritesPerfMap()) flags |= kTjitLlvmPerfMap;
  if ((DumpParts() & kDumpLlvm) != 0) flags |= kTjitLlvmDumpIr;
  if ((DumpParts() & kDumpAsm) != 0) flags |= kTjitLlvmDumpAssembly;
  if (Environment().verify) flags |= kTjitLlvmVerifyLoops;
  return flags;
}

// What one task took from the cache on disk.
class CacheUse {
 public:
  explicit CacheUse(const cache::ObjectCache* cache) : cache_(cache) {
    if (cache_ == nullptr) return;
    before_ = {cache_->hits(), cache_->misses(), cache_->writes()};
  }
  std::int64_t hits() const { return cache_ ? cache_->hits() - before_[0] : 0; }
  std::int64_t misses() const {
    return cache_ ? cache_->misses() - before_[1] : 0;
  }
  std::int64_t writes() const {
    return cache_ ? cache_->writes() - before_[2] : 0;
  }

 private:
  const cache::ObjectCache* const cache_;
  std::array<std::int64_t, 3> before_{};
};

void Log(const CompileTask& task, const CacheUse& use, std::int64_t probes) {
  if (!SaysCompile()) return;
  const SegmentCode& code = task.code;
  SayCompile(absl::StrFormat(
      "Compilation complete (%.1f ms, %s): %d of %d ops in %d groups, %d "
      "kernels compiled, %d reused; cache: %d hits, %d misses; probes: %d",
      1e-6 * static_cast<double>(task.ns), task.engine->name(),
      code.steps_fused, task.input.steps.size(), code.groups.size(),
      code.compiled, code.reused, use.hits(), use.misses(), probes));
  for (const std::string& reason : code.reasons) {
    SayCompile("Fallback: library calls for a group: " + reason);
  }
}

}  // namespace

// REQUIRES: mutex_ is held.
cache::ObjectCache* Tier2::CacheFor(const std::string& folder) {
  if (folder == kCacheOff) return nullptr;
  std::unique_ptr<cache::ObjectCache>& cache = caches_[folder];
  if (cache == nullptr) {
    std::error_code none;  // then the folder as it was given
    const auto path = std::filesystem::absolute(folder, none);
    cache = std::make_unique<cache::ObjectCache>(
        none ? folder : path.string(), &LogWarning);
  }
  return cache.get();
}

void Tier2::SetBackend(Backend backend, const std::string& cache_dir,
                       bool fast) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (dump_ == nullptr && DumpParts() != 0) {
    dump_ = std::make_unique<DumpFile>(DumpParts(), DumpPath());
  }
  verdicts_.RecordProcess();
  cache_.store(CacheFor(cache_dir));
  fast = fast && backend == Backend::kLlvm;
  std::unique_ptr<Engine>& engine = engines_[{backend, fast}];
  if (engine == nullptr && backend == Backend::kInterpreter) {
    engine = MakeInterpreterEngine(&functions_);
  }
  if (engine == nullptr && backend == Backend::kLlvm) {
    engine = fast ? MakeLlvmEngine("llvm fast math", &fast_functions_,
                                   LlvmFlags(), &cache_)
                  : MakeLlvmEngine("llvm", &functions_, LlvmFlags(), &cache_);
  }
  if (engine == nullptr && backend == Backend::kTorchscript) {
    engine = MakeTorchscriptEngine();
  }
  const bool is_usable =
      engine != nullptr && (!engine->needs_contraction() || KernelsContract());
  engine_.store(is_usable ? engine.get() : nullptr);
}

std::shared_ptr<CompileTask> Tier2::Ask(SegmentInput input, bool is_again) {
  auto task = std::make_shared<CompileTask>();
  task->input = std::move(input);
  task->engine = engine();
  task->is_again = is_again;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (task->engine == nullptr || is_stopped_ || queue_.size() >= kMaxQueued ||
      !StartWorker()) {
    return nullptr;
  }
  queue_.push_back(task);
  changed_->notify_all();
  return task;
}

void Tier2::Foresee(SegmentInput input, Engine* engine) {
  const auto shared = std::make_shared<SegmentInput>(std::move(input));
  Post([this, shared, engine](const std::atomic<bool>& hurry) {
    return PrecompileSegment(*shared, engine, &kernels_, hurry);
  });
}

bool Tier2::Post(WorkerJob job) {
  auto task = std::make_shared<CompileTask>();
  task->job = std::move(job);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_stopped_ || !StartWorker()) return false;
  queue_.push_back(task);
  changed_->notify_all();
  return true;
}

// REQUIRES: mutex_ is held.
bool Tier2::StartWorker() {
  if (has_worker_) return true;
  if (cannot_start_) return false;
  try {
    const SignalsBlocked blocked;
    std::thread([this] { Work(); }).detach();
    has_worker_ = true;
    if (!std::exchange(had_worker_, true)) StopFirstAtExit();
  } catch (const std::system_error& e) {
    cannot_start_ = true;
    LogWarning(std::string("no thread for compiling can be had (") + e.what() +
               "); sequences are replayed by library calls");
  }
  return has_worker_;
}

void Tier2::StopFirstAtExit() {
  // Without memory for one more handler the destructor of AtLoad stops it.
  static_cast<void>(std::atexit([] { Runtime::Get().tier2().Stop(); }));
}

void Tier2::Work() {
  pthread_setname_np(pthread_self(), "tjit-compile");
  t_context.off = true;          // what runs here is no part of the program
  _mm_setcsr(kUsualArithmetic);  // not that of the thread that began it
  const OneThread no_team;
  const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
  std::unique_lock<std::mutex> lock(mutex_);
  bool has_compiled = false;
  while (!is_stopped_) {
    if (pauses_ != 0 || queue_.empty()) {
      const bool woken =
          changed_->wait_for(lock, kIdle) == std::cv_status::no_timeout;
      if (woken || pauses_ != 0 || !queue_.empty()) continue;
      if (!std::exchange(has_compiled, false)) break;
      is_busy_ = true;
      lock.unlock();
      ReleaseUnusedMemory();
      lock.lock();
      is_busy_ = false;
      changed_->notify_all();
      if (pauses_ == 0 && queue_.empty()) break;
      continue;
    }
    const std::shared_ptr<CompileTask> task = std::move(queue_.front());
    queue_.pop_front();
    if (std::exchange(forget_, false)) kernels_.Clear();
    is_busy_ = true;
    lock.unlock();
    bool is_done = true;
    if (task->job != nullptr) {
      is_done = DoJob(task.get());
    } else {
      Compile(task.get());
      has_compiled = true;
    }
    lock.lock();
    if (!std::exchange(did_task_, true)) StopFirstAtExit();
    if (!is_done && !is_stopped_) {
      queue_.push_front(task);
      is_busy_ = false;
      changed_->notify_all();
      continue;
    }
    for (const std::string& reason : task->code.reasons) {
      if (failures_.size() < kMaxReasons || failures_.contains(reason)) {
        ++failures_[reason];
      }
    }
    task->state.store(CompileTask::State::kDone, std::memory_order_release);
    // Once for all that came together: no kernel waits for it.
    if (queue_.empty() && verdicts_.has_news()) {
      lock.unlock();
      SaveVerdicts();
      lock.lock();
    }
    is_busy_ = false;
    changed_->notify_all();
  }
  has_worker_ = false;
  changed_->notify_all();
}

void Tier2::SaveVerdicts() {
  try {
    verdicts_.Save();
  } catch (const std::exception& e) {  // no memory: the next process probes
    LogWarning(std::string("what probes found is not kept: ") + e.what());
  }
}

bool Tier2::DoJob(CompileTask* task) {
  try {
    return task->job(hurry_);
  } catch (const std::exception& e) {  // no memory: nothing is known
    LogWarning(std::string("a job of the background thread failed: ") +
               e.what());
  }
  return true;
}

void Tier2::Compile(CompileTask* task) {
  const auto began = Clock::now();
  CompileLimits limits;
  const std::int64_t planted_ns = planted_budget_ns_.load();
  limits.deadline =
      began + (planted_ns < 0 ? std::chrono::nanoseconds(kBudget)
                              : std::chrono::nanoseconds(planted_ns));
  limits.stop = &give_up_;
  const CacheUse use(cache_.load());
  try {
    std::optional<SegmentDump> dump;
    if (dump_ != nullptr) dump.emplace(dump_.get(), task->input);
    task->code = CompileSegment(task->input, task->engine, &kernels_, limits,
                                dump ? &*dump : nullptr);
  } catch (const std::exception& e) {  // no memory
    task->code = SegmentCode();
    task->code.failed = 1;
    task->code.reasons.emplace_back(e.what());
  }
  task->ns = std::chrono::nanoseconds(Clock::now() - began).count();
  counters_.compile_ns.Add(task->ns);
  counters_.kernels_compiled.Add(task->code.compiled);
  counters_.kernels_reused.Add(task->code.reused);
  counters_.compiles_failed.Add(task->code.failed);
  if (task->is_again) counters_.recompiles.Add();
  counters_.cache_hits.Add(use.hits());
  counters_.cache_misses.Add(use.misses());
  counters_.cache_writes.Add(use.writes());
  const std::int64_t probed = verdicts_.probed();
  Log(*task, use, probed - std::exchange(probed_, probed));
  task->input = SegmentInput();
}

// REQUIRES: mutex_ is held.
void Tier2::DropQueuedLocked(bool with_jobs) {
  std::erase_if(queue_, [&](const std::shared_ptr<CompileTask>& task) {
    if (task->job != nullptr && !with_jobs) return false;
    task->state.store(CompileTask::State::kDropped, std::memory_order_release);
    return true;
  });
}

void Tier2::DropQueued() {
  const std::lock_guard<std::mutex> lock(mutex_);
  DropQueuedLocked(/*with_jobs=*/false);
}

void Tier2::Forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  DropQueuedLocked(/*with_jobs=*/false);
  failures_.clear();
  measured_.clear();
  forget_ = true;
}

void Tier2::Stop() {
  std::unique_lock<std::mutex> lock(mutex_);
  is_stopped_ = true;
  give_up_.store(true);
  hurry_.store(true);
  DropQueuedLocked(/*with_jobs=*/true);
  changed_->notify_all();
  changed_->wait(lock, [this] { return !has_worker_; });
}

void Tier2::PauseForFork() {
  std::unique_lock<std::mutex> lock(mutex_);
  ++pauses_;
  hurry_.store(true);
  changed_->wait(lock, [this] { return !is_busy_; });
}

void Tier2::UnlockAfterFork(bool is_child) {
  pauses_ = is_child ? 0 : pauses_ - 1;
  if (pauses_ == 0) hurry_.store(is_stopped_);
  if (is_child) {
    has_worker_ = false;
    // The parent's worker may wait on the old one.
    changed_ = new std::condition_variable;
    DropQueuedLocked(/*with_jobs=*/false);
    if (!queue_.empty()) StartWorker();
  }
  changed_->notify_all();
  mutex_.unlock();
}

std::map<std::string, std::int64_t> Tier2::Failures() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failures_;
}

void Tier2::NoteMeasured(ExplainedCode code) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (measured_.size() < kMaxMeasured) measured_.push_back(std::move(code));
}

std::vector<ExplainedCode> Tier2::Measured() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return measured_;
}

void Tier2::WaitUntilIdle() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_->wait(lock, [this] { return !is_busy_ && queue_.empty(); });
}

}  // namespace tjit::runtime
