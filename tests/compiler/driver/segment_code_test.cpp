// CompileSegment: equal groups share a kernel, failures are remembered, limits
// are kept, and the result says where a run finds memory, sizes and scalars.
#include "compiler/driver/segment_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/driver/segment_dump.h"
#include "compiler/driver/step_engine.h"
#include "support/env.h"
#include "support/kept_bytes.h"

namespace tjit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr std::uint8_t kFloat = 6;
constexpr std::uint64_t kDouble = 7;

TensorGeometry Row(std::int64_t n) {
  TensorGeometry g;
  g.dtype = kFloat;
  g.ndim = 1;
  g.itemsize = 4;
  g.sizes[0] = n;
  g.strides[0] = 1;
  return g;
}

ScalarValue Double(double value) {
  return {kDouble, {std::bit_cast<std::uint64_t>(value), 0}};
}

// Builds segments of n floats by slot; slots that no step makes are externals.
class Segment {
 public:
  explicit Segment(std::int64_t n) : n_(n) {}

  // out = op(a, b); out < 0: in place of a.
  Segment& Step(std::string_view op, int a, int b, int out,
                std::vector<ScalarRecord> scalars = {}) {
    SegmentStep step;
    step.op = op;
    step.index = static_cast<std::uint32_t>(input_.steps.size());
    step.scalar_begin = scalars_;
    step.record.args = {{a, out < 0, Row(n_)}};
    if (b != kNoSlot) step.record.args.push_back({b, false, Row(n_)});
    ResultRecord result;
    result.geometry = Row(n_);
    if (out < 0) {
      result.kind = ResultRecord::Kind::kAlias;
      result.alias_arg = 0;
    } else {
      result.slot = out;
    }
    step.record.results = {result};
    scalars_ += static_cast<std::uint32_t>(scalars.size());
    step.record.scalars = std::move(scalars);
    input_.steps.push_back(std::move(step));
    for (const int slot : {a, b, out}) {
      while (static_cast<int>(input_.slots.size()) <= slot) {
        input_.slots.push_back({static_cast<std::uint64_t>(4 * n_), true});
      }
    }
    return *this;
  }
  Segment& Add(int a, int b, int out, ScalarRecord alpha = Fixed(1)) {
    return Step(out < 0 ? "aten::add_.Tensor" : "aten::add.Tensor", a, b, out,
                {alpha});
  }
  Segment& Mul(int a, int b, int out) {
    return Step(out < 0 ? "aten::mul_.Tensor" : "aten::mul.Tensor", a, b, out);
  }
  Segment& Foreign(int a, int b, int out) {
    return Step("aten::dot", a, b, out);
  }
  // The slot's storage goes on behind what the steps use of it.
  Segment& GoesOn(int slot) {
    input_.slots[slot].bytes += 400;
    return *this;
  }
  Segment& Dies(int slot) {
    input_.slots[slot].live_out = false;
    return *this;
  }
  static ScalarRecord Fixed(double value) {
    return {Double(value), 0, false, false};
  }
  static ScalarRecord Varying(double value, bool runtime) {
    return {Double(value), 0, true, runtime};
  }
  const SegmentInput& input() const { return input_; }

 private:
  const std::int64_t n_;
  std::uint32_t scalars_ = 0;
  SegmentInput input_;
};

// Serves no sizes.
class KernelWithoutRoom : public Kernel {
 public:
  bool Shape(KernelShape* /*shape*/, std::string* why) const override {
    *why = "no room";
    return false;
  }
  void Run(char* const* /*memory*/, const KernelShape& /*shape*/,
           const ScalarValue* /*scalars*/) const override {}
};

class CountingEngine : public Engine {
 public:
  const char* name() const override { return "counting"; }
  bool is_for_speed() const override { return true; }
  std::string WhyNot(const ir::Function& function) override {
    ++looked_at;
    for (const ir::Instruction& in : function.body) {
      if (in.op == refused) return "refused";
    }
    return "";
  }
  std::shared_ptr<const Kernel> Compile(const ir::Function& function,
                                        std::string* why) override {
    ++asked;
    compiled.push_back(TextOf(function));
    if (fails) {
      *why = "planted";
      return nullptr;
    }
    if (function.body.size() > room) {
      return std::make_shared<KernelWithoutRoom>();
    }
    return interpreter_->Compile(function, why);
  }

