// Plans of random functions verify and give the interpreter's bits, in whatever
// order and with however many lanes their loops run; planted defects are seen.
#include "compiler/loops/form_loops.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/ir_text.h"
#include "compiler/loops/fuse.h"
#include "compiler/loops/verify_loops.h"
#include "compiler/passes/copy_out.h"
#include "gtest/gtest.h"
#include "tests/compiler/ir/ir_random.h"
#include "tests/compiler/loops/run_loops.h"
#include "tests/compiler/passes/random_passes.h"

namespace tjit {
namespace {

using ir::DType;
using ir::Function;
using ir::Op;
using ir::Size;
using ir::ValueId;

// Rows loops in which an element reads what the loop has made for its row.
std::size_t CountHandedOver(const Function& f, const LoopPlan& plan) {
  std::size_t count = 0;
  for (const Loop& loop : plan.loops) {
    std::set<ValueId> made;
    bool is_handed_over = false;
    for (const int i : loop.instructions) {
      const ir::Instruction& in = f.body[static_cast<std::size_t>(i)];
      for (std::size_t k = 0; k < in.operands.size(); ++k) {
        is_handed_over |=
            ReadsRow(f, in, k) && made.contains(in.operands[k].value);
      }
      made.insert(in.results[0]);
    }
    count += is_handed_over;
  }
  return count;
}

// "", or where the plan gives other bits than the interpreter.
std::string Difference(const Function& f, const LoopPlan& plan,
                       std::uint64_t seed, const RunOrder& order) {
  ir::RandomRun wanted(f, seed), run(f, seed);
  if (!Interpret(f, wanted.arguments).empty()) return "";
  const std::string error = RunLoops(f, plan, run.arguments, order);
  if (!error.empty()) return error;
  return wanted.Bytes() == run.Bytes() ? "" : "other bits";
}

std::string DifferenceInAnyOrder(const Function& f, const LoopPlan& plan,
                                 std::uint64_t seed) {
  const RunOrder orders[] = {{1, 0}, {1, seed + 1}, {4, 0}, {1000, 0}};
  for (const RunOrder& order : orders) {
    const std::string difference = Difference(f, plan, seed, order);
    if (!difference.empty()) return difference;
  }
  return "";
}

ir::RandomOptions Options(std::uint64_t seed) {
  ir::RandomOptions options;
  options.calls = false;
  options.instructions = 4 + static_cast<int>(seed % 16);
  options.returned = seed % 2 == 0 ? 20 : 60;
  options.parts = seed % 3 == 0 ? 0 : 80;
  options.rows = seed % 3 == 0 ? 50 : 0;
  options.writes = 4;
  return options;
}

Function AnyFunction(std::uint64_t seed, bool with_passes) {
  Function f = ir::RandomFunction(seed, Options(seed));
  if (with_passes) {
    EXPECT_EQ(RunPasses(Passes(), &f), "");
  }
  return CopyOut(f);
}

TEST(FormLoopsTest, PlansOfRandomFunctionsGiveTheBitsOfTheInterpreter) {
  std::size_t instructions = 0, loops = 0, kept = 0, in_externals = 0, rows = 0;
  for (int i = 0; i < 6500; ++i) {
    const std::uint64_t seed = FirstSeed() + std::uint64_t(i);
    const Function f = AnyFunction(seed, i % 2 == 0);
    LoopPlan plan;
    ASSERT_EQ(FormLoops(f, &plan), "");
    ASSERT_EQ(absl::StrJoin(VerifyLoops(f, plan), "\n"), "")
        << "seed " << seed << "\n"
        << Print(f) << Print(f, plan);
    ASSERT_EQ(DifferenceInAnyOrder(f, plan, seed), "")
        << "seed " << seed << "\n"
        << Print(f) << Print(f, plan);
    instructions += f.body.size();
    loops += plan.loops.size();
    rows += CountHandedOver(f, plan);
    for (const auto& home : plan.homes) kept += home.memory < 0;
    for (std::size_t id = static_cast<std::size_t>(f.externals);
         id < plan.homes.size(); ++id) {
      in_externals +=
          plan.homes[id].memory >= 0 && plan.homes[id].memory < f.externals;
    }
  }
  // Fusion happens: fewer loops, values without memory, values in externals.
  EXPECT_LT(loops, instructions * 9 / 10);
  EXPECT_GT(kept, instructions / 10);
  EXPECT_GT(in_externals, 20u);
  EXPECT_GT(rows, 50u);
}

TEST(FormLoopsTest, WithoutFusionEachInstructionHasALoop) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Function f = AnyFunction(seed, /*with_passes=*/false);
    LoopPlan plan;
    ASSERT_EQ(FormLoops(f, &plan, Fusion::kNone), "");
    ASSERT_EQ(absl::StrJoin(VerifyLoops(f, plan), "\n"), "") << Print(f);
    for (const Loop& loop : plan.loops) {
      EXPECT_LE(loop.instructions.size(), 1u) << Print(f, plan);
    }
    ASSERT_EQ(DifferenceInAnyOrder(f, plan, seed), "") << Print(f, plan);
  }
}

