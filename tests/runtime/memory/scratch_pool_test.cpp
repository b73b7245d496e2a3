// ScratchPool: what dies within a call gets its place after two calls, nothing
// else does, and what is held behind the call is told.
#include "runtime/memory/scratch_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tjit::runtime {
namespace {

constexpr std::size_t kSize = ScratchPool::kMinBytes;

class ScratchPoolTest : public ::testing::Test {
 protected:
  ScratchPoolTest() : memory_(kPieces * 2 * kSize) {}

  // A request, served elsewhere where the room does not.
  char* Ask(std::size_t bytes) {
    char* data = scratch_.Acquire(bytes);
    if (data != nullptr) return data;
    elsewhere_.push_back(std::make_unique<char[]>(1));
    scratch_.Record(elsewhere_.back().get());
    return elsewhere_.back().get();
  }
  char* Piece(int i) { return memory_.data() + i * 2 * kSize; }
  void Begin(const std::vector<std::size_t>& pieces = {kSize}) {
    scratch_.Lend(nullptr, 0);
    int i = 0;
    for (const std::size_t bytes : pieces) scratch_.Lend(Piece(i++), bytes);
    scratch_.Begin();
  }
  // Calls in which requests of these sizes die, one after the other.
  void Learn(const std::vector<std::size_t>& sizes, int calls = 2) {
    for (int i = 0; i < calls; ++i) {
      Begin();
      for (const std::size_t bytes : sizes) {
        EXPECT_FALSE(scratch_.Release(Ask(bytes)));
      }
      scratch_.End();
      EXPECT_FALSE(scratch_.IsHeld());
    }
  }

