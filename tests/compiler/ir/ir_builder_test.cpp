#include <string>

#include "compiler/ir/builder.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "gtest/gtest.h"

namespace tjit::ir {
namespace {

TEST(IrBuilderTest, RulesGiveTheTypes) {
  const Size n0 = Size::Symbol(0);
  Builder b("step", 1);
  const ValueId x = b.External(DType::kF32, n0 * 8);
  const ValueId bias = b.External(DType::kF32, 8);
  const Scalar rate = b.ScalarArgument(ScalarType::kF64);
  const Operand wide = Builder::Broadcast(b.Use(bias), {n0, 8});
  const ValueId y =
      b.Emit(Op::kAdd, {b.View(x, {n0, 8}), wide, Builder::Use(rate)});
  const ValueId is_high =
      b.Emit(Op::kGt, {b.Use(y), Builder::Use(Constant(1.0))});
  const ValueId high = b.Emit(Op::kSum, {b.Use(is_high)}, {0}, true);
  const ValueId half =
      b.EmitAs({DType::kF16, Contiguous({1, 8})}, Op::kTo, {b.Use(high)});
  Operand written = b.Use(x);
  written.written = true;
  const std::vector<ValueId> called = b.Call(
      "aten::x", 4, {{DType::kF16, Contiguous({8})}}, {b.Use(half), written});
  b.Write(b.Use(x), b.Use(called[1]));
  b.Return(called[0]);
  const Function f = b.Finish();
  EXPECT_TRUE(Verify(f).empty()) << Verify(f)[0];
  EXPECT_EQ(Print(f),
            "func step(n0) {\n"
            "  external %0: f32[n0*8]\n"
            "  external %1: f32[8]\n"
            "  scalar $0: f64\n"
            "  %2 = add f32[n0,8] %0[n0,8], %1[n0,8](0,1), $0\n"
            "  %3 = gt bool[n0,8] %2, 1.0\n"
            "  %4 = sum i64[1,8] %3 dims=[0] keepdim\n"
            "  %5 = to f16[1,8] %4\n"
            "  %6, %7 = call f16[8], f32[n0*8] \"aten::x\" step=4 %5, !%0\n"
            "  write %0 = %7\n"
            "  return %6\n"
            "}\n");
}

TEST(IrBuilderTest, BroadcastAddsDimsAndStretchesOnes) {
  Builder b("f", 1);
  const ValueId x = b.External(DType::kF32, 3);
  const Operand wide =
      Builder::Broadcast(b.View(x, {3, 1}), {Size::Symbol(0), 3, 4});
  EXPECT_EQ(ToText(wide.access.sizes), "n0,3,4");
  EXPECT_EQ(ToText(wide.access.strides), "0,1,0");
}

}  // namespace
}  // namespace tjit::ir
