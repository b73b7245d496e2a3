#include "support/planted_defect.h"

namespace tjit {

#if defined(TJIT_PLANTED_DEFECTS)
std::atomic<Defect> g_planted_defect{Defect::kNone};

bool DefectOf(std::string_view name, Defect* defect) {
  static constexpr struct {
    std::string_view name;
    Defect defect;
  } kNames[] = {
      {"", Defect::kNone},
      {"stale_scalar", Defect::kStaleScalar},
      {"lost_alias", Defect::kLostAlias},
      {"wrong_live_out", Defect::kWrongLiveOut},
      {"late_random_draw", Defect::kLateRandomDraw},
      {"late_error", Defect::kLateError},
      {"other_thread_write", Defect::kOtherThreadWrite},
      {"missed_exposure", Defect::kMissedExposure},
      {"no_execute", Defect::kNoExecute},
      {"skipped_guard", Defect::kSkippedGuard},
      {"skipped_scalar_guard", Defect::kSkippedScalarGuard},
      {"lost_shift", Defect::kLostShift},
      {"shared_place", Defect::kSharedPlace},
      {"missed_overlap", Defect::kMissedOverlap},
      {"stale_snapshot", Defect::kStaleSnapshot},
      {"frozen_constant", Defect::kFrozenConstant},
      {"wrong_trip_count", Defect::kWrongTripCount},
      {"skipped_grad_guard", Defect::kSkippedGradGuard},
      {"reused_result", Defect::kReusedResult},
      {"stale_read", Defect::kStaleRead},
      {"stale_verdict", Defect::kStaleVerdict},
      {"swapped_operands", Defect::kSwappedOperands},
      {"lost_sign", Defect::kLostSign},
      {"wrong_common", Defect::kWrongCommon},
      {"dead_write_back", Defect::kDeadWriteBack},
      {"lost_offset", Defect::kLostOffset},
      {"wrong_tail", Defect::kWrongTail},
      {"two_roundings", Defect::kTwoRoundings},
      {"unrounded_half", Defect::kUnroundedHalf},
      {"lost_nan", Defect::kLostNan},
      {"wrong_cast", Defect::kWrongCast},
      {"stale_kernel_scalar", Defect::kStaleKernelScalar},
      {"lost_write_back", Defect::kLostWriteBack},
      {"early_publication", Defect::kEarlyPublication},
      {"no_eager_bits", Defect::kNoEagerBits},
      {"thunk_fails", Defect::kThunkFails},
      {"step_throws", Defect::kStepThrows},
      {"wrong_product", Defect::kWrongProduct},
  };
  for (const auto& known : kNames) {
    if (known.name != name) continue;
    *defect = known.defect;
    return true;
  }
  return false;
}
#endif

}  // namespace tjit
