// Batch norm, group norm and their gradients: what is lowered has eager's bits,
// for all layouts, types and numbers of threads; the rest is refused.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/against_eager/lower_test_inputs.h"
#include "tests/runtime/against_eager/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Tensor;
using c10::IValue;
using ::testing::HasSubstr;

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble};

// given: 0 no parameters, 1 the weight, 2 the bias too.
std::string CompareBatchNorm(const Tensor& x, int given, double momentum,
                             bool training = true, int threads = 1) {
  RecordedGroup group;
  group.SetThreads(threads);
  const at::ScalarType type = x.scalar_type();
  const std::int64_t channels = x.size(1);
  const Tensor weight = Numbers({channels}, type, 1);
  const Tensor bias = Numbers({channels}, type, 2);
  const Tensor mean = Numbers({channels}, type, 3);
  const Tensor var = Numbers({channels}, type, 4).abs();
  const Tensor in = group.Call("aten::mul.Tensor", {x, x});
  const Tensor y = group.Call(
      "aten::native_batch_norm",
      {in, given > 0 ? IValue(weight) : IValue(),
       given > 1 ? IValue(bias) : IValue(),
       momentum != 0 ? IValue(mean) : IValue(),
       momentum != 0 ? IValue(var) : IValue(), training, momentum, 1e-5});
  group.Call("aten::relu", {y});
  return group.Compare();
}

// All ways that the tensor may lie in.
std::vector<Tensor> Layouts(const Tensor& x) {
  std::vector<Tensor> all = {x};
  if (x.dim() == 4) all.push_back(x.contiguous(at::MemoryFormat::ChannelsLast));
  if (x.dim() == 5) {
    all.push_back(x.contiguous(at::MemoryFormat::ChannelsLast3d));
  }
  return all;
}

class LowerNormsTest : public ::testing::Test {
 protected:
  ~LowerNormsTest() override { at::set_num_threads(before_); }

 private:
  const int before_ = at::get_num_threads();
};

TEST_F(LowerNormsTest, BatchNorms) {
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    const auto compare = [&](const Tensor& x, int given, double momentum) {
      EXPECT_EQ(CompareBatchNorm(x, given, momentum, true, threads), "")
          << x.sizes() << x.strides() << x.dtype() << threads;
    };
    for (const at::ScalarType type : kTypes) {
      for (const auto& sizes :
           std::vector<std::vector<std::int64_t>>{{5, 3, 4, 7},
                                                  {1, 16, 8, 8},
                                                  {2, 5, 34},
                                                  {9, 5, 28, 28},
                                                  {4, 3, 3, 5, 2},
                                                  {8, 19},
                                                  {64, 33},
                                                  {8, 20, 1, 1},
                                                  {3, 40, 3, 6}}) {
        for (const Tensor& x : Layouts(at::randn(sizes, type))) {
          for (const int given : {0, 1, 2}) compare(x, given, 0.1);
          compare(x, 2, 0.37);
          compare(x, 2, 0.0);
        }
        for (const Tensor& x : Layouts(Numbers(sizes, type, 9))) {
          compare(x, 2, 0.1);
        }
      }
      // A rounding that differs may be rare. All that may fill no vector.
      for (std::int64_t channels = 2; channels <= 40; ++channels) {
        compare(at::randn({12, channels}, type), 2, 0.1);
        const Tensor x = at::randn({2, channels, 5, 4}, type);
        for (const Tensor& x : Layouts(x)) compare(x, 2, 0.1);
      }
    }
    for (int i = 0; i < 100; ++i) compare(at::randn({2, 40, 33}), 2, 0.1);
  }
}

// Found by the random programs: statistics that are the bias, too.
TEST_F(LowerNormsTest, BatchNormsThatWriteWhatTheyRead) {
  const Tensor x = Numbers({4, 6, 5, 5}, at::kFloat, 10);
  const Tensor bias = Numbers({6}, at::kFloat, 2);
  const Tensor var = Numbers({6}, at::kFloat, 4).abs();
  RecordedGroup group;
  group.SetThreads(1);
  const Tensor in = group.Call("aten::mul.Tensor", {x, x});
  group.Call("aten::native_batch_norm",
             {in, bias, bias, bias, var, true, 0.1, 1e-5});
  EXPECT_THAT(group.Compare(), HasSubstr("writes one of its operands"));
}

