// What starting and compiling took is given back
// (runtime/platform/own_memory.h).
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <tjit/tjit.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
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
[[maybe_unused]] constexpr std::int64_t kMostLibraryKb = 7168;

constexpr std::int64_t kReleasedKb = 2048;
// With the part that the header lies in, of relocations.
constexpr std::int64_t kWithHeaderKb = 5120;

bool IsReleased(std::int64_t most_kb = kReleasedKb) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < end) {
    if (ResidentOf("libtjit_llvm.so") < most_kb) return true;
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
#ifndef TJIT_ASSERTS  // other builds have more code
  EXPECT_LT(ResidentOf("libtjit.so"), kMostLibraryKb);
#endif
  ASSERT_TRUE(IsReleased()) << ResidentOf("libtjit_llvm.so") << " kB";
  EXPECT_EQ(Differences(Chain(7), Backend::kLlvm), 0);
  EXPECT_GT(stats_.kernels_compiled, 0);
  EXPECT_GT(stats_.steps_fused, 0);
  EXPECT_TRUE(IsReleased());
}

// As a debugger's breakpoint is: into a copy of the page.
TEST_F(OwnMemoryTest, WhatIsWrittenIntoTheLibraryStays) {
  EXPECT_EQ(Differences(Chain(5), Backend::kLlvm), 0);
  if (stats_.kernels_compiled == 0) GTEST_SKIP() << "no machine code here";
  unsigned char* header = nullptr;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        const std::string_view path = info->dlpi_name;
        if (!path.ends_with("/libtjit_llvm.so")) return 0;
        *static_cast<unsigned char**>(found) =
            reinterpret_cast<unsigned char*>(info->dlpi_addr);
        return 1;
      },
      &header);
  ASSERT_NE(header, nullptr);
  const auto page = static_cast<std::size_t>(getpagesize());
  ASSERT_EQ(mprotect(header, page, PROT_READ | PROT_WRITE), 0);
  ASSERT_EQ(header[EI_PAD], 0);
  header[EI_PAD] = 42;
  ASSERT_EQ(mprotect(header, page, PROT_READ), 0);
  // What nobody has written into goes.
  ASSERT_TRUE(IsReleased(kWithHeaderKb)) << ResidentOf("libtjit_llvm.so");
  EXPECT_EQ(header[EI_PAD], 42);
}

}  // namespace
}  // namespace tjit
