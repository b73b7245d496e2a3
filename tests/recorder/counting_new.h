// Counts what a test program allocates: linking counting_new.cpp replaces the
// global operator new.
#pragma once

#include <cstdint>

namespace tjit {

// Calls of operator new so far, on all threads.
std::int64_t AllocationCount();

}  // namespace tjit