// Eager's results beside the first are empty.
TEST_F(LowerNormsTest, BatchNormsWithGivenStatistics) {
  const auto compare = [](const Tensor& x, int given) {
    EXPECT_EQ(CompareBatchNorm(x, given, 0.1, false, 1), "") << x.sizes();
    EXPECT_EQ(CompareBatchNorm(x, given, 0.1, false, 0), "") << x.sizes();
  };
  for (const at::ScalarType type : kTypes) {
    for (const int given : {0, 1, 2}) {
      for (const auto& sizes :
           std::vector<std::vector<std::int64_t>>{{5, 3, 4, 7},
                                                  {1, 16, 8, 8},
                                                  {2, 5, 33},
                                                  {9, 5, 28, 28},
                                                  {3, 2, 70, 70},
                                                  {8, 19},
                                                  {4, 1, 6},
                                                  {2, 3, 3, 5, 4}}) {
        const Tensor x = Numbers(sizes, type, 9);
        compare(x, given);
        compare(at::randn(sizes, type), given);
        if (x.dim() == 4) {
          compare(x.contiguous(at::MemoryFormat::ChannelsLast), given);
        } else if (x.dim() == 5) {
          compare(x.contiguous(at::MemoryFormat::ChannelsLast3d), given);
        }
      }
    }
  }
  for (int i = 0; i < 100; ++i) {  // a rounding that differs may be rare
    compare(at::randn({2, 40, 33}), 2);
  }
}

TEST_F(LowerNormsTest, BatchNormsThatAreRefused) {
  const Tensor x = Numbers({4, 6, 5, 5}, at::kFloat, 10);
  EXPECT_THAT(CompareBatchNorm(x.transpose(2, 3), 2, 0.1, false),
              HasSubstr("not lie densely"));
  EXPECT_THAT(CompareBatchNorm(x.to(at::kBFloat16), 2, 0.1, false),
              HasSubstr("another type than f32 and f64"));
  EXPECT_THAT(CompareBatchNorm(x.to(at::kDouble), 2, 0.1),
              HasSubstr("squares of f64"));
  EXPECT_THAT(CompareBatchNorm(x.transpose(2, 3), 2, 0.1),
              HasSubstr("not lie densely"));
  const Tensor rows = Numbers({5, 6}, at::kFloat, 10);
  EXPECT_THAT(CompareBatchNorm(rows, 2, 0.1, true, 0),
              HasSubstr("as many parts as threads"));
  EXPECT_THAT(CompareBatchNorm(at::randn({64, 6}), 2, 0.1, true, 17),
              HasSubstr("many parts"));
  EXPECT_THAT(CompareBatchNorm(rows, 2, 0.1, true, 4),
              HasSubstr("two rows for a thread"));
  EXPECT_THAT(CompareBatchNorm(Numbers({4, 1, 5, 5}, at::kFloat, 1), 2, 0.1),
              HasSubstr("two channels or elements"));
  EXPECT_THAT(CompareBatchNorm(Numbers({2, 2, 70, 70}, at::kFloat, 1), 2, 0.1),
              HasSubstr("rows that are long"));
  EXPECT_THAT(CompareBatchNorm(x.to(at::kBFloat16), 2, 0.1),
              HasSubstr("another type than f32 and f64"));
}

std::string CompareGradients(const Tensor& x, bool has_weight, int mask,
                             bool training, int threads = 0) {
  RecordedGroup group;
  group.SetThreads(threads);
  const at::ScalarType type = x.scalar_type();
  const std::int64_t channels = x.size(1);
  const Tensor weight = Numbers({channels}, type, 1);
  const Tensor mean = Numbers({channels}, type, 3);
  const Tensor var = Numbers({channels}, type, 4).abs();
  const Tensor y = at::empty_like(x).copy_(Numbers(x.sizes(), type, 5));
  const Tensor gradient = group.Call("aten::mul.Tensor", {y, x});
  const Tensor save_mean = Numbers({channels}, type, 6);
  const Tensor save_invstd = Numbers({channels}, type, 7).abs();
  const c10::List<bool> wanted(
      {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0});
  group.Call("aten::native_batch_norm_backward",
             {gradient, x, has_weight ? IValue(weight) : IValue(), mean, var,
              save_mean, save_invstd, training, 1e-5, wanted});
  for (const Tensor& t : std::vector<Tensor>(group.results())) {
    if (t.defined()) group.Call("aten::mul.Tensor", {t, t});
  }
  return group.Compare();
}

