// Which pass of the compiler makes the difference: the smallest TJIT_OPT_LIMIT
// with which a sequence differs from eager.
// Thread: one. Tested by: tests/acceptance/replay_command_test.py
#pragma once

#include <tjit/sequence.h>

#include <cstdint>
#include <string>

#include "tools/replay/replay_process.h"

namespace tjit::tools {

struct Bisected {
  std::int64_t limit = -1;  // the smallest one; -1: it does not differ
  std::string pass;         // the last pass that runs then; "" with limit 0
  int processes = 0;
};

// `status`: what is found with all passes. THROWS: c10::Error if the sequence
// cannot be run.
Bisected Bisect(const Sequence& sequence, ReplaySettings settings,
                ReplayStatus status);

}  // namespace tjit::tools
