// TJIT_STRESS=hide below the wrappers: protected pages, the report of an
// illegal read, limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/memory/block.h"
#include "runtime/memory/block_cache.h"

namespace tjit::runtime {

bool TakeOverDeadBlock(Block*) { return false; }

namespace {

// Installed before ours: says so and lets the fault happen again.
void OlderHandler(int) {
  if (write(STDERR_FILENO, "older handler\n", 14) > 0) {
    signal(SIGSEGV, SIG_DFL);
  }
}
const auto handler_before = signal(SIGSEGV, &OlderHandler);

class BlockHideTest : public testing::Test {
 protected:
  BlockHideTest() {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    InstallAllocator();
    EnableHiding();
  }
};

TEST_F(BlockHideTest, HiddenBytesComeBackUnchanged) {
  Block* block = AllocateBlock(10000, true);
  EXPECT_NE(block->kind & Block::kPages, 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data) % 4096, 0u);
  std::memset(block->data, 7, 10000);
  char* data = block->data;
  EXPECT_TRUE(HideBlock(block, "aten::add.Tensor"));
  EXPECT_NE(block->kind & Block::kHidden, 0);
  EXPECT_EQ(block->bytes, 10000u);  // the header stays readable
  EXPECT_TRUE(HideBlock(block, "aten::add.Tensor"));
  RevealBlock(block);
  EXPECT_EQ(block->kind & Block::kHidden, 0);
  EXPECT_EQ(block->data, data);
  EXPECT_EQ(data[0], 7);
  EXPECT_EQ(data[9999], 7);
  FreeBlock(block);
}

__attribute__((noinline)) void UnknownReader(Block* block) {
  volatile char c = block->data[10];
  (void)c;
}

TEST_F(BlockHideTest, AnIllegalReadNamesTheOpAndBothPlaces) {
  Block* block = AllocateBlock(100, true);
  ASSERT_TRUE(HideBlock(block, "aten::mul.Tensor"));
  EXPECT_DEATH(UnknownReader(block),
               "hidden result of aten::mul.Tensor(.|\n)*hidden at:(.|\n)*"
               "block_hide_test(.|\n)*touched at:(.|\n)*block_hide_test");
  FreeBlock(block);  // also reveals it
}

TEST_F(BlockHideTest, AnotherThreadsReadDiesToo) {
  Block* block = AllocateBlock(100, true);
  ASSERT_TRUE(HideBlock(block, "aten::sum"));
  EXPECT_DEATH(std::thread([&] { UnknownReader(block); }).join(),
               "hidden result of aten::sum");
  FreeBlock(block);
}

TEST_F(BlockHideTest, OtherFaultsGoToTheHandlerBefore) {
  EXPECT_EXIT(
      {
        void* page = mmap(nullptr, 4096, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *static_cast<volatile char*>(page) = 1;
      },
      testing::KilledBySignal(SIGSEGV), "^older handler\n$");
}

TEST_F(BlockHideTest, SystemCallsFailInsteadOfReading) {
  Block* block = AllocateBlock(100, true);
  ASSERT_TRUE(HideBlock(block, "aten::add.Tensor"));
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_EQ(write(pipes[1], block->data, 100), -1);
  EXPECT_EQ(errno, EFAULT);
  RevealBlock(block);
  EXPECT_EQ(write(pipes[1], block->data, 100), 100);
  close(pipes[0]);
  close(pipes[1]);
  FreeBlock(block);
}

TEST_F(BlockHideTest, TheOldestAreRevealedAtTheLimit) {
  std::vector<Block*> blocks(5000);
  for (Block*& block : blocks) {
    block = AllocateBlock(64, true);
    block->data[0] = 3;
    ASSERT_TRUE(HideBlock(block, "aten::relu"));
  }
  std::size_t hidden = 0;
  for (Block* block : blocks) {
    if ((block->kind & Block::kHidden) != 0) {
      ++hidden;
    } else {
      EXPECT_EQ(block->data[0], 3);
    }
  }
  EXPECT_EQ(hidden, 4096u);
  EXPECT_NE(blocks.back()->kind & Block::kHidden, 0);
  for (Block* block : blocks) FreeBlock(block);
}

TEST_F(BlockHideTest, FreedBlocksAreReadableWhenTheyComeBack) {
  for (int i = 0; i < 3; ++i) {
    Block* block = AllocateBlock(100, false);
    block->data[0] = 1;
    ASSERT_TRUE(HideBlock(block, "aten::neg"));
    ReleaseBlock(block->data);
  }
  TrimCache();
  EXPECT_EQ(CachedBytes(), 0);
}

TEST_F(BlockHideTest, HugeBlocksHaveTheSameLayout) {
  Block* block = AllocateBlock(std::size_t{300} << 20, true);
  block->data[block->bytes - 1] = 1;
  EXPECT_TRUE(HideBlock(block, "aten::cat"));
  RevealBlock(block);
  EXPECT_EQ(block->data[block->bytes - 1], 1);
  FreeBlock(block);
}

TEST_F(BlockHideTest, ManyThreads) {
  auto work = [] {
    for (int i = 0; i < 2000; ++i) {
      Block* a = AllocateBlock(200, true);
      Block* b = AllocateBlock(9000, true);
      a->data[0] = b->data[8999] = 1;
      HideBlock(a, "aten::add_");
      HideBlock(b, "aten::mm");
      RevealBlock(a);
      a->data[0] += 1;
      FreeBlock(a);
      FreeBlock(b);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace tjit::runtime
