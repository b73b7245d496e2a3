// Rows loops as kernels: reductions and row ops with what is fused around them,
// against the interpreter, with row functions in its order.
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_math.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

constexpr std::int64_t kRows[] = {0, 1, 2, 3, 17, 65, 1100};
constexpr std::int64_t kLengths[] = {1,  2,  3,  4,   6,   8,    15,
                                     16, 17, 31, 100, 129, 1000, 1030};

// All sizes on all widths, in one loop, in one and in several parts.
void ExpectSame(const std::string& text, int loops = 1) {
  const Function f = Parsed(text);
  for (const int bits : {512, 256, 128}) {
    const CompiledKernel kernel(f, OptionsWith(ArrayVectorAndRowMath(), bits));
    ASSERT_EQ(kernel.error(), "") << text;
    EXPECT_EQ(kernel.kernel().loop_count, loops) << text;
    for (const std::int64_t rows : kRows) {
      for (const std::int64_t n : kLengths) {
        if (rows * n > 20000) continue;
        for (const int parts : {1, 3}) {
          ASSERT_EQ(Compare(f, kernel, {rows, n}, 7, {}, parts), "")
              << rows << " rows of " << n << ", " << bits << " bits, " << parts
              << " parts\n"
              << text;
        }
      }
    }
  }
}

TEST(LlvmRowsTest, EachFunctionAlone) {
  for (const char* type : {"f32", "f64"}) {
    for (const char* op : {"sum", "mean", "amax", "amin"}) {
      const std::string t = type;
      ExpectSame("func f(n0, n1) {\n  external %0: " + t + "[n0*n1]\n  %1 = " +
                 op + " " + t + "[n0] %0[n0,n1] dims=[1]\n  return %1\n}");
    }
    for (const char* op : {"softmax", "log_softmax"}) {
      const std::string t = type;
      ExpectSame("func f(n0, n1) {\n  external %0: " + t + "[n0*n1]\n  %1 = " +
                 op + " " + t + "[n0,n1] %0[n0,n1] dims=[1]\n  return %1\n}");
    }
    for (const char* op : {"softmax_backward", "log_softmax_backward"}) {
      const std::string t = type;
      ExpectSame("func f(n0, n1) {\n  external %0: " + t +
                 "[n0*n1]\n  external %1: " + t + "[n0*n1]\n  %2 = " + op +
                 " " + t +
                 "[n0,n1] %0[n0,n1], %1[n0,n1] dims=[1]\n  return %2\n}");
    }
  }
}

// What comes before and behind a row op, with operands that are one for all
// rows, one per row and one per element.
TEST(LlvmRowsTest, PrologueAndEpilogue) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n1]
  external %2: f32[n0]
  scalar $0: f64
  %3 = div f32[n0,n1] %0[n0,n1], 8.0
  %4 = add f32[n0,n1] %3, %1[n0,n1](0,1), 1.0
  %5 = softmax f32[n0,n1] %4 dims=[1]
  %6 = mul f32[n0,n1] %5, %2[n0,n1](1,0)
  %7 = add f32[n0,n1] %6, %0[n0,n1], $0
  return %5
  return %7
})");
}

// Several reductions over the same rows, each of which the next one needs.
TEST(LlvmRowsTest, SoftmaxByHand) {
  Calls() = {};
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n0]
  %2 = amax f32[n0] %0[n0,n1] dims=[1]
  %3 = sub f32[n0,n1] %0[n0,n1], %2[n0,n1](1,0), 1
  %4 = exp f32[n0,n1] %3
  %5 = sum f32[n0] %4 dims=[1]
  %6 = div f32[n0,n1] %4, %5[n0,n1](1,0)
  %7 = log f32[n0] %5
  %8 = add f32[n0] %7, %2, 1
  %9 = lt bool[n0] %8, %1
  %10 = where f32[n0,n1] %9[n0,n1](1,0), %6, 0.0
  write %1[n0] = %8
  return %6
  return %10
})");
  EXPECT_GT(Calls().row_count, 0);
  EXPECT_EQ(Calls().wrong_modes, 0);
  EXPECT_GT(Calls().most_rows, 300);  // short rows share a call
}

// Parts of rows, transposed rows, rows in three dims with a broadcast operand.
TEST(LlvmRowsTest, RowsThatLieOtherwise) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f64[n0*n1*2]
  external %1: f64[n0*n1]
  %2 = sum f64[n0] %0[n0,n1](n1*2,1) dims=[1]
  %3 = amax f64[n0] %0[n0,n1](n1*2,1)+n1 dims=[1]
  %4 = sum f64[n0] %1[n0,n1](1,n0) dims=[1]
  %5 = div f64[n0] %2, 3.0
  %6 = add f64[n0] %5, %3, 1
  %7 = mul f64[n0] %6, %4
  return %7
})");
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1*5]
  external %1: f32[n0*n1]
  %2 = add f32[5,n0,n1] %0[5,n0,n1], %1[5,n0,n1](0,n1,1), 1
  %3 = softmax f32[5,n0,n1] %2 dims=[2]
  %4 = sum f32[5,n0] %0[5,n0,n1] dims=[2]
  %5 = mul f32[5,n0,n1] %3, %4[5,n0,n1](n0,1,0)
  return %5
})");
}