TEST(FormLoopsTest, WhatHasNoPlanSaysWhy) {
  ir::Builder calls("f");
  calls.Call("aten::mm", 0, {{DType::kF32, ir::Contiguous({2})}}, {});
  LoopPlan plan;
  EXPECT_EQ(FormLoops(calls.Finish(), &plan), "calls aten::mm");
  ir::Builder returns("f");
  returns.Return(returns.External(DType::kF32, 2));
  const Function f = returns.Finish();
  EXPECT_NE(FormLoops(f, &plan).find("CopyOut"), std::string::npos);
  EXPECT_EQ(FormLoops(CopyOut(f), &plan), "");
  ir::Builder swap("f");
  const ValueId a = swap.External(DType::kF32, 2);
  const ValueId b = swap.External(DType::kF32, 2);
  swap.Write(swap.Use(a), swap.Use(b));
  swap.Write(swap.Use(b), swap.Use(a));
  const Function g = swap.Finish();
  EXPECT_NE(FormLoops(g, &plan).find("CopyOut"), std::string::npos);
  EXPECT_EQ(FormLoops(CopyOut(g), &plan), "");
}

// Two kinds of update over many parameters, one after the other.
Function TwoOptimizers(int parameters) {
  ir::Builder b("step");
  std::vector<ValueId> externals;
  for (int i = 0; i < 2 * parameters; ++i) {
    externals.push_back(b.External(DType::kF32, 8 * (i + 1)));
  }
  for (int i = 0; i < 2 * parameters; ++i) {
    const ir::Operand x = b.Use(externals[static_cast<std::size_t>(i)]);
    ValueId y = b.Emit(Op::kMul, {x, ir::Builder::Use(ir::Constant(0.5))});
    if (i % 2 == 0) y = b.Emit(Op::kNeg, {b.Use(y)});
    b.Write(x, b.Use(y));
  }
  return b.Finish();
}

TEST(FormLoopsTest, LoopsOfTheSameKindStandTogether) {
  const Function f = TwoOptimizers(10);
  LoopPlan plan;
  ASSERT_EQ(FormLoops(f, &plan), "");
  ASSERT_EQ(plan.loops.size(), 20u);
  EXPECT_TRUE(plan.scratch.empty());
  for (std::size_t l = 0; l < plan.loops.size(); ++l) {
    EXPECT_EQ(plan.loops[l].instructions.size(), l < 10 ? 2u : 1u);
    EXPECT_EQ(plan.loops[l].stores.size(), 1u);
  }
}