  static constexpr int kPieces = 3;
  ScratchPool scratch_;
  std::vector<char> memory_;
  std::vector<std::unique_ptr<char[]>> elsewhere_;
};

TEST_F(ScratchPoolTest, ServesWhatDiedInTwoCalls) {
  Learn({kSize});
  Begin();
  char* const data = Ask(kSize);
  EXPECT_EQ(data, Piece(0));
  EXPECT_TRUE(scratch_.Release(data));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
}

TEST_F(ScratchPoolTest, ThoseThatLiveTogetherHavePiecesOfTheirOwn) {
  Learn({kSize + 1, kSize, 2 * kSize, kSize, kSize});
  Begin({2 * kSize, kSize});
  EXPECT_EQ(Ask(kSize + 1), Piece(0));
  EXPECT_EQ(Ask(kSize), Piece(1));
  char* const elsewhere = Ask(2 * kSize);
  EXPECT_FALSE(scratch_.Release(elsewhere)) << "there is no piece left";
  EXPECT_TRUE(scratch_.Release(Piece(1)));
  EXPECT_TRUE(scratch_.Release(Piece(0)));
  EXPECT_EQ(Ask(kSize), Piece(1)) << "the smallest that fits";
  EXPECT_EQ(Ask(kSize), Piece(0));
  EXPECT_TRUE(scratch_.Release(Piece(0)));
  EXPECT_TRUE(scratch_.Release(Piece(1)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  EXPECT_EQ(scratch_.Need(),
            (std::vector<std::uint64_t>{kSize + 1, kSize, 2 * kSize}));
}

TEST_F(ScratchPoolTest, TellsWhatItNeedsOnceThatIsKnown) {
  Learn({kSize, kSize + 1, kSize});
  EXPECT_TRUE(scratch_.Need().empty());
  Begin({});
  for (const std::size_t bytes : {kSize, kSize + 1, kSize}) {
    EXPECT_FALSE(scratch_.Release(Ask(bytes)));
  }
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  EXPECT_EQ(scratch_.Need(), std::vector<std::uint64_t>{kSize + 1})
      << "one after the other";
}

TEST_F(ScratchPoolTest, PiecesAreTakenBack) {
  Learn({kSize});
  Begin();
  EXPECT_TRUE(scratch_.Release(Ask(kSize)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  scratch_.Lend(nullptr, 0);
  scratch_.Begin();
  EXPECT_FALSE(scratch_.Release(Ask(kSize)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
}

TEST_F(ScratchPoolTest, WhatOutlivedACallIsNeverServed) {
  Learn({kSize});
  Begin();
  const char* const data = Ask(kSize);
  Ask(kSize);  // lives on
  EXPECT_TRUE(scratch_.Release(data));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  for (int i = 0; i < 5; ++i) {
    Begin();
    EXPECT_TRUE(scratch_.Release(Ask(kSize)));
    EXPECT_FALSE(scratch_.Release(Ask(kSize)));
    scratch_.End();
    EXPECT_FALSE(scratch_.IsHeld());
  }
}

TEST_F(ScratchPoolTest, OtherRequestsEndWhatIsKnown) {
  Learn({kSize, kSize + 64, kSize});
  Begin();
  EXPECT_TRUE(scratch_.Release(Ask(kSize)));
  EXPECT_FALSE(scratch_.Release(Ask(kSize)));
  EXPECT_FALSE(scratch_.Release(Ask(kSize))) << "as learned, behind another";
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  Begin();
  EXPECT_EQ(scratch_.Acquire(kSize - 1), nullptr)
      << "small ones are not counted";
  EXPECT_TRUE(scratch_.Release(Ask(kSize)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
}

// A result, say, that is copied to its place behind the call.
TEST_F(ScratchPoolTest, TellsWhatIsHeld) {
  Learn({kSize});
  Begin();
  char* const data = Ask(kSize);
  EXPECT_EQ(data, Piece(0));
  scratch_.End();
  EXPECT_TRUE(scratch_.IsHeld());
  EXPECT_TRUE(scratch_.Release(data)) << "late, but no block";
  EXPECT_FALSE(scratch_.IsHeld());
  Begin();
  EXPECT_FALSE(scratch_.Release(Ask(kSize)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
}

TEST_F(ScratchPoolTest, WhatDiesBehindTheCallIsNoScratch) {
  for (int i = 0; i < 4; ++i) {
    Begin();
    const char* const data = Ask(kSize);
    scratch_.End();
    EXPECT_FALSE(scratch_.IsHeld());
    EXPECT_FALSE(scratch_.Release(data));
  }
}

TEST_F(ScratchPoolTest, WhatOutlivedACallIsNeverServedAfterShorterCalls) {
  Learn({kSize});
  Begin();
  EXPECT_TRUE(scratch_.Release(Ask(kSize)));
  const char* const outlives = Ask(2 * kSize);
  scratch_.End();
  EXPECT_FALSE(scratch_.Release(outlives));
  Learn({}, 1);
  Learn({kSize + 64}, 1);
  for (int call = 0; call < 5; ++call) {
    Begin({kSize, 2 * kSize});
    EXPECT_TRUE(scratch_.Release(Ask(kSize)));
    EXPECT_FALSE(scratch_.Release(Ask(2 * kSize))) << call;
    scratch_.End();
  }
}

// Behind other requests, a request is another one.
TEST_F(ScratchPoolTest, DeathsBehindOtherRequestsDoNotCount) {
  Learn({kSize, kSize});
  for (int call = 0; call < 3; ++call) {
    Begin({kSize + 64, kSize});
    EXPECT_EQ(scratch_.Release(Ask(kSize + 64)), call == 2);
    EXPECT_EQ(scratch_.Release(Ask(kSize)), call == 2);
    scratch_.End();
  }
}

TEST_F(ScratchPoolTest, RemembersSoManyRequests) {
  for (std::size_t i = 0; i < 100; ++i) Learn({kSize + 64 * i});
  Begin();
  EXPECT_TRUE(scratch_.Release(Ask(kSize)));
  scratch_.End();
  Begin({kSize * 3});
  EXPECT_FALSE(scratch_.Release(Ask(kSize + 64 * 99)));
  scratch_.End();
}

TEST_F(ScratchPoolTest, LearnsAgain) {
  Begin();
  Ask(kSize);  // a result, as long as an offer serves the request before it
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  scratch_.Forget();
  Learn({kSize});
  Begin();
  EXPECT_TRUE(scratch_.Release(Ask(kSize)));
}

TEST_F(ScratchPoolTest, WithoutMemoryItOnlyNotes) {
  for (int i = 0; i < 3; ++i) {
    Begin({});
    EXPECT_FALSE(scratch_.Release(Ask(kSize)));
    scratch_.End();
    EXPECT_FALSE(scratch_.IsHeld());
  }
  EXPECT_EQ(scratch_.Acquire(kSize), nullptr) << "no call";
  Begin();
  EXPECT_TRUE(scratch_.Release(Ask(kSize)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
}

}  // namespace
}  // namespace tjit::runtime
