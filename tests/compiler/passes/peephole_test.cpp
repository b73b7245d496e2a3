// Each rule of peephole does something, and holds for the inputs where algebra
// usually fails: -0, infinities, NaN, the lowest integer.
#include "compiler/passes/peephole.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/interpreter.h"
#include "compiler/ir/ir_text.h"
#include "compiler/passes/dce.h"
#include "gtest/gtest.h"

namespace tjit {
namespace {

using ir::Builder;
using ir::DType;
using ir::Function;
using ir::Op;
using ir::Operand;

constexpr double kInf = std::numeric_limits<double>::infinity();
const std::vector<double> kInputs = {
    0.0,   -0.0, 1,     -1,  0.1, -2.5, 1e-40,         65504,
    1e300, kInf, -kInf, NAN, 127, -128, -2147483648.0, 3};

// The bytes that f(x) gives for these inputs; every NaN is the same NaN.
std::string BytesOf(const Function& f) {
  const auto n = static_cast<std::int64_t>(kInputs.size());
  const DType in = f.values[0].dtype;
  const DType out = f.values[static_cast<std::size_t>(f.returns[0])].dtype;
  const int in_item = InfoOf(in).bytes, out_item = InfoOf(out).bytes;
  std::string input(static_cast<std::size_t>(n * in_item), '\0');
  std::string output(static_cast<std::size_t>(n * out_item), '\0');
  for (std::int64_t i = 0; i < n; ++i) {
    Store(in, kInputs[static_cast<std::size_t>(i)], input.data() + i * in_item);
  }
  ir::RunArguments run;
  run.externals = {{input.data(), n}};
  run.returns = {{output.data(), n}};
  EXPECT_EQ(Interpret(f, run), "") << Print(f);
  for (std::int64_t i = 0; i < n; ++i) {
    char* at = output.data() + i * out_item;
    if (InfoOf(out).kind != ir::DTypeKind::kFloat) continue;
    if (std::isnan(ir::Load<double>(out, at))) Store(out, double{NAN}, at);
  }
  return output;
}

Operand Number(DType dtype, double number) {
  return InfoOf(dtype).kind == ir::DTypeKind::kFloat
             ? Builder::Use(ir::Constant(number))
             : Builder::Use(ir::Constant(static_cast<std::int64_t>(number)));
}

// One op over x, and scalars for the operands behind.
struct Step {
  Op op;
  std::vector<double> scalars;
};

Function Chain(DType dtype, const std::vector<Step>& steps) {
  Builder b("f");
  ir::ValueId x = b.External(dtype, static_cast<std::int64_t>(kInputs.size()));
  for (const Step& step : steps) {
    std::vector<Operand> operands = {b.Use(x)};
    const bool is_twice = step.op == Op::kMaximum || step.op == Op::kMinimum;
    if (is_twice) operands.push_back(b.Use(x));
    for (const double number : step.scalars) {
      operands.push_back(Number(dtype, number));
    }
    x = b.Emit(step.op, operands);
  }
  b.Return(x);
  return b.Finish();
}

struct Case {
  std::vector<Step> steps;
  std::size_t left;    // instructions behind peephole and dce
  bool is_float_only;  // the op has no integers
};

const Case kCases[] = {
    {{{Op::kMul, {1}}, {Op::kAbs, {}}}, 1, false},
    {{{Op::kDiv, {1}}, {Op::kAbs, {}}}, 1, true},
    {{{Op::kNeg, {}}, {Op::kNeg, {}}, {Op::kAbs, {}}}, 1, false},
    {{{Op::kNeg, {}}, {Op::kAbs, {}}}, 1, false},
    {{{Op::kNeg, {}}, {Op::kSquare, {}}}, 1, false},
    {{{Op::kAbs, {}}, {Op::kSquare, {}}}, 1, false},
    {{{Op::kAbs, {}}, {Op::kAbs, {}}, {Op::kNeg, {}}}, 2, false},
    {{{Op::kSign, {}}, {Op::kSign, {}}, {Op::kNeg, {}}}, 2, false},
    {{{Op::kRelu, {}}, {Op::kRelu, {}}, {Op::kNeg, {}}}, 2, false},
    {{{Op::kFloor, {}}, {Op::kFloor, {}}, {Op::kNeg, {}}}, 2, true},
    {{{Op::kCeil, {}}, {Op::kCeil, {}}, {Op::kNeg, {}}}, 2, true},
    {{{Op::kTrunc, {}}, {Op::kTrunc, {}}, {Op::kNeg, {}}}, 2, true},
    {{{Op::kRound, {}}, {Op::kRound, {}}, {Op::kNeg, {}}}, 2, true},
    {{{Op::kMaximum, {}}, {Op::kNeg, {}}}, 1, false},
    {{{Op::kMinimum, {}}, {Op::kNeg, {}}}, 1, false},
    {{{Op::kAdd, {-0.0, 1}}, {Op::kNeg, {}}}, 1, false},
    {{{Op::kSub, {0.0, 1}}, {Op::kNeg, {}}}, 1, false},
    // Not for floats: -0 + 0 is 0, inf * 0 is NaN.
    {{{Op::kAdd, {0.0, 1}}, {Op::kReciprocal, {}}}, 2, true},
    {{{Op::kSub, {-0.0, 1}}, {Op::kReciprocal, {}}}, 2, true},
    {{{Op::kAdd, {-0.0, 0}}, {Op::kReciprocal, {}}}, 2, true},
    {{{Op::kMul, {0}}, {Op::kReciprocal, {}}}, 2, true},
};

TEST(PeepholeTest, RulesHoldForAwkwardInputs) {
  for (int d = 0; d < ir::kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    const ir::DTypeKind kind = InfoOf(dtype).kind;
    if (kind == ir::DTypeKind::kBool) continue;
    for (const Case& c : kCases) {
      if (c.is_float_only && kind != ir::DTypeKind::kFloat) continue;
      const Function f = Chain(dtype, c.steps);
      const Function after = EliminateDead(Peephole(f));
      const bool is_u8 = dtype == DType::kU8 && c.steps[0].op == Op::kNeg &&
                         c.steps[1].op == Op::kAbs;
      EXPECT_EQ(after.body.size(), is_u8 ? 2 : c.left)
          << Print(f) << Print(after);
      EXPECT_EQ(BytesOf(after), BytesOf(f)) << Print(f) << Print(after);
    }
  }
}

TEST(PeepholeTest, CastsThatLoseNothingVanish) {
  int shorter = 0;
  for (int i = 0; i < ir::kDTypeCount * ir::kDTypeCount * ir::kDTypeCount;
       ++i) {
    const auto type = [&](int k) {
      return static_cast<DType>(k % ir::kDTypeCount);
    };
    const DType a = type(i), b = type(i / ir::kDTypeCount),
                c = type(i / ir::kDTypeCount / ir::kDTypeCount);
    const ir::Geometry all =
        ir::Contiguous({static_cast<std::int64_t>(kInputs.size())});
    Builder builder("f");
    const ir::ValueId x = builder.External(a, all.sizes[0]);
    const ir::ValueId y = builder.EmitAs({b, all}, Op::kTo, {builder.Use(x)});
    builder.Return(builder.EmitAs({c, all}, Op::kTo, {builder.Use(y)}));
    const Function f = builder.Finish();
    const Function after = EliminateDead(Peephole(f));
    shorter += after.body.size() == 1;
    EXPECT_EQ(BytesOf(after), BytesOf(f)) << Print(f) << Print(after);
  }
  EXPECT_GT(shorter, 200);
}

}  // namespace
}  // namespace tjit
