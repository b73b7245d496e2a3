// Defects that tests plant (recorder/planted_defect.h), and the forced drain;
// see testing.h. Without TJIT_PLANTED_DEFECTS all of it is constant and
// compiles away.
#pragma once

#include <atomic>
#include <cstdint>

#include "recorder/planted_defect.h"

namespace tjit::runtime {

#if defined(TJIT_PLANTED_DEFECTS)
extern std::atomic<std::int64_t> g_forced_drain_at;
inline std::int64_t ForcedDrainAt() {
  return g_forced_drain_at.load(std::memory_order_relaxed);
}
extern std::atomic<bool> g_tries_at_once;
inline bool TriesAtOnce() {
  return g_tries_at_once.load(std::memory_order_relaxed);
}
#else
constexpr std::int64_t ForcedDrainAt() { return -1; }
constexpr bool TriesAtOnce() { return false; }
#endif

}  // namespace tjit::runtime
