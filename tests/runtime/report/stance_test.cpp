// tjit::set_stance(): behind it what is replayed goes on, and nothing is
// recorded, promoted or compiled anew, which is counted, and said or thrown.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace tjit {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kSteps = 30;

Options Fast(Backend backend = Backend::kReplay) {
  Options o;
  o.hot_threshold = 3;
  o.backend = backend;
  return o;
}

at::Tensor First(const at::Tensor& x) {
  return at::add(at::tanh(at::mul(x, 1.25)), 0.5);
}
at::Tensor Second(const at::Tensor& x) {
  return at::sub(at::sigmoid(at::sub(x, 0.25)), 0.5);
}

using Body = std::function<at::Tensor(const at::Tensor&)>;

at::Tensor RunLoop(const Body& body, int steps = kSteps,
                   std::int64_t size = 64) {
  at::Tensor x = at::linspace(-1, 1, size);
  mark_step();
  for (int i = 0; i < steps; ++i) {
    x = body(x);
    mark_step();
  }
  sync();
  return x;
}

Stats StatsOf(const std::function<void()>& body) {
  const Stats before = stats();
  body();
  return stats() - before;
}

bool HasSameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr<float>(), b.const_data_ptr<float>(),
                     a.nbytes()) == 0;
}

class StanceTest : public ::testing::Test {
 protected:
  StanceTest() { clear(); }
  ~StanceTest() override {
    set_stance(Stance::kDefault);
    disable();
  }
};

TEST_F(StanceTest, WhatIsReplayedGoesOnAndNothingIsRecorded) {
  const at::Tensor first = RunLoop(First), second = RunLoop(Second);
  ASSERT_TRUE(enable(Fast()));
  EXPECT_EQ(stance(), Stance::kDefault);
  RunLoop(First);
  set_stance(Stance::kEagerOnRecompile);
  EXPECT_EQ(stance(), Stance::kEagerOnRecompile);
  at::Tensor x;
  Stats d = StatsOf([&] { x = RunLoop(First); });
  EXPECT_EQ(d.ops_replayed, 3 * kSteps) << d.to_json();
  EXPECT_TRUE(HasSameBits(x, first));
  ::testing::internal::CaptureStderr();
  d = StatsOf([&] { x = RunLoop(Second); });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(HasSameBits(x, second));
  EXPECT_EQ(d.ops_replayed + d.ops_deferred, 0) << d.to_json();
  EXPECT_EQ(d.sequences + d.traces, 0);
  EXPECT_GT(d.recordings_refused, 3);
  EXPECT_THAT(said, HasSubstr("a sequence is not recorded or promoted that "
                              "begins with aten::"));
  EXPECT_THAT(said, HasSubstr("eager_on_recompile"));
  ::testing::internal::CaptureStderr();
  d = StatsOf([&] { RunLoop(Second); });
  EXPECT_GT(d.recordings_refused, 3);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
  set_stance(Stance::kDefault);
  d = StatsOf([&] { x = RunLoop(Second); });
  EXPECT_GT(d.ops_replayed, 60) << d.to_json();
  EXPECT_EQ(d.recordings_refused, 0);
  EXPECT_TRUE(HasSameBits(x, second));
}

TEST_F(StanceTest, OtherSizesOfWhatIsReplayedRunEagerly) {
  const at::Tensor small = RunLoop(First, kSteps, 24);
  ASSERT_TRUE(enable(Fast()));
  RunLoop(First);
  set_stance(Stance::kEagerOnRecompile);
  at::Tensor x;
  Stats d = StatsOf([&] { x = RunLoop(First, kSteps, 24); });
  EXPECT_EQ(d.ops_replayed, 0) << d.to_json();
  EXPECT_GT(d.recordings_refused, 0);
  EXPECT_TRUE(HasSameBits(x, small));
  d = StatsOf([&] { RunLoop(First); });
  EXPECT_EQ(d.ops_replayed, 3 * kSteps) << d.to_json();
}

TEST_F(StanceTest, WhatIsNotHotYetIsNotPromoted) {
  Options options = Fast();
  options.hot_threshold = 1000;
  ASSERT_TRUE(enable(options));
  RunLoop(First, 12);
  ASSERT_GT(stats().trace_steps, 0);
  options.hot_threshold = 2;
  ASSERT_TRUE(enable(options));
  set_stance(Stance::kEagerOnRecompile);
  Stats d = StatsOf([&] { RunLoop(First); });
  EXPECT_EQ(d.ops_deferred, 0) << d.to_json();
  EXPECT_GT(d.recordings_refused, 10);
  set_stance(Stance::kDefault);
  d = StatsOf([&] { RunLoop(First); });
  EXPECT_GT(d.ops_replayed, 60) << d.to_json();
}

