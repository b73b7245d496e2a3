// TJIT_STRICT: an unexpected fallback is an error with op and reason, at the
// op, at mark_step() or at sync(); expected ones are none.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/testing.h"
#include "tests/runtime/error_of.h"
#include "tjit/tjit.h"

namespace tjit {
namespace {

// Deferred kernels throw while it is on, which none of libtorch's does.
void SetThrows(bool on) {
  ASSERT_TRUE(testing::SetPlantedDefect(on ? "step_throws" : ""))
      << "built without TJIT_PLANTED_DEFECTS";
}

class StrictTest : public ::testing::Test {
 protected:
  void TearDown() override {
    testing::SetPlantedDefect("");
    disable();
    clear();
    enable();
    disable();
  }
  static void Enable(bool strict, bool shadow = false) {
    Options options;
    options.hot_threshold = 2;
    options.strict = strict;
    options.shadow = shadow;
    ASSERT_TRUE(enable(options));
  }
  at::Tensor Step() {
    return at::sum(at::mul(at::trace(at::add(t_, t_)), t_));
  }
  void WarmUp() {
    for (int i = 0; i < 20; ++i) {
      Step();
      mark_step();
    }
    const Stats before = stats();
    loss_ = Step();
    ASSERT_EQ((stats() - before).ops_deferred, 4);
  }
  const at::Tensor t_ = at::ones({4, 4});
  at::Tensor loss_;
};

constexpr char kText[] = "a deferred kernel threw (step_threw)";

TEST_F(StrictTest, SyncThrows) {
  Enable(true);
  WarmUp();
  SetThrows(true);
  const std::string text = ErrorOf([] { sync(); });
  EXPECT_NE(text.find(kText), std::string::npos) << text;
  EXPECT_NE(text.find("at aten::"), std::string::npos) << text;
  EXPECT_EQ(ErrorOf([] { sync(); }), "");  // once
}

TEST_F(StrictTest, MarkStepThrows) {
  Enable(true);
  WarmUp();
  SetThrows(true);
  EXPECT_NE(ErrorOf([] { mark_step(); }).find(kText), std::string::npos);
}

TEST_F(StrictTest, TheOpThatNeedsTheValueThrows) {
  Enable(true);
  WarmUp();
  SetThrows(true);
  EXPECT_NE(ErrorOf([&] { loss_.item<float>(); }).find(kText),
            std::string::npos);
  SetThrows(false);
  EXPECT_EQ(ErrorOf([&] { Step().item<float>(); }), "");
  const Stats s = stats();
  EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
}

// Where nothing may be thrown the error waits for the next op.
TEST_F(StrictTest, AReaderDoesNotThrowTheNextOpDoes) {
  Enable(true);
  WarmUp();
  SetThrows(true);
  EXPECT_EQ(ErrorOf([&] { loss_.const_data_ptr<float>(); }), "");
  EXPECT_NE(ErrorOf([&] { at::add(t_, t_); }).find(kText), std::string::npos);
}

// The op is pending when its check of values has made an earlier one fail: it
// is done once, and the error is the next op's.
TEST_F(StrictTest, AnOpThatWasDeferredDoesNotThrow) {
  Enable(true);
  at::Tensor sum = at::zeros({4, 4});
  const at::Tensor zero = at::zeros({1}, at::kLong), row = at::ones({1, 4});
  const auto step = [&] {
    const at::Tensor index = at::add(zero, zero);
    loss_ = at::mul(t_, t_);
    return ErrorOf([&] { sum.index_add_(0, index, row); });
  };
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(step(), "");
    mark_step();
  }
  const Stats before = stats();
  SetThrows(true);
  EXPECT_EQ(step(), "");
  EXPECT_EQ((stats() - before).ops_deferred, 3);
  EXPECT_EQ((stats() - before).flush_count("value_check"), 1);
  SetThrows(false);
  EXPECT_NE(ErrorOf([&] { at::add(t_, t_); }).find(kText), std::string::npos);
  EXPECT_EQ(sum.const_data_ptr<float>()[0], 21);
}

TEST_F(StrictTest, OffItIsOnlyCounted) {
  Enable(false);
  WarmUp();
  const Stats before = stats();
  SetThrows(true);
  EXPECT_EQ(ErrorOf([] { sync(); }), "");
  EXPECT_EQ((stats() - before).side_exit_count("step_threw"), 1);
}

TEST_F(StrictTest, ExpectedFallbacksAreNoErrors) {
  Enable(true);
  WarmUp();
  const Stats before = stats();
  EXPECT_EQ(ErrorOf([&] {
              at::add(t_, t_);
              at::mul(t_, t_);  // the trace goes on with another op
              sync();
            }),
            "");
  EXPECT_GT((stats() - before).side_exit_count("op_differs"), 0);
}

TEST_F(StrictTest, AShadowMismatchIsUnexpected) {
  if (!testing::SetPlantedDefect("no_execute")) GTEST_SKIP() << "not built in";
  Enable(true, /*shadow=*/true);
  std::string text;
  for (int i = 0; i < 30 && text.empty(); ++i) {
    text = ErrorOf([&] { Step().item<float>(); });
  }
  EXPECT_NE(text.find("(shadow_mismatch)"), std::string::npos) << text;
}

}  // namespace
}  // namespace tjit
