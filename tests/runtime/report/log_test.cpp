// The `[COMPILE]` lines that TJIT_DEBUG_COMPILE=1 writes to stderr, for one
// small program.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <string>
#include <vector>

#include "runtime/testing.h"
#include "support/log.h"

namespace tjit {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : text) {
    if (c != '\n') {
      line += c;
    } else {
      lines.push_back(line);
      line.clear();
    }
  }
  return lines;
}

// 40 steps of mm -> relu -> sum; step 30 leaves the trace after relu. The
// interpreter, and each compilation is waited for: what comes does not go by
// time.
std::vector<std::string> LinesOf(bool debug_compile) {
  clear();
  ::testing::internal::CaptureStderr();
  Options options;
  options.debug_compile = debug_compile;
  options.backend = Backend::kInterpreter;
  EXPECT_TRUE(enable(options));
  const at::Tensor x = at::rand({8, 8}), w = at::rand({8, 8});
  at::Tensor y;
  for (int i = 0; i < 40; ++i) {
    y = at::relu(at::mm(x, w));
    y = i == 30 ? y.amax() : y.sum();
    mark_step();
    testing::WaitForCompiler();
  }
  disable();
  return Split(::testing::internal::GetCapturedStderr());
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
          "[COMPILE] Compiling segment of 3 ops for tier 2 (from op 0, "
          "aten::mm)",
          ContainsRegex("^\\[COMPILE\\] Compilation complete "
                        "\\([0-9]+\\.[0-9] ms, interpreter\\): 2 of 3 ops"),
          ContainsRegex("^\\[COMPILE\\] Speedup: [0-9]+\\.[0-9]x on "
                        "subsequent executions$"),
          // What drains is a segment of its own.
          "[COMPILE] Compiling segment of 2 ops for tier 1 (from op 0, "
          "aten::mm)",
          HasSubstr("[COMPILE] Compilation complete ("),
          AllOf(HasSubstr("[COMPILE] Fallback: "),
                HasSubstr("(trace 1 after op 1, aten::relu)"))));
}

// Numbers of four ops are the same until each begins to vary at its step.
TEST(CompileLines, TellWhyASegmentIsCompiledAgain) {
  clear();
  ::testing::internal::CaptureStderr();
  Options options;
  options.hot_threshold = 4;
  options.backend = Backend::kInterpreter;
  options.debug_compile = true;
  EXPECT_TRUE(enable(options));
  const at::Tensor x = at::rand({8, 8}), w = at::rand({8, 8});
  for (int i = 0; i < 100; ++i) {
    const auto number = [i](int begins) { return i < begins ? 0.5 : 0.01 * i; };
    at::Tensor y = at::sub(at::add(x, w, number(30)), w, number(40));
    y = y.add_(x, number(50)).sub_(w, number(60));
    mark_step();
    testing::WaitForCompiler();
  }
  disable();
  std::vector<std::string> again;
  for (const std::string& line :
       Split(::testing::internal::GetCapturedStderr())) {
    if (line.find("ecompil") != std::string::npos ||
        line.find("Fallback") != std::string::npos) {
      again.push_back(line);
    }
  }
  EXPECT_THAT(again,
              ElementsAre("[COMPILE] Recompiling: a scalar of aten::add.Tensor "
                          "is not always the same",
                          "[COMPILE] Recompiling: a scalar of aten::sub.Tensor "
                          "is not always the same",
                          "[COMPILE] Recompiling: a scalar of "
                          "aten::add_.Tensor is not always the same",
                          "[COMPILE] Fallback: library calls, as the segment "
                          "was compiled 3 times again"));
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
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(enable());
  const std::uint32_t before = g_log_channels.load();
  g_log_channels.store(1u << static_cast<unsigned>(LogChannel::kMemory));
  const at::Tensor t = at::add(at::ones({4}), 1);
  t.data_ptr<float>();
  t.data_ptr<float>();
  g_log_channels.store(before);
  disable();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "[MEMORY] A tensor of 16 bytes is exposed: the program took a "
            "pointer to write\n");
}

TEST(CompileLines, NothingIsSaidUnasked) {
  EXPECT_THAT(LinesOf(false), ElementsAre());
}

}  // namespace
}  // namespace tjit