  void Precompile(const ir::Function& function) override {
    precompiled.push_back(TextOf(function));
  }

  int asked = 0;
  int looked_at = 0;
  std::vector<std::string> precompiled, compiled;
  bool fails = false;
  std::size_t room = 1000;  // instructions
  ir::Op refused = ir::Op::kCall;

 private:
  std::unique_ptr<Engine> interpreter_ = MakeInterpreterEngine(nullptr);
};

class SegmentCodeTest : public ::testing::Test {
 protected:
  SegmentCode Compile(const Segment& segment,
                      const CompileLimits& limits = {}) {
    return CompileSegment(segment.input(), &engine_, &cache_, limits);
  }

  CountingEngine engine_;
  KernelCache cache_;
};

// s2 = s0 + s1; s3 = dot(s0, s1); s4 = s2 * s3
Segment Mixed(std::int64_t n = 8) {
  return Segment(n).Add(0, 1, 2).Foreign(0, 1, 3).Mul(2, 3, 4);
}

// A group of two slots and a scalar, which is 2.
void RunOn(const CompiledGroup& group, float* s0, float* s1) {
  std::vector<char*> memory;
  for (const std::int32_t slot : group.memory) {
    memory.push_back(reinterpret_cast<char*>(slot == 0 ? s0 : s1));
  }
  const ScalarValue alpha = Double(2);
  group.kernel->Run(memory.data(), group.shape, &alpha);
}

TEST_F(SegmentCodeTest, CallsStayAndTheRestIsAGroup) {
  Segment segment = Mixed();
  segment.Dies(2);
  const SegmentCode code = Compile(segment);
  ASSERT_THAT(code.order, SizeIs(2));
  EXPECT_EQ(code.order[0].group, -1);
  EXPECT_EQ(code.order[0].step, 1u);
  EXPECT_EQ(code.order[1].group, 0);
  ASSERT_THAT(code.groups, SizeIs(1));
  const CompiledGroup& group = code.groups[0];
  EXPECT_THAT(group.steps, ElementsAre(0, 2));
  EXPECT_THAT(group.reads, UnorderedElementsAre(0, 1, 3));
  EXPECT_THAT(group.writes, ElementsAre(4));  // s2 stays in the group
  EXPECT_THAT(group.memory, SizeIs(4));
  EXPECT_EQ(group.memory.back(), 4);
  EXPECT_EQ(code.steps_fused, 2);
  EXPECT_EQ(code.compiled, 1);
  EXPECT_THAT(code.reasons, IsEmpty());
}

TEST_F(SegmentCodeTest, TheKernelComputesTheGroup) {
  Segment segment(4);
  segment.Add(0, 1, 2, Segment::Varying(0.5, true)).Add(0, 2, -1);
  segment.Dies(2);
  const SegmentCode code = Compile(segment);
  ASSERT_THAT(code.groups, SizeIs(1));
  const CompiledGroup& group = code.groups[0];
  EXPECT_THAT(group.scalars, ElementsAre(0));
  EXPECT_THAT(group.baked, IsEmpty());
  EXPECT_THAT(group.writes, ElementsAre(0));
  float s0[] = {1, 2, 3, 4}, s1[] = {10, 20, 30, 40};
  RunOn(group, s0, s1);
  EXPECT_THAT(s0, ElementsAre(22, 44, 66, 88));
}

TEST_F(SegmentCodeTest, EqualGroupsAndOtherSizesShareAKernel) {
  EXPECT_EQ(Compile(Mixed()).compiled, 1);
  const SegmentCode again = Compile(Mixed());
  EXPECT_EQ(again.compiled, 0);
  EXPECT_EQ(again.reused, 1);
  const SegmentCode larger = Compile(Mixed(500));
  EXPECT_EQ(larger.reused, 1);
  ASSERT_THAT(larger.groups, SizeIs(1));
  EXPECT_THAT(larger.groups[0].shape.symbols, ElementsAre(500));
  EXPECT_EQ(engine_.asked, 1);
  cache_.Clear();
  EXPECT_EQ(Compile(Mixed()).compiled, 1);
}

