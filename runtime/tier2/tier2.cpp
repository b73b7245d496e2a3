#include "runtime/tier2/tier2.h"

#include <ATen/Version.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "compiler/abi/kernel_abi.h"
#include "compiler/cache/packaged_entries.h"
#include "compiler/driver/segment_dump.h"
#include "recorder/region_table.h"
#include "runtime/bit_exact/product_verdicts.h"
#include "runtime/report/events.h"
#include "runtime/report/log.h"
#include "runtime/report/options_resolution.h"
#include "runtime/tier2/llvm_engine.h"
#include "runtime/tier2/torchscript_engine.h"
#include "support/env.h"
#include "support/kept_bytes.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// No group of a segment is begun after that; those left stay library calls.
constexpr std::chrono::seconds kBudget{policy::kCompileBudgetSeconds};

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
  if (!PrintsCompile()) return;
  const SegmentCode& code = task.code;
  PrintCompile(absl::StrFormat(
      "Compilation complete (%.1f ms, %s): %d of %d ops in %d groups, %d "
      "kernels compiled, %d reused; cache: %d hits, %d misses; probes: %d",
      1e-6 * static_cast<double>(task.ns), task.engine->name(),
      code.steps_fused, task.input.steps.size(), code.groups.size(),
      code.compiled, code.reused, use.hits(), use.misses(), probes));
  for (const std::string& reason : code.reasons) {
    PrintCompile("Fallback: library calls for a group: " + reason);
  }
}

void Tell(const CompileTask& task) {
  if (!TellsEvents()) return;
  Event event;
  event.kind = EventKind::kCompiled;
  event.sequence = task.input.sequence;
  if (!task.input.steps.empty()) {
    event.region = RegionNameOf(task.input.steps.front().record.context);
  }
  event.ops = static_cast<std::int64_t>(task.input.steps.size());
  event.took_ns = task.ns;
  event.kernels_compiled = task.code.compiled;
  event.kernels_reused = task.code.reused;
  event.kernels_failed = task.code.failed;
  TellEvent(std::move(event));
}

}  // namespace

cache::ObjectCache* Tier2::CacheFor(const std::string& folder) {
  const bool is_off = folder == kCacheOff;
  if (is_off && cache::PackagedVersion() == 0) return nullptr;
  std::unique_ptr<cache::ObjectCache>& cache = caches_[folder];
  if (cache == nullptr && is_off) {
    cache = std::make_unique<cache::ObjectCache>("", &LogWarning);
  }
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
  const MutexLock lock(mutex_);
  if (dump_ == nullptr && DumpParts() != 0) {
    dump_ = std::make_unique<DumpFile>(DumpParts(), DumpPath());
  }
  verdicts_.RecordProcess();
  cache_.store(CacheFor(cache_dir));
  cache::ObjectCache* const cache = cache_.load();
  VerdictsOfProducts().UseFolder(cache == nullptr ? "" : cache->folder());
  is_fast_math_ = fast;
  engine_.store(EngineOf(backend));
  for (std::size_t i = 0; i < kBackends; ++i) {
    if (region_backends_[i]) {
      region_engines_[i].store(EngineOf(static_cast<Backend>(i)));
    }
  }
}

void Tier2::UsePackages() {
  const MutexLock lock(mutex_);
  if (cache_.load() != nullptr) return;
  cache_.store(CacheFor(std::string(kCacheOff)));
  VerdictsOfProducts().UseFolder("");
}

Engine* Tier2::EngineOf(Backend backend) {
  const bool fast = is_fast_math_ && backend == Backend::kLlvm;
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
  return is_usable ? engine.get() : nullptr;
}

const std::atomic<Engine*>& Tier2::EngineIn(RegionId region) {
  if (region == kNoRegion) return engine_;
  const RegionSettings& settings = RegionTable::Get().SettingsOf(region);
  if (!settings.compile.value_or(true)) return no_engine_;
  if (!settings.backend.has_value()) return engine_;
  const auto i = static_cast<std::size_t>(*settings.backend);
  const MutexLock lock(mutex_);
  if (!region_backends_[i]) {
    region_backends_[i] = true;
    Engine* const engine = EngineOf(static_cast<Backend>(i));
    region_engines_[i].store(engine);
    if (engine != nullptr && !engine->is_for_speed()) {
      has_slow_regions_.store(true);
    }
  }
  return region_engines_[i];
}

