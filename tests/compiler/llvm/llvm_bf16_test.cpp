// Note [Rounding to bf16] (compiler/llvm/lane_types.h): all numbers there are,
// and NaNs whose bits are all set, from memory, scalars and other types.
#include <cstdint>
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

constexpr std::int64_t kNumbers = 1 << 16;

// %0: all bf16, %1: the same in another order, %2: f32 of all exponents, each
// fourth with the bits below bf16's all set. Scalars: NaN with all bits set.
void Fill(const RunArguments& arguments) {
  for (std::int64_t i = 0; i < kNumbers; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const auto other = static_cast<std::uint16_t>(i * 40503 + 77);
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16 |
                               (i % 4 == 3 ? 0xffff : other % 0xffff);
    std::memcpy(arguments.externals[0].data + i * 2, &bits, 2);
    std::memcpy(arguments.externals[1].data + i * 2, &other, 2);
    std::memcpy(arguments.externals[2].data + i * 4, &wide, 4);
  }
}

void ExpectSame(const std::string& lines, std::uint64_t scalar) {
  const Function f = Parsed(
      "func f(n0) {\n  external %0: bf16[n0]\n  external %1: bf16[n0]\n"
      "  external %2: f32[n0]\n  scalar $0: f64\n" +
      lines + "}");
  for (const int bits : {512, 256, 128}) {
    TjitLlvmOptions options = DefaultOptions();
    options.vector_bits = bits;
    const CompiledKernel kernel(f, options);
    ASSERT_EQ(kernel.error(), "") << lines;
    KernelRun run(f, {kNumbers}, 1), should(f, {kNumbers}, 1);
    for (KernelRun* r : {&run, &should}) {
      Fill(r->arguments);
      r->arguments.scalars[0].bits[0] = scalar;
    }
    ASSERT_EQ(Interpret(f, should.arguments), "");
    ASSERT_EQ(kernel.Run(run.arguments), "");
    EXPECT_EQ(run.DifferenceFrom(should), "") << bits << " bits\n" << lines;
  }
}

constexpr std::uint64_t kNaNs[] = {0x7fffffffffffffff, 0xffffffffffffffff,
                                   0x7ff0000000000001};
constexpr std::uint64_t kThree = 0x4008000000000000;

TEST(LlvmBF16Test, ArithmeticOfAllNumbers) {
  ExpectSame(R"(
  %3 = mul bf16[n0] %0, %1
  %4 = add bf16[n0] %3, %1, 1
  %5 = div bf16[n0] %4, %0
  %6 = mul bf16[n0] %5, $0
  return %3
  return %4
  return %6
)",
             kThree);
  ExpectSame(R"(
  %3 = neg bf16[n0] %0
  %4 = sub bf16[n0] %3, %1, 1
  %5 = addcmul bf16[n0] %4, %0, %1, $0
  %6 = maximum bf16[n0] %5, %0
  return %3
  return %5
  return %6
)",
             kThree);
}

TEST(LlvmBF16Test, NumbersOfOtherTypes) {
  ExpectSame(R"(
  %3 = to bf16[n0] %2
  %4 = mul bf16[n0] %3, %0
  %5 = abs bf16[n0] %3
  return %3
  return %4
  return %5
)",
             kThree);
}

TEST(LlvmBF16Test, ScalarsThatAreNaN) {
  for (const std::uint64_t scalar : kNaNs) {
    ExpectSame(R"(
  %3 = mul bf16[n0] %0, $0
  %4 = add bf16[n0] $0, %0, 1
  %5 = clamp bf16[n0] %0, $0, 3.0
  %6 = addcmul bf16[n0] %0, %1, %0, $0
  return %3
  return %4
  return %5
  return %6
)",
               scalar);
  }
}

}  // namespace
}  // namespace tjit::ir
