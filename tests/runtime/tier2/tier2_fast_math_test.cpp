// Options::fast_math end to end: compiled code computes with the table of
// compiler/functions/fast_math.h, within its bounds; switched off again, or in another
// process on the same cache folder, the bits are eager's.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>

#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

using at::Tensor;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Tier2FastMathTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(7); }
  void TearDown() override {
    disable();
    clear();
  }

  // The result of the last of the steps, which runs as machine code.
  Tensor Last(const Options& options, const std::function<Tensor()>& step) {
    const Stats before = stats();
    EXPECT_TRUE(enable(options));
    Tensor last;
    for (int i = 0; i < 24; ++i) {
      last = step().clone();
      mark_step();
      testing::WaitForCompiler();
    }
    sync();
    stats_ = stats() - before;
    disable();
    return last;
  }

  Options Fast() const {
    Options options = MachineCodeAtOnce();
    options.fast_math = true;
    return options;
  }

  Stats stats_;
};

struct Case {
  const char* name;
  Tensor (*op)(const Tensor& x);
};
const Case kCases[] = {
    {"exp", at::exp},         {"expm1", at::expm1}, {"tanh", at::tanh},
    {"sigmoid", at::sigmoid}, {"silu", at::silu},   {"log", at::log},
    {"log2", at::log2},       {"log10", at::log10}, {"sin", at::sin},
    {"cos", at::cos},         {"tan", at::tan},     {"asin", at::asin},
    {"acos", at::acos},       {"atan", at::atan},
};

// Lengths with and without a part of a vector behind the others.
TEST_F(Tier2FastMathTest, CodeIsFusedAndCloseToEager) {
  for (const Case& c : kCases) {
    int different = 0;
    for (const std::int64_t n : {1, 31, 2021}) {
      const Tensor x = at::rand({n}) + 0.01, w = at::rand({n});
      const auto step = [&] { return at::mul(c.op(at::mul(x, w)), w); };
      const Tensor eager = step();
      const Tensor fast = Last(Fast(), step);
      EXPECT_GT(stats_.groups_run, 3) << c.name << stats_.to_json();
      EXPECT_EQ(stats_.steps_fused, 4 * stats_.groups_run)
          << c.name << ": three ops and the copy";
      EXPECT_TRUE(at::allclose(fast, eager, 1e-6, 1e-9)) << c.name << " " << n;
      different += SameBits(fast, eager) ? 0 : 1;
      clear();
    }
    EXPECT_GT(different, 0) << c.name << " was computed with eager's bits";
  }
}

TEST_F(Tier2FastMathTest, SwitchedOnAndOffInOneProcess) {
  const Tensor x = at::randn({2021});
  const auto step = [&] { return at::mul(at::tanh(at::sigmoid(x)), x); };
  const Tensor eager = step();
  const Options exact = MachineCodeAtOnce();
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(SameBits(Last(exact, step), eager)) << round;
    EXPECT_GT(stats_.groups_run, 3);
    EXPECT_FALSE(SameBits(Last(Fast(), step), eager)) << round;
    EXPECT_GT(stats_.groups_run, 3);
  }
  EXPECT_THAT(explain(/*verbose=*/true),
              ContainsRegex("\n  tanh f32: fast math: own polynomial, at most "
                            "2.6 ULP from the exact result\n"));
}

// Code on disk is found by its own kind alone.
TEST_F(Tier2FastMathTest, TheCacheTellsThemApart) {
  const char* const folder = std::getenv("TJIT_CACHE_DIR");  // wins
  if (folder == nullptr || folder == std::string("off")) {
    GTEST_SKIP() << "ctest says where";
  }
  std::error_code none;  // yet
  for (const auto& file : std::filesystem::directory_iterator(folder, none)) {
    std::filesystem::remove(file);
  }
  const Options exact = MachineCodeAtOnce(), fast = Fast();
  const Tensor x = at::randn({2021});
  const auto step = [&] { return at::mul(at::sin(at::sigmoid(x)), x); };
  const Tensor eager = step();
  Tensor first_fast;
  for (int round = 0; round < 2; ++round) {
    for (const Options& options : {fast, exact}) {
      clear();
      const Tensor got = Last(options, step);
      EXPECT_GT(stats_.groups_run, 3);
      EXPECT_EQ(stats_.cache_hits, round) << stats_.to_json();
      EXPECT_EQ(stats_.cache_misses, 1 - round);
      EXPECT_EQ(SameBits(got, eager), !options.fast_math);
      if (!options.fast_math) continue;
      if (round == 0) first_fast = got;
      EXPECT_TRUE(SameBits(got, first_fast));
    }
  }
}

TEST_F(Tier2FastMathTest, OtherTypesKeepEagersBits) {
  for (const auto type : {at::kDouble, at::kBFloat16, at::kHalf}) {
    const Tensor x = at::randn({2021}).to(type);
    const auto step = [&] { return at::mul(at::tanh(at::sigmoid(x)), x); };
    const Tensor eager = step();
    EXPECT_TRUE(SameBits(Last(Fast(), step), eager));
    EXPECT_GT(stats_.groups_run, 3) << at::toString(type);
    clear();
  }
}

// They compare with eager's bits: nothing to find.
TEST_F(Tier2FastMathTest, NotWhereBitsAreCompared) {
  const Tensor x = at::randn({2021});
  const auto step = [&] { return at::mul(at::tanh(at::sigmoid(x)), x); };
  const Tensor eager = step();
  Options options = Fast();
  options.shadow = true;
  ::testing::internal::CaptureStderr();
  const Tensor got = Last(options, step);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("TJIT_FAST_MATH=1 is not used: TJIT_SHADOW=1"));
  EXPECT_TRUE(SameBits(got, eager));
  EXPECT_GT(stats_.shadow_checks, 0);
  EXPECT_EQ(stats_.shadow_mismatches, 0);
}

}  // namespace
}  // namespace tjit