TEST_F(LowerNormsTest, GradientsOfBatchNorms) {
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    const auto compare = [&](const Tensor& x, bool weight, int mask,
                             bool training) {
      EXPECT_EQ(CompareGradients(x, weight, mask, training, threads), "")
          << x.sizes() << x.strides() << x.dtype() << training << threads;
    };
    for (const at::ScalarType type : kTypes) {
      for (const bool training : {true, false}) {
        for (const auto& sizes :
             std::vector<std::vector<std::int64_t>>{{5, 3, 4, 7},
                                                    {1, 16, 8, 8},
                                                    {3, 2, 2},
                                                    {2, 5, 33},
                                                    {4, 3, 3, 5, 2},
                                                    {8, 19},
                                                    {64, 33},
                                                    {8, 20, 1, 1}}) {
          for (const Tensor& x : Layouts(Numbers(sizes, type, 9))) {
            compare(x, true, 7, training);
            compare(x, false, 5, training);
          }
          for (int i = 0; i < 4; ++i) {
            for (const Tensor& x : Layouts(at::randn(sizes, type))) {
              compare(x, true, 7, training);
            }
          }
        }
        for (const Tensor& x : Layouts(Numbers({4, 6, 5, 5}, type, 10))) {
          compare(x, true, 1, training);
          compare(x, true, 6, training);
        }
      }
      // A rounding that differs may be rare. All that may fill no vector.
      for (std::int64_t channels = 2; channels <= 40; ++channels) {
        compare(at::randn({12, channels}, type), true, 7, true);
        const Tensor x = at::randn({2, channels, 5, 4}, type);
        for (const Tensor& x : Layouts(x)) compare(x, true, 7, true);
      }
    }
  }
}

TEST_F(LowerNormsTest, GradientsOfBatchNormsThatAreRefused) {
  const Tensor x = Numbers({4, 6, 5, 5}, at::kFloat, 10);
  const auto why = [](const Tensor& x) {
    return CompareGradients(x, true, 7, true);
  };
  EXPECT_THAT(why(x.contiguous(at::MemoryFormat::ChannelsLast)),
              HasSubstr("as many parts as threads"));
  EXPECT_THAT(why(Numbers({4, 1, 6}, at::kFloat, 1)),
              HasSubstr("two channels or elements"));
  EXPECT_THAT(why(Numbers({2, 2, 70, 70}, at::kFloat, 1)),
              HasSubstr("rows that are long"));
}

// given: 0 no parameters, 1 the weight, 2 the bias too, 3 the bias alone.
std::string CompareGroupNorm(const Tensor& x, std::int64_t groups, int given) {
  RecordedGroup group;
  const std::int64_t channels = x.size(1);
  const Tensor weight = Numbers({channels}, x.scalar_type(), 1);
  const Tensor bias = Numbers({channels}, x.scalar_type(), 2);
  const Tensor in = group.Call("aten::mul.Tensor", {x, x});
  const bool has_weight = given == 1 || given == 2;
  const Tensor y =
      group.Call("aten::native_group_norm",
                 {in, has_weight ? IValue(weight) : IValue(),
                  given > 1 ? IValue(bias) : IValue(), x.size(0), channels,
                  x.numel() / x.size(0) / channels, groups, 1e-5});
  for (const Tensor& t : std::vector<Tensor>(group.results())) {
    if (t.defined()) group.Call("aten::mul.Tensor", {t, t});
  }
  return group.Compare();
}

TEST_F(LowerNormsTest, GroupNorms) {
  for (const at::ScalarType type : kTypes) {
    for (const int given : {0, 1, 2, 3}) {
      for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
               {5, 6, 4, 7}, {1, 16, 8, 8}, {2, 10, 33}, {3, 4}, {7, 8, 1}}) {
        const Tensor x = Numbers(sizes, type, 9);
        EXPECT_EQ(CompareGroupNorm(x, 2, given), "") << x.sizes() << given;
        EXPECT_EQ(CompareGroupNorm(at::randn(sizes, type), 1, given), "");
      }
    }
    for (int i = 0; i < 100; ++i) {  // a rounding that differs may be rare
      EXPECT_EQ(CompareGroupNorm(at::randn({2, 40, 9}, type), 20, 2), "");
    }
  }
}

