// ScratchRoom: what dies within a call gets its place after two calls, nothing
// else does, and what is held behind the call is told.
#include "runtime/memory/scratch_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tjit::runtime {
namespace {

constexpr std::size_t kSize = ScratchRoom::kMinBytes;

class ScratchRoomTest : public ::testing::Test {
 protected:
  ScratchRoomTest() : memory_(kPieces * 2 * kSize) {}

  // A request, served elsewhere where the room does not.
  char* Ask(std::size_t bytes) {
    char* data = scratch_.Take(bytes);
    if (data != nullptr) return data;
    elsewhere_.push_back(std::make_unique<char[]>(1));
    scratch_.Note(elsewhere_.back().get());
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
        EXPECT_FALSE(scratch_.Give(Ask(bytes)));
      }
      scratch_.End();
      EXPECT_FALSE(scratch_.IsHeld());
    }
  }

  static constexpr int kPieces = 3;
  ScratchRoom scratch_;
  std::vector<char> memory_;
  std::vector<std::unique_ptr<char[]>> elsewhere_;
};

TEST_F(ScratchRoomTest, ServesWhatDiedInTwoCalls) {
  Learn({kSize});
  Begin();
  char* const data = Ask(kSize);
  EXPECT_EQ(data, Piece(0));
  EXPECT_TRUE(scratch_.Give(data));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
}

