// The `[COMPILE]` lines that TJIT_DEBUG_COMPILE=1 writes to stderr, for one
// small program.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <string>
#include <vector>

namespace tjit {
namespace {

using ::testing::AllOf;
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

TEST(CompileLines, NothingIsSaidUnasked) {
  EXPECT_THAT(LinesOf(false), ElementsAre());
}

}  // namespace
}  // namespace tjit
