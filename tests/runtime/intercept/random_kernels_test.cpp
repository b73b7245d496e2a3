// Draws by own code have libtorch's numbers and leave its generator; counters
// tell that own code ran, and where it must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tjit {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

// Draws once from the default generator.
using Draw = std::function<Tensor()>;

struct Seen {
  std::vector<Tensor> numbers;
  Tensor state;
  std::int64_t own = 0;
};

Seen RunSome(const Draw& draw, bool own) {
  Options options;
  options.own_random = own;
  options.cache_dir = "off";
  EXPECT_TRUE(enable(options));
  const std::int64_t before = stats().draws_own;
  torch::manual_seed(5);
  Seen seen;
  // The first word is drawn alone, so pairs of words lie in two rounds.
  at::rand({1});
  for (int i = 0; i < 4; ++i) {
    seen.numbers.push_back(draw().clone());
    mark_step();
  }
  sync();
  seen.state = at::globalContext().defaultGenerator(at::kCPU).get_state();
  seen.own = stats().draws_own - before;
  disable();
  return seen;
}

// Zeros of two signs differ.
bool SameBytes(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == y.nbytes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Whether own code ran in all draws, after a comparison with libtorch's.
bool IsOwn(const Draw& draw) {
  const Seen libtorchs = RunSome(draw, false), ours = RunSome(draw, true);
  EXPECT_EQ(libtorchs.own, 0);
  EXPECT_TRUE(at::equal(libtorchs.state, ours.state));
  for (std::size_t i = 0; i < ours.numbers.size(); ++i) {
    EXPECT_TRUE(SameBytes(libtorchs.numbers[i], ours.numbers[i])) << i;
  }
  EXPECT_TRUE(ours.own == 0 || ours.own == 4) << ours.own;
  return ours.own != 0;
}

class RandomKernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
      GTEST_SKIP() << "not for this processor";
    }
  }
  // False where libtorch draws by MKL, as on some of Intel's processors.
  static bool HasOwnBernoulli() {
    const Tensor to = at::empty({37, 50});
    return __builtin_cpu_is("intel") == 0 ||
           IsOwn([&] { return to.bernoulli_(0.5); });
  }
};

TEST_F(RandomKernelsTest, UniformNumbersOfARange) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t count : {600, 1247, 5000}) {
      const Tensor to = at::empty({count}, type);
      EXPECT_TRUE(IsOwn([&] { return to.uniform_(); }));
      EXPECT_TRUE(IsOwn([&] { return to.uniform_(-0.3, 1.9); }));
      EXPECT_TRUE(IsOwn([&] { return to.uniform_(2, 2); }));
      EXPECT_TRUE(IsOwn([&] { return to.uniform_(-0.0, 0.0); }));
      // Some numbers are rounded up to the end, and are the first one then.
      EXPECT_TRUE(IsOwn([&] { return to.uniform_(1e6, 1e6 + 1); }));
      EXPECT_TRUE(IsOwn([&] { return to.uniform_(1e15, 1e15 + 1); }));
    }
  }
  EXPECT_TRUE(IsOwn([] { return at::rand({40, 50}); }));
  EXPECT_TRUE(IsOwn([] { return at::rand_like(at::empty({40, 50})); }));
}

TEST_F(RandomKernelsTest, BernoulliAndDropout) {
  const bool is_own = HasOwnBernoulli();
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBool}) {
    for (const double p : {0.0, 0.1, 0.5, 1.0}) {
      const Tensor to = at::empty({37, 50}, type);
      EXPECT_EQ(IsOwn([&] { return to.bernoulli_(p); }), is_own);
    }
  }
  const Tensor x = at::ones({37, 50});
  EXPECT_EQ(IsOwn([&] { return at::dropout(x, 0.1, true); }), is_own);
  EXPECT_EQ(
      IsOwn([&] { return std::get<0>(at::native_dropout(x, 0.1, true)); }),
      is_own);
  EXPECT_EQ(IsOwn([&] {
              return torch::nn::functional::dropout2d(
                  at::ones({8, 64, 3, 3}),
                  torch::nn::functional::Dropout2dFuncOptions().p(0.5));
            }),
            is_own);
}

