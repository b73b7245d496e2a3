// Moments at which pending ops, their values and other threads meet badly:
// each of these lost bytes or crashed once.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "tjit/tjit.h"

namespace tjit {
namespace {

Options Fast() {
  Options options;
  options.hot_threshold = 2;
  return options;
}

class OddMomentsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    disable();
    clear();
  }
};

// What the first segment of a run made may be gone when the second runs.
TEST_F(OddMomentsTest, AValueDiesAfterASyncInMidRun) {
  const at::Tensor r = at::ones({1, 3000}), c = at::ones({3000, 1});
  ASSERT_TRUE(enable(Fast()));
  double sum = 0;
  for (int i = 0; i < 12; ++i) {
    at::Tensor a = r + c;  // large: its memory goes back to the system
    at::Tensor m = a.sum();
    sync();
    a.reset();
    at::Tensor d = r * c;
    const at::Tensor q = d.sum() + m;
    d.reset();
    mark_step();
    sum += q.item<double>();
  }
  EXPECT_EQ(sum, 12 * 3.0 * 3000 * 3000);
  EXPECT_GT(stats().ops_replayed, 12);
}

TEST_F(OddMomentsTest, AParallelRegionReadsPendingValues) {
  const at::Tensor a = at::rand({64, 64}), b = at::rand({64, 64});
  const auto chain = [&] { return at::tanh(at::mm(a + b, b) * 0.01) - a; };
  const at::Tensor want = chain();
  ASSERT_TRUE(enable(Fast()));
  for (int i = 0; i < 40; ++i) {
    chain();
    mark_step();
  }
  const Stats before = stats();
  const at::Tensor y = chain();
  EXPECT_EQ((stats() - before).ops_deferred, 5);
  std::atomic<int> wrong{0};
  at::parallel_for(0, 2, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t half = begin; half < end; ++half) {
      const float* got = y.const_data_ptr<float>() + half * 2048;
      const float* expected = want.const_data_ptr<float>() + half * 2048;
      for (int i = 0; i < 2048; ++i) wrong += got[i] != expected[i];
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ((stats() - before).ops_replayed, 5);
}

// Other threads run ops while one calls `function` again and again.
template <class F>
int WrongWhile(F function, int calls) {
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::thread worker([&] {
    const at::NoGradGuard no_grad;
    constexpr double kExpected = 190;  // x -> 2 x + 2, six times from 1
    const at::Tensor b = at::full({8, 8}, 2.0);
    while (!done.load()) {
      at::Tensor x = at::full({8, 8}, 1.0);
      for (int i = 0; i < 6; ++i) x = at::add(at::mul(x, b), b);
      mark_step();
      wrong += x[3][4].item<double>() != kExpected;
    }
  });
  for (int i = 0; i < calls; ++i) {
    function();
    std::this_thread::yield();
  }
  done.store(true);
  worker.join();
  return wrong.load();
}

TEST_F(OddMomentsTest, ClearWhileAnotherThreadRuns) {
  ASSERT_TRUE(enable(Fast()));
  EXPECT_EQ(WrongWhile(
                [] {
                  clear();
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
                },
                200),
            0);
  EXPECT_GT(stats().ops_replayed, 1000);
}

TEST_F(OddMomentsTest, DisableWhileAnotherThreadRuns) {
  ASSERT_TRUE(enable(Fast()));
  EXPECT_EQ(WrongWhile(
                [] {
                  disable();
                  enable(Fast());
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
                },
                200),
            0);
  EXPECT_GT(stats().ops_replayed, 1000);
}

// A thread outside the scope is not wrapped, but must see what is deferred.
TEST_F(OddMomentsTest, AThreadOutsideTheScopeReadsPendingValues) {
  const at::Tensor a = at::rand({16, 16}), b = at::rand({16, 16});
  const auto chain = [&] { return at::tanh(at::mm(a + b, b)) - a; };
  const at::Tensor want = at::cat({chain(), a});
  const AutoCompile on(AutoCompile::Scope::kThread, Fast());
  for (int i = 0; i < 40; ++i) {
    chain();
    mark_step();
  }
  const Stats before = stats();
  const at::Tensor y = chain();
  EXPECT_EQ((stats() - before).ops_deferred, 4);
  at::Tensor got;
  std::thread([&] { got = at::cat({y, a}); }).join();
  EXPECT_EQ((stats() - before).ops_replayed, 4);
  EXPECT_TRUE(at::equal(got, want));
}

// oneDNN lays the result of a convolution out in another way than ATen.
TEST_F(OddMomentsTest, ASwitchThatChangesLayouts) {
  const at::Tensor x = at::rand({2, 8, 6, 6, 6})
                           .contiguous(at::MemoryFormat::ChannelsLast3d);
  const at::Tensor w = at::rand({8, 8, 3, 3, 3});
  const auto run = [&] {
    std::vector<at::Tensor> out;
    for (const bool on : {true, false, true}) {
      at::globalContext().setUserEnabledMkldnn(on);
      for (int i = 0; i < 12; ++i) {
        out.push_back(at::relu(at::conv3d(x, w) + 1));
        mark_step();
      }
    }
    return out;
  };
  const std::vector<at::Tensor> want = run();
  ASSERT_TRUE(enable(Fast()));
  const std::vector<at::Tensor> got = run();
  EXPECT_GT(stats().ops_replayed, 12);
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(at::equal(got[i], want[i])) << i;
    EXPECT_EQ(got[i].strides(), want[i].strides()) << i;
  }
}

TEST_F(OddMomentsTest, ForkWhileAnotherThreadRuns) {
  ASSERT_TRUE(enable(Fast()));
  int failed = 0;
  EXPECT_EQ(WrongWhile(
                [&] {
                  const pid_t child = fork();
                  if (child == 0) {
                    alarm(20);  // instead of hanging for ever
                    sync();
                    const at::Tensor x = at::full({4}, 2.0) + 1;
                    _exit(x[0].item<double>() == 3.0 ? 0 : 1);
                  }
                  int status = -1;
                  waitpid(child, &status, 0);
                  failed += status != 0;
                },
                60),
            0);
  EXPECT_EQ(failed, 0);
  EXPECT_GT(stats().ops_replayed, 100);
}

}  // namespace
}  // namespace tjit