// %2[] is not provably beside %0[n0]+n0 (n0 might be 0), but %2 is, of which it
// is an element.
TEST(FormLoopsTest, APartOfAValueLiesWithinIt) {
  const Size n = Size::Symbol(0);
  ir::Builder b("f", 1);
  const ValueId x = b.External(DType::kF32, n * Size(2));
  const ValueId y = b.External(DType::kF32, n);
  const ValueId z = b.Emit(Op::kNeg, {b.Use(y)});
  const ValueId u = b.Emit(Op::kAbs, {b.View(y, ir::Geometry{{n}, {0}, 0})});
  const ValueId first = b.Emit(Op::kSin, {b.View(z, ir::Sizes{})});
  b.Write(b.View(x, ir::Geometry{{n}, {1}, n}), b.Use(u));
  b.Write(b.View(x, ir::Sizes{n}), b.Use(z));
  b.Return(first);
  const Function f = b.Finish();
  LoopPlan plan;
  ASSERT_EQ(FormLoops(f, &plan), "");
  EXPECT_EQ(plan.homes[static_cast<std::size_t>(z)].memory, x);
  EXPECT_EQ(absl::StrJoin(VerifyLoops(f, plan), "\n"), "") << Print(f, plan);
}

// A chain through every block of a long step is fused up to the limit.
TEST(FormLoopsTest, LongChainsAreFused) {
  ir::Builder b("chain");
  ValueId x = b.External(DType::kF32, 64);
  for (int i = 0; i < 5000; ++i) {
    x = b.Emit(Op::kAdd,
               {b.Use(x), b.Use(0), ir::Builder::Use(ir::Constant(1.0))});
  }
  b.Return(x);
  const Function f = b.Finish();
  LoopPlan plan;
  ASSERT_EQ(FormLoops(f, &plan), "");
  EXPECT_EQ(plan.loops.size(), 20u);  // of 256 instructions at most
  EXPECT_EQ(plan.scratch.size(), 19u);
  EXPECT_TRUE(VerifyLoops(f, plan).empty());
}

// Every violation that a changed plan has must name one of the rules, and no
// changed plan that verifies may give other bits.
void PlantDefects(const Function& f, std::uint64_t seed, int* seen) {
  LoopPlan plan;
  ASSERT_EQ(FormLoops(f, &plan), "");
  const auto check = [&](const LoopPlan& wrong) {
    if (!VerifyLoops(f, wrong).empty()) {
      ++*seen;
      return;
    }
    EXPECT_EQ(DifferenceInAnyOrder(f, wrong, seed), "")
        << "seed " << seed << "\n"
        << Print(f) << Print(f, wrong);
  };
  for (std::size_t l = 0; l < plan.loops.size(); ++l) {
    LoopPlan wrong = plan;
    wrong.loops.erase(wrong.loops.begin() + static_cast<std::ptrdiff_t>(l));
    check(wrong);
    if (l > 0) {
      wrong = plan;
      std::swap(wrong.loops[l - 1], wrong.loops[l]);
      check(wrong);
    }
    for (std::size_t s = 0; s < plan.loops[l].stores.size(); ++s) {
      wrong = plan;
      wrong.loops[l].stores.erase(wrong.loops[l].stores.begin() +
                                  static_cast<std::ptrdiff_t>(s));
      check(wrong);
      for (std::size_t other = 0; other < plan.loops.size(); ++other) {
        if (other == l || !plan.loops[l].instructions.empty()) continue;
        wrong = plan;  // a copy at the end goes into a loop before
        wrong.loops[other].stores.push_back(plan.loops[l].stores[s]);
        wrong.loops.erase(wrong.loops.begin() + static_cast<std::ptrdiff_t>(l));
        check(wrong);
      }
    }
    wrong = plan;
    wrong.loops[l].in_order = false;
    check(wrong);
  }
  for (std::size_t id = 0; id < plan.homes.size(); ++id) {
    LoopPlan wrong = plan;
    wrong.homes[id] = {};
    check(wrong);
    for (ValueId external = 0; external < f.externals; ++external) {
      wrong.homes[id] = {external, 0};
      check(wrong);
    }
  }
}

TEST(FormLoopsTest, PlantedDefectsAreSeenOrHarmless) {
  int seen = 0;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t seed = FirstSeed() + std::uint64_t(i);
    PlantDefects(AnyFunction(seed, true), seed, &seen);
  }
  EXPECT_GT(seen, 1000);
}

}  // namespace
}  // namespace tjit