// The first two sizes are lowered, what comes behind them is a shape pass.
TEST_F(SegmentCodeTest, OfTheThirdSizeNoStepIsLookedAt) {
  Compile(Mixed(8));
  Compile(Mixed(500));
  const int looked_at = engine_.looked_at;
  for (const std::int64_t n : {64, 1, 70}) {
    SCOPED_TRACE(n);
    const SegmentCode code = Compile(Mixed(n));
    EXPECT_EQ(code.reused, 1);
    EXPECT_THAT(code.order, SizeIs(2));
    ASSERT_THAT(code.groups, SizeIs(1));
    EXPECT_THAT(code.groups[0].steps, ElementsAre(0, 2));
    EXPECT_THAT(code.groups[0].shape.symbols, ElementsAre(n));
  }
  EXPECT_EQ(engine_.looked_at, looked_at);
  EXPECT_EQ(engine_.asked, 1);
}

// What is kept of a group for other sizes is for the most part its function.
TEST_F(SegmentCodeTest, GroupsOfOneFunctionKeepItOnce) {
  const auto kept_of_second_size = [this](const Segment& first,
                                          const Segment& second) {
    Compile(first);
    const std::uint64_t before = KeptBytes(Kept::kCode);
    EXPECT_EQ(Compile(second).groups.size(), 1u);
    return KeptBytes(Kept::kCode) - before;
  };
  EXPECT_GT(kept_of_second_size(Mixed(8), Mixed(500)), 1000u);
  const auto longer = [](std::int64_t n) {
    Segment segment = Mixed(n);
    segment.Foreign(0, 1, 5);
    return segment;
  };
  EXPECT_EQ(kept_of_second_size(longer(9), longer(501)), 0u);
  EXPECT_EQ(engine_.asked, 1);
  const std::uint64_t all = KeptBytes(Kept::kCode);
  cache_.Clear();
  EXPECT_LT(KeptBytes(Kept::kCode), all - 1000);
}

// The same sizes again say nothing of others.
TEST_F(SegmentCodeTest, OneSizeTwiceIsOneSize) {
  for (const std::int64_t n : {8, 8, 500, 8, 64}) Compile(Mixed(n));
  const int looked_at = engine_.looked_at;
  EXPECT_THAT(Compile(Mixed(70)).groups[0].shape.symbols, ElementsAre(70));
  EXPECT_EQ(engine_.looked_at, looked_at);
}

TEST_F(SegmentCodeTest, TheShapePassHasTheKernelComputeTheNewSize) {
  const auto make = [](std::int64_t n) {
    return Segment(n)
        .Add(0, 1, 2, Segment::Varying(0.5, true))
        .Add(0, 2, -1)
        .Dies(2);
  };
  for (const std::int64_t n : {8, 500}) Compile(make(n));
  const SegmentCode code = Compile(make(3));
  ASSERT_THAT(code.groups, SizeIs(1));
  const CompiledGroup& group = code.groups[0];
  EXPECT_THAT(group.writes, ElementsAre(0));
  float s0[] = {1, 2, 3, 4}, s1[] = {10, 20, 30, 40};
  RunOn(group, s0, s1);
  EXPECT_THAT(s0, ElementsAre(22, 44, 66, 4));
}

// Its key without sizes is the same, what it is lowered to is not.
TEST_F(SegmentCodeTest, AnotherFunctionIsNotTakenForASize) {
  for (const std::int64_t n : {8, 500, 64}) Compile(Mixed(n));
  Segment longer = Mixed(70);
  longer.GoesOn(0);
  const SegmentCode code = Compile(longer);
  EXPECT_EQ(engine_.asked, 2);
  ASSERT_THAT(code.groups, SizeIs(1));
  EXPECT_NE(code.groups[0].kernel, Compile(Mixed(71)).groups[0].kernel);
  EXPECT_EQ(engine_.asked, 2);
}

// Roots as MKL computes them are for the usual mode: of the third size, too.
TEST_F(SegmentCodeTest, TheShapePassAsksForTheModeOfTheProcessor) {
  const auto make = [](std::int64_t n) {
    return Segment(n)
        .Add(0, 1, 2)
        .Step("aten::sqrt", 2, kNoSlot, 3)
        .Add(3, 1, 4);
  };
  // So many elements that an addition alone stays a call.
  for (const std::int64_t n : {8000, 9500, 8064}) {
    EXPECT_EQ(Compile(make(n)).steps_fused, 3);
    SegmentInput flushing = make(n).input();
    flushing.has_usual_arithmetic = false;
    EXPECT_EQ(CompileSegment(flushing, &engine_, &cache_, {}).steps_fused, 0);
  }
}