// Counts that are no multiples of 16 draw some numbers twice.
TEST_F(RandomKernelsTest, NormalNumbers) {
  for (const std::int64_t count : {512, 520, 1024, 1025, 1039, 5007}) {
    const Tensor to = at::empty({count});
    EXPECT_TRUE(IsOwn([&] { return to.normal_(); })) << count;
    EXPECT_TRUE(IsOwn([&] { return to.normal_(-3, 0.25); })) << count;
    EXPECT_TRUE(IsOwn([&] { return at::randn({count}); })) << count;
  }
  EXPECT_TRUE(IsOwn([] { return at::randn_like(at::empty({40, 50})); }));
  EXPECT_TRUE(IsOwn([] { return at::normal(at::ones({40, 50}), 0.5); }));
}

// Dense, so the numbers go in the order of the memory.
TEST_F(RandomKernelsTest, APermutedTensor) {
  const Tensor to = at::empty({20, 30, 4}).permute({2, 0, 1});
  EXPECT_TRUE(IsOwn([&] { return to.uniform_(); }));
  EXPECT_EQ(IsOwn([&] { return to.bernoulli_(0.5); }), HasOwnBernoulli());
}

TEST_F(RandomKernelsTest, WhatIsNotOurs) {
  const Tensor rows = at::empty({40, 100}).narrow(1, 0, 50);
  EXPECT_FALSE(IsOwn([&] { return rows.uniform_(); }));
  EXPECT_FALSE(IsOwn([&] { return rows.bernoulli_(0.5); }));
  const Tensor half = at::empty({2000}, at::kHalf);
  EXPECT_FALSE(IsOwn([&] { return half.uniform_(); }));
  const Tensor whole = at::empty({2000}, at::kLong);
  EXPECT_FALSE(IsOwn([&] { return whole.bernoulli_(0.5); }));
  EXPECT_FALSE(IsOwn([] { return at::rand({100}); }));
  EXPECT_FALSE(IsOwn([] { return at::randn({2000}, at::kDouble); }));
  EXPECT_FALSE(IsOwn([&] { return rows.normal_(); }));
}

TEST_F(RandomKernelsTest, AGeneratorOfTheProgram) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  const Draw draw = [&] {
    generator.set_current_seed(7);
    const Tensor to = at::empty({3000}).uniform_(0, 1, generator);
    return at::cat({to, at::empty({3000}).uniform_(0, 1, generator)});
  };
  const Seen libtorchs = RunSome(draw, false), ours = RunSome(draw, true);
  EXPECT_TRUE(at::equal(libtorchs.state, ours.state));
  EXPECT_TRUE(at::equal(libtorchs.numbers[3], ours.numbers[3]));
  EXPECT_EQ(ours.own, 8);
}

TEST_F(RandomKernelsTest, NumbersOfTwoThreadsAreThoseOfOneGenerator) {
  constexpr int kDraws = 50;
  Options options;
  options.cache_dir = "off";
  ASSERT_TRUE(enable(options));
  torch::manual_seed(5);
  const std::int64_t before = stats().draws_own;
  const auto draw = [] {
    for (int i = 0; i < kDraws; ++i) at::rand({1000});
  };
  std::thread first(draw), second(draw);
  first.join();
  second.join();
  EXPECT_EQ(stats().draws_own - before, 2 * kDraws);
  disable();
  const Tensor after = at::rand({10});
  torch::manual_seed(5);
  for (int i = 0; i < 2 * kDraws; ++i) at::rand({1000});
  EXPECT_TRUE(at::equal(after, at::rand({10})));
}

TEST_F(RandomKernelsTest, ErrorsAreLibtorchs) {
  const auto error_of = [](bool own, const std::function<void()>& call) {
    Options options;
    options.own_random = own;
    options.cache_dir = "off";
    EXPECT_TRUE(enable(options));
    std::string what;
    try {
      call();
    } catch (const c10::Error& e) {
      what = e.what_without_backtrace();
    }
    disable();
    return what;
  };
  const Tensor to = at::empty({2000});
  for (const std::function<void()>& call :
       {std::function<void()>([&] { to.bernoulli_(1.5); }),
        std::function<void()>([&] { to.uniform_(2, 1); }),
        std::function<void()>([&] { to.uniform_(-3e38, 3e38); })}) {
    const std::string what = error_of(true, call);
    EXPECT_FALSE(what.empty());
    EXPECT_EQ(what, error_of(false, call));
  }
}

}  // namespace
}  // namespace tjit
