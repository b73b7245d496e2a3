// The `[COMPILE]` lines that TJIT_DEBUG_COMPILE=1 writes to stderr, for one
// small program.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <string>
#include <vector>

#include "recorder/log.h"

namespace tjit {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 40 steps of mm -> relu -> sum; step 30 leaves the trace after relu.
std::vector<std::string> LinesOf(bool debug_compile) {
  clear();
  testing::internal::CaptureStderr();
  Options options;
  options.debug_compile = debug_compile;
  EXPECT_TRUE(enable(options));
  const at::Tensor x = at::rand({8, 8}), w = at::rand({8, 8});
  at::Tensor y;
  for (int i = 0; i < 40; ++i) {
    y = at::relu(at::mm(x, w));
    y = i == 30 ? y.amax() : y.sum();
    mark_step();
  }
  disable();
  std::vector<std::string> lines;
  std::string line;
  for (const char c : testing::internal::GetCapturedStderr()) {
    if (c != '\n') {
      line += c;
    } else {
      lines.push_back(line);
      line.clear();
    }
  }
  return lines;
}

TEST(CompileLines, TellTheLifeOfATrace) {
  EXPECT_THAT(
      LinesOf(true),
      ElementsAre(
          "[COMPILE] Detected hot sequence: mm -> relu -> sum (3 ops, "
          "executed 10 times)",
          "[COMPILE] Compiling segment of 3 ops for tier 1 (from op 0, "
          "aten::mm)",
          ContainsRegex("^\\[COMPILE\\] Compilation complete "
                        "\\([0-9]+\\.[0-9] ms\\), 3 of 3 ops as direct calls$"),
          ContainsRegex("^\\[COMPILE\\] Speedup: [0-9]+\\.[0-9]x on "
                        "subsequent executions$"),
          // What drains is a segment of its own.
          "[COMPILE] Compiling segment of 2 ops for tier 1 (from op 0, "
          "aten::mm)",
          HasSubstr("[COMPILE] Compilation complete ("),
          AllOf(HasSubstr("[COMPILE] Fallback: "),
                HasSubstr("(trace 1 after op 1, aten::relu)"))));
}

// The channels of TJIT_LOG, one by one.
TEST(LogChannels, SayWhatTheyAreFor) {
  const auto lines = [](LogChannel channel) {
    const std::uint32_t before = g_log_channels.load();
    g_log_channels.store(1u << static_cast<unsigned>(channel));
    const std::vector<std::string> said = LinesOf(false);
    g_log_channels.store(before);
    return said;
  };
  EXPECT_THAT(lines(LogChannel::kCompile),
              Contains(HasSubstr("[COMPILE] Detected hot sequence: ")));
  EXPECT_THAT(lines(LogChannel::kDetect),
              Contains(HasSubstr("[DETECT] A period of 3 ops repeats")));
  const std::vector<std::string> flushes = lines(LogChannel::kFlush);
  EXPECT_GT(flushes.size(), 20u);
  EXPECT_THAT(flushes, Contains("[FLUSH] 3 ops from aten::mm: "
                                "tjit::mark_step()"));
  EXPECT_THAT(flushes, Contains("[FLUSH] 2 ops from aten::mm drained: the "
                                "program left the trace"));
}

TEST(LogChannels, MemorySaysWhoseBytesAreExposed) {
  testing::internal::CaptureStderr();
  ASSERT_TRUE(enable());
  const std::uint32_t before = g_log_channels.load();
  g_log_channels.store(1u << static_cast<unsigned>(LogChannel::kMemory));
  const at::Tensor t = at::add(at::ones({4}), 1);
  t.data_ptr<float>();
  t.data_ptr<float>();
  g_log_channels.store(before);
  disable();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[MEMORY] A tensor of 16 bytes is exposed: the program took a "
            "pointer to write\n");
}

TEST(CompileLines, NothingIsSaidUnasked) {
  EXPECT_THAT(LinesOf(false), ElementsAre());
}

}  // namespace
}  // namespace tjit
