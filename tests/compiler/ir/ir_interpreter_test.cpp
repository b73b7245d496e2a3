#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "compiler/ir/interpreter.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "gtest/gtest.h"

namespace tjit::ir {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Function Parsed(const std::string& text) {
  Function f;
  std::string error;
  EXPECT_TRUE(Parse(text, &f, &error)) << error << "\n" << text;
  EXPECT_TRUE(Verify(f).empty()) << Verify(f)[0];
  return f;
}

// A function of one f32 external, n0 elements of it, that returns one value.
std::vector<float> RunOn(const std::string& body, std::vector<float> x,
                         std::size_t results, std::string* error = nullptr,
                         const Hooks& hooks = {}) {
  const Function f =
      Parsed("func f(n0) {\nexternal %0: f32[n0]\n" + body + "}\n");
  std::vector<float> y(results, -99);
  RunArguments arguments;
  arguments.symbols = {static_cast<std::int64_t>(x.size())};
  arguments.externals = {
      {reinterpret_cast<char*>(x.data()), static_cast<std::int64_t>(x.size())}};
  arguments.returns = {
      {reinterpret_cast<char*>(y.data()), static_cast<std::int64_t>(results)}};
  const std::string wrong = Interpret(f, arguments, hooks);
  if (error != nullptr) {
    *error = wrong;
  } else {
    EXPECT_EQ(wrong, "");
  }
  return y;
}

// One op on two rows of externals: a = x[0:n], b = x[n:2n].
std::vector<float> Op2(const std::string& op, const std::vector<float>& a,
                       const std::vector<float>& b,
                       const std::string& rest = "") {
  std::vector<float> x = a;
  x.insert(x.end(), b.begin(), b.end());
  const std::string n = std::to_string(a.size());
  return RunOn("%1 = " + op + " f32[" + n + "] %0[" + n + "], %0[" + n + "]+" +
                   n + rest + "\nreturn %1\n",
               x, a.size());
}

TEST(IrInterpreterTest, AddWithAlphaRoundsOnce) {
  const float a = 1.0f, b = 1.0f + 0x1p-12f;
  // b * b alone rounds; the fma does not.
  const std::vector<float> y = RunOn(
      "%1 = add f32[1] %0[1], %0[1]+1, 1.000244140625\n"
      "return %1\n",
      {-a, b}, 1);
  EXPECT_EQ(y[0], std::fma(b, b, -a));
  EXPECT_NE(y[0], b * b - a);
}

TEST(IrInterpreterTest, AlphaIsRoundedToTheElementTypeOthersAreNot) {
  const Function f = Parsed(
      "func f() {\n"
      "  external %0: bf16[1]\n"
      "  %1 = add bf16[1] %0, %0, 1.001\n"   // alpha becomes 1
      "  %2 = mul bf16[1] %0, 1.00390625\n"  // 1 + 2^-8 stays
      "  %3 = to f32[1] %1\n  %4 = to f32[1] %2\n"
      "  return %3, %4\n}\n");
  std::uint16_t x = FloatToBFloat16(257.0f / 128);  // 2 + 2^-7, rounds to 2
  float sum = 0, product = 0;
  RunArguments arguments;
  arguments.externals = {{reinterpret_cast<char*>(&x), 1}};
  arguments.returns = {{reinterpret_cast<char*>(&sum), 1},
                       {reinterpret_cast<char*>(&product), 1}};
  EXPECT_EQ(Interpret(f, arguments), "");
  const float value = BFloat16ToFloat(x);
  EXPECT_EQ(sum, 2 * value);
  EXPECT_EQ(product, BFloat16ToFloat(FloatToBFloat16(value * 1.00390625f)));
}

TEST(IrInterpreterTest, ExtremesPropagateNan) {
  const std::vector<float> a = {kNan, 1, 3, -kInf}, b = {1, kNan, 2, 0};
  const std::vector<float> high = Op2("maximum", a, b);
  const std::vector<float> low = Op2("minimum", a, b);
  EXPECT_TRUE(std::isnan(high[0]) && std::isnan(high[1]));
  EXPECT_TRUE(std::isnan(low[0]) && std::isnan(low[1]));
  EXPECT_EQ(high[2], 3);
  EXPECT_EQ(low[2], 2);
  EXPECT_EQ(low[3], -kInf);
  const std::vector<float> relu =
      RunOn("%1 = relu f32[n0] %0\nreturn %1\n", {kNan, -1, 2}, 3);
  EXPECT_TRUE(std::isnan(relu[0]));
  EXPECT_EQ(relu[1], 0);
  const std::vector<float> clamped =
      RunOn("%1 = clamp f32[n0] %0, 0.0, nan\nreturn %1\n", {kNan, -1, 2}, 3);
  for (const float y : clamped) EXPECT_TRUE(std::isnan(y));
}

TEST(IrInterpreterTest, ExpressionsAreEagers) {
  const std::vector<float> a = {0.7f, -1.3f, 2.1f}, b = {0.3f, 1.9f, -0.6f};
  const std::vector<float> addcmul = Op2("addcmul", a, b, ", %0[3]+3, 0.3");
  const std::vector<float> addcdiv = Op2("addcdiv", a, b, ", %0[3]+3, 0.3");
  const std::vector<float> low = Op2("lerp", a, b, ", 0.3");
  const std::vector<float> high = Op2("lerp", a, b, ", 0.7");
  const std::vector<float> tanh = Op2("tanh_backward", a, b);
  const std::vector<float> sigmoid = Op2("sigmoid_backward", a, b);
  const std::vector<float> remainder = Op2("remainder", a, b);
  const float w = 0.3f;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(addcmul[i], std::fma(w * b[i], b[i], a[i]));
    EXPECT_EQ(addcdiv[i], a[i] + w * b[i] / b[i]);
    EXPECT_EQ(low[i], std::fma(w, b[i] - a[i], a[i]));
    EXPECT_EQ(high[i], std::fma(0.7f - 1, b[i] - a[i], b[i]));
    EXPECT_EQ(tanh[i], a[i] * std::fma(-b[i], b[i], 1.0f));
    EXPECT_EQ(sigmoid[i], a[i] * (1 - b[i]) * b[i]);
    EXPECT_TRUE(remainder[i] == 0 || (remainder[i] < 0) == (b[i] < 0));
  }
}

