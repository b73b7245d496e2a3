// Slabs loops as kernels: row ops along a dim before the last with what is
// fused around them, against the interpreter, with functions in its order.
#include "gtest/gtest.h"
#include "tests/compiler/llvm_math.h"
#include "tests/compiler/llvm_testing.h"

namespace tjit::ir {
namespace {

constexpr std::int64_t kSlabs[] = {0, 1, 3};
constexpr std::int64_t kRows[] = {1, 2, 21, 300};
constexpr std::int64_t kColumns[] = {1, 7, 16, 33, 200, 3000};

// All sizes on all widths, in one loop, in one and in several parts.
void ExpectSame(const std::string& text, int loops = 1) {
  const Function f = Parsed(text);
  Calls() = {};
  for (const int bits : {512, 256, 128}) {
    const CompiledKernel kernel(f, OptionsWith(ArrayVectorAndRowMath(), bits));
    ASSERT_EQ(kernel.error(), "") << text;
    EXPECT_EQ(kernel.kernel().loop_count, loops) << text;
    for (const std::int64_t slabs : kSlabs) {
      for (const std::int64_t rows : kRows) {
        for (const std::int64_t columns : kColumns) {
          if (slabs * rows * columns > 30000) continue;
          for (const int parts : {1, 3}) {
            ASSERT_EQ(Compare(f, kernel, {slabs, rows, columns}, 7, {}, parts),
                      "")
                << slabs << " slabs of " << rows << " rows of " << columns
                << ", " << bits << " bits, " << parts << " parts\n"
                << text;
          }
        }
      }
    }
  }
  EXPECT_GT(Calls().row_count, 0);
  EXPECT_EQ(Calls().wrong_places, 0);
}

TEST(LlvmSlabsTest, EachFunctionAlone) {
  for (const std::string t : {"f32", "f64"}) {
    for (const std::string op : {"softmax", "log_softmax"}) {
      ExpectSame("func f(n0, n1, n2) {\n  external %0: " + t +
                 "[n0*n1*n2]\n  %1 = " + op + " " + t +
                 "[n0,n1,n2] %0[n0,n1,n2] dims=[1]\n  return %1\n}");
    }
    for (const std::string op : {"softmax_backward", "log_softmax_backward"}) {
      ExpectSame("func f(n0, n1, n2) {\n  external %0: " + t +
                 "[n0*n1*n2]\n  external %1: " + t +
                 "[n0*n1*n2]\n  %2 = " + op + " " + t +
                 "[n0,n1,n2] %0[n0,n1,n2], %1[n0,n1,n2] dims=[1]\n"
                 "  return %2\n}");
    }
  }
}

// What comes before and behind, with operands that are one for all slabs, one
// per row and one per column, and a result of the forward beside.
TEST(LlvmSlabsTest, PrologueAndEpilogue) {
  ExpectSame(R"(func f(n0, n1, n2) {
  external %0: f32[n0*n1*n2]
  external %1: f32[n1]
  external %2: f32[n0*n2]
  scalar $0: f64
  %3 = div f32[n0,n1,n2] %0[n0,n1,n2], 8.0
  %4 = add f32[n0,n1,n2] %3, %1[n0,n1,n2](0,1,0), 1.0
  %5 = softmax f32[n0,n1,n2] %4 dims=[1]
  %6 = mul f32[n0,n1,n2] %5, %2[n0,n1,n2](n2,0,1)
  %7 = add f32[n0,n1,n2] %6, %0[n0,n1,n2], $0
  return %5
  return %7
})");
}

// One row op after the other, calls of array functions and of such with a tail
// between them.
TEST(LlvmSlabsTest, SeveralOverTheSameSlabs) {
  ExpectSame(R"(func f(n0, n1, n2) {
  external %0: f32[n0*n1*n2]
  %1 = exp f32[n0,n1,n2] %0[n0,n1,n2]
  %2 = log_softmax f32[n0,n1,n2] %1 dims=[1]
  %3 = silu f32[n0,n1,n2] %2
  %4 = softplus f32[n0,n1,n2] %3, 2.0, 20.0
  %5 = log_softmax_backward f32[n0,n1,n2] %4, %2 dims=[1]
  return %5
})");
}

// The first dim, several dims behind, and columns that an operand splits.
TEST(LlvmSlabsTest, OtherDims) {
  ExpectSame(R"(func f(n0, n1, n2) {
  external %0: f32[n1*n2]
  external %1: f32[n0]
  %2 = softmax f32[n1,n2] %0[n1,n2] dims=[0]
  %3 = relu f32[n0] %1
  return %2
  return %3
})",
             2);
  ExpectSame(R"(func f(n0, n1, n2) {
  external %0: f64[n0*n1*n2*3]
  external %1: f64[n0*n2]
  %2 = mul f64[n0,n1,3,n2] %0[n0,n1,3,n2], %1[n0,n1,3,n2](n2,0,0,1)
  %3 = softmax f64[n0,n1,3,n2] %2 dims=[1]
  %4 = silu f64[n0,n1,3,n2] %3
  return %4
})");
  ExpectSame(R"(func f(n0, n1, n2) {
  external %0: f32[n0*n1*n2*4]
  external %1: f32[n2]
  %2 = mul f32[2,n0,n1,2,n2] %0[2,n0,n1,2,n2], %1[2,n0,n1,2,n2](0,0,0,0,1)
  %3 = log_softmax f32[2,n0,n1,2,n2] %2 dims=[2]
  %4 = add f32[2,n0,n1,2,n2] %3, %0[2,n0,n1,2,n2], 1
  return %4
})");
}

// Transposed operands and results, other types, and in place.
TEST(LlvmSlabsTest, OtherLayoutsAndTypes) {
  ExpectSame(R"(func f(n0, n1, n2) {
  external %0: bf16[n0*n1*n2]
  external %1: bool[n0*n1*n2]
  external %2: f32[n0*n1*n2]
  %3 = to f32[n0,n1,n2] %0[n0,n1,n2](n1*n2,1,n1)
  %4 = where f32[n0,n1,n2] %1[n0,n1,n2], %3, -1.0
  %5 = softmax f32[n0,n1,n2] %4 dims=[1]
  %6 = add f32[n0,n1,n2] %5, %2[n0,n1,n2](n1*n2,1,n1), 1
  %7 = to bf16[n0,n1,n2] %5
  write %0[n0,n1,n2](n1*n2,1,n1) = %7
  return %6
})");
}

// Row ops along two dims are two loops.
TEST(LlvmSlabsTest, DimsApart) {
  ExpectSame(R"(func f(n0, n1, n2) {
  external %0: f32[n0*n1*n2]
  %1 = softmax f32[n0,n1,n2] %0[n0,n1,n2] dims=[1]
  %2 = softmax f32[n0,n1,n2] %1 dims=[2]
  %3 = mul f32[n0,n1,n2] %2, 2.0
  return %3
})",
             2);
}

TEST(LlvmSlabsTest, RowsAreBounded) {
  const Function f = Parsed(R"(func f(n0) {
  external %0: f64[n0*3]
  %1 = softmax f64[n0,3] %0[n0,3] dims=[0]
  return %1
})");
  const CompiledKernel kernel(f, OptionsWith(RowMath()));
  ASSERT_EQ(kernel.error(), "");
  ASSERT_EQ(Compare(f, kernel, {4096}, 1), "");
  EXPECT_EQ(Compare(f, kernel, {4097}, 1),
            "some columns of 4097 elements take more than 524288 bytes");
}

}  // namespace
}  // namespace tjit::ir
