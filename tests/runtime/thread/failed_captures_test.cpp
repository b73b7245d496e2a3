// Captures that come to nothing again and again get rare, whatever the reason,
// and what lasts is found all the same.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace tjit {
namespace {

// So many ops, by whose numbers no variant is like another.
at::Tensor Sequence(const at::Tensor& x, int variant, int ops) {
  std::minstd_rand random(static_cast<unsigned>(variant) + 1);
  at::Tensor y = x;
  for (int i = 0; i < ops; ++i) {
    const auto diagonal = static_cast<std::int64_t>(random() >> 1);
    y = i % 2 == 0 ? at::tril(y, diagonal) : at::triu(y, -diagonal);
  }
  return y;
}

class FailedCapturesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    clear();
    Options options;
    options.hot_threshold = 10;
    options.backend = Backend::kReplay;
    ASSERT_TRUE(enable(options));
  }
  void TearDown() override {
    disable();
    clear();
  }
  void Repeat(int variant, int ops, int times) {
    for (int i = 0; i < times; ++i) {
      Sequence(x_, variant, ops);
      mark_step();
    }
  }
  // `count` sequences that come two to four times each, and never again.
  void RepetitionsThatDoNotLast(int first, int count) {
    std::minstd_rand random(1);
    for (int v = first; v < first + count; ++v) {
      const int ops = 10 + static_cast<int>(random() / 8 % 60);
      Repeat(v, ops, 2 + static_cast<int>(random() / 8 % 3));
    }
  }
  // Of a loop that lasts, once any pause is over.
  void ExpectFound(int variant) {
    Repeat(variant, 50, (1 << 16) / 50 + 30);
    const Stats before = stats();
    Repeat(variant, 50, 20);
    const Stats d = stats() - before;
    EXPECT_EQ(d.ops_replayed, d.ops_seen);
  }

  const at::Tensor x_ = at::ones({2, 2});
};

TEST_F(FailedCapturesTest, OfPeriodsThatDoNotLast) {
  RepetitionsThatDoNotLast(0, 300);
  const Stats before = stats();
  RepetitionsThatDoNotLast(300, 2000);
  const Stats d = stats() - before;
  EXPECT_GT(d.ops_seen, 200000);
  EXPECT_GT(d.ops_seen / std::max<std::int64_t>(d.sequences, 1), 10000)
      << d.to_json();
  ExpectFound(1000000);
}

// Those that last are captured one after the other, without pauses.
TEST_F(FailedCapturesTest, ManyPeriodsThatLast) {
  for (int v = 0; v < 60; ++v) Repeat(v, 40, 12);
  const Stats before = stats();
  for (int v = 0; v < 60; ++v) Repeat(v, 40, 10);
  const Stats d = stats() - before;
  EXPECT_GE(static_cast<double>(d.ops_replayed),
            0.9 * static_cast<double>(d.ops_seen));
}

TEST_F(FailedCapturesTest, OfAStoreThatIsFull) {
  for (int v = 0; v < 60; ++v) Repeat(v, 8000, 7);
  const std::int64_t full = stats().side_exit_count("store_full");
  EXPECT_GT(full, 0);
  const Stats before = stats();
  // Each is a loop of its own, and broken off: each would be captured again.
  for (int i = 0; i < 2000; ++i) {
    Repeat(1000 + i % 5, 40, 6);
    Repeat(100000 + i, 20, 1);
  }
  const Stats d = stats() - before;
  EXPECT_LT(d.side_exit_count("store_full"), 40);
}

}  // namespace
}  // namespace tjit
