// Seams of the tests; compiled in under TJIT_PLANTED_DEFECTS.
#pragma once

#include <cstdint>
#include <string_view>

#include "tjit/export.h"

namespace tjit::testing {

// While deferring, drain as after a mismatch whenever more than k ops are
// pending, and wherever they would be flushed; the run goes on. -1: off.
TJIT_API void SetForcedDrainAt(std::int64_t k);

// Plants a defect by name (stale_scalar, lost_alias, wrong_live_out,
// late_random_draw, late_error, other_thread_write, missed_exposure,
// no_execute, thunk_fails, step_throws, stale_kernel_scalar, lost_write_back,
// early_publication); "" for none. Returns false for an unknown name.
TJIT_API bool SetPlantedDefect(std::string_view name);

// Waits until no segment is queued for tier 2 or being compiled.
TJIT_API void WaitForCompiler();

}  // namespace tjit::testing
