#include "recorder/backoff.h"

#include <gtest/gtest.h>

namespace tjit {
namespace {

TEST(BackoffTest, EachFailureInARowDoublesThePause) {
  Backoff pause(3);
  EXPECT_TRUE(pause.IsOver(0));
  pause.Fail(100, 10);
  EXPECT_EQ(pause.until(), 120u);
  EXPECT_FALSE(pause.IsOver(119));
  EXPECT_TRUE(pause.IsOver(120));
  pause.Fail(120, 10);
  EXPECT_EQ(pause.until(), 160u);
  pause.Fail(160, 10);
  pause.Fail(240, 10);  // no more than three count
  EXPECT_EQ(pause.until(), 320u);
}

TEST(BackoffTest, ASuccessBeginsARowAnew) {
  Backoff pause(16);
  pause.Fail(0, 1);
  pause.Fail(0, 1);
  pause.Succeed();
  pause.Fail(0, 1);
  EXPECT_EQ(pause.until(), 2u);
}

TEST(BackoffTest, APauseIsNoLongerThanTheLongest) {
  Backoff pause(16, 1000);
  for (int i = 0; i < 20; ++i) pause.Fail(0, 100);
  EXPECT_EQ(pause.until(), 1000u);
}

TEST(BackoffTest, APauseMayBeGivenAndTakenBack) {
  Backoff pause(16);
  pause.PauseUntil(7);
  EXPECT_FALSE(pause.IsOver(6));
  pause.Reset();
  EXPECT_TRUE(pause.IsOver(0));
}

}  // namespace
}  // namespace tjit
