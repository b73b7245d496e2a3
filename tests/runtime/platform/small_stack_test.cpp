// A thread of 64 KiB, on which a small eager program runs: it takes no part, gets
// what other threads have pending, and nothing overflows.
#include "runtime/platform/small_stack.h"

#include <ATen/ops/add.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

#include "runtime/testing.h"
#include "tjit/tjit.h"

namespace tjit {
namespace {

void OnStackOf(std::size_t bytes, const std::function<void()>& function) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* f) -> void* {
                  (*static_cast<const std::function<void()>*>(f))();
                  return nullptr;
                },
                const_cast<std::function<void()>*>(&function)),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

class SmallStackTest : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    Options options;
    options.hot_threshold = 2;
    options.backend = GetParam();
    options.cache_dir = "off";
    ASSERT_TRUE(enable(options));
  }
  void TearDown() override {
    disable();
    clear();
  }
  at::Tensor Step() const {
    return at::softmax(at::layer_norm(at::add(at::mul(x_, 2), x_), {4096}), -1);
  }
  const at::Tensor x_ = at::ones({16, 4096});
};

TEST_P(SmallStackTest, TakesNoPart) {
  OnStackOf(64 << 10, [&] {
    for (int i = 0; i < 30; ++i) Step().sum().item<float>();
    mark_step();
  });
  EXPECT_EQ(stats().ops_replayed, 0);
}

TEST_P(SmallStackTest, GetsWhatIsPending) {
  for (int i = 0; i < 30; ++i) {
    Step().sum().item<float>();
    if (i == 20) testing::WaitForCompiler();
  }
  const Stats before = stats();
  const at::Tensor pending = Step();
  float sum = 0;
  OnStackOf(64 << 10, [&] { sum = at::mul(pending, 2).sum().item<float>(); });
  EXPECT_NEAR(sum, 32, 1e-3);
  EXPECT_GE((stats() - before).ops_replayed, 3);
}

TEST(SmallStack, UsualThreadsHaveNone) {
  EXPECT_FALSE(runtime::HasSmallStack());
  bool is_small = true;
  OnStackOf(2 << 20, [&] { is_small = runtime::HasSmallStack(); });
  EXPECT_FALSE(is_small);
  OnStackOf(64 << 10, [&] { is_small = runtime::HasSmallStack(); });
  EXPECT_TRUE(is_small);
  OnStackOf(64 << 10, [&] {
    runtime::RunOnUsualStack([&] { is_small = runtime::HasSmallStack(); });
  });
  EXPECT_FALSE(is_small);
}

INSTANTIATE_TEST_SUITE_P(Backends, SmallStackTest,
                         ::testing::Values(Backend::kReplay, Backend::kLlvm),
                         [](const auto& info) {
                           return info.param == Backend::kReplay
                                      ? std::string("Replay")
                                      : std::string("Llvm");
                         });

}  // namespace
}  // namespace tjit
