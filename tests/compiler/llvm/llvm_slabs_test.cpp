// Slabs loops as kernels: row ops along a dim before the last with what is
// fused around them, against the interpreter, with functions in its order.
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_math.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

constexpr std::int64_t kSlabs[] = {0, 1, 3};
constexpr std::int64_t kRows[] = {1, 2, 21, 300};
constexpr std::int64_t kColumns[] = {1, 7, 16, 33, 200, 3000};

std::vector<std::vector<std::int64_t>> AllSizes(int vector_bits) {
  std::vector<std::vector<std::int64_t>> all;
  for (const std::int64_t slabs : kSlabs) {
    for (const std::int64_t rows : kRows) {
      for (const std::int64_t columns : kColumns) {
        if (slabs * rows * columns <= 30000) {
          all.push_back({slabs, rows, columns});
        }
      }
    }
  }
  if (vector_bits == 512) all.push_back({2, 300, 617});  // of several tiles
  return all;
}

// All sizes on all widths, in one and in several parts. A slab has
// `columns_of_one` times n2 columns.
void ExpectSame(const std::string& text, int loops = 1,
                std::int64_t columns_of_one = 1) {
  const Function f = Parsed(text);
  Calls() = {};
  for (const int bits : {512, 256, 128}) {
    const CompiledKernel kernel(f, OptionsWith(ArrayVectorAndRowMath(), bits));
    ASSERT_EQ(kernel.error(), "") << text;
    EXPECT_EQ(kernel.kernel().loop_count, loops) << text;
    for (const std::vector<std::int64_t>& sizes : AllSizes(bits)) {
      for (const int parts : {1, 3}) {
        ASSERT_EQ(Compare(f, kernel, sizes, 7, {}, parts), "")
            << sizes[0] << " slabs of " << sizes[1] << " rows of " << sizes[2]
            << ", " << bits << " bits, " << parts << " parts\n"
            << text;
      }
    }
  }
  EXPECT_GT(Calls().row_count, 0);
  EXPECT_EQ(Calls().wrong_places, 0);
  EXPECT_EQ(Calls().uneven_places, 0) << text;
  EXPECT_EQ(Calls().most_columns, 3000 * columns_of_one) << text;
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

// One row op after the other, calls of array functions and of
// position-dependent ones between them.
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
})",
             1, 3);
  ExpectSame(R"(func f(n0, n1, n2) {
  external %0: f32[n0*n1*n2*4]
  external %1: f32[n2]
  %2 = mul f32[2,n0,n1,2,n2] %0[2,n0,n1,2,n2], %1[2,n0,n1,2,n2](0,0,0,0,1)
  %3 = log_softmax f32[2,n0,n1,2,n2] %2 dims=[2]
  %4 = add f32[2,n0,n1,2,n2] %3, %0[2,n0,n1,2,n2], 1
  return %4
})",
             1, 2);
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
  EXPECT_EQ(Compare(f, kernel, {0}, 1), "a column has no elements");
}

// As many as the lowering lets pass, with more buffers than most have.
TEST(LlvmSlabsTest, TheMostRowsBetweenManyCalls) {
  const Function f = Parsed(R"(func f(n0, n1) {
  external %0: f64[n0*n1]
  %1 = exp f64[n0,n1] %0[n0,n1]
  %2 = log_softmax f64[n0,n1] %1 dims=[0]
  %3 = sin f64[n0,n1] %2
  %4 = log_softmax_backward f64[n0,n1] %3, %2 dims=[0]
  %5 = silu f64[n0,n1] %4
  %6 = add f64[n0,n1] %5, %1, 1.0
  %7 = softmax f64[n0,n1] %6 dims=[0]
  %8 = tanh f64[n0,n1] %7
  return %8
})");
  const CompiledKernel kernel(f, OptionsWith(ArrayVectorAndRowMath()));
  ASSERT_EQ(kernel.error(), "");
  EXPECT_EQ(kernel.kernel().loop_count, 1);
  EXPECT_EQ(Compare(f, kernel, {256, 70}, 1), "");
}

}  // namespace
}  // namespace tjit::ir