TEST_F(LowerNormsTest, GroupNormsThatAreRefused) {
  const Tensor x = Numbers({4, 6, 5, 5}, at::kFloat, 10);
  EXPECT_THAT(
      CompareGroupNorm(x.contiguous(at::MemoryFormat::ChannelsLast), 2, 2),
      HasSubstr("not row-major"));
  EXPECT_THAT(CompareGroupNorm(Numbers({4, 6}, at::kFloat, 1), 6, 2),
              HasSubstr("less than two elements"));
  EXPECT_THAT(CompareGroupNorm(Numbers({2, 2, 70, 70}, at::kFloat, 1), 1, 2),
              HasSubstr("rows that are long"));
  EXPECT_THAT(CompareGroupNorm(x.to(at::kBFloat16), 2, 2),
              HasSubstr("another type than f32 and f64"));
}

std::string CompareGroupGradients(const Tensor& x, std::int64_t groups,
                                  bool has_weight, int mask, int threads) {
  RecordedGroup group;
  group.SetThreads(threads);
  const at::ScalarType type = x.scalar_type();
  const std::int64_t images = x.size(0), channels = x.size(1);
  const Tensor weight = Numbers({channels}, type, 1);
  const Tensor y = Numbers(x.sizes(), type, 5);
  const Tensor gradient = group.Call("aten::mul.Tensor", {y, y});
  const Tensor mean = at::randn({images, groups}, type);
  const Tensor rstd = at::rand({images, groups}, type);
  const c10::List<bool> wanted(
      {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0});
  group.Call("aten::native_group_norm_backward",
             {gradient, x, mean, rstd, has_weight ? IValue(weight) : IValue(),
              images, channels, x.numel() / images / channels, groups, wanted});
  for (const Tensor& t : std::vector<Tensor>(group.results())) {
    if (t.defined()) group.Call("aten::mul.Tensor", {t, t});
  }
  return group.Compare();
}

// With 1 to 20 channels in a group: vectors and all lengths of what is left.
TEST_F(LowerNormsTest, GradientsOfGroupNorms) {
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (const at::ScalarType type : kTypes) {
      const auto compare = [&](const Tensor& x, std::int64_t groups,
                               bool weight, int mask) {
        EXPECT_EQ(CompareGroupGradients(x, groups, weight, mask, threads), "")
            << x.sizes() << x.dtype() << threads;
      };
      for (std::int64_t width = 1; width <= 20; ++width) {
        const Tensor x = at::randn({5, 3 * width, 3, 5}, type);
        compare(x, 3, true, 7);
        compare(x, 3, false, 1);
        compare(at::randn({1, width + 1, 37}, type), 1, true, 7);
        compare(at::randn({2, width + 1, width + 1}, type), 1, true, 7);
      }
      const Tensor x = Numbers({4, 64, 2, 5}, type, 10);
      compare(x, 2, true, 1);
      compare(x, 2, true, 6);
      compare(at::randn({2, 512, 4}, type), 2, true, 7);
    }
  }
}

TEST_F(LowerNormsTest, GradientsOfGroupNormsThatAreRefused) {
  const auto why = [](const Tensor& x, int threads = 1) {
    return CompareGroupGradients(x, 1, true, 7, threads);
  };
  const Tensor x = Numbers({4, 6, 5, 5}, at::kFloat, 10);
  EXPECT_THAT(why(x.contiguous(at::MemoryFormat::ChannelsLast)),
              HasSubstr("not row-major"));
  EXPECT_THAT(why(Numbers({4, 6}, at::kFloat, 1)),
              HasSubstr("less than two elements"));
  EXPECT_THAT(why(Numbers({2, 1, 9}, at::kFloat, 1)),
              HasSubstr("less than two channels"));
  EXPECT_THAT(why(Numbers({2, 300, 2}, at::kFloat, 1)),
              HasSubstr("groups of many channels"));
  EXPECT_THAT(why(Numbers({2, 2, 70, 70}, at::kFloat, 1)),
              HasSubstr("rows that are long"));
  EXPECT_THAT(why(x, 0), HasSubstr("on several threads"));
}

}  // namespace
}  // namespace tjit::testing
