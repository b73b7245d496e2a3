#include "runtime/testing.h"

#include "compiler/driver/plain_code.h"
#include "runtime/intercept/direct_calls.h"
#include "runtime/intercept/direct_views.h"
#include "runtime/memory/placement_scope.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/report/code_observer.h"
#include "runtime/runtime.h"
#include "runtime/tier2/llvm_engine.h"
#include "runtime/tier2/tier2.h"

namespace tjit {
namespace runtime {
std::atomic<std::int64_t> g_forced_drain_at{-1};
std::atomic<std::int64_t> g_replay_delay_ns{0};
std::atomic<std::int64_t> g_recording_delay_ns{0};
std::atomic<TrialsOf> g_thread_trials{TrialsOf::kThreads};
std::atomic<bool> g_trace_trials{true};
std::atomic<void (*)()> g_during_replay{nullptr};
std::atomic<bool> g_tries_at_once{false};
std::atomic<StepObserver> g_step_observer{nullptr};
}  // namespace runtime

namespace testing {

void SetForcedDrainAt(std::int64_t k) { runtime::g_forced_drain_at.store(k); }

void TryStepsAtOnce(bool at_once) { runtime::g_tries_at_once.store(at_once); }

bool SetPlantedDefect(std::string_view name) {
  Defect defect;
  if (!DefectOf(name, &defect)) return false;
  Plant(defect);
  return true;
}

void SetStepObserver(StepObserver observer) {
  runtime::g_step_observer.store(observer);
}
void SetPlainCode(bool is_plain) { tjit::SetPlainCode(is_plain); }
void PlantInCompiler(std::uint32_t flags) { runtime::PlantInCompiler(flags); }
void SetCompileBudgetNs(std::int64_t ns) {
  runtime::Runtime::Get().tier2().SetBudget(ns);
}
void SetCodeDelayNs(std::int64_t ns) { runtime::SetCodeDelay(ns); }
void SetReplayDelayNs(std::int64_t ns) { runtime::g_replay_delay_ns.store(ns); }
void SetRecordingDelayNs(std::int64_t ns) {
  runtime::g_recording_delay_ns.store(ns);
}
void SetDuringReplay(void (*function)()) {
  runtime::g_during_replay.store(function);
}
void WaitForCompiler() {
  runtime::Runtime::Get().tier2().worker().WaitUntilIdle();
}
}  // namespace testing

namespace testing {
std::int64_t LiveTraceNodes() { return TraceStore::LiveNodes(); }
void SetDirectCalls(bool are_open) {
  are_open ? runtime::OpenDirectCalls() : runtime::PauseDirectCalls();
}
std::vector<std::string> ClosedDirectCalls() {
  return runtime::ClosedDirectCalls();
}
std::uint64_t DirectViewsMade() { return runtime::DirectViewsMade(); }
std::int64_t PlacedScratchBytes() { return runtime::PlacedScratchBytes(); }
std::int64_t RunsTurnedBack() { return runtime::RunsTurnedBack(); }
std::int64_t LoopsShared() { return runtime::LoopsShared(); }
void ShareAllLoops(bool all) { runtime::ShareAllLoops(all); }
}  // namespace testing
}  // namespace tjit