// A group that fails is looked at in each size.
TEST_F(SegmentCodeTest, AFailureIsNothingForOtherSizes) {
  engine_.fails = true;
  for (const std::int64_t n : {8, 500}) Compile(Mixed(n));
  engine_.fails = false;
  cache_.Clear();
  for (const std::int64_t n : {64, 70, 71}) {
    EXPECT_EQ(Compile(Mixed(n)).steps_fused, 2) << n;
  }
}

// A number that is compiled in is no size.
TEST_F(SegmentCodeTest, OtherNumbersAreAnotherSegment) {
  const auto make = [](std::int64_t n, double alpha) {
    return Segment(n).Add(0, 1, 2, Segment::Fixed(alpha)).Mul(2, 1, 3);
  };
  for (const std::int64_t n : {8, 500, 64}) Compile(make(n, 2));
  EXPECT_EQ(engine_.asked, 1);
  EXPECT_EQ(Compile(make(70, 3)).compiled, 1);
  EXPECT_EQ(engine_.asked, 2);
}

// The steps of an optimizer for each of its parameters, with slots of its own.
TEST_F(SegmentCodeTest, EqualGroupsOfASegmentAreLoweredOnce) {
  Segment segment(8);
  for (int p = 0; p < 10; ++p) {
    const int first = 5 * p;
    segment.Add(first, first + 1, first + 2)
        .Mul(first + 2, first + 1, first + 3)
        .Foreign(first + 3, first + 3, first + 4)
        .Mul(first + 4, first + 4, first + 4 + 5 * 10);
    segment.Dies(first + 2);
  }
  const SegmentCode code = Compile(segment);
  const auto groups = static_cast<std::int64_t>(code.groups.size());
  EXPECT_EQ(code.reused, groups - code.compiled);
  // Of 40 steps 3 kinds were asked about (a dot is never lowered).
  EXPECT_EQ(engine_.looked_at, 3);
  for (const CompiledGroup& group : code.groups) {
    const std::uint32_t first = group.steps[0] / 4 * 5;
    for (const std::int32_t slot : group.memory) {
      if (group.steps.size() > 3) continue;
      EXPECT_EQ(static_cast<std::uint32_t>(slot) % 50 / 5 * 5, first);
    }
  }
  const std::int64_t known = cache_.groups()->hits();
  EXPECT_EQ(Compile(segment).reused, groups);
  EXPECT_EQ(cache_.groups()->hits(), known + 40 + groups);
}

// What holds of a step in one mode of the processor says nothing of another.
TEST_F(SegmentCodeTest, StepsAreKnownByTheModeOfTheProcessor) {
  Segment segment(8000);  // so many that an addition alone stays a call
  segment.Add(0, 1, 2).Step("aten::sqrt", 2, kNoSlot, 3).Add(3, 1, 4);
  EXPECT_EQ(Compile(segment).steps_fused, 3);
  SegmentInput flushing = segment.input();
  flushing.has_usual_arithmetic = false;
  EXPECT_EQ(CompileSegment(flushing, &engine_, &cache_, {}).steps_fused, 0);
  EXPECT_EQ(Compile(segment).steps_fused, 3);
}

TEST_F(SegmentCodeTest, AFailureIsRememberedWithItsReason) {
  engine_.fails = true;
  for (int i = 0; i < 3; ++i) {
    const SegmentCode code = Compile(Mixed());
    EXPECT_THAT(code.groups, IsEmpty());
    EXPECT_THAT(code.order, SizeIs(3));
    EXPECT_EQ(code.failed, 1);
    EXPECT_THAT(code.reasons, ElementsAre("planted"));
  }
  EXPECT_EQ(engine_.asked, 1);
}

// Long rows, where each loop has so many buffers at most.
TEST_F(SegmentCodeTest, AGroupThatHasNoRoomBecomesTwo) {
  engine_.room = 2;
  Segment segment(8);
  segment.Add(0, 1, 2).Mul(2, 1, 3).Add(3, 1, 4).Mul(4, 1, 5).Add(5, 1, 6);
  for (int i = 0; i < 2; ++i) {
    const SegmentCode code = Compile(segment);
    ASSERT_THAT(code.groups, SizeIs(2));
    EXPECT_THAT(code.groups[0].steps, ElementsAre(0, 1));
    EXPECT_THAT(code.groups[1].steps, ElementsAre(3, 4));
    ASSERT_THAT(code.order, SizeIs(3));
    EXPECT_EQ(code.order[1].step, 2u);
    EXPECT_EQ(code.failed, 0);
  }
  // For all five, the first three and two pairs, once.
  EXPECT_EQ(engine_.asked, 4);
}

