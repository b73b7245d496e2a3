// Random functions as kernels, against the interpreter.
#include <set>

#include "compiler/ir/ir_text.h"
#include "gtest/gtest.h"
#include "tests/compiler/ir/ir_random.h"
#include "tests/compiler/llvm/llvm_math.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

constexpr std::uint64_t kSeeds = 20;

// Seeds from `first` on, on one width.
void RunSeeds(std::uint64_t first, int vector_bits, RandomOptions random,
              std::uint32_t flags = 0) {
  random.calls = false;
  random.reductions = false;
  int loops = 0, scratch = 0;
  std::size_t chained = 0;
  for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
    const Function f = RandomFunction(seed, random);
    TjitLlvmOptions options = OptionsWith(ArrayVectorAndRowMath(), vector_bits);
    options.flags = flags;
    const CompiledKernel kernel(f, options);
    ASSERT_EQ(kernel.error(), "") << "seed " << seed << "\n" << Print(f);
    loops += kernel.kernel().loop_count;
    scratch += kernel.kernel().scratch_count;
    for (const auto& [n0, n1] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 50}, {37, 4}}) {
      ASSERT_EQ(Compare(f, kernel, {n0, n1}, seed), "")
          << "seed " << seed << ", n0 " << n0 << ", n1 " << n1 << "\n"
          << Print(f);
      ASSERT_EQ(Compare(f, kernel, {n0, n1}, seed, {}, 3), "")
          << "in parts, seed " << seed << "\n"
          << Print(f);
    }
    chained += kernel.chained_loops();
  }
  EXPECT_EQ(chained > 0, flags == kTjitLlvmSmallBlocks);
  EXPECT_GT(loops, 60);
  EXPECT_GT(scratch, 0);
}

TEST(LlvmRandomTest, ReturningAll) {
  RandomOptions random;
  random.returned = 30;
  RunSeeds(0, 512, random);
}

TEST(LlvmRandomTest, Rows) {
  RandomOptions random;
  random.returned = 30;
  random.rows = 40;
  RunSeeds(4000, 512, random);
  RunSeeds(5000, 256, random);
  RunSeeds(6000, 128, random);
}

TEST(LlvmRandomTest, RowsOfPartsWrittenBack) {
  RandomOptions random;
  random.parts = 50;
  random.writes = 4;
  random.returned = 30;
  random.rows = 30;
  RunSeeds(7000, 512, random);
}

// Note [Row blocks] in row_blocks.h.
TEST(LlvmRandomTest, RowsBlockByBlock) {
  RandomOptions random;
  random.returned = 30;
  random.rows = 30;
  RunSeeds(8000, 512, random, kTjitLlvmSmallBlocks);
  random.parts = 50;
  random.writes = 4;
  RunSeeds(9000, 512, random, kTjitLlvmSmallBlocks);
  random.rows = 0;
  RunSeeds(10000, 256, random, kTjitLlvmSmallBlocks);
}

TEST(LlvmRandomTest, Avx2) {
  RandomOptions random;
  random.returned = 30;
  RunSeeds(1000, 256, random);
}

TEST(LlvmRandomTest, Sse) {
  RandomOptions random;
  random.returned = 30;
  RunSeeds(2000, 128, random);
}

TEST(LlvmRandomTest, PartsWrittenBack) {
  RandomOptions random;
  random.parts = 70;
  random.writes = 4;
  random.returned = 30;
  RunSeeds(3000, 512, random);
}

}  // namespace
}  // namespace tjit::ir
