// What compiling took is given back after each kernel
// (runtime/platform/own_memory.h).

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <tjit/tjit.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
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

// Most of its 27 MB were resident in the compilation before.
constexpr std::int64_t kMostGeneratorKb = 2048;

// What starting read of 10 MB is gone, what the program runs is there.
constexpr std::int64_t kMostLibraryKb = 7168;

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
  for (const int length : {3, 7}) {
    EXPECT_EQ(Differences(Chain(length), Backend::kLlvm), 0);
    if (stats_.kernels_compiled == 0) GTEST_SKIP() << "no machine code here";
    EXPECT_GT(stats_.steps_fused, 0);
    EXPECT_LT(ResidentOf("libtjit_llvm.so"), kMostGeneratorKb);
    EXPECT_LT(ResidentOf("libtjit.so"), kMostLibraryKb);
  }
}

// In a process of its own: a debugger's breakpoints would go with the pages.
TEST_F(OwnMemoryTest, NothingIsGivenBackWhileADebuggerIsAttached) {
  const pid_t tracee = fork();
  ASSERT_NE(tracee, -1);
  if (tracee == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(2);
    if (Differences(Chain(5), Backend::kLlvm) != 0) _exit(3);
    if (stats_.kernels_compiled == 0) _exit(2);
    _exit(ResidentOf("libtjit_llvm.so") > kMostGeneratorKb ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(tracee, &status, 0), tracee);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no machine code or no ptrace()";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tjit
