// Blocks that serve for smaller size classes, which have none.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "runtime/memory/block_cache.h"

namespace tjit::runtime {
namespace {

class LargerBlocksTest : public testing::Test {
 protected:
  LargerBlocksTest() { InstallAllocator(); }
  // Nothing is cached, and the thread may keep blocks again.
  static void Begin() {
    TrimCache();
    FreeBlock(AllocateBlock(1, true));
  }
};

// Sizes that differ from step to step go on in the memory of other sizes.
TEST_F(LargerBlocksTest, ALargerBlockServesWhereAClassHasNone) {
  // The last one is of blocks that no thread has lists for.
  for (const std::size_t bytes :
       {std::size_t{1280}, std::size_t{20} << 10, std::size_t{1280} << 10}) {
    SCOPED_TRACE(bytes);
    Begin();
    Block* const first = AllocateBlock(bytes, true);
    FreeBlock(first);
    Block* const three_less = AllocateBlock(bytes * 7 / 10, true);
    EXPECT_NE(three_less, first);
    const std::int64_t cached = CachedBytes();
    Block* const two_less = AllocateBlock(bytes * 8 / 10, true);
    EXPECT_EQ(two_less, first);
    EXPECT_EQ(two_less->bytes, bytes * 8 / 10);
    FreeBlock(two_less);
    if (bytes < 1 << 20) {
      EXPECT_EQ(CachedBytes(), cached);
    }
    Block* const own = AllocateBlock(bytes, true);
    EXPECT_EQ(own, first);  // it stayed in its class
    FreeBlock(own);
    FreeBlock(three_less);
  }
  TrimCache();
  FreeBlock(AllocateBlock(std::size_t{8} << 20, true));
  Block* const large = AllocateBlock(std::size_t{7} << 20, true);
  EXPECT_GT(CachedBytes(), 7 << 20);  // that of 8 MiB is there still
  FreeBlock(large);
}

// One of them is taken, and the others go on the thread's list of their class.
TEST_F(LargerBlocksTest, LargerBlocksThatAThreadHasLeftServe) {
  Begin();
  std::vector<Block*> left(6);
  std::thread([&] {
    for (Block*& block : left) block = AllocateBlock(1280, true);
    for (Block* const block : left) FreeBlock(block);
  }).join();
  const std::int64_t cached = CachedBytes();
  std::vector<Block*> taken(6);
  for (Block*& block : taken) block = AllocateBlock(1100, true);
  EXPECT_TRUE(std::is_permutation(taken.begin(), taken.end(), left.begin(),
                                  left.end()));
  EXPECT_EQ(CachedBytes(), cached - 6 * 1280);
  for (Block* const block : taken) FreeBlock(block);
  EXPECT_EQ(CachedBytes(), cached);
}

}  // namespace
}  // namespace tjit::runtime
