// What compiling took is given back once the compiler has nothing to do
// (runtime/platform/own_memory.h).
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/testing.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

// Resident kB of the mappings of a library.
std::int64_t ResidentOf(const std::string& library) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool is_its = false;
  std::int64_t sum = 0;
  while (std::getline(maps, line)) {
    if (line.find('-') < line.find(' ')) {
      is_its = line.ends_with("/" + library);
    } else if (is_its && line.starts_with("Rss:")) {
      sum += std::stoll(line.substr(4));
    }
  }
  return sum;
}

bool IsReleased() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < end) {
    if (ResidentOf("libtjit_llvm.so") < 2048) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

// y = tanh(x k + k), so many times: other code for each length.
std::function<Program()> Chain(int length) {
  const at::Tensor x = at::rand({64});
  return [=] {
    return [=](int) {
      at::Tensor y = x;
      for (int i = 0; i < length; ++i) y = (y * 0.5 + 0.25).tanh();
      return y;
    };
  };
}

class OwnMemoryTest : public Tier2Test {};

TEST_F(OwnMemoryTest, TheCodeGeneratorGoesAndComesBack) {
  EXPECT_EQ(Differences(Chain(3), Backend::kLlvm), 0);
  if (stats_.kernels_compiled == 0) GTEST_SKIP() << "no machine code here";
  EXPECT_GT(ResidentOf("libtjit_llvm.so"), 4096);
  ASSERT_TRUE(IsReleased()) << ResidentOf("libtjit_llvm.so") << " kB";
  EXPECT_EQ(Differences(Chain(7), Backend::kLlvm), 0);
  EXPECT_GT(stats_.kernels_compiled, 0);
  EXPECT_GT(stats_.steps_fused, 0);
  EXPECT_TRUE(IsReleased());
}

}  // namespace
}  // namespace tjit
