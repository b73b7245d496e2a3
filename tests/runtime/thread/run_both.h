// What tests of sizes share.
#pragma once

#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {

// Runs a program eagerly and under tjit; all results have the same bits. What
// tjit did from where the program sets `*from`.
inline Stats RunBoth(
    Backend backend,
    const std::function<std::vector<at::Tensor>(Stats* from)>& run) {
  Stats from;
  disable();
  const std::vector<at::Tensor> eager = run(&from);
  clear();
  Options options;
  options.hot_threshold = 4;
  options.backend = backend;
  options.cache_dir = "off";
  EXPECT_TRUE(enable(options));
  const std::vector<at::Tensor> ours = run(&from);
  sync();
  const Stats did = stats() - from;
  disable();
  clear();
  EXPECT_EQ(eager.size(), ours.size());
  for (std::size_t i = 0; i < std::min(eager.size(), ours.size()); ++i) {
    EXPECT_TRUE(SameBits(eager[i], ours[i])) << "step " << i;
  }
  return did;
}

}  // namespace tjit
