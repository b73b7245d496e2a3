// Quotients by one divisor in kernels have the bits of divisions.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

constexpr const char kThree[] = R"(func f(n0) {
  external %0: f64[n0]
  external %1: f64[n0]
  external %2: f64[n0]
  external %3: f64[n0]
  %4 = div f64[n0] %0, %3
  %5 = div f64[n0] %1, %3
  %6 = div f64[n0] %2, %3
  return %4, %5, %6
})";

// Mantissas at which quotients lie close to two neighbours, and any.
std::uint64_t Mantissa(std::mt19937_64& random) {
  constexpr std::uint64_t kAll = (std::uint64_t{1} << 52) - 1;
  const std::uint64_t any = random() & kAll;
  switch (random() % 5) {
    case 0:
      return kAll - (any & 0xff);
    case 1:
      return any & 0xff;
    case 2:
      return kAll & ~((std::uint64_t{1} << (any % 52)) - 1);
    case 3:
      return std::uint64_t{1} << (any % 52);
    default:
      return any;
  }
}

// With an exponent of at most `exponent`, and any sign.
double Number(std::mt19937_64& random, int exponent) {
  const auto range = static_cast<std::uint64_t>(2 * exponent + 1);
  const std::uint64_t bits =
      ((1023 - static_cast<std::uint64_t>(exponent) + random() % range) << 52) |
      Mantissa(random) | (random() << 63);
  double number = 0;
  std::memcpy(&number, &bits, sizeof(number));
  return number;
}

// Numbers as `make` gives them. "" or where kernel and interpreter differ.
template <class Make>
std::string CompareWith(const Function& f, const CompiledKernel& kernel,
                        std::uint64_t seed, Make make) {
  KernelRun got(f, {10007}, seed), wanted(f, {10007}, seed);
  for (KernelRun* run : {&got, &wanted}) {
    std::mt19937_64 random(seed);
    for (const Buffer& buffer : run->arguments.externals) {
      for (std::int64_t i = 0; i < buffer.elements; ++i) {
        const double number = make(random);
        std::memcpy(buffer.data + i * 8, &number, sizeof(number));
      }
    }
  }
  std::string error = kernel.Run(got.arguments);
  if (error.empty()) error = Interpret(f, wanted.arguments);
  return error.empty() ? got.DifferenceFrom(wanted) : error;
}

TEST(LlvmQuotientsTest, OfUsualNumbers) {
  const Function f = Parsed(kThree);
  const CompiledKernel kernel(f);
  ASSERT_EQ(kernel.error(), "");
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    for (const int exponent : {0, 5, 399, 400}) {
      ASSERT_EQ(CompareWith(f, kernel, seed,
                            [&](auto& r) { return Number(r, exponent); }),
                "")
          << seed << ", " << exponent;
    }
  }
}

// Quotients that overflow or are subnormal, and a few zeros among others.
TEST(LlvmQuotientsTest, OfNumbersThatAreDivided) {
  const Function f = Parsed(kThree);
  const CompiledKernel kernel(f);
  ASSERT_EQ(kernel.error(), "");
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    for (const int exponent : {401, 402, 700, 1022}) {
      EXPECT_EQ(CompareWith(f, kernel, seed,
                            [&](auto& r) { return Number(r, exponent); }),
                "");
    }
    EXPECT_EQ(CompareWith(
                  f, kernel, seed,
                  [](auto& r) { return r() % 20 == 0 ? -0.0 : Number(r, 3); }),
              "");
    for (const std::int64_t n : Lengths()) {
      EXPECT_EQ(Compare(f, kernel, {n}, seed), "") << n;
    }
  }
}

TEST(LlvmQuotientsTest, ByScalars) {
  for (const char* divisor : {"3", "-0.7", "1e-200", "1e300", "0.0"}) {
    const Function f = Parsed(absl::StrCat(
        "func f(n0) {\n  external %0: f64[n0]\n  %1 = div f64[n0] %0, ",
        divisor, "\n  return %1\n}"));
    const CompiledKernel kernel(f);
    ASSERT_EQ(kernel.error(), "");
    for (const int exponent : {3, 400, 1022}) {
      EXPECT_EQ(CompareWith(f, kernel, 1,
                            [&](auto& r) { return Number(r, exponent); }),
                "")
          << divisor << ", " << exponent;
    }
  }
}

bool Multiplies(const std::string& text, int vector_bits) {
  TjitLlvmOptions options = DefaultOptions();
  options.vector_bits = vector_bits;
  options.flags = kTjitLlvmDumpIr;
  const CompiledKernel kernel(text, options);
  EXPECT_EQ(kernel.error(), "");
  return absl::StrContains(kernel.kernel().dump, "@llvm.fma.v8f64");
}

TEST(LlvmQuotientsTest, MultipliesWhereThatIsQuicker) {
  EXPECT_EQ(Multiplies(kThree, 512), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_FALSE(Multiplies(kThree, 256));
  EXPECT_FALSE(Multiplies(R"(func f(n0) {
  external %0: f64[n0]
  external %1: f64[n0]
  %2 = div f64[n0] %0, %1
  return %2
})",
                          512));
}

}  // namespace
}  // namespace tjit::ir