TEST_F(SegmentCodeTest, APairThatHasNoRoomIsCalls) {
  engine_.room = 1;
  Segment segment(8);
  segment.Add(0, 1, 2).Mul(2, 1, 3).Add(3, 1, 4);
  const SegmentCode code = Compile(segment);
  EXPECT_THAT(code.groups, IsEmpty());
  EXPECT_THAT(code.order, SizeIs(3));
  EXPECT_THAT(code.reasons, ElementsAre("no room"));
}

TEST_F(SegmentCodeTest, WhatTheEngineRefusesIsNoPartOfAGroup) {
  engine_.refused = ir::Op::kMul;
  Segment segment(8000);  // so many that an addition alone stays a call
  segment.Add(0, 1, 2).Mul(2, 1, 3).Add(3, 1, 4).Add(4, 1, 5);
  const SegmentCode code = Compile(segment);
  ASSERT_THAT(code.groups, SizeIs(1));
  EXPECT_THAT(code.groups[0].steps, ElementsAre(2, 3));
  EXPECT_THAT(code.order, SizeIs(3));
}

// Of few elements the call takes longer than they do, of many it does not.
TEST_F(SegmentCodeTest, AnOpOfFewElementsIsAGroupAlone) {
  for (const std::int64_t n : {1, 2048, 2049}) {
    KernelCache cache;  // else the code of one size serves another
    const Segment segment = Segment(n).Add(0, 1, 2);
    const SegmentCode code =
        CompileSegment(segment.input(), &engine_, &cache, {});
    EXPECT_THAT(code.groups, SizeIs(n <= 2048 ? 1 : 0)) << n;
    EXPECT_EQ(code.steps_fused, n <= 2048 ? 1 : 0) << n;
  }
}

TEST_F(SegmentCodeTest, WhatWasPrecompiledIsNotAskedAgain) {
  const std::atomic<bool> stop{true}, goes_on{false};
  EXPECT_FALSE(PrecompileSegment(Mixed().input(), &engine_, &cache_, stop));
  EXPECT_EQ(engine_.looked_at, 0);
  EXPECT_TRUE(PrecompileSegment(Mixed().input(), &engine_, &cache_, goes_on));
  const int looked_at = engine_.looked_at;
  EXPECT_GT(looked_at, 0);
  EXPECT_EQ(engine_.asked, 0);
  EXPECT_EQ(Compile(Mixed()).compiled, 1);
  EXPECT_EQ(engine_.looked_at, looked_at);
  EXPECT_THAT(engine_.precompiled, SizeIs(1));
  EXPECT_EQ(engine_.precompiled, engine_.compiled);
}

TEST_F(SegmentCodeTest, AGroupThatWasPrecompiledIsOfItsOwnSlots) {
  const std::atomic<bool> goes_on{false};
  Segment segment(8), elsewhere(8);
  segment.Add(0, 1, 2).Mul(2, 1, 3);
  elsewhere.Add(5, 3, 4).Mul(4, 3, 2);
  ASSERT_TRUE(PrecompileSegment(segment.input(), &engine_, &cache_, goes_on));
  const SegmentCode other = Compile(elsewhere);
  ASSERT_THAT(other.groups, SizeIs(1));
  EXPECT_THAT(other.groups[0].memory, ElementsAre(3, 5, 2, 4));
  ASSERT_TRUE(PrecompileSegment(segment.input(), &engine_, &cache_, goes_on));
  const SegmentCode code = Compile(segment);
  ASSERT_THAT(code.groups, SizeIs(1));
  EXPECT_THAT(code.groups[0].memory, ElementsAre(1, 0, 3, 2));
  EXPECT_EQ(engine_.asked, 1);
}

// Takes groups of up to two adjacent steps as they were recorded.
class PairsEngine : public StepEngine {
 public:
  const char* name() const override { return "pairs"; }
  bool is_for_speed() const override { return false; }
  std::string WhyNotStep(const StepGroup& step) override {
    return step.steps[0]->op == "aten::dot" ? "refused" : "";
  }
  std::shared_ptr<const Kernel> CompileSteps(const StepGroup& group,
                                             std::string* why) override {
    asked.push_back(group.steps.size());
    *why = "more than two";
    if (group.steps.size() > 2) return nullptr;
    return std::make_shared<KernelWithoutRoom>();
  }
  std::vector<std::size_t> asked;
};