// The capture of the second loop is under way when the stance is set.
TEST_F(StanceTest, WhatIsBeingRecordedIsDropped) {
  ASSERT_TRUE(enable(Fast()));
  for (int ops = 1; ops < 40; ++ops) {
    clear();
    set_stance(Stance::kDefault);
    at::Tensor x = at::linspace(-1, 1, 64);
    mark_step();
    for (int i = 0; i < ops; ++i) {
      x = i % 2 == 0 ? at::mul(x, 1.25) : at::tanh(x);
      if (i % 2 == 1) mark_step();
    }
    const bool was_known = stats().trace_steps != 0;
    set_stance(Stance::kEagerOnRecompile);
    for (int i = ops; i < ops + 40; ++i) {
      x = i % 2 == 0 ? at::mul(x, 1.25) : at::tanh(x);
      if (i % 2 == 1) mark_step();
    }
    if (!was_known) {
      EXPECT_EQ(stats().trace_steps, 0) << ops;
    }
  }
}

TEST_F(StanceTest, SegmentsAreNotCompiled) {
  const at::Tensor first = RunLoop(First);
  ASSERT_TRUE(enable(Fast(Backend::kInterpreter)));
  // It is replayed for the first time, and no code has been asked for.
  int steps = 0;
  const std::int64_t replayed = stats().ops_replayed;
  at::Tensor x = at::linspace(-1, 1, 64);
  mark_step();
  for (; stats().ops_replayed == replayed && steps < 20; ++steps) {
    x = First(x);
    mark_step();
  }
  ASSERT_LT(steps, 20);
  set_stance(Stance::kEagerOnRecompile);
  Stats d = StatsOf([&] {
    for (; steps < kSteps; ++steps) {
      x = First(x);
      mark_step();
    }
    EXPECT_TRUE(wait_until_compiled());
  });
  EXPECT_GT(d.ops_replayed, 30) << d.to_json();
  EXPECT_GT(d.compiles_refused, 5);
  EXPECT_EQ(d.kernels_compiled + d.groups_run, 0);
  EXPECT_TRUE(HasSameBits(x, first));
  set_stance(Stance::kDefault);
  RunLoop(First, 5);
  EXPECT_TRUE(wait_until_compiled());
  d = StatsOf([&] { x = RunLoop(First); });
  EXPECT_GT(d.groups_run, 10) << d.to_json();
  // Code that there is goes on to run. That each loop begins with a linspace() is
  // a sequence, too.
  for (int i = 0; i < 20; ++i) RunLoop(First);
  set_stance(Stance::kFailOnRecompile);
  d = StatsOf([&] { x = RunLoop(First); });
  EXPECT_GT(d.groups_run, 10) << d.to_json();
  EXPECT_EQ(d.recordings_refused + d.compiles_refused, 0);
  EXPECT_TRUE(HasSameBits(x, first));
}

TEST_F(StanceTest, FailsWithTheNameOfTheSequence) {
  ASSERT_TRUE(enable(Fast()));
  RunLoop(First);
  set_stance(Stance::kFailOnRecompile);
  Stats d = StatsOf([&] { RunLoop(First); });
  EXPECT_EQ(d.ops_replayed, 3 * kSteps) << d.to_json();
  try {
    RunLoop(Second);
    FAIL() << "nothing was thrown";
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("a sequence is not recorded"));
    EXPECT_THAT(e.what(), HasSubstr("fail_on_recompile"));
    EXPECT_THAT(e.what(), HasSubstr("tjit::set_stance()"));
  }
  set_stance(Stance::kEagerOnRecompile);
  d = StatsOf([&] { RunLoop(Second); });
  EXPECT_EQ(d.ops_seen, d.ops_eager + d.ops_replayed + d.ops_drained)
      << d.to_json();
  EXPECT_GT(d.recordings_refused, 0);
}

TEST_F(StanceTest, FailsWhereASegmentWouldBeCompiled) {
  ASSERT_TRUE(enable(Fast(Backend::kInterpreter)));
  set_stance(Stance::kDefault);
  at::Tensor x = at::linspace(-1, 1, 64);
  mark_step();
  const std::int64_t replayed = stats().ops_replayed;
  for (int i = 0; stats().ops_replayed == replayed && i < 20; ++i) {
    x = First(x);
    mark_step();
  }
  set_stance(Stance::kFailOnRecompile);
  const auto go_on = [&] {
    for (int i = 0; i < 10; ++i) {
      x = First(x);
      mark_step();
    }
  };
  EXPECT_THROW(go_on(), c10::Error);
  set_stance(Stance::kDefault);
  EXPECT_NO_THROW(go_on());
  const Stats s = stats();
  EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
}

}  // namespace
}  // namespace tjit