TEST(IrInterpreterTest, OverlappingAndBroadcastOperands) {
  // Windows of 3 over 5 elements, times the first element.
  EXPECT_EQ(RunOn("%1 = mul f32[3,3] %0[3,3](1,1), %0[3,3](0,0)+1\n"
                  "return %1\n",
                  {1, 2, 3, 4, 5}, 9),
            (std::vector<float>{2, 4, 6, 4, 6, 8, 6, 8, 10}));
}

TEST(IrInterpreterTest, PermutedResultsLieAsTheySay) {
  EXPECT_EQ(RunOn("%1 = to f32[2,3](1,2) %0[2,3]\nreturn %1\n",
                  {1, 2, 3, 4, 5, 6}, 6),
            (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(IrInterpreterTest, ReductionsOfDims) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 7};
  const auto reduce = [&](const std::string& op, std::size_t n) {
    return RunOn("%1 = " + op + "\nreturn %1\n", x, n);
  };
  EXPECT_EQ(reduce("sum f32[3] %0[2,3] dims=[0]", 3),
            (std::vector<float>{5, 7, 10}));
  EXPECT_EQ(reduce("mean f32[2,1] %0[2,3] dims=[1] keepdim", 2),
            (std::vector<float>{2, 16.0f / 3}));
  EXPECT_EQ(reduce("prod f32[] %0 dims=[0]", 1), (std::vector<float>{840}));
  EXPECT_EQ(reduce("amin f32[2] %0[2,3] dims=[1]", 2),
            (std::vector<float>{1, 4}));
  EXPECT_EQ(reduce("amax f32[] %0[2,3] dims=[0,1]", 1),
            (std::vector<float>{7}));
  EXPECT_EQ(reduce("var f32[2] %0[2,3], 1 dims=[1]", 2),
            (std::vector<float>{1, 7.0f / 3}));
  EXPECT_EQ(reduce("norm f32[2] %0[2,3], inf dims=[1]", 2),
            (std::vector<float>{3, 7}));
  EXPECT_EQ(reduce("norm f32[] %0[2], 2.0 dims=[0]", 1),
            (std::vector<float>{std::sqrt(5.0f)}));
}

TEST(IrInterpreterTest, ReductionsOfNothing) {
  EXPECT_EQ(RunOn("%1 = sum f32[2] %0[2,0] dims=[1]\nreturn %1\n", {}, 2),
            (std::vector<float>{0, 0}));
  EXPECT_TRUE(
      std::isnan(RunOn("%1 = mean f32[] %0 dims=[0]\nreturn %1\n", {}, 1)[0]));
  std::string error;
  const std::vector<float> y =
      RunOn("%1 = amax f32[] %0 dims=[0]\nreturn %1\n", {}, 1, &error);
  EXPECT_EQ(error, "%1: amax of nothing");
  EXPECT_EQ(y[0], -99) << "written although it failed";
}

TEST(IrInterpreterTest, RowsSumToOne) {
  const std::vector<float> y =
      RunOn("%1 = softmax f32[2,3] %0[2,3](1,2) dims=[0]\nreturn %1\n",
            {1, 2, 3, 4, 5, 60}, 6);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(
        y[static_cast<std::size_t>(i)] + y[static_cast<std::size_t>(i) + 3], 1,
        1e-6);
  }
  EXPECT_NEAR(y[0], 1 / (1 + std::exp(1.0)), 1e-7);
}

