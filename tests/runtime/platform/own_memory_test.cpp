// What starting and compiling took is given back
// (runtime/platform/own_memory.h).
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <tjit/tjit.h>
#include <unistd.h>

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

// What starting read of 10 MB is gone, what the program runs is there.
constexpr std::int64_t kMostLibraryKb = 7168;

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
  EXPECT_LT(ResidentOf("libtjit.so"), kMostLibraryKb);
  ASSERT_TRUE(IsReleased()) << ResidentOf("libtjit_llvm.so") << " kB";
  EXPECT_EQ(Differences(Chain(7), Backend::kLlvm), 0);
  EXPECT_GT(stats_.kernels_compiled, 0);
  EXPECT_GT(stats_.steps_fused, 0);
  EXPECT_TRUE(IsReleased());
}

// In a process of its own: a debugger's breakpoints would go with the pages.
TEST_F(OwnMemoryTest, NothingIsGivenBackWhileADebuggerIsAttached) {
  const pid_t tracee = fork();
  ASSERT_NE(tracee, -1);
  if (tracee == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(2);
    if (Differences(Chain(5), Backend::kLlvm) != 0) _exit(3);
    if (stats_.kernels_compiled == 0) _exit(2);
    // Longer than the worker waits for the next job.
    std::this_thread::sleep_for(std::chrono::seconds(4));
    _exit(ResidentOf("libtjit_llvm.so") > 4096 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(tracee, &status, 0), tracee);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no machine code or no ptrace()";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tjit
