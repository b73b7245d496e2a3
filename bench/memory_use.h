// What memory this process has, as the system tells.
//
// Thread: any.
// Tested by: tests/acceptance/bench_smoke_test.py
#pragma once

#include <cstdint>

namespace tjit::bench {

struct Resident {
  std::int64_t peak = 0;       // largest so far
  std::int64_t now = 0;
  // Of `now`: pages of libtjit_llvm.so, and of machine code without a file.
  std::int64_t generator = 0;
  std::int64_t code = 0;
};

// In bytes; all 0 where /proc cannot be read.
Resident ResidentMemory();

}  // namespace tjit::bench