std::shared_ptr<CompileTask> Tier2::Ask(SegmentInput input, Engine* engine,
                                        bool is_again) {
  if (engine == nullptr) return nullptr;
  auto task = std::make_shared<CompileTask>();
  task->input = std::move(input);
  task->engine = engine;
  task->is_again = is_again;
  const bool is_queued = worker_.PostDroppable(
      [this, task](const std::atomic<bool>&) {
        Compile(task.get());
        return true;
      },
      [task](bool ran) {
        task->state.store(
            ran ? CompileTask::State::kDone : CompileTask::State::kDropped,
            std::memory_order_release);
      });
  return is_queued ? task : nullptr;
}

void Tier2::Precompile(SegmentInput input, Engine* engine) {
  const auto shared = std::make_shared<SegmentInput>(std::move(input));
  worker_.Post([this, shared, engine](const std::atomic<bool>& hurry) {
    return PrecompileSegment(*shared, engine, &Kernels(), hurry);
  });
}

// The worker's.
KernelCache& Tier2::Kernels() {
  if (forget_.exchange(false)) kernels_.Clear();
  kernels_.Count();
  return kernels_;
}

// Once for all that came together: no kernel waits for it.
void Tier2::SaveVerdicts() {
  if (!verdicts_.has_news()) return;
  try {
    verdicts_.Save();
  } catch (const std::exception& e) {  // no memory: the next process probes
    LogWarning(std::string("what probes found is not kept: ") + e.what());
  }
}

void Tier2::Compile(CompileTask* task) {
  const auto began = Clock::now();
  CompileLimits limits;
  const std::int64_t planted_ns = planted_budget_ns_.load();
  limits.deadline =
      began + (planted_ns < 0 ? std::chrono::nanoseconds(kBudget)
                              : std::chrono::nanoseconds(planted_ns));
  limits.stop = &worker_.stops();
  const CacheUse use(cache_.load());
  try {
    std::optional<SegmentDump> dump;
    if (dump_ != nullptr) dump.emplace(dump_.get(), task->input);
    task->code = CompileSegment(task->input, task->engine, &Kernels(), limits,
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
  Tell(*task);
  task->input = SegmentInput();
  {
    const MutexLock lock(mutex_);
    for (const std::string& reason : task->code.reasons) {
      if (failures_.size() < kMaxReasons || failures_.contains(reason)) {
        ++failures_[reason];
      }
    }
  }
  kernels_.Count();
  if (after_compiling_ != nullptr) after_compiling_();
}

void Tier2::ForgetKernels() { forget_.store(true); }

void Tier2::Forget() {
  worker_.DropQueued();
  {
    const MutexLock lock(mutex_);
    failures_.clear();
    measured_.clear();
  }
  forget_.store(true);
  // No task may ever come, and a job that is done already did not see it.
  if (KeptBytes(Kept::kCode) == 0) return;
  try {
    worker_.Post([](const std::atomic<bool>&) { return true; });
  } catch (const std::bad_alloc&) {  // with the next task
  }
}

void Tier2::LockForFork() {
  worker_.LockForFork();
  mutex_.LockForFork();
}

void Tier2::UnlockAfterFork(bool is_child) {
  mutex_.UnlockAfterFork();
  worker_.UnlockAfterFork(is_child);
}

std::map<std::string, std::int64_t> Tier2::Failures() {
  const MutexLock lock(mutex_);
  return failures_;
}

void Tier2::RecordMeasured(ExplainedCode code) {
  const MutexLock lock(mutex_);
  if (measured_.size() < kMaxMeasured) measured_.push_back(std::move(code));
}

std::vector<ExplainedCode> Tier2::Measured() {
  const MutexLock lock(mutex_);
  return measured_;
}

}  // namespace tjit::runtime