TEST_F(ScratchRoomTest, ThoseThatLiveTogetherHavePiecesOfTheirOwn) {
  Learn({kSize + 1, kSize, 2 * kSize, kSize, kSize});
  Begin({2 * kSize, kSize});
  EXPECT_EQ(Ask(kSize + 1), Piece(0));
  EXPECT_EQ(Ask(kSize), Piece(1));
  char* const elsewhere = Ask(2 * kSize);
  EXPECT_FALSE(scratch_.Give(elsewhere)) << "there is no piece left";
  EXPECT_TRUE(scratch_.Give(Piece(1)));
  EXPECT_TRUE(scratch_.Give(Piece(0)));
  EXPECT_EQ(Ask(kSize), Piece(1)) << "the smallest that fits";
  EXPECT_EQ(Ask(kSize), Piece(0));
  EXPECT_TRUE(scratch_.Give(Piece(0)));
  EXPECT_TRUE(scratch_.Give(Piece(1)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  EXPECT_EQ(scratch_.Need(),
            (std::vector<std::uint64_t>{kSize + 1, kSize, 2 * kSize}));
}

TEST_F(ScratchRoomTest, TellsWhatItNeedsOnceThatIsKnown) {
  Learn({kSize, kSize + 1, kSize});
  EXPECT_TRUE(scratch_.Need().empty());
  Begin({});
  for (const std::size_t bytes : {kSize, kSize + 1, kSize}) {
    EXPECT_FALSE(scratch_.Give(Ask(bytes)));
  }
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  EXPECT_EQ(scratch_.Need(), std::vector<std::uint64_t>{kSize + 1})
      << "one after the other";
}

TEST_F(ScratchRoomTest, PiecesAreTakenBack) {
  Learn({kSize});
  Begin();
  EXPECT_TRUE(scratch_.Give(Ask(kSize)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  scratch_.Lend(nullptr, 0);
  scratch_.Begin();
  EXPECT_FALSE(scratch_.Give(Ask(kSize)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
}

TEST_F(ScratchRoomTest, WhatOutlivedACallIsNeverServed) {
  Learn({kSize});
  Begin();
  const char* const data = Ask(kSize);
  Ask(kSize);  // lives on
  EXPECT_TRUE(scratch_.Give(data));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  for (int i = 0; i < 5; ++i) {
    Begin();
    EXPECT_TRUE(scratch_.Give(Ask(kSize)));
    EXPECT_FALSE(scratch_.Give(Ask(kSize)));
    scratch_.End();
    EXPECT_FALSE(scratch_.IsHeld());
  }
}

TEST_F(ScratchRoomTest, OtherRequestsEndWhatIsKnown) {
  Learn({kSize, kSize + 64, kSize});
  Begin();
  EXPECT_TRUE(scratch_.Give(Ask(kSize)));
  EXPECT_FALSE(scratch_.Give(Ask(kSize)));
  EXPECT_FALSE(scratch_.Give(Ask(kSize))) << "as learned, behind another";
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  Begin();
  EXPECT_EQ(scratch_.Take(kSize - 1), nullptr) << "small ones are not counted";
  EXPECT_TRUE(scratch_.Give(Ask(kSize)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
}

// A result, say, that is copied to its place behind the call.
TEST_F(ScratchRoomTest, TellsWhatIsHeld) {
  Learn({kSize});
  Begin();
  char* const data = Ask(kSize);
  EXPECT_EQ(data, Piece(0));
  scratch_.End();
  EXPECT_TRUE(scratch_.IsHeld());
  EXPECT_TRUE(scratch_.Give(data)) << "late, but no block";
  EXPECT_FALSE(scratch_.IsHeld());
  Begin();
  EXPECT_FALSE(scratch_.Give(Ask(kSize)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
}

TEST_F(ScratchRoomTest, WhatDiesBehindTheCallIsNoScratch) {
  for (int i = 0; i < 4; ++i) {
    Begin();
    const char* const data = Ask(kSize);
    scratch_.End();
    EXPECT_FALSE(scratch_.IsHeld());
    EXPECT_FALSE(scratch_.Give(data));
  }
}

TEST_F(ScratchRoomTest, WhatOutlivedACallIsNeverServedAfterShorterCalls) {
  Learn({kSize});
  Begin();
  EXPECT_TRUE(scratch_.Give(Ask(kSize)));
  const char* const outlives = Ask(2 * kSize);
  scratch_.End();
  EXPECT_FALSE(scratch_.Give(outlives));
  Learn({}, 1);
  Learn({kSize + 64}, 1);
  for (int call = 0; call < 5; ++call) {
    Begin({kSize, 2 * kSize});
    EXPECT_TRUE(scratch_.Give(Ask(kSize)));
    EXPECT_FALSE(scratch_.Give(Ask(2 * kSize))) << call;
    scratch_.End();
  }
}

// Behind other requests, a request is another one.
TEST_F(ScratchRoomTest, DeathsBehindOtherRequestsDoNotCount) {
  Learn({kSize, kSize});
  for (int call = 0; call < 3; ++call) {
    Begin({kSize + 64, kSize});
    EXPECT_EQ(scratch_.Give(Ask(kSize + 64)), call == 2);
    EXPECT_EQ(scratch_.Give(Ask(kSize)), call == 2);
    scratch_.End();
  }
}

TEST_F(ScratchRoomTest, RemembersSoManyRequests) {
  for (std::size_t i = 0; i < 100; ++i) Learn({kSize + 64 * i});
  Begin();
  EXPECT_TRUE(scratch_.Give(Ask(kSize)));
  scratch_.End();
  Begin({kSize * 3});
  EXPECT_FALSE(scratch_.Give(Ask(kSize + 64 * 99)));
  scratch_.End();
}

TEST_F(ScratchRoomTest, LearnsAgain) {
  Begin();
  Ask(kSize);  // a result, as long as an offer serves the request before it
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
  scratch_.Forget();
  Learn({kSize});
  Begin();
  EXPECT_TRUE(scratch_.Give(Ask(kSize)));
}

TEST_F(ScratchRoomTest, WithoutMemoryItOnlyNotes) {
  for (int i = 0; i < 3; ++i) {
    Begin({});
    EXPECT_FALSE(scratch_.Give(Ask(kSize)));
    scratch_.End();
    EXPECT_FALSE(scratch_.IsHeld());
  }
  EXPECT_EQ(scratch_.Take(kSize), nullptr) << "no call";
  Begin();
  EXPECT_TRUE(scratch_.Give(Ask(kSize)));
  scratch_.End();
  EXPECT_FALSE(scratch_.IsHeld());
}

}  // namespace
}  // namespace tjit::runtime
