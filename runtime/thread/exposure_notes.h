// Who took raw pointers to tensors, for the report (recorder/explanation.h).
//
// The first pointers of a process are looked at, with a walk over the stack
// each; those after them only count. So a program that takes pointers in its
// loop does not pay for the report.
//
// Thread: any. Tested by: tests/acceptance/explain_test.py
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <vector>

#include "recorder/explanation.h"

namespace tjit::runtime {

// The program took a pointer to a storage, of `bytes` bytes, that had not been
// exposed before. REQUIRES: no lock is held.
void RecordExposure(const c10::StorageImpl* storage, std::uint64_t bytes);

// It has let go of the pointer, in the call in which it took it.
void ForgetExposure(const c10::StorageImpl* storage);

// What was noted, the most frequent place first.
std::vector<ExplainedExposure> RecordedExposures();

}  // namespace tjit::runtime
