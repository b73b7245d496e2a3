// Which loops run block by block, and that their bits are the same.
#include <cstdint>
#include <string>

#include "compiler/schedule/row_blocks.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

// Loops that another one followed block by block, of n0 rows.
std::size_t ChainedLoops(const std::string& text, std::int64_t n0,
                         std::uint32_t flags = 0) {
  const Function f = Parsed(text);
  TjitLlvmOptions options = DefaultOptions();
  options.flags = flags;
  const CompiledKernel kernel(f, options);
  EXPECT_EQ(kernel.error(), "") << text;
  EXPECT_EQ(Compare(f, kernel, {n0}, 5, {}, 3), "") << n0 << text;
  const std::size_t in_parts = kernel.chained_loops();
  EXPECT_EQ(Compare(f, kernel, {n0}, 6), "") << n0 << text;
  EXPECT_EQ(kernel.chained_loops(), in_parts);
  EXPECT_GT(kernel.kernel().loop_count, 1);
  return in_parts;
}

std::size_t ChainedInSmallBlocks(const std::string& text) {
  return ChainedLoops(text, 64, kTjitLlvmSmallBlocks);
}

// What there is one of per row, then what there are six of.
constexpr char kSixOfOne[] = R"(func f(n0) {
  external %0: f64[n0*6]
  %1 = add f64[n0] %0[n0](6), %0[n0](6)+1, 1.0
  %2 = div f64[n0] %1, 3.0
  %3 = sub f64[n0,6] %0[n0,6], %2[n0,6](1,0), 1.0
  return %3
})";

TEST(LlvmRowBlocksTest, ManyRows) {
  EXPECT_EQ(ChainedLoops(kSixOfOne, 20000), 1u);
  EXPECT_EQ(ChainedLoops(kSixOfOne, 2400), 1u);
}

TEST(LlvmRowBlocksTest, FewRowsStayInCacheAnyway) {
  for (const std::int64_t n : {0, 1, 6, 1000}) {
    EXPECT_EQ(ChainedLoops(kSixOfOne, n), 0u) << n;
  }
}

TEST(LlvmRowBlocksTest, AnyBlock) {
  for (const std::int64_t n : {4, 5, 6, 7, 70}) {
    EXPECT_EQ(ChainedLoops(kSixOfOne, n, kTjitLlvmSmallBlocks), 1u) << n;
  }
}

// Each reads what another row has made.
TEST(LlvmRowBlocksTest, OtherRows) {
  EXPECT_EQ(ChainedInSmallBlocks(R"(func f(n0) {
  external %0: f64[n0*6+6]
  %1 = add f64[n0+1] %0[n0+1](6), %0[n0+1](6)+1, 1.0
  %2 = sub f64[n0,6] %0[n0,6](6,1), %1[n0,6](1,0)+1, 1.0
  return %2
})"),
            0u);
  EXPECT_EQ(ChainedInSmallBlocks(R"(func f(n0) {
  external %0: f64[n0*n0]
  %1 = add f64[n0] %0[n0](n0), %0[n0](n0)+1, 1.0
  %2 = sub f64[n0,n0] %0[n0,n0], %1[n0,n0](0,1), 1.0
  return %2
})"),
            0u);
}

// The third loop writes what the first one still reads for the next row; where
// each has its own row alone, all are one chain.
TEST(LlvmRowBlocksTest, WrittenExternals) {
  EXPECT_EQ(ChainedInSmallBlocks(R"(func f(n0) {
  external %0: f64[n0+1]
  external %1: f64[n0*6]
  %2 = add f64[n0] %1[n0](6), %0[n0](1)+1, 1.0
  %3 = mul f64[n0,6] %1[n0,6], %2[n0,6](1,0)
  %4 = neg f64[n0] %2
  write %0[n0] = %4
  return %3
})"),
            1u);
  EXPECT_EQ(ChainedInSmallBlocks(R"(func f(n0) {
  external %0: f64[n0]
  external %1: f64[n0*6]
  %2 = add f64[n0] %1[n0](6), %0, 1.0
  %3 = mul f64[n0,6] %1[n0,6], %2[n0,6](1,0)
  write %0 = %2
  write %1[n0,6] = %3
  return %3
})"),
            1u);
}

// The returned value may lie over %0, which the first loop reads at another
// stride. (Compare() runs it there.)
TEST(LlvmRowBlocksTest, ReturnedOverExternal) {
  EXPECT_EQ(ChainedInSmallBlocks(R"(func f(n0) {
  external %0: f64[n0*6]
  external %1: f64[n0*6]
  %2 = add f64[n0] %0[n0](1)+1, %1[n0](6), 1.0
  %3 = mul f64[n0,6] %1[n0,6], %2[n0,6](1,0)
  return %3
})"),
            0u);
}

// %2 is dead when %4 is made, and has its place: two chains of two.
TEST(LlvmRowBlocksTest, ScratchInTurn) {
  EXPECT_EQ(ChainedInSmallBlocks(R"(func f(n0) {
  external %0: f64[n0*6]
  %1 = add f64[n0] %0[n0](6), %0[n0](6)+1, 1.0
  %2 = mul f64[n0,6] %0[n0,6], %1[n0,6](1,0)
  %3 = add f64[n0] %2[n0](6), %2[n0](6)+3, 1.0
  %4 = mul f64[n0,6] %2, %3[n0,6](1,0)
  return %2, %4
})"),
            2u);
}

}  // namespace
}  // namespace tjit::ir
