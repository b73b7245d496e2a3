// Segments that are nothing but compiled code, which run without what guards
// library calls (ThreadState::RunCodeAlone), and what leads back to those.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <tjit/tjit.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

// Enough that there is code, and it has been measured.
constexpr int kManySteps = 4000, kLateSteps = 500;

class Tier2AloneTest : public Tier2Test {
 protected:
  // Steps whose bits are not eager's. stats_: of step `from` and later ones,
  // early_: of those before.
  int LateDifferences(const std::function<at::Tensor(int)>& step,
                      const Options& options,
                      int from = kManySteps - kLateSteps) {
    std::vector<at::Tensor> eager, ours;
    for (int i = 0; i < kManySteps; ++i) eager.push_back(Finish(step(i)));
    const Stats start = stats();
    EXPECT_TRUE(enable(options));
    Stats before;
    for (int i = 0; i < kManySteps; ++i) {
      if (i == from) before = stats();
      ours.push_back(Finish(step(i)));
      testing::WaitForCompiler();
    }
    early_ = before - start;
    stats_ = stats() - before;
    disable();
    return CountDifferences(eager, ours);
  }

  // What is pending runs, then a copy is made.
  static at::Tensor Finish(const at::Tensor& result) {
    mark_step();
    return result.clone();
  }

  Stats early_;
};

// As users have it, but that nothing is looked for in a cache.
Options MachineCode() {
  Options options;
  options.backend = Backend::kLlvm;
  options.cache_dir = "off";
  return options;
}

at::Tensor Chain(const at::Tensor& x, const at::Tensor& y, double a) {
  at::Tensor r = x;
  for (int i = 0; i < 5; ++i) r = r.add(y, a).mul(x);
  return r;
}

TEST_F(Tier2AloneTest, RunsWithEagersBits) {
  at::manual_seed(1);
  const at::Tensor x = at::rand({4000}), y = at::rand({4000});
  EXPECT_EQ(LateDifferences([&](int) { return Chain(x, y, 0.3); },
                            MachineCode()),
            0);
  EXPECT_GT(stats_.replays_alone, kLateSteps - 10) << stats_.to_json();
  EXPECT_LE(stats_.replays_alone, stats_.replays_tier2);
  EXPECT_EQ(stats_.steps_fused, 11 * stats_.replays_tier2);  // the clone, too
  EXPECT_EQ(stats_.replays_tier2, stats_.groups_run);
  EXPECT_EQ(stats_.segments, stats_.replays_tier1 + stats_.replays_tier2);
}

// Functions of libtorch's are called with all that guards library calls.
TEST_F(Tier2AloneTest, NotWithFunctionsOfLibtorch) {
  at::manual_seed(1);
  const at::Tensor x = at::rand({4000}), y = at::rand({4000});
  const auto step = [&](int) { return Chain(x, y, 0.3).sigmoid() + y; };
  EXPECT_EQ(LateDifferences(step, MachineCodeAtOnce()), 0);
  EXPECT_GT(stats_.steps_fused, 9 * kLateSteps) << stats_.to_json();
  EXPECT_EQ(stats_.replays_alone, 0);
}

// Nor where a product is between the groups.
TEST_F(Tier2AloneTest, NotWithLibraryCalls) {
  at::manual_seed(1);
  const at::Tensor x = at::rand({60, 60}), y = at::rand({60, 60});
  const auto step = [&](int) { return Chain(x.mm(y), y, 0.3); };
  EXPECT_EQ(LateDifferences(step, MachineCodeAtOnce()), 0);
  EXPECT_GT(stats_.steps_fused, 9 * kLateSteps) << stats_.to_json();
  EXPECT_EQ(stats_.replays_alone, 0);
}

// A scalar that was compiled in and is another one now.
TEST_F(Tier2AloneTest, NotWithOtherScalars) {
  at::manual_seed(1);
  const at::Tensor x = at::rand({4000}), y = at::rand({4000});
  const int last = kManySteps - 200;
  const auto step = [&](int i) {
    return Chain(x, y, i < last ? 0.3 : 0.3 + 0.01 * i);
  };
  EXPECT_EQ(LateDifferences(step, MachineCodeAtOnce(), last), 0);
  EXPECT_GT(early_.replays_alone, kLateSteps) << early_.to_json();
  EXPECT_GT(stats_.recompiles, 0) << stats_.to_json();
}

// Who waits for another thread's ops runs them as that thread would.
TEST_F(Tier2AloneTest, NotForAnotherThread) {
  at::manual_seed(1);
  const at::Tensor x = at::rand({4000}), y = at::rand({4000});
  const auto step = [&](int i) {
    at::Tensor result = Chain(x, y, 0.3);
    if (i % 2 == 1) {
      std::thread([&] { result.const_data_ptr<float>(); }).join();
    }
    return result;
  };
  EXPECT_EQ(LateDifferences(step, MachineCodeAtOnce()), 0);
  EXPECT_NEAR(stats_.replays_alone, kLateSteps / 2, 20) << stats_.to_json();
  EXPECT_GT(stats_.replays_tier2, kLateSteps - 20);
}

// Ops round as they did where they were called, whatever is set when they run.
TEST_F(Tier2AloneTest, NotInOtherArithmetic) {
  const unsigned usual = _mm_getcsr();
  constexpr unsigned kUp = 0x4000;
  at::manual_seed(1);
  const at::Tensor x = at::rand({4000}), y = at::rand({4000});
  const auto step = [&](int i) {
    at::Tensor result = Chain(x, y, 0.3);
    if (i % 2 == 1) {
      _mm_setcsr(usual | kUp);
      mark_step();
      _mm_setcsr(usual);
    }
    return result;
  };
  EXPECT_EQ(LateDifferences(step, MachineCode()), 0);
  EXPECT_NEAR(stats_.replays_alone, kLateSteps / 2, 20) << stats_.to_json();
  EXPECT_GT(stats_.replays_tier2, kLateSteps - 20);
}

// What writes into the program's memory.
TEST_F(Tier2AloneTest, WritesInPlace) {
  at::manual_seed(1);
  const at::Tensor start = at::rand({4000}), y = at::rand({4000}) * 0.01;
  const at::Tensor state = start.clone();
  const auto step = [&](int i) {
    if (i == 0) state.copy_(start);
    state.mul_(0.99).add_(y).sub_(y, 0.5).mul_(1.001);
    return state + y;
  };
  // Whether code pays is another test's question.
  EXPECT_EQ(LateDifferences(step, MachineCodeAtOnce()), 0);
  EXPECT_GT(stats_.replays_alone, kLateSteps - 20) << stats_.to_json();
}

}  // namespace
}  // namespace tjit
