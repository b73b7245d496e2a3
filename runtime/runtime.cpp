#include "runtime/runtime.h"

#include <ATen/Parallel.h>
#include <pthread.h>

#include "absl/strings/str_cat.h"
#include "recorder/region_table.h"
#include "runtime/call/interpose.h"
#include "runtime/call/kernel_state.h"
#include "runtime/intercept/direct_calls.h"
#include "runtime/intercept/kernel_wrap.h"
#include "runtime/intercept/random_kernels.h"
#include "runtime/memory/block.h"
#include "runtime/memory/reserved_block.h"
#include "runtime/memory/tensor_names.h"
#include "runtime/platform/build_check.h"
#include "runtime/platform/parallel.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/small_stack.h"
#include "runtime/platform/thread_context.h"
#include "runtime/platform/wait_row.h"
#include "runtime/report/asked_sequences.h"
#include "runtime/report/events.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/options_resolution.h"
#include "runtime/thread/materialize.h"
#include "runtime/thread/region_visits.h"
#include "runtime/thread/self_check/modes.h"
#include "runtime/thread/thread_state.h"
#include "runtime/tier2/hot_profile.h"
#include "runtime/tier2/tier2.h"
#include "support/env.h"

namespace tjit::runtime {

namespace {

// Hands the state of a thread back when it ends, with what is pending: kernels
// must not run here, libtorch's own thread-local objects may be gone already
// (seen: a crash in RecordFunction's). Whoever needs the values flushes them;
// the thread that gets the state next does it at the latest. The main thread's
// pending ops are dropped: no kernel may run while the process exits.
struct ThreadExit {
  ThreadState* state = nullptr;
  ~ThreadExit() {
    if (state != nullptr && !main_thread) {
      ThreadRegistry::Get()->ReturnState(state);
    }
    t_context.state = nullptr;
    t_context.off = true;
  }
  bool main_thread = false;
  int pauses = 0;  // here, as it takes no more thread-local memory
};
thread_local ThreadExit t_exit;

pthread_t g_main_thread;

}  // namespace

int& PausesOfThread() { return t_exit.pauses; }

[[gnu::hot]] ThreadState* AcquireThreadState() {
  ThreadContext& c = t_context;
  const bool is_on =
      g_process_enabled.load(std::memory_order_relaxed) || c.scoped_on != 0;
  if (!is_on || HasSmallStack()) {
    // What it has left pending is what a function returned.
    if (c.state != nullptr && !InParallelRegion()) {
      c.state->Flush(FlushReason::kOpAtCall);
    }
    // What it is about to read may be another thread's. To run all that is
    // pending would end what others record, and could wait inside a parallel
    // region for a kernel that waits for this thread.
    if (g_settings.AnyPending()) return ThreadRegistry::Get()->Bystander();
    return LogsFromTheStart() ? LogOnlyState() : nullptr;
  }
  if (c.state == nullptr) {
    c.state = Runtime::Get().NewThreadState();
    t_exit.state = c.state;
    t_exit.main_thread = pthread_equal(pthread_self(), g_main_thread) != 0;
    const RegionVisits* const visits = VisitsOf(*c.state);
    const RegionId known = visits == nullptr ? kNoRegion : visits->id();
    if (known != CurrentRegion()) {
      c.state->OnRegionEdge(CurrentRegion(), /*is_new=*/true);
    }
    c.state->SetPaused(t_exit.pauses != 0);
  }
  return c.state;
}

Runtime& Runtime::Get() {
  static auto* runtime = new Runtime;
  return *runtime;
}

Runtime::Runtime()
    : tier2_(new Tier2),
      hot_profile_(new HotProfile),
      threads_(new ThreadRegistry(tier2_, hot_profile_, &process_counters_)) {
  tier2_->worker().StopsAtExit();
}

void Runtime::InstallOnce() {
  if (installed_) return;
  installed_ = true;
  const std::uint64_t began_ns = ThreadNs();
  g_main_thread = pthread_self();
  OwnerLock::Prepare();
  InstallAllocator();
  InstallFaultHandler(&FaultIn);
  RecordDefaultDtype();
  WrapKernels();
  OpenDirectCalls();
  ReplaceRandomKernels();
  HandleForksInParallel();
  pthread_atfork(
      [] {
        try {
          if (t_context.inside == 0) {
            Get().threads().FlushAll(FlushReason::kFork);
          }
        } catch (const std::exception& e) {
          // Both processes have it pending then, and memory of their own.
          LogWarning(std::string("fork() leaves ops pending: ") + e.what());
        }
        Get().KeepStatsForChild();
        Get().LockForFork();
      },
      [] { Get().UnlockAfterFork(/*is_child=*/false); },
      [] {
        Get().UnlockAfterFork(/*is_child=*/true);
        ForgetInstructionLogInChild();
      });
  OfferAttach();
  process_counters_.start_ns.Add(
      static_cast<std::int64_t>(ThreadNs() - began_ns));
}

void Runtime::KeepStatsForChild() { stats_file_.BeforeFork(Collect()); }

// The child has only the thread that forks: no lock may be another's. What is
// waited for comes first, without any lock: the compiler's thread may be
// watching eager kernels, whose teams take locks of ours for a moment.
void Runtime::LockForFork() {
  tier2_->worker().PauseForFork();
  threads_->LockForFork(&mutex_);
  tier2_->LockForFork();
  hot_profile_->LockForFork();
  LockInstructionLogForFork();
  RegionTable::Get().LockForFork();
  LockAskedForFork();
  LockNamesForFork();
  LockEventsForFork();
}

void Runtime::UnlockAfterFork(bool is_child) {
  UnlockEventsAfterFork(is_child);
  UnlockNamesAfterFork();
  UnlockAskedAfterFork();
  RegionTable::Get().UnlockAfterFork();
  UnlockInstructionLogAfterFork();
  hot_profile_->UnlockAfterFork();
  tier2_->UnlockAfterFork(is_child);
  threads_->UnlockAfterFork(is_child);
  mutex_.UnlockAfterFork();
}

// False, said once, where tjit is not wanted or this libtorch is another one.
bool Runtime::MayInstall() {
  if (installed_ || !inert_.empty()) return inert_.empty();
  inert_ = IsDisabled()
               ? "TJIT_DISABLE=1 keeps tjit off, tjit::enable() included"
               : WhyNotThisTorch();
  if (!inert_.empty()) LogWarning(inert_);
  return inert_.empty();
}

void Runtime::StartLog(const std::string& path) {
  const MutexLock lock(mutex_);
  if (!MayInstall()) return;
  InstallOnce();
  StartInstructionLog(path, InstructionLogMb());
  g_enabled.store(true);
}

namespace {

// True, said once, for modes under which fast math would be a finding.
bool ComparesBits(const Options& options, unsigned modes) {
  if ((modes & (kModeShadow | kModeLate)) == 0 && options.shadow_sample == 0) {
    return false;
  }
  static bool said = false;
  if (!std::exchange(said, true)) {
    LogWarning(
        "TJIT_FAST_MATH=1 is not used: TJIT_SHADOW=1, TJIT_SHADOW=sample:N and "
        "TJIT_STRESS=late compare with eager's bits");
  }
  return true;
}

}  // namespace

bool Runtime::Enable(const Options& options, bool for_thread) {
  TORCH_CHECK(options.stress == Stress::kHide ||
                  (static_cast<unsigned>(options.stress) & kModeHide) == 0,
              "tjit: Stress::kHide cannot be combined with other modes");
  TORCH_CHECK(options.hot_threshold >= 2 && options.hot_threshold <= 1000000,
              "tjit: hot_threshold is ", options.hot_threshold,
              "; accepted are 2 to 1000000");
  TORCH_CHECK(
      options.max_trace_steps >= 100 && options.max_trace_steps <= 100000000,
      "tjit: max_trace_steps is ", options.max_trace_steps,
      "; accepted are 100 to 100000000");
  TORCH_CHECK(options.max_trace_mb >= 1 && options.max_trace_mb <= 1000000,
              "tjit: max_trace_mb is ", options.max_trace_mb,
              "; accepted are 1 to 1000000");
  TORCH_CHECK(options.max_memory_mb >= 0 && options.max_memory_mb <= 1000000,
              "tjit: max_memory_mb is ", options.max_memory_mb,
              "; accepted are 0 (no bound) to 1000000");
  TORCH_CHECK(
      options.shadow_sample >= 0 && options.shadow_sample <= kMaxShadowSample,
      "tjit: shadow_sample is ", options.shadow_sample,
      "; accepted are 0 (none) to ", kMaxShadowSample);
  const MutexLock lock(mutex_);
  if (!MayInstall()) return false;
  const unsigned modes = ModesOf(options);
  if ((modes & kModeHide) != 0 && !g_settings.hiding()) EnableHiding();
  InstallOnce();
  std::uint64_t seed = g_settings.shuffle_seed();
  if ((modes & kModeShuffle) != 0) {
    seed = SeedOfShuffle(static_cast<std::uint64_t>(options.shuffle_seed));
  }
  g_settings.Set(options, modes, seed);
  tier2_->SetBackend(options.backend, options.cache_dir,
                     options.fast_math && !ComparesBits(options, modes));
  hot_profile_->Configure(options.cache_dir);
  threads_->SetLimits({static_cast<std::uint32_t>(options.max_trace_steps),
                       static_cast<std::uint64_t>(options.max_trace_mb) << 20},
                      static_cast<std::uint64_t>(options.max_memory_mb) << 20);
  stats_path_ = options.stats_path;
  was_enabled_ = true;
  RecordGlobalFlags();
  g_settings.SetMayDefer(true);
  if (!for_thread) g_process_enabled.store(true);
  g_enabled.store(true);
  SetAttachOn(true);
  return true;
}

void Runtime::Disable() {
  g_settings.SetMayDefer(false);
  threads_->FlushAllSurely(FlushReason::kSyncCall);
  tier2_->worker().DropQueued();
  g_process_enabled.store(false);
  g_enabled.store(LogsFromTheStart());
  SetAttachOn(false);
}

void Runtime::Clear() {
  threads_->ReplaceStore();
  // Without a mutex: kernels run, which may wait for a thread that needs it.
  threads_->FlushAll(FlushReason::kSyncCall);
  ThreadState* const own = t_context.state;
  if (own != nullptr && t_context.inside == 0 && t_context.held == nullptr) {
    own->AdoptStore();
  }
  threads_->LetIdleStatesAdoptStore();
  tier2_->Forget();
  hot_profile_->Forget();
  TrimCache();
}

ThreadState* Runtime::NewThreadState() {
  {
    const WaitingLock lock(mutex_, WaitFor::kEnable);
    stats_file_.Claim(stats_path_);
    hot_profile_->OnFirstOp(tier2_);
  }
  return threads_->NewState();
}

}  // namespace tjit::runtime
