// Defects that tests plant, and the forced drain; see testing.h. Without
// TJIT_PLANTED_DEFECTS all of it is constant and compiles away.
#pragma once

#include <atomic>
#include <cstdint>

namespace tjit::runtime {

enum class Defect : std::uint8_t {
  kNone,
  kStaleScalar,
  kLostAlias,
  kWrongLiveOut,
  kLateRandomDraw,
  kLateError,
  kOtherThreadWrite,
  kMissedExposure,
  kNoExecute,
  kThunkFails,
  kStepThrows,
  kStaleKernelScalar,
  kLostWriteBack,
  kEarlyPublication,
};

#if defined(TJIT_PLANTED_DEFECTS)
extern std::atomic<Defect> g_defect;
extern std::atomic<std::int64_t> g_forced_drain_at;
inline bool Planted(Defect d) {
  return g_defect.load(std::memory_order_relaxed) == d;
}
inline std::int64_t ForcedDrainAt() {
  return g_forced_drain_at.load(std::memory_order_relaxed);
}
#else
constexpr bool Planted(Defect) { return false; }
constexpr std::int64_t ForcedDrainAt() { return -1; }
#endif

}  // namespace tjit::runtime
