// Seams of the tests; compiled in under TJIT_PLANTED_DEFECTS.
#pragma once

#include <cstdint>
#include <string_view>

#include "tjit/export.h"

namespace tjit::testing {

// While deferring, drain as after a mismatch whenever more than k ops are
// pending, and wherever they would be flushed; the run goes on. -1: off.
TJIT_API void SetForcedDrainAt(std::int64_t k);

// Plants a defect by its name in recorder/planted_defect.cpp; "" for none.
// Returns false for an unknown name.
TJIT_API bool SetPlantedDefect(std::string_view name);

// Waits until no segment is queued for tier 2 or being compiled.
TJIT_API void WaitForCompiler();

}  // namespace tjit::testing