// Types beside those of the row functions, and in place.
TEST(LlvmRowsTest, OtherTypesAndInPlace) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: bf16[n0*n1]
  external %1: bool[n0*n1]
  external %2: i32[n0]
  %3 = to f32[n0,n1] %0[n0,n1]
  %4 = where f32[n0,n1] %1[n0,n1], %3, -1.0
  %5 = sum f32[n0] %4 dims=[1]
  %6 = to f32[n0] %2
  %7 = add f32[n0] %5, %6, 1
  %8 = to f64[n0,n1] %3
  %9 = mean f64[n0] %8 dims=[1]
  %10 = softmax f32[n0,n1] %4 dims=[1]
  %11 = to bf16[n0,n1] %10
  write %0[n0,n1] = %11
  return %7
  return %9
})");
}

TEST(LlvmRowsTest, OneRowOfAll) {
  const Function f = Parsed(R"(func f(n0) {
  external %0: f32[n0]
  %1 = square f32[n0] %0
  %2 = softmax f32[n0] %1 dims=[0]
  %3 = mul f32[n0] %0, %2
  return %2
  return %3
})");
  const CompiledKernel kernel(f, OptionsWith(ArrayVectorAndRowMath()));
  ASSERT_EQ(kernel.error(), "");
  EXPECT_EQ(kernel.kernel().loop_count, 1);
  for (const std::int64_t n : Lengths()) {
    if (n == 0) continue;
    ASSERT_EQ(Compare(f, kernel, {n}, 3), "") << n;
  }
}

constexpr const char kSquares[] = R"(func f(n0, n1) {
  external %0: f64[n0*n1]
  %1 = square f64[n0,n1] %0[n0,n1]
  %2 = sum f64[n0] %1 dims=[1]
  return %2
})";

TEST(LlvmRowsTest, RowsAreBounded) {
  const Function f = Parsed(kSquares);
  const CompiledKernel kernel(f, OptionsWith(RowMath()));
  ASSERT_EQ(kernel.error(), "");
  ASSERT_EQ(Compare(f, kernel, {2, 65536}, 1), "");
  EXPECT_EQ(Compare(f, kernel, {2, 65537}, 1),
            "a row of 65537 elements takes more than 524288 bytes");
  EXPECT_EQ(Compare(f, kernel, {2, 0}, 1), "a row has no elements");
}

// What is replaced in place is read by the function first, and by a function
// that makes its operand.
TEST(LlvmRowsTest, OperandsAreReplacedBehindTheFunction) {
  for (const std::string t : {"f32", "f64"}) {
    const std::string external = "  external %0: " + t + "[n0*n1]\n";
    ExpectSame("func f(n0, n1) {\n" + external + "  %1 = softmax " + t +
               "[n0,n1] %0[n0,n1] dims=[1]\n  %2 = mul " + t +
               "[n0,n1] %0[n0,n1], 0.5\n  write %0[n0,n1] = %2\n"
               "  return %1\n}");
    ExpectSame("func f(n0, n1) {\n" + external + "  external %1: " + t +
               "[n0*n1]\n  %2 = log_softmax_backward " + t +
               "[n0,n1] %0[n0,n1], %1[n0,n1] dims=[1]\n  %3 = mul " + t +
               "[n0,n1] %1[n0,n1], 0.5\n  write %1[n0,n1] = %3\n"
               "  return %2\n}");
  }
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = exp f32[n0,n1] %0[n0,n1]
  %2 = softmax f32[n0,n1] %1 dims=[1]
  %3 = mul f32[n0,n1] %0[n0,n1], 0.5
  write %0[n0,n1] = %3
  return %2
})");
}

// What functions make lies where it is stored, without a buffer, so rows may be
// longer than those are; what else is made of it is read from there.
TEST(LlvmRowsTest, ResultsLieWhereTheyAreStored) {
  for (const char* text : {R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = softmax f32[n0,n1] %0[n0,n1] dims=[1]
  return %1
})",
                           R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n0*n1]
  %2 = log_softmax_backward f32[n0,n1] %0[n0,n1], %1[n0,n1] dims=[1]
  %3 = mul f32[n0,n1] %2, %1[n0,n1]
  return %2
  return %3
})"}) {
    ExpectSame(text);
    const Function f = Parsed(text);
    for (const int bits : {512, 256}) {
      const CompiledKernel kernel(f,
                                  OptionsWith(ArrayVectorAndRowMath(), bits));
      ASSERT_EQ(kernel.error(), "");
      EXPECT_EQ(Compare(f, kernel, {2, 140001}, 1), "") << text;
    }
  }
  // Where something may still read what is replaced, they do not.
  const Function f = Parsed(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = softmax f32[n0,n1] %0[n0,n1] dims=[1]
  write %0[n0,n1] = %1
})");
  const CompiledKernel kernel(f, OptionsWith(ArrayVectorAndRowMath()));
  ASSERT_EQ(Compare(f, kernel, {2, 131072}, 1), "");
  EXPECT_EQ(Compare(f, kernel, {2, 131073}, 1),
            "a row of 131073 elements takes more than 524288 bytes");
}

TEST(LlvmRowsTest, RefusesWhatIsNotInTheTable) {
  EXPECT_EQ(CompiledKernel(kSquares, OptionsWith(ArrayAndVectorMath())).error(),
            "%2: no function for sum of f64");
  EXPECT_EQ(CompiledKernel(R"(func f(n0) {
  external %0: f16[n0*8]
  %1 = sum f16[n0] %0[n0,8] dims=[1]
  return %1
})",
                           OptionsWith(RowMath()))
                .error(),
            "%1: no function for sum of f16");
  EXPECT_EQ(CompiledKernel(R"(func f(n0) {
  external %0: f32[n0*8]
  %1 = sum f32[8] %0[n0,8] dims=[0]
  return %1
})",
                           OptionsWith(RowMath()))
                .error(),
            "%1: no function for sum of f32");
}

}  // namespace
}  // namespace tjit::ir