TEST(StepEngineTest, TakesRecordedStepsAndNoFunctions) {
  PairsEngine engine;
  KernelCache cache;
  Segment segment(8);
  segment.Foreign(0, 1, 2).Add(0, 1, 3).Mul(3, 1, 4).Add(4, 1, 5);
  const SegmentCode code =
      CompileSegment(segment.input(), &engine, &cache, CompileLimits());
  EXPECT_THAT(engine.asked, ElementsAre(3, 2, 1));  // cut until it takes them
  ASSERT_THAT(code.groups, SizeIs(2));
  EXPECT_THAT(code.groups[0].steps, ElementsAre(1, 2));
  EXPECT_THAT(code.groups[1].steps, ElementsAre(3));
  EXPECT_THAT(code.reasons, ElementsAre("refused"));
  EXPECT_EQ(code.compiled, 2);
  EXPECT_FALSE(engine.needs_contraction());
  // Nothing is lowered ahead for it.
  EXPECT_FALSE(engine.can_precompile());
  const std::atomic<bool> goes_on{false};
  EXPECT_TRUE(PrecompileSegment(segment.input(), &engine, &cache, goes_on));
}

TEST_F(SegmentCodeTest, LimitsAreKept) {
  CompileLimits limits;
  limits.deadline = std::chrono::steady_clock::now();
  const SegmentCode late = Compile(Mixed(), limits);
  EXPECT_THAT(late.reasons, ElementsAre(HasSubstr("took longer")));
  const std::atomic<bool> stop{true};
  const SegmentCode stopped = Compile(Mixed(), {.stop = &stop});
  EXPECT_THAT(stopped.reasons, ElementsAre(HasSubstr("stopped")));
  EXPECT_EQ(engine_.asked, 0);
}

TEST_F(SegmentCodeTest, AScalarThatMayVaryIsNamedWhereItWasCompiledIn) {
  Segment segment(8);
  segment.Add(0, 1, 2, Segment::Fixed(2))
      .Add(2, 1, 3, Segment::Varying(3, false))
      .Add(3, 1, 4, Segment::Varying(4, true));
  const SegmentCode code = Compile(segment);
  ASSERT_THAT(code.groups, SizeIs(1));
  ASSERT_THAT(code.groups[0].baked, SizeIs(1));
  EXPECT_EQ(code.groups[0].baked[0].index, 1u);
  EXPECT_TRUE(code.groups[0].baked[0].value.SameBits(Double(3)));
  EXPECT_THAT(code.groups[0].scalars, ElementsAre(2));
}

// Steps of an optimizer, whose corrections differ.
TEST_F(SegmentCodeTest, GroupsThatDifferInANumberAreLoweredOnce) {
  Segment segment(8);
  for (int p = 0; p < 10; ++p) {
    segment.Add(0, 1, -1, Segment::Varying(0.3 + 0.01 * p, false))
        .Mul(0, 1, -1)
        .Foreign(0, 1, 2 + p);
  }
  const SegmentCode code = Compile(segment);
  EXPECT_EQ(engine_.asked, 1);
  EXPECT_EQ(code.compiled, 1);
  EXPECT_EQ(code.reused, 9);
  ASSERT_THAT(code.groups, SizeIs(10));
  for (std::uint32_t p = 0; p < 10; ++p) {
    EXPECT_THAT(code.groups[p].baked, IsEmpty());
    EXPECT_THAT(code.groups[p].scalars, ElementsAre(p));
  }
}

TEST_F(SegmentCodeTest, NumbersThatDecideCodeAreCompiledInWhereOthersVary) {
  Segment segment(8);
  segment.Add(0, 1, -1, Segment::Varying(0.1, false))
      .Add(0, 1, -1, Segment::Varying(0.2, false))
      .Add(0, 1, -1, Segment::Varying(2, false))
      .Step("aten::sub_.Tensor", 0, 1, -1, {Segment::Varying(0.3, false)})
      .Step("aten::sub_.Tensor", 0, 1, -1, {Segment::Varying(0.3, false)});
  const SegmentCode code = Compile(segment);
  ASSERT_THAT(code.groups, SizeIs(1));
  EXPECT_THAT(code.groups[0].scalars, ElementsAre(0, 1));
  ASSERT_THAT(code.groups[0].baked, SizeIs(3));
  EXPECT_EQ(code.groups[0].baked[0].index, 2u);
  EXPECT_EQ(code.groups[0].baked[1].index, 3u);
}

