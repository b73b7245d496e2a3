// Defects that tests plant (support/planted_defect.h), and the forced drain;
// see testing.h. Without TJIT_PLANTED_DEFECTS all of it is constant and
// compiles away.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "support/planted_defect.h"

namespace tjit::runtime {

// kTurns: windows of a few ops take turns without end (recorder/thread_trial.h).
enum class TrialsOf : std::uint8_t { kNone, kThreads, kTurns };

#if defined(TJIT_PLANTED_DEFECTS)
extern std::atomic<std::int64_t> g_forced_drain_at;
inline std::int64_t ForcedDrainAt() {
  return g_forced_drain_at.load(std::memory_order_relaxed);
}
extern std::atomic<bool> g_tries_at_once;
inline bool TriesAtOnce() {
  return g_tries_at_once.load(std::memory_order_relaxed);
}
extern std::atomic<std::int64_t> g_replay_delay_ns;
extern std::atomic<void (*)()> g_during_replay;
inline void DelayReplay() {
  const std::int64_t ns = g_replay_delay_ns.load(std::memory_order_relaxed);
  if (ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
  const auto function = g_during_replay.load(std::memory_order_relaxed);
  if (function != nullptr) function();
}
extern std::atomic<TrialsOf> g_thread_trials;
inline TrialsOf ThreadTrials() {
  return g_thread_trials.load(std::memory_order_relaxed);
}
extern std::atomic<bool> g_trace_trials;
// Whether sequences that are replayed are measured against eager runs.
inline bool TraceTrials() {
  return g_trace_trials.load(std::memory_order_relaxed);
}
extern std::atomic<std::int64_t> g_recording_delay_ns;
inline void DelayRecording() {
  const std::int64_t ns = g_recording_delay_ns.load(std::memory_order_relaxed);
  if (ns == 0) return;
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
  while (std::chrono::steady_clock::now() < end) {
  }
}
#else
constexpr void DelayRecording() {}
constexpr TrialsOf ThreadTrials() { return TrialsOf::kThreads; }
constexpr bool TraceTrials() { return true; }
constexpr std::int64_t ForcedDrainAt() { return -1; }
constexpr bool TriesAtOnce() { return false; }
constexpr void DelayReplay() {}
#endif

}  // namespace tjit::runtime
