// tjit::Pause: in its scope every op of the thread runs eagerly at its call,
// over complete bytes; around it the loop is replayed as one sequence. And
// tjit::wait_until_compiled().
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tjit/tjit.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tjit {
namespace {

using std::chrono::milliseconds;

Options Fast() {
  Options o;
  o.hot_threshold = 2;
  o.backend = Backend::kReplay;
  return o;
}

class PauseTest : public ::testing::Test {
 protected:
  PauseTest() {
    clear();
    disable();
  }
  ~PauseTest() override { disable(); }
};

Stats StatsOf(const std::function<void()>& body) {
  const Stats before = stats();
  body();
  sync();
  return stats() - before;
}

at::Tensor Front(const at::Tensor& x) {
  return at::tanh(at::add(at::mul(x, 1.25), 0.5));
}
at::Tensor Middle(const at::Tensor& x) {
  return at::floor(at::mul(at::sigmoid(x), 16));
}
at::Tensor Back(const at::Tensor& x, const at::Tensor& y) {
  return at::sub(at::mul(x, 0.75), at::mul(y, x));
}

bool HasSameBits(const at::Tensor& a, const at::Tensor& b) {
  const Pause pause;
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// A loop of A, B | C | D, E, where C runs eagerly and also writes in place and
// drops what it read.
std::vector<at::Tensor> Loop(int steps, bool pauses) {
  at::Tensor x = at::linspace(-1, 1, 96);
  at::Tensor sum = at::zeros({96});
  std::vector<at::Tensor> all;
  mark_step();
  for (int i = 0; i < steps; ++i) {
    at::Tensor a = Front(x);
    at::Tensor c;
    {
      std::optional<Pause> pause;
      if (pauses) pause.emplace();
      c = Middle(a);
      sum.mul_(0.5).add_(c);
      a = a.clone();
    }
    x = Back(a, c);
    sum.add_(x);
    all.push_back(x);
    all.push_back(sum.clone());
    mark_step();
  }
  return all;
}

TEST_F(PauseTest, OpsRunAtTheCallAndTheRestIsReplayed) {
  const std::vector<at::Tensor> eager = Loop(60, true);
  ASSERT_TRUE(enable(Fast()));
  std::vector<at::Tensor> ours;
  StatsOf([&] { Loop(10, true); });
  const Stats d = StatsOf([&] { ours = Loop(60, true); });
  // Six ops are paused in each step: three of Middle(), two in place, clone().
  // Before the loop there are linspace() and zeros().
  EXPECT_EQ(d.ops_eager, 6 * 60 + 2) << d.to_json();
  EXPECT_EQ(d.ops_replayed, 8 * 60) << d.to_json();
  EXPECT_EQ(d.ops_drained, 0);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    ASSERT_TRUE(HasSameBits(ours[i], eager[i])) << i;
  }
}

// A, B | C* | D, E | F* | G: three segments a step, and two runs at the call.
TEST_F(PauseTest, SplitsASequenceIntoSegments) {
  ASSERT_TRUE(enable(Fast()));
  at::Tensor x = at::linspace(-1, 1, 96);
  mark_step();
  const auto step = [&] {
    const at::Tensor b = at::add(at::mul(x, 1.25), 0.5);
    std::optional<Pause> pause(std::in_place);
    const at::Tensor c = at::floor(b);
    pause.reset();
    const at::Tensor e = at::tanh(at::sub(b, c));
    pause.emplace();
    const at::Tensor f = at::round(e);
    pause.reset();
    x = at::mul(e, f);
    mark_step();
  };
  for (int i = 0; i < 10; ++i) step();
  const Stats d = StatsOf([&] {
    for (int i = 0; i < 20; ++i) step();
  });
  EXPECT_EQ(d.segments, 3 * 20) << d.to_json();
  EXPECT_EQ(d.ops_replayed, 5 * 20);
  EXPECT_EQ(d.ops_eager, 2 * 20);
}

TEST_F(PauseTest, WhatIsPendingRunsFirst) {
  ASSERT_TRUE(enable(Fast()));
  at::Tensor x = at::ones({96});
  for (int i = 0; i < 20; ++i) {
    x = Front(x);
    mark_step();
  }
  const at::Tensor y = Front(x);
  const Stats before = stats();
  ASSERT_EQ((before - Stats{}).ops_deferred,
            before.ops_replayed + before.ops_drained + 3)
      << before.to_json();
  const Pause pause;
  const Stats d = stats() - before;
  EXPECT_EQ(d.ops_replayed + d.ops_drained, 3) << d.to_json();
  // A reader that tjit does not see.
  EXPECT_NE(static_cast<const float*>(y.storage().data())[0], 0);
}

TEST_F(PauseTest, NestsAndWinsOverWhatIsSwitchedOnInside) {
  ASSERT_TRUE(enable(Fast()));
  EXPECT_TRUE(is_enabled());
  const Stats d = StatsOf([&] {
    const Pause outer;
    EXPECT_FALSE(is_enabled());
    {
      const Pause inner;
      Loop(10, false);
    }
    EXPECT_FALSE(is_enabled());
    const AutoCompile on(AutoCompile::Scope::kThread, Fast());
    EXPECT_FALSE(is_enabled());
    EXPECT_TRUE(enable(Fast()));
    EXPECT_FALSE(is_enabled());
    clear();
    Loop(10, false);
  });
  EXPECT_TRUE(is_enabled());
  EXPECT_EQ(d.ops_deferred, 0) << d.to_json();
  EXPECT_EQ(d.sequences, 0);
  EXPECT_GT(d.ops_eager, 250);
  StatsOf([&] { Loop(10, false); });
  const Stats after = StatsOf([&] { Loop(10, false); });
  EXPECT_GT(after.ops_replayed, 120) << after.to_json();
}

TEST_F(PauseTest, InsideTheScopeOfAThread) {
  const std::vector<at::Tensor> eager = Loop(30, true);
  const AutoCompile on(AutoCompile::Scope::kThread, Fast());
  std::vector<at::Tensor> ours;
  const Stats d = StatsOf([&] { ours = Loop(30, true); });
  EXPECT_GT(d.ops_replayed, 150) << d.to_json();
  for (std::size_t i = 0; i < eager.size(); ++i) {
    ASSERT_TRUE(HasSameBits(ours[i], eager[i])) << i;
  }
}

TEST_F(PauseTest, CostsNothingWhereTjitIsOff) {
  const Stats d = StatsOf([&] { Loop(20, true); });
  EXPECT_EQ(d.ops_seen, 0);
}

TEST_F(PauseTest, BeginsBeforeTheFirstOpAndBeforeEnable) {
  Stats d;
  std::thread other([&] {
    const Pause pause;
    EXPECT_TRUE(enable(Fast()));
    d = StatsOf([&] { Loop(20, false); });
  });
  other.join();
  EXPECT_EQ(d.ops_deferred, 0) << d.to_json();
  EXPECT_GT(d.ops_eager, 200);
  // Its state is the next thread's, which has no pause.
  std::thread next([&] { d = StatsOf([&] { Loop(20, false); }); });
  next.join();
  EXPECT_GT(d.ops_replayed, 150) << d.to_json();
}

TEST_F(PauseTest, OtherThreadsGoOnAndTheirBytesAreReadComplete) {
  ASSERT_TRUE(enable(Fast()));
  at::Tensor x = at::ones({96});
  for (int i = 0; i < 20; ++i) {
    x = Front(x);
    mark_step();
  }
  const Stats d = StatsOf([&] {
    at::Tensor sum;
    at::Tensor y = Front(x);  // pending here
    std::thread other([&] {
      const Pause pause;
      sum = at::add(y, y);
    });
    other.join();
    EXPECT_EQ(sum[3].item<float>(), 2 * y[3].item<float>());
  });
  EXPECT_EQ(d.ops_replayed + d.ops_drained, 3) << d.to_json();
}

TEST_F(PauseTest, ModesOfTestsTakeNoPartInIt) {
  const std::vector<at::Tensor> eager = Loop(20, true);
  for (const Stress stress : {Stress::kLate, Stress::kShuffle, Stress::kNone}) {
    clear();
    Options options = Fast();
    options.stress = stress;
    options.shadow = stress == Stress::kNone;
    options.shuffle_seed = 7;
    ASSERT_TRUE(enable(options));
    std::vector<at::Tensor> ours;
    const Stats d = StatsOf([&] { ours = Loop(20, true); });
    disable();
    EXPECT_GT(d.ops_deferred, 50) << d.to_json();
    EXPECT_EQ(d.shadow_mismatches, 0);
    EXPECT_GE(d.ops_eager, 6 * 20);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      ASSERT_TRUE(HasSameBits(ours[i], eager[i])) << i;
    }
  }
}

TEST_F(PauseTest, RandomNumbersAndBackwardPassesAreLibtorchs) {
  const auto draw_and_train = [] {
    at::manual_seed(5);
    const at::Tensor w = at::ones({64, 64}).requires_grad_();
    const at::Tensor x = at::rand({64, 64});
    at::mul(at::mm(x, w), at::bernoulli(x)).sum().backward();
    return w.grad();
  };
  const at::Tensor eager = draw_and_train();
  ASSERT_TRUE(enable(Fast()));
  at::Tensor outside, inside;
  Stats d = StatsOf([&] { outside = draw_and_train(); });
  EXPECT_EQ(d.backwards_own + d.backwards_libtorch, 1) << d.to_json();
  EXPECT_GT(d.draws_own, 0);
  d = StatsOf([&] {
    const Pause pause;
    inside = draw_and_train();
  });
  EXPECT_EQ(d.backwards_own + d.backwards_libtorch, 0) << d.to_json();
  EXPECT_EQ(d.draws_own, 0);
  EXPECT_TRUE(HasSameBits(outside, eager));
  EXPECT_TRUE(HasSameBits(inside, eager));
}

TEST_F(PauseTest, EndsWithAnException) {
  ASSERT_TRUE(enable(Fast()));
  EXPECT_THROW(
      {
        const Pause pause;
        throw std::runtime_error("out");
      },
      std::runtime_error);
  EXPECT_TRUE(is_enabled());
  StatsOf([&] { Loop(10, false); });
  EXPECT_GT(StatsOf([&] { Loop(10, false); }).ops_replayed, 120);
}

TEST_F(PauseTest, HoldsInTheChildOfAFork) {
  ASSERT_TRUE(enable(Fast()));
  StatsOf([&] { Loop(10, false); });
  const Pause pause;
  const pid_t child = fork();
  if (child == 0) {
    const Stats d = StatsOf([&] { Loop(10, false); });
    _exit(d.ops_deferred == 0 && d.ops_eager > 100 && !is_enabled() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(WaitUntilCompiledTest, ThenTheCodeRuns) {
  clear();
  Options options = Fast();
  options.backend = Backend::kInterpreter;
  options.compile_all = true;
  ASSERT_TRUE(enable(options));
  EXPECT_TRUE(wait_until_compiled());
  EXPECT_TRUE(wait_until_compiled(milliseconds(0)));
  // A segment asks for its code once it has run for a while.
  Stats d;
  for (int i = 0; i < 100 && d.kernels_compiled == 0; ++i) {
    const Stats before = stats();
    Loop(50, false);
    EXPECT_TRUE(wait_until_compiled());
    d = stats() - before;
  }
  EXPECT_GT(d.kernels_compiled, 0) << d.to_json();
  const pid_t child = fork();
  if (child == 0) _exit(wait_until_compiled(milliseconds(60000)) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  d = StatsOf([&] { Loop(50, false); });
  EXPECT_GT(d.groups_run, 0) << d.to_json();
  disable();
}

}  // namespace
}  // namespace tjit