TEST_F(SegmentCodeTest, VariedNumbersAreCompiledInWhereALoweringAsksForIt) {
  Segment segment(8);
  segment
      .Step("aten::hardshrink", 0, kNoSlot, 1, {Segment::Varying(0.3, false)})
      .Step("aten::hardshrink", 1, kNoSlot, 2, {Segment::Varying(0.7, false)});
  const SegmentCode code = Compile(segment);
  ASSERT_THAT(code.groups, SizeIs(1));
  EXPECT_EQ(code.steps_fused, 2);
  EXPECT_THAT(code.groups[0].scalars, IsEmpty());
  EXPECT_THAT(code.groups[0].baked, SizeIs(2));
}

class SegmentDumpTest : public SegmentCodeTest {
 protected:
  // The text of `parts`, for all of the segments in turn.
  std::string Dump(unsigned parts, const std::vector<Segment>& segments) {
    const std::string path = testing::TempDir() + "segment_dump_test.txt";
    {
      DumpFile file(parts, path);
      file.Write("");
      for (const Segment& segment : segments) {
        SegmentDump dump(&file, segment.input());
        last_ = CompileSegment(segment.input(), &engine_, &cache_, {}, &dump);
      }
    }
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    std::remove(path.c_str());
    return text;
  }

  SegmentCode last_;
};

TEST_F(SegmentDumpTest, FunctionsHaveNamesAndEqualOnesShareAKernel) {
  const std::string text = Dump(kDumpIr, {Mixed(), Mixed()});
  EXPECT_THAT(text, HasSubstr("; ==== segment 1 group 1 lowered\n"
                              "; group of %0 aten::add.Tensor, %2 "
                              "aten::mul.Tensor\n"
                              "; name %0 = s0\n"));
  EXPECT_THAT(text, HasSubstr("; ==== segment 1 group 1 final\n"
                              "func add_mul("));
  EXPECT_THAT(text, HasSubstr("; ==== segment 2 group 1 kernel\n"
                              "(that of segment 1 group 1, the same "
                              "function)\n"));
  EXPECT_THAT(text, Not(HasSubstr(" trace\n")));
  EXPECT_EQ(last_.dump_number, 2);
  ASSERT_THAT(last_.groups, SizeIs(1));
  EXPECT_EQ(last_.groups[0].dump_number, 1);
}

TEST_F(SegmentDumpTest, PassesThatChangeNothingSaySo) {
  const std::string text = Dump(kDumpPasses, {Mixed()});
  EXPECT_THAT(text, HasSubstr("; ==== segment 1 group 1 pass cse\n"
                              "(unchanged)\n"));
  EXPECT_THAT(text, HasSubstr("; ==== segment 1 group 1 pass "
                              "simplify_access\n"));
}

TEST_F(SegmentDumpTest, FailuresAreThereEachTime) {
  engine_.fails = true;
  const std::string text = Dump(kDumpAsm, {Mixed(), Mixed()});
  for (const char* segment : {"1", "2"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(
                          "; ==== segment ", segment,
                          " not compiled\n; group of %0 aten::add.Tensor, %2 "
                          "aten::mul.Tensor\nplanted\n")));
  }
  EXPECT_THAT(text, Not(HasSubstr(" kernel\n")));
}

TEST_F(SegmentDumpTest, SaysThatAGroupBecameTwo) {
  engine_.room = 2;
  Segment segment(8);
  segment.Add(0, 1, 2).Mul(2, 1, 3).Add(3, 1, 4).Mul(4, 1, 5);
  const std::string text = Dump(kDumpAsm, {segment});
  EXPECT_THAT(text, HasSubstr("; ==== segment 1 cut in two\n"
                              "; group of %0 aten::add.Tensor, %1 "
                              "aten::mul.Tensor, %2 aten::add.Tensor, %3 "
                              "aten::mul.Tensor\nno room\n"));
  EXPECT_THAT(text, Not(HasSubstr("not compiled")));
  EXPECT_THAT(last_.groups, SizeIs(2));
}

}  // namespace
}  // namespace tjit
