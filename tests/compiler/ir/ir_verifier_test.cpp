// One test per rule of verifier.h.
#include <string>

#include "absl/strings/str_join.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "gtest/gtest.h"

namespace tjit::ir {
namespace {

Function Parsed(const std::string& body) {
  Function f;
  std::string error;
  EXPECT_TRUE(
      Parse("func f(n0, n1) {\n"
            "external %0: f32[n0*8]\n"
            "external %1: f32[16]\n"
            "external %2: bool[8]\n"
            "external %3: i32[8]\n"
            "scalar $0: f64\n" +
                body + "}\n",
            &f, &error))
      << error << "\n"
      << body;
  return f;
}

std::string Violations(const Function& f) {
  return absl::StrJoin(Verify(f), "\n");
}
std::string Violations(const std::string& body) {
  return Violations(Parsed(body));
}

TEST(IrVerifierTest, SoundFunctionsPass) {
  EXPECT_EQ(Violations(""), "");
  EXPECT_EQ(Violations("%4 = exp f32[n0,8] %0[n0,8]\n"
                       "%5 = where f32[8] %2, %1[8](0), $0\n"
                       "write %1[8]+8 = %5\nreturn %4\n"),
            "");
}

TEST(IrVerifierTest, Rule1ValuesAreNumberedInOrder) {
  Function f = Parsed("%4 = neg f32[16] %1\n");
  f.body[0].results = {5};
  EXPECT_EQ(Violations(f),
            "%4 (rule 1): defines %5 as value 4\n"
            "function (rule 1): defines 4 of 5 values");
  f = Parsed("");
  f.externals = 9;
  EXPECT_EQ(Violations(f),
            "function (rule 1): has 9 externals and 2 symbols\n"
            "function (rule 1): defines 0 of 4 values");
}

TEST(IrVerifierTest, Rule2UsesFollowDefinitions) {
  Function f = Parsed("%4 = neg f32[16] %1\nreturn %4\n");
  f.body[0].operands[0].value = 4;
  EXPECT_EQ(Violations(f), "%4 operand 0 (rule 2): %4 is not defined");
  f = Parsed("");
  f.returns = {-3};
  EXPECT_EQ(Violations(f), "return (rule 2): %-3 is not defined");
}

TEST(IrVerifierTest, Rule3ExternalsAreFlatValuesAreDense) {
  Function f = Parsed("");
  f.values[1].layout = Contiguous({4, 4});
  EXPECT_EQ(Violations(f), "%1 (rule 3): an external is not flat");
  EXPECT_EQ(Violations("%4 = full f32[2,3](1,2) 1\n"), "");
  EXPECT_EQ(Violations("%4 = full f32[n0,1,n1](1,7,n0) 1\n"),
            "%4 (rule 3): does not lie densely: [n0,1,n1](1,7,n0)");
  EXPECT_EQ(Violations("%4 = full f32[2,3](4,1) 1\n"),
            "%4 (rule 3): does not lie densely: [2,3](4,1)");
  EXPECT_EQ(Violations("%4 = full f32[2]+1 1\n"),
            "%4 (rule 3): does not lie densely: [2](1)");
}

TEST(IrVerifierTest, Rule4SizesAreOverTheSymbols) {
  Function f = Parsed("%4 = full f32[n0] 1\n");
  f.symbols = 0;
  EXPECT_NE(Violations(f).find("%4 (rule 4): size n0 is not over the symbols "
                               "of the function"),
            std::string::npos);
  EXPECT_EQ(Violations("%4 = full f32[-2] 1\n"),
            "%4 (rule 4): size -2 is negative");
  EXPECT_EQ(Violations("%4 = neg f32[2] %1[2](-1)+2\n"),
            "%4 operand 0 (rule 4): stride -1 is negative");
  EXPECT_EQ(Violations("%4 = neg f32[2] %1[2]+-2\n"),
            "%4 operand 0 (rule 4): offset -2 is negative");
}

TEST(IrVerifierTest, Rule5OneStrideForEachSize) {
  EXPECT_EQ(Violations("%4 = neg f32[2] %1[2](1,1)\n"),
            "%4 operand 0 (rule 5): has 1 sizes and 2 strides");
  EXPECT_EQ(Violations("%4 = full f32[1,1,1,1,1,1,1,1,1] 1\n"),
            "%4 (rule 5): has 9 sizes and 9 strides");
}

TEST(IrVerifierTest, Rule6AccessesLieWithin) {
  EXPECT_EQ(Violations("%4 = neg f32[4,4] %1[4,4]\n"), "");
  EXPECT_EQ(Violations("%4 = neg f32[4,4] %1[4,4]+1\n"),
            "%4 operand 0 (rule 6): reaches element 16 of 16");
  EXPECT_EQ(Violations("%4 = neg f32[0,4] %1[0,4]+90\n"), "");
  EXPECT_EQ(Violations("%4 = neg f32[2] %1[2](9223372036854775807)+1\n"),
            "%4 operand 0 (rule 6): reaches element invalid of 16");
}

TEST(IrVerifierTest, Rule7OperandsAndDimsAreTheOps) {
  EXPECT_EQ(Violations("%4 = add f32[16] %1, %1\n"),
            "%4 (rule 7): add has 2 operands, not 3");
  EXPECT_EQ(Violations("%4 = add f32[16] %1, %1, %1\n"),
            "%4 (rule 7): add operand 2 is a tensor, not a scalar");
  EXPECT_EQ(Violations("%4 = sum f32[] 1.0 dims=[]\n"),
            "%4 (rule 7): sum operand 0 is a scalar, not a tensor");
  EXPECT_EQ(Violations("%4 = sum f32[16] %1 dims=[1]\n"),
            "%4 (rule 7): sum dim 1 is not one of 1");
  EXPECT_EQ(Violations("%4 = sum f32[] %1[4,4] dims=[1,0]\n"),
            "%4 (rule 7): sum dim 0 is out of order");
  EXPECT_EQ(Violations("%4 = neg f32[16] %1 dims=[0]\n"),
            "%4 (rule 7): neg takes no dims");
  EXPECT_EQ(Violations("%4 = softmax f32[4,4] %1[4,4] dims=[0,1]\n"),
            "%4 (rule 7): softmax has 2 dims, not 1");
  EXPECT_EQ(Violations("%4 = softmax f32[16] %1 dims=[0] keepdim\n"),
            "%4 (rule 7): softmax has keepdim but reduces nothing");
}

TEST(IrVerifierTest, Rule8DtypesFollowTheTypeRule) {
  EXPECT_EQ(Violations("%4 = mul f32[8] %1[8], %3\n"),
            "%4 (rule 8): mul operand 1 is i32, not f32");
  EXPECT_EQ(Violations("%4 = neg f64[16] %1\n"),
            "%4 (rule 8): neg is f64, by its rule f32");
  EXPECT_EQ(Violations("%4 = lt f32[16] %1, 0.0\n"),
            "%4 (rule 8): lt is f32, by its rule bool");
  EXPECT_EQ(Violations("%4 = exp i32[8] %3\n"),
            "%4 (rule 8): exp is not for i32 but for float");
  EXPECT_EQ(Violations("%4 = where f32[8] %3, %1[8], 0.0\n"),
            "%4 (rule 8): where operand 0 is i32, not bool");
  EXPECT_EQ(Violations("%4 = mul i32[8] %3, 1.5\n"),
            "%4 (rule 8): mul operand 1 is a f64 scalar in arithmetic of i32");
  EXPECT_EQ(Violations("%4 = mul f32[8] 1.0, 1.5\n"),
            "%4 (rule 8): mul has no tensor operand");
  EXPECT_EQ(Violations("%4 = sum i32[] %3 dims=[0]\n"),
            "%4 (rule 8): sum is i32, by its rule i64");
  EXPECT_EQ(Violations("%4 = argmax f32[] %1 dims=[0]\n"),
            "%4 (rule 8): argmax is f32, by its rule i64");
}

TEST(IrVerifierTest, Rule9SizesFollowTheShapeRule) {
  EXPECT_EQ(Violations("%4 = mul f32[n0,8] %0[n0,8], %1[8]\n"),
            "%4 (rule 9): mul operand 1 has sizes [8], not [n0,8]");
  EXPECT_EQ(Violations("%4 = neg f32[n1,8] %0[n0,8]\n"),
            "%4 (rule 9): neg has sizes [n1,8], by its rule [n0,8]");
  EXPECT_EQ(Violations("%4 = sum f32[n0] %0[n0,8] dims=[1] keepdim\n"),
            "%4 (rule 9): sum has sizes [n0], by its rule [n0,1]");
  EXPECT_EQ(Violations("%4 = update f32[8] %1[8], %1[8]+8\n"),
            "%4 (rule 9): update has sizes [8], by its rule [16]");
  EXPECT_EQ(Violations("%4 = full f32[2,3](1,2) 1\n"
                       "%5 = update f32[2,3] %4[2], %1[2]\n"),
            "%5 (rule 9): update lies otherwise than what it updates");
}

TEST(IrVerifierTest, Rule10OnlyCallsCall) {
  const std::string call = "%4, %5 = call f32[2], f32[16] ";
  EXPECT_EQ(Violations(call + "\"x\" step=0 !%1[2]\n"), "");
  EXPECT_EQ(Violations(call + "\"\" step=0 !%1[2]\n"),
            "%4 (rule 10): calls '' of step 0");
  EXPECT_EQ(Violations(call + "\"x\" step=-1 !%1[2]\n"),
            "%4 (rule 10): calls 'x' of step -1");
  EXPECT_EQ(Violations(call + "\"x\" step=0 !%3\n"),
            "%5 (rule 10): is the new content of %3 but has another type");
  EXPECT_EQ(Violations(call + "\"x\" step=0 !1.5\n"),
            "%5 (rule 10): is the new content of a scalar");
  EXPECT_EQ(Violations("call \"x\" step=0 !%1\n"),
            "%4 (rule 10): writes 1 operands, has 0 results");
  EXPECT_EQ(Violations("call \"x\" step=0 %1\n"), "");
  EXPECT_EQ(Violations("%4 = neg f32[16] !%1\n"),
            "%4 (rule 10): neg has what only a call may have");
}

TEST(IrVerifierTest, Rule11ScalarsAreDeclared) {
  Function f = Parsed("%4 = full f32[2] $0\n");
  f.body[0].operands[0].scalar.argument = 1;
  EXPECT_EQ(Violations(f), "%4 operand 0 (rule 11): there is no $1");
  f.body[0].operands[0].scalar.argument = 0;
  f.body[0].operands[0].scalar.type = ScalarType::kI64;
  EXPECT_EQ(Violations(f), "%4 operand 0 (rule 11): $0 is f64, not i64");
}

TEST(IrVerifierTest, Rule12WriteBacksGoToExternals) {
  EXPECT_EQ(Violations("%4 = neg f32[16] %1\nwrite %4 = %1\n"),
            "write 0 (rule 12): %4 is not external");
  EXPECT_EQ(Violations("write %1[8] = %3\n"),
            "write 0 (rule 12): of i32 to f32");
  EXPECT_EQ(Violations("write %1[8] = %1[4,2]\n"),
            "write 0 (rule 12): of [4,2] to [8]");
  EXPECT_EQ(Violations("write %1[8] = 1.0\n"),
            "write 0 (rule 12): of or to a scalar");
}

TEST(IrVerifierTest, Rule13ThereIsALimit) {
  Function f = Parsed("");
  f.body.resize(kMaxInstructions + 1);
  EXPECT_EQ(Violations(f), "function (rule 13): has 262145 instructions");
}

TEST(IrVerifierTest, TakesAnyFunction) {
  Function f = Parsed("%4 = neg f32[16] %1\n");
  f.body[0].op = Op::kCount;
  EXPECT_EQ(Violations(f), "%4 (rule 7): is no op");
  f = Parsed("%4 = neg f32[16] %1\n");
  f.values[4].dtype = DType::kCount;
  EXPECT_EQ(Violations(f), "%4 (rule 8): has no dtype");
}

}  // namespace
}  // namespace tjit::ir
