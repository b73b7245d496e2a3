#include "runtime/thread/functions/jit_core.h"

#include <utility>

#include "runtime/thread/functions/jit_functions.h"
#include "runtime/thread/functions/parts.h"

namespace tjit::internal {

namespace {

// Never destroyed: objects of the program may die later.
class JitFunctions {
 public:
  static JitFunctions& Get() {
    static auto& functions = *new JitFunctions;
    return functions;
  }
  void Add(const JitCore* core) {
    const MutexLock lock(mutex_);
    alive_.push_back(core);
  }
  void Remove(const JitCore* core) {
    ExplainedJit last = core->Explain();
    const MutexLock lock(mutex_);
    std::erase(alive_, core);
    if (last.calls != 0 && gone_.size() < kMost) {
      gone_.push_back(std::move(last));
    }
  }
  std::vector<ExplainedJit> All() {
    const MutexLock lock(mutex_);
    std::vector<ExplainedJit> all = gone_;
    for (const JitCore* core : alive_) {
      ExplainedJit one = core->Explain();
      if (one.calls != 0) all.push_back(std::move(one));
      if (all.size() >= gone_.size() + kMost) break;
    }
    return all;
  }

 private:
  static constexpr std::size_t kMost = 64;
  Mutex mutex_;
  std::vector<const JitCore*> alive_ ABSL_GUARDED_BY(mutex_);
  std::vector<ExplainedJit> gone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

JitCore::JitCore(JitOptions o) : options(std::move(o)) {
  if (options.name.empty()) options.name = "function";
  JitFunctions::Get().Add(this);
}

JitCore::~JitCore() { JitFunctions::Get().Remove(this); }

ExplainedJit JitCore::Explain() const {
  const JitStats stats = StatsOfJitCore(*this);
  const runtime::FunctionPlan* const plan = last.load();
  return {
      options.name,  stats.calls,
      stats.replays, stats.plans,
      stats.why,     plan == nullptr ? "" : runtime::PartsText(*plan->record)};
}

std::shared_ptr<JitCore> MakeJitCore(JitOptions options) {
  TORCH_CHECK(options.verify_every >= 0, "tjit::jit: verify_every is ",
              options.verify_every, "; accepted are 0 (never) and above");
  TurnOnForJit();
  return std::make_shared<JitCore>(std::move(options));
}

void ResetJitCore(JitCore* core) {
  const MutexLock lock(core->mutex);
  for (const auto& plan : core->plans) {
    plan->is_dropped.store(true, std::memory_order_relaxed);
  }
  core->last.store(nullptr);
  core->records.clear();
  core->failures.clear();
  core->mismatches = 0;
  core->in_vain = 0;
  core->other_values = 0;
  core->records_due = 0;
  core->why.clear();
}

JitStats StatsOfJitCore(const JitCore& core) {
  JitStats stats;
  stats.calls = core.calls.load(std::memory_order_relaxed);
  stats.replays = core.replays.load(std::memory_order_relaxed);
  stats.recordings = core.recordings.load(std::memory_order_relaxed);
  stats.verified = core.verified.load(std::memory_order_relaxed);
  stats.not_same = core.not_same.load(std::memory_order_relaxed);
  const MutexLock lock(core.mutex);
  for (const auto& plan : core.plans) {
    stats.plans += !plan->is_dropped.load(std::memory_order_relaxed);
  }
  stats.why = core.why;
  return stats;
}

}  // namespace tjit::internal

namespace tjit::runtime {

std::vector<ExplainedJit> ExplainJitFunctions() {
  return internal::JitFunctions::Get().All();
}

}  // namespace tjit::runtime
