// Passes keep every bit of random functions, do what they are for, and a pass
// that is wrong is named.
#include "compiler/passes/passes.h"

#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/ir_text.h"
#include "gtest/gtest.h"
#include "support/env.h"
#include "tests/compiler/ir/ir_random.h"
#include "tests/compiler/passes/random_passes.h"

namespace tjit {
namespace {

using ir::Function;

TEST(PassesTest, TheTableHasEachPassOnce) {
  for (const PassInfo& pass : Passes()) {
    EXPECT_EQ(PassByName(pass.name), &pass);
    EXPECT_GT(std::string(pass.doc).size(), 10u) << pass.name;
  }
  EXPECT_EQ(PassByName("des"), nullptr);
}

TEST(PassesTest, ThePipelineKeepsAllBitsOfRandomFunctions) {
  EXPECT_GT(ComparePasses(Passes(), 10000), 5000);
}

TEST(PassesTest, EachPassKeepsAllBitsOfRandomFunctions) {
  for (const PassInfo& pass : Passes()) {
    EXPECT_GT(ComparePasses({pass}, 1000), 100) << pass.name;
  }
}

Function DropResult(const Function& function) {
  Function wrong = function;
  wrong.body.pop_back();
  return wrong;
}

TEST(PassesTest, APassThatBreaksARuleIsNamed) {
  Function f = ir::RandomFunction(1);
  const std::string before = Print(f);
  PassOptions options;
  options.verify = true;
  const std::string error =
      RunPasses({{"broken", DropResult, "drops an instruction, not its value"}},
                &f, options);
  EXPECT_EQ(error.rfind("pass broken: ", 0), 0u) << error;
  EXPECT_NE(error.find("(rule 1)"), std::string::npos) << error;
  EXPECT_EQ(Print(f), before);
}

Function AddsOne(const Function& function) {
  Function wrong = function;
  for (ir::Instruction& in : wrong.body) {
    if (in.op != ir::Op::kAdd) continue;
    in.operands[2] = ir::Builder::Use(ir::Constant(std::int64_t{7}));
  }
  return wrong;
}

TEST(PassesTest, VerifiesInDebugBuildsAndOnRequest) {
#ifdef NDEBUG
  EXPECT_EQ(PassOptions().verify, Environment().verify);
#else
  EXPECT_TRUE(PassOptions().verify);
#endif
}

// The comparison itself: a planted wrong pass is seen.
TEST(PassesTest, APassThatChangesBitsIsSeen) {
  int differ = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Function f = ir::RandomFunction(seed);
    differ += !DifferenceOf(f, AddsOne(f), seed).empty();
  }
  EXPECT_GT(differ, 0);
}

TEST(PassesTest, TheObserverSeesEachPass) {
  Function f = ir::RandomFunction(3);
  std::vector<std::string> names;
  PassOptions options;
  options.observer = [&](const PassInfo& pass, const Function& before,
                         const Function& after) {
    names.push_back(pass.name);
    EXPECT_EQ(before.returns.size(), after.returns.size());
  };
  EXPECT_EQ(RunPasses(Passes(), &f, options), "");
  EXPECT_EQ(names.size(), Passes().size());
}

}  // namespace
}  // namespace tjit
