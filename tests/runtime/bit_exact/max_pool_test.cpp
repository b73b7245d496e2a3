// The largest of windows and its backward: eager's bits and places for windows
// of all kinds, of numbers that are NaN, infinite or equal.
#include "compiler/functions/max_pool.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tjit/tjit.h"

namespace tjit {
namespace {

using at::Tensor;

struct Pool {
  std::int64_t height = 1, width = 1;
  std::vector<std::int64_t> window, stride, padding, dilation;
  bool ceil = false;

  std::tuple<Tensor, Tensor> Of(const Tensor& x) const {
    return at::max_pool2d_with_indices(x, window, stride, padding, dilation,
                                       ceil);
  }
  std::string Text() const {
    return absl::StrCat(height, "x", width, ", ", window[0], "x", window[1],
                        " by ", stride[0], " and ", stride[1], ", ", padding[0],
                        "+", padding[1], ", ", dilation[0], "*", dilation[1],
                        ceil ? ", ceil" : "");
  }
};

// One that eager does not refuse.
Pool Drawn(std::mt19937* random) {
  const auto number = [&](std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(
               (*random)() % static_cast<std::uint64_t>(most - least + 1));
  };
  Pool pool;
  for (std::int64_t* size : {&pool.height, &pool.width}) {
    const std::int64_t window = number(1, 4), dilation = number(1, 3);
    const std::int64_t covers = (window - 1) * dilation + 1;
    pool.window.push_back(window);
    pool.dilation.push_back(dilation);
    pool.stride.push_back(number(1, 4));
    pool.padding.push_back(number(0, window / 2));
    *size = covers + number(0, 60);
  }
  pool.ceil = number(0, 1) == 1;
  return pool;
}

Tensor Numbers(const Pool& pool, std::mt19937* random, bool is_special) {
  constexpr float kSpecial[] = {NAN, -INFINITY, INFINITY, 0.0F, -0.0F, 1e-40F};
  const Tensor x = at::empty({2, 3, pool.height, pool.width});
  auto* const numbers = x.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const auto draw = static_cast<std::uint32_t>((*random)());
    numbers[i] = is_special && draw % 2 == 0
                     ? kSpecial[draw / 2 % std::size(kSpecial)]
                     : static_cast<float>(draw % 7) - 3.0F;
  }
  return x;
}

bool HaveSameBits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

PoolShape ShapeOf(const Pool& pool, const Tensor& out) {
  const auto dim = [&](std::size_t d, std::int64_t in) {
    return PoolDim{in,
                   out.size(static_cast<std::int64_t>(d) - 2),
                   pool.window[d],
                   pool.stride[d],
                   pool.padding[d],
                   pool.dilation[d]};
  };
  return {dim(0, pool.height), dim(1, pool.width)};
}

// As Drawn(), but windows lie side by side in the plane.
Pool DrawnSideBySide(std::mt19937* random) {
  Pool pool = Drawn(random);
  // More than one vector of numbers in a window.
  if ((*random)() % 8 == 0)
    pool.window[1] = std::min<std::int64_t>(pool.width, 37);
  pool.stride = pool.window;
  pool.padding = {0, 0};
  pool.dilation = {1, 1};
  pool.ceil = false;
  return pool;
}

Tensor BackwardOf(const Pool& pool, const Tensor& gradient, const Tensor& x,
                  const Tensor& places) {
  return at::max_pool2d_with_indices_backward(gradient, x, pool.window,
                                              pool.stride, pool.padding,
                                              pool.dilation, pool.ceil, places);
}

class MaxPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasMaxPool({})) GTEST_SKIP() << "needs AVX-512";
  }
};

TEST_F(MaxPoolTest, HasEagersBits) {
  std::mt19937 random(1);
  for (int i = 0; i < 600; ++i) {
    const Pool pool = Drawn(&random);
    const Tensor x = Numbers(pool, &random, i % 2 == 0);
    const auto [largest, places] = pool.Of(x);
    const Tensor out = at::empty_like(largest), at = at::empty_like(places);
    MaxPool(ShapeOf(pool, largest), 6, x.const_data_ptr<float>(),
            out.mutable_data_ptr<float>(), at.mutable_data_ptr<std::int64_t>());
    ASSERT_TRUE(HaveSameBits(out, largest)) << pool.Text();
    ASSERT_TRUE(HaveSameBits(at, places)) << pool.Text();
  }
}

// Between two pages that fault.
TEST_F(MaxPoolTest, ReadsNothingOutside) {
  const auto page = static_cast<std::size_t>(getpagesize());
  auto* const memory = static_cast<char*>(
      mmap(nullptr, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(memory + page, page, PROT_READ | PROT_WRITE), 0);
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    Pool pool = Drawn(&random);
    pool.height = std::min<std::int64_t>(pool.height, 14);
    if ((pool.window[0] - 1) * pool.dilation[0] >= pool.height) continue;
    const Tensor x = at::rand({1, 1, pool.height, pool.width});
    const auto [largest, places] = pool.Of(x);
    const Tensor out = at::empty_like(largest), at = at::empty_like(places);
    for (char* place : {memory + page, memory + 2 * page - x.nbytes()}) {
      std::memcpy(place, x.const_data_ptr(), x.nbytes());
      MaxPool(ShapeOf(pool, largest), 1, reinterpret_cast<float*>(place),
              out.mutable_data_ptr<float>(),
              at.mutable_data_ptr<std::int64_t>());
      ASSERT_TRUE(HaveSameBits(out, largest)) << pool.Text();
    }
  }
  munmap(memory, 3 * page);
}

