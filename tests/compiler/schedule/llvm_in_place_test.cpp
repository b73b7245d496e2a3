// Returned values over externals: which may, and that their bits are the same
// (Compare() runs each pair in place).
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/in_place.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_math.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

// "returned over external", of all pairs, on a machine that has vectors of so
// many bits at most.
std::string PairsOf(const std::string& text, int vector_bits = 0) {
  const Function f = Parsed(text);
  const CompiledKernel kernel(
      f, OptionsWith(ArrayVectorAndRowMath(), vector_bits));
  EXPECT_EQ(kernel.error(), "") << text;
  for (const std::int64_t n : {0, 1, 7, 16, 70, 1030, 3000}) {
    for (const int parts : {1, 3}) {
      EXPECT_EQ(Compare(f, kernel, {n, 6}, 5, {}, parts), "") << n << text;
    }
  }
  std::string pairs;
  for (std::int32_t i = 0; i < kernel.kernel().in_place_count; ++i) {
    const TjitInPlace& pair = kernel.kernel().in_place[i];
    absl::StrAppend(&pairs, pairs.empty() ? "" : ", ", pair.returned, " over ",
                    pair.external);
  }
  return pairs;
}

TEST(LlvmInPlaceTest, ElementByElement) {
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0]
  external %1: f32[n0]
  %2 = add f32[n0] %0, %1, 1.0
  %3 = mul f32[n0] %2, %0
  return %2, %3
})"),
            "0 over 0, 0 over 1, 1 over 0, 1 over 1");
}

TEST(LlvmInPlaceTest, OtherElements) {
  // Backwards, broadcast, transposed, and of another type.
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n1]
  external %2: f64[n0*n1]
  %3 = add f32[n0,n1] %0[n0,n1](1,n0), %1[n0,n1](0,1), 1.0
  %4 = to f32[n0,n1] %2[n0,n1]
  %5 = mul f32[n0,n1] %3, %4
  return %5
})"),
            "");
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0+1]
  %1 = neg f32[n0] %0[n0]+1
  return %1
})"),
            "");
}

TEST(LlvmInPlaceTest, ReadByALaterLoop) {
  // The sum of rows is a loop of its own behind the transposed product.
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n0]
  %2 = neg f32[n0] %1
  %3 = add f32[n0,n1] %0[n0,n1], %1[n0,n1](1,0), 1.0
  return %2, %3
})"),
            "1 over 0");
}

TEST(LlvmInPlaceTest, Written) {
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0]
  external %1: f32[n0]
  %2 = add f32[n0] %0, %1, 1.0
  %3 = neg f32[n0] %2
  write %0[n0] = %2
  return %3
})"),
            "0 over 1");
}

// %2 is stored before the function reads %0 again, %4 behind it.
TEST(LlvmInPlaceTest, Phases) {
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0]
  external %1: f32[n0]
  %2 = neg f32[n0] %0
  %3 = exp f32[n0] %2
  %4 = add f32[n0] %3, %0, 1.0
  return %2, %4
})"),
            "0 over 1, 1 over 0, 1 over 1");
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0]
  external %1: f32[n0]
  %2 = neg f32[n0] %0
  %3 = exp f32[n0] %0
  %4 = tanh f32[n0] %3
  return %2, %4
})"),
            "0 over 1, 1 over 0, 1 over 1");
}

// A function of slabs reads %0 where it lies, before a column of it is stored;
// the product then reads it behind %2.
TEST(LlvmInPlaceTest, Slabs) {
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n1*n0]
  %1 = softmax f32[n1,n0] %0[n1,n0] dims=[0]
  return %1
})"),
            "0 over 0");
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n1*n0]
  %1 = softmax f32[n1,n0] %0[n1,n0] dims=[0]
  write %0[n1,n0] = %1
})"),
            "");
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n1*n0]
  %1 = neg f32[n1,n0] %0[n1,n0]
  %2 = softmax f32[n1,n0] %0[n1,n0] dims=[0]
  %3 = mul f32[n1,n0] %2, %0[n1,n0]
  return %1, %3
})"),
            "1 over 0");
}

// A function of rows may write over its first operand, but not over what it or
// another one reads besides.
TEST(LlvmInPlaceTest, StoredByCalls) {
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = softmax f32[n0,n1] %0[n0,n1] dims=[1]
  return %1
})"),
            "0 over 0");
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n0*n1]
  %2 = softmax_backward f32[n0,n1] %0[n0,n1], %1[n0,n1] dims=[1]
  return %2
})"),
            "0 over 0");
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = softmax f32[n0,n1] %0[n0,n1] dims=[1]
  %2 = log_softmax f32[n0,n1] %0[n0,n1] dims=[1]
  return %1
  return %2
})"),
            "");
  EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = softmax f32[n0,n1] %0[n0,n1] dims=[1]
  %2 = mul f32[n0,n1] %1, %0[n0,n1]
  return %1
  return %2
})"),
            "1 over 0");
}

TEST(LlvmInPlaceTest, OfAllWidths) {
  for (const int bits : {512, 256, 128}) {
    EXPECT_EQ(PairsOf(R"(func f(n0, n1) {
  external %0: f32[n0*6]
  external %1: f32[6]
  %2 = mul f32[n0,6] %0[n0,6], %1[n0,6](0,1)
  return %2
})",
                      bits),
              "0 over 0");
  }
}

}  // namespace
}  // namespace tjit::ir