TEST(IrInterpreterTest, IntegersWrap) {
  const Function f = Parsed(
      "func f() {\n"
      "  %0 = full i8[1] 100\n"
      "  %1 = add i8[1] %0, %0, 1\n"
      "  %2 = full i64[1] 9223372036854775807\n"
      "  %3 = mul i64[1] %2, 2\n"
      "  %4 = full bool[1] true\n"
      "  %5 = add bool[1] %4, %4, 1\n"
      "  return %1, %3, %5\n}\n");
  std::int8_t small = 0;
  std::int64_t large = 0;
  char truth = 0;
  RunArguments arguments;
  arguments.returns = {{reinterpret_cast<char*>(&small), 1},
                       {reinterpret_cast<char*>(&large), 1},
                       {&truth, 1}};
  EXPECT_EQ(Interpret(f, arguments), "");
  EXPECT_EQ(small, -56);
  EXPECT_EQ(large, -2);
  EXPECT_EQ(truth, 1);
}

TEST(IrInterpreterTest, WriteBacksComeLastAndInOrder) {
  const Function f = Parsed(
      "func f() {\n"
      "  external %0: f32[3]\n"
      "  external %1: f32[3]\n"
      "  %2 = mul f32[3] %0, 2.0\n"
      "  %3 = update f32[3] %0[1]+2, %2[1]\n"
      "  write %0 = %1\n"  // swaps: %0 is read as it was
      "  write %1 = %0\n"
      "  write %0[2] = %3[2]+1\n"
      "}\n");
  float x[] = {1, 2, 3}, y[] = {7, 8, 9};
  RunArguments arguments;
  arguments.externals = {{reinterpret_cast<char*>(x), 3},
                         {reinterpret_cast<char*>(y), 3}};
  EXPECT_EQ(Interpret(f, arguments), "");
  EXPECT_EQ(std::vector<float>(x, x + 3), (std::vector<float>{2, 2, 9}));
  EXPECT_EQ(std::vector<float>(y, y + 3), (std::vector<float>{1, 2, 3}));
}

TEST(IrInterpreterTest, CallsAndTheMathHook) {
  Hooks hooks;
  hooks.math = [](Op op, DType dtype, const void* const* in,
                  const double* /*scalars*/, void* out, std::int64_t n) {
    if (op != Op::kExp || dtype != DType::kF32) return false;
    for (std::int64_t i = 0; i < n; ++i) {
      static_cast<float*>(out)[i] = static_cast<const float*>(in[0])[i] + 100;
    }
    return true;
  };
  hooks.call = [](const CallSite& site) -> std::string {
    if (site.instruction->callee != "aten::first") return "unknown";
    const CallArgument& in = site.operands[0];
    std::memcpy(site.results[0].data, in.data + in.extents.offset * 4, 4);
    const CallArgument& written = site.operands[1];
    StoreAs(5.0f, written.data + written.extents.offset * 4);
    return "";
  };
  const std::string body =
      "%1 = exp f32[n0] %0\n"
      "%2, %3 = call f32[1], f32[n0] \"aten::first\" step=0 %1[1]+1, !%0[1]+2\n"
      "%4 = add f32[n0] %3, %2[n0](0), 1\n"
      "return %4\n";
  EXPECT_EQ(RunOn(body, {1, 2, 3}, 3, nullptr, hooks),
            (std::vector<float>{103, 104, 107}));
  std::string error;
  RunOn(body, {1, 2, 3}, 3, &error);
  EXPECT_EQ(error, "nobody runs aten::first");
}

TEST(IrInterpreterTest, ArgumentsAreChecked) {
  std::string error;
  RunOn("%1 = neg f32[n0,2] %0[n0,2]\nreturn %1\n", {1, 2}, 4, &error);
  EXPECT_EQ(error, "%0: an access reaches element 3 of 2");
  RunOn("%1 = neg f32[n0-3] %0[n0-3]\nreturn %1\n", {1, 2}, 1, &error);
  EXPECT_EQ(error, "%1: n0-3 is negative or too large");
  RunOn("%1 = full f32[n0*4611686018427387904] 1\nreturn %1\n", {1, 2}, 1,
        &error);
  EXPECT_EQ(error, "%1: n0*4611686018427387904 is negative or too large");
  RunOn("%1 = full f32[n0*1000000000] 1\nreturn %1\n", {1, 2}, 1, &error);
  EXPECT_EQ(error, "%1: has too many elements");
  RunOn("%1 = neg f32[n0] %0\nreturn %1\n", {1, 2}, 1, &error);
  EXPECT_EQ(error, "%1: is returned into another number of elements");
  RunArguments integer;
  integer.scalars = {ScalarValue{4, {1, 0}}};
  EXPECT_EQ(Interpret(Parsed("func f() {\nscalar $0: f64\n}\n"), integer),
            "$0 is not f64");
  EXPECT_EQ(Interpret(Parsed("func f(n0) {\n}\n"), {}),
            "not the arguments of this function");
}

}  // namespace
}  // namespace tjit::ir
