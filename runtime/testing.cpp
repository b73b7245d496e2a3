#include "runtime/testing.h"

#include "runtime/runtime.h"
#include "runtime/testing_hooks.h"
#include "runtime/tier2.h"

namespace tjit {
#if defined(TJIT_PLANTED_DEFECTS)
namespace runtime {
std::atomic<Defect> g_defect{Defect::kNone};
std::atomic<std::int64_t> g_forced_drain_at{-1};
}  // namespace runtime

namespace testing {

void SetForcedDrainAt(std::int64_t k) { runtime::g_forced_drain_at.store(k); }

bool SetPlantedDefect(std::string_view name) {
  using runtime::Defect;
  static constexpr struct {
    std::string_view name;
    Defect defect;
  } kDefects[] = {
      {"", Defect::kNone},
      {"stale_scalar", Defect::kStaleScalar},
      {"lost_alias", Defect::kLostAlias},
      {"wrong_live_out", Defect::kWrongLiveOut},
      {"late_random_draw", Defect::kLateRandomDraw},
      {"late_error", Defect::kLateError},
      {"other_thread_write", Defect::kOtherThreadWrite},
      {"missed_exposure", Defect::kMissedExposure},
      {"no_execute", Defect::kNoExecute},
      {"thunk_fails", Defect::kThunkFails},
      {"step_throws", Defect::kStepThrows},
      {"stale_kernel_scalar", Defect::kStaleKernelScalar},
      {"lost_write_back", Defect::kLostWriteBack},
      {"early_publication", Defect::kEarlyPublication},
  };
  for (const auto& d : kDefects) {
    if (d.name != name) continue;
    runtime::g_defect.store(d.defect);
    return true;
  }
  return false;
}

}  // namespace testing
namespace testing {
void WaitForCompiler() { runtime::Runtime::Get().tier2().WaitUntilIdle(); }
}  // namespace testing
#else
namespace testing {
void WaitForCompiler() {}
void SetForcedDrainAt(std::int64_t) {}
bool SetPlantedDefect(std::string_view name) { return name.empty(); }
}  // namespace testing
#endif
}  // namespace tjit
