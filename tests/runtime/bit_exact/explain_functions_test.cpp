// tjit::explain() says which functions the compiled code calls: what has
// eager's bits, and of an op without such a function that it stays a library
// call and where the first difference is.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/functions/sigmoid_exact.h"
#include "compiler/functions/vml_exact.h"
#include "runtime/bit_exact/verdict_text.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

using at::Tensor;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ExplainFunctionsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    testing::SetPlantedDefect("");
    disable();
    clear();
  }

  // Runs it as machine code where it can be, with eager's bits.
  void Run(const std::function<Tensor()>& step) {
    const Tensor eager = step().clone();
    const Stats before = stats();
    EXPECT_TRUE(enable(MachineCodeAtOnce()));
    for (int i = 0; i < 24; ++i) {
      const Tensor ours = step();
      sync();
      EXPECT_TRUE(SameBits(ours, eager));
      mark_step();
      testing::WaitForCompiler();
    }
    stats_ = stats() - before;
    disable();
  }

  Stats stats_;
};

TEST_F(ExplainFunctionsTest, WhatWasTaken) {
  const Tensor x = at::rand({100});
  Run([&] { return at::mul(at::sigmoid(at::cos(x)), at::softplus(x)); });
  EXPECT_GT(stats_.groups_run, 3);
  const std::string text = explain(/*verbose=*/true);
  EXPECT_THAT(text, HasSubstr("\nfunctions of compiled code:\n"));
  EXPECT_THAT(text, ContainsRegex("\n  cos f32: (MKL's vmsCos|SLEEF's "
                                  "Sleef_cosf[0-9]+_u[0-9]+), exported by "
                                  "libtorch\n"));
  const std::string sigmoid = HasSigmoidExact()
                                  ? "own code with the bits of eager's vectors"
                                  : "eager's own kernel, tile by tile";
  EXPECT_THAT(text,
              HasSubstr(absl::StrCat("\n  sigmoid f32: ", sigmoid, "\n")));
  EXPECT_THAT(
      text, HasSubstr("\n  softplus f32: eager's own kernel, tile by tile\n"));
  EXPECT_THAT(text, Not(HasSubstr("  asin "))) << "nobody asked for it";
}

// Own code for MKL's functions, where it was measured to be faster.
TEST_F(ExplainFunctionsTest, TanhExpAndLogOfVmlExact) {
  for (const std::int64_t n : {1, 37, 512, 5003}) {
    const Tensor x = at::randn({n}).mul_(3);
    Run([&] {
      const Tensor square = at::mul(x, x);
      return at::add(at::add(at::tanh(square), at::exp(at::neg(x))),
                     at::log(square));
    });
    EXPECT_GT(stats_.groups_run, 3) << n;
    EXPECT_EQ(stats_.steps_fused, 7 * stats_.groups_run) << stats_.to_json();
  }
  const std::string text = explain(/*verbose=*/true);
  const std::string own = "own code with MKL's bits, and MKL's for a few ";
  for (const char* op : {"tanh", "exp", "log"}) {
    EXPECT_THAT(text, ContainsRegex(absl::StrCat("\n  ", op, " f32: [^\n]")));
    if (__builtin_cpu_is("amd") != 0 && HasVmlExact()) {
      EXPECT_THAT(text, HasSubstr(absl::StrCat("\n  ", op, " f32: ", own)));
    }
  }
}

TEST_F(ExplainFunctionsTest, AnOpWithoutAFunctionIsALibraryCall) {
  const Tensor x = at::rand({100});
  ASSERT_TRUE(testing::SetPlantedDefect("no_eager_bits"));
  Run([&] { return at::mul(at::add(at::acos(x), x), x); });
  EXPECT_GT(stats_.groups_run, 3) << "the add and the mul";
  EXPECT_EQ(stats_.steps_fused, 2 * stats_.groups_run) << stats_.to_json();
  const std::string text = explain(/*verbose=*/true);
  EXPECT_THAT(text, ContainsRegex(
                        "\n  acos f32: library call: no candidate has eager's "
                        "bits: of 0.75 eager makes 0.72[0-9]+, [A-Za-z_0-9]+ "
                        "1.72[0-9]+\n"));
}

TEST(VerdictText, OfEachKindOfQuestion) {
  const auto said = runtime::ExplainVerdicts({
      {"half exp bf16", "table"},
      {"half gelu f16", "none"},
      {"math sqrt f32", "sqrt_two_steps"},
      {"math tanh f32", "vml_exact"},
      {"nonsense", "x"},
      {"row 3 f64 threads 2",
       "none: eager has other bits of 1 rows of 17 "
       "elements"},
      {"row 16 f32 threads 1", "AVX512 7"},
      {"tile gelu f32", "other"},
      {"tile pow_scalar f32", "first"},
  });
  ASSERT_EQ(said.size(), 8u);
  EXPECT_EQ(said[0].from, "a table of eager's");
  EXPECT_EQ(said[1].from, "library call: no candidate has eager's bits");
  EXPECT_EQ(said[2].from, "own code with the steps of MKL's root");
  EXPECT_EQ(said[3].from,
            "own code with MKL's bits, and MKL's for a few numbers");
  EXPECT_EQ(said[4].name + " " + said[4].dtype, "sum of columns f32");
  EXPECT_EQ(said[4].from, "own rows in eager's order, as of AVX512");
  EXPECT_EQ(said[5].name + " " + said[5].dtype, "amin f64");
  EXPECT_EQ(said[5].from,
            "library call: no candidate has eager's bits: eager has other bits "
            "of 1 rows of 17 elements");
  EXPECT_EQ(said[6].from, "own polynomial, oneDNN's");
}

}  // namespace
// Code is asked for after a first run that takes as long as compiling will:
// what needs no code is done during that run. A short one may never be
// compiled.
TEST_F(ExplainFunctionsTest, FunctionsOfALongRunAreFoundDuringTheFirst) {
  const auto after_first_run = [](std::int64_t n) {
    Options options = MachineCodeAtOnce();
    options.compile_all = false;
    EXPECT_TRUE(enable(options));
    const Stats before = stats();
    const Tensor x = at::rand({n});
    while ((stats() - before).replays_tier1 == 0) {
      const Tensor y = at::add(at::mul(at::log1p(x), x), x);
      sync();
      mark_step();
    }
    testing::WaitForCompiler();
    EXPECT_EQ((stats() - before).replays_tier1, 1);
    EXPECT_EQ((stats() - before).compile_ns, 0) << "code was asked for";
    return explain(/*verbose=*/true);
  };
  EXPECT_THAT(after_first_run(1000), Not(HasSubstr("log1p f32")));
  EXPECT_THAT(after_first_run(1 << 21), HasSubstr("log1p f32: "));
}

}  // namespace tjit