TEST_F(MaxPoolTest, BackwardHasEagersBits) {
  std::mt19937 random(4);
  for (int i = 0; i < 600; ++i) {
    const Pool pool = DrawnSideBySide(&random);
    const Tensor x = Numbers(pool, &random, i % 2 == 0);
    const auto [largest, places] = pool.Of(x);
    Pool of_results = pool;
    of_results.height = largest.size(-2), of_results.width = largest.size(-1);
    const Tensor gradient = Numbers(of_results, &random, i % 4 < 2);
    const PoolShape shape = ShapeOf(pool, largest);
    ASSERT_TRUE(HasMaxPoolBackward(shape)) << pool.Text();
    const Tensor out = at::full_like(x, 7);
    ASSERT_TRUE(MaxPoolBackward(shape, 6, gradient.const_data_ptr<float>(),
                                places.const_data_ptr<std::int64_t>(),
                                out.mutable_data_ptr<float>()))
        << pool.Text();
    ASSERT_TRUE(HaveSameBits(out, BackwardOf(pool, gradient, x, places)))
        << pool.Text();
  }
}

TEST_F(MaxPoolTest, BackwardTellsPlacesOutsideTheirWindows) {
  const PoolShape shape = {{4, 2, 2, 2, 0, 1}, {4, 2, 2, 2, 0, 1}};
  const float gradients[] = {1, 2, 3, 4};
  float out[16];
  const auto is_done = [&](std::vector<std::int64_t> places) {
    return MaxPoolBackward(shape, 1, gradients, places.data(), out);
  };
  EXPECT_TRUE(is_done({0, 2, 8, 10}));
  EXPECT_TRUE(is_done({5, 7, 13, 15}));
  for (const std::int64_t wrong :
       {std::int64_t{2}, std::int64_t{8}, std::int64_t{-1},
        std::int64_t{1} << 32, std::int64_t{1} << 62, INT64_MIN}) {
    EXPECT_FALSE(is_done({wrong, 2, 8, 10})) << wrong;
  }
}

TEST(MaxPoolShapeTest, BackwardIsOfWindowsSideBySide) {
  const PoolDim usual = {8, 4, 2, 2, 0, 1};
  EXPECT_EQ(HasMaxPoolBackward({usual, usual}),
            __builtin_cpu_supports("avx512f") != 0);
  for (const PoolDim& other :
       {PoolDim{8, 3, 2, 3, 0, 1}, PoolDim{8, 7, 2, 1, 0, 1},
        PoolDim{8, 4, 2, 2, 1, 1}, PoolDim{8, 3, 2, 2, 0, 2},
        PoolDim{7, 4, 2, 2, 0, 1}}) {
    EXPECT_FALSE(HasMaxPoolBackward({usual, other}));
    EXPECT_FALSE(HasMaxPoolBackward({other, usual}));
  }
}

TEST(MaxPoolShapeTest, PlacesFit32Bits) {
  const PoolDim small = {64, 32, 2, 2, 0, 1};
  const PoolDim large = {std::int64_t{1} << 20, 1 << 19, 2, 2, 0, 1};
  EXPECT_EQ(HasMaxPool({small, small}), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_FALSE(HasMaxPool({large, large}));
  EXPECT_FALSE(HasMaxPool({small, {1, 1, 1, std::int64_t{1} << 40, 0, 1}}));
}

// What programs get: replayed, of contiguous and other tensors.
TEST(MaxPoolReplayTest, HasEagersBits) {
  std::mt19937 random(3);
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (int i = 0; i < 12; ++i) {
      const Pool pool = Drawn(&random);
      Tensor x = Numbers(pool, &random, true);
      if (i % 4 == 3) x = x.contiguous(at::MemoryFormat::ChannelsLast);
      if (i % 4 == 2) x = x.to(at::kDouble);
      const auto [largest, places] = pool.Of(x + 1);
      Options options;
      options.hot_threshold = 2;
      ASSERT_TRUE(enable(options));
      for (int step = 0; step < 8; ++step) {
        pool.Of(x + 1);
        mark_step();
      }
      const Stats before = stats();
      const auto [out, at] = pool.Of(x + 1);
      mark_step();
      EXPECT_EQ((stats() - before).ops_replayed, 2) << pool.Text();
      EXPECT_TRUE(HaveSameBits(out, largest)) << pool.Text();
      EXPECT_TRUE(HaveSameBits(at, places)) << pool.Text();
      disable();
      clear();
    }
  }
  at::set_num_threads(1);
}

// With places that no pooling gave, too: they lie in other windows.
TEST(MaxPoolReplayTest, BackwardHasEagersBits) {
  std::mt19937 random(5);
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (int i = 0; i < 12; ++i) {
      const Pool pool = i % 4 == 1 ? Drawn(&random) : DrawnSideBySide(&random);
      Tensor x = Numbers(pool, &random, true);
      if (i % 6 == 2) x = x.to(at::kDouble);
      Tensor places = std::get<1>(pool.Of(x));
      if (i % 3 == 2) places = places.flip(-1).contiguous();
      const Tensor gradient =
          at::randn(places.sizes(), x.options()).mul_(100).round_().div_(8);
      const Tensor want = BackwardOf(pool, gradient + 1, x, places);
      Options options;
      options.hot_threshold = 2;
      ASSERT_TRUE(enable(options));
      for (int step = 0; step < 8; ++step) {
        BackwardOf(pool, gradient + 1, x, places);
        mark_step();
      }
      const Stats before = stats();
      const Tensor got = BackwardOf(pool, gradient + 1, x, places);
      mark_step();
      EXPECT_EQ((stats() - before).ops_replayed, 2) << pool.Text();
      EXPECT_TRUE(HaveSameBits(got, want)) << pool.Text();
      disable();
      clear();
    }
  }
  at::set_num_threads(1);
}

}  // namespace
}  // namespace tjit
