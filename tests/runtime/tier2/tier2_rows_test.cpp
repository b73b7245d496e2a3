// Reductions and row ops in compiled groups, end to end: programs whose steps
// all run in one kernel, by the counters, with eager's bits.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include "tests/runtime/tier2/engines_testing.h"

namespace tjit {
namespace {

using at::Tensor;

class Tier2RowsTest : public EnginesTest {
 protected:
  Tier2RowsTest() : EnginesTest(/*steps=*/120) {}

  // Calls f(type) with one thread of eager's and with two, for both types.
  template <class F>
  static void OnThreadsAndTypes(F f) {
    const int before = at::get_num_threads();
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      for (const auto type : {at::kFloat, at::kDouble}) f(type);
    }
    at::set_num_threads(before);
  }
};

TEST_P(Tier2RowsTest, SoftmaxOfMaskedScores) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({64, 100}, type);
    const Tensor mask = at::rand({100}, type).gt(0.7).to(type).mul(-1e9);
    ExpectFused([=] { return at::softmax(x / 8 + mask, -1) * 2; }, 4);
  }
}

// Of channels and of queries, with what is around; and their gradients.
TEST_P(Tier2RowsTest, SoftmaxOfOtherDims) {
  OnThreadsAndTypes([this](at::ScalarType type) {
    const Tensor x = at::randn({4, 21, 8, 16}, type);
    const Tensor bias = at::randn({21, 1, 1}, type);
    const Tensor mask = at::rand({4, 1, 1, 16}, type);
    ExpectFused([=] { return at::softmax(x / 8 + bias, 1) * mask; }, 4);
    ExpectFused([=] { return at::log_softmax(x * 2, -3) + x; }, 3);
    const Tensor y = at::softmax(x, 1);
    ExpectFused(
        [=] { return at::_softmax_backward_data(x * 2, y, 1, type) * 3; }, 3);
    const Tensor log = at::log_softmax(x, 1);
    ExpectFused(
        [=] { return at::_log_softmax_backward_data(x * 2, log, 1, type) * 3; },
        3);
  });
}

// More columns than a tile of the loop has.
TEST_P(Tier2RowsTest, SoftmaxOfManyColumns) {
  OnThreadsAndTypes([this](at::ScalarType type) {
    const Tensor x = at::randn({2, 21, 4100}, type);
    ExpectFused([=] { return at::softmax(x, 1) * x; }, 2);
  });
}

// Columns behind eager's last vector; functions with a tail of their own, which
// are told another place than the slabs' function; rows of the same tensor. On
// one thread: more split such columns within a vector, which is refused.
TEST_P(Tier2RowsTest, SoftmaxOfColumnsWithATail) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({3, 30, 7, 11}, type);
    const Tensor mask = at::rand({3, 1, 1, 11}, type);
    ExpectFused([=] { return at::silu(at::softmax(x * mask, 1)); }, 3);
    ExpectFused(
        [=] {
          const Tensor y = at::silu(x * 2);
          return at::gelu(at::log_softmax(y, 1)) + at::sigmoid(y);
        },
        6);
    const Tensor z = at::randn({5, 130, 40}, type);
    ExpectFused([=] { return at::softmax(at::softmax(z * 2, 1), -1) * 2; }, 4);
    ExpectFused([=] { return at::softmax(at::softmax(z * 2, 0), 1) * 2; }, 4);
  }
  at::set_num_threads(before);
}

// With several threads eager rounds floats otherwise.
TEST_P(Tier2RowsTest, GradientOfSoftmax) {
  OnThreadsAndTypes([this](at::ScalarType type) {
    // So many elements that the product alone stays a call.
    for (const std::int64_t n : {30, 64, 5000}) {
      const Tensor x = at::randn({70, n}, type);
      const Tensor y = at::softmax(at::randn({70, n}, type), -1);
      const auto step = [=] {
        return at::_softmax_backward_data(x * 2, y, -1, type) / 5.5;
      };
      if (at::get_num_threads() > 1 && type == at::kFloat) {
        Stats d;
        ExpectSame(step, &d);
        // The quotient and the copy of it.
        EXPECT_EQ(d.steps_fused, 2 * d.groups_run) << d.to_json();
      } else {
        ExpectFused(step, 3);
      }
    }
  });
}

TEST_P(Tier2RowsTest, SumsOfRows) {
  const Tensor x = at::randn({96, 70});
  ExpectFused([=] { return (x * x).sum(-1); }, 2);
  ExpectFused([=] { return (x * x).mean(-1, true).add(1e-5).rsqrt() * x; }, 5);
}

// Their elements are added up as they are computed.
TEST_P(Tier2RowsTest, SumsOfLongRows) {
  OnThreadsAndTypes([this](at::ScalarType type) {
    for (const std::int64_t n : {64, 300, 1024, 2041}) {
      Tensor x = at::randn({70, n}, type);
      x[3].fill_(NAN);
      x[4][n - 1] = INFINITY;
      const Tensor y = at::randn({n}, type);
      ExpectFused([=] { return (x * x).sum(-1); }, 2);
      ExpectFused([=] { return ((x - y) * y).mean(-1); }, 3);
    }
  });
}

// As many columns as tokens of a language.
TEST_P(Tier2RowsTest, SoftmaxOfLongRows) {
  OnThreadsAndTypes([this](at::ScalarType type) {
    constexpr std::int64_t kCount = 32003;
    const Tensor x = at::randn({2, kCount}, type), y = at::randn_like(x);
    const Tensor mask = at::rand({kCount}, type).gt(0.7).to(type).mul(-1e9);
    ExpectFused([=] { return at::softmax(x / 8 + mask, -1) * 2; }, 4);
    const Tensor log = at::log_softmax(x, -1);
    ExpectFused(
        [=] {
          return at::_log_softmax_backward_data(y * 2, log, -1, type) * 3;
        },
        3);
  });
  const Tensor x = at::randn({2, 128256});
  ExpectFused([=] { return at::log_softmax(x, -1); }, 1);
}

// A loop has no room for all buffers of these.
TEST_P(Tier2RowsTest, LongRowsWithoutRoom) {
  const Tensor x = at::randn({2, 60000});
  Stats d;
  ExpectSame(
      [=] {
        const Tensor y = at::log_softmax(x * 0.5, -1) * x;
        return at::log_softmax(y, -1) * at::softmax(y, -1) + y;
      },
      &d);
  EXPECT_EQ(d.groups_run > d.replays_tier2, GetParam() == Backend::kLlvm)
      << d.to_json();
  EXPECT_GE(d.steps_fused, 7 * d.replays_tier2) << d.to_json();
}

TEST_P(Tier2RowsTest, ReductionsOfLongRows) {
  const at::NoGradGuard no_grad;
  OnThreadsAndTypes([this](at::ScalarType type) {
    constexpr std::int64_t kCount = 50257;
    const Tensor x = at::randn({2, kCount}, type);
    ExpectFused([=] { return (x * x).sum(-1); }, 2);
    ExpectFused([=] { return x - (x * 2).amax(-1, true); }, 3);
    ExpectFused([=] { return (x * x).mean(-1, true).add(1e-5).rsqrt() * x; },
                5);
    const Tensor weight = at::randn({kCount}, type);
    ExpectFused([=] { return at::layer_norm(x * 2, {kCount}, weight) + x; }, 3);
  });
}

TEST_P(Tier2RowsTest, ShortRowsOfALongerOne) {
  const Tensor x = at::randn({500, 6}, at::kDouble);
  const Tensor identity = at::rand({6}, at::kDouble);
  ExpectFused(
      [=] {
        const Tensor strain = x * 0.25;
        const Tensor trace = strain.narrow(-1, 0, 3).sum(-1, true);
        return strain - trace / 3 * identity;
      },
      5);
}

TEST_P(Tier2RowsTest, SeveralReductionsOfTheSameRows) {
  const Tensor x = at::randn({50, 33});
  ExpectFused(
      [=] {
        const Tensor e = at::exp(x - at::amax(x, {-1}, true));
        return e / e.sum(-1, true);
      },
      5);
}

TEST_P(Tier2RowsTest, LayerNormWithWhatIsAroundIt) {
  const at::NoGradGuard no_grad;
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({40, 96}, type);
    const Tensor weight = at::randn({96}, type), bias = at::randn({96}, type);
    ExpectFused(
        [=] { return at::relu(at::layer_norm(x * 2, {96}, weight, bias)) + x; },
        4);
    ExpectFused([=] { return at::layer_norm(x + 1, {96}) * x; }, 3);
  }
}

// Each with a mean and a deviation that a call behind the group needs.
TEST_P(Tier2RowsTest, LayerNormsOverTheSameRows) {
  const at::NoGradGuard no_grad;
  const Tensor x = at::randn({40, 96});
  const Tensor weight = at::randn({96}), bias = at::randn({96});
  Stats did;
  ExpectSame(
      [=] {
        Tensor sum = at::zeros_like(x);
        for (const double eps : {1e-5, 1e-5, 1e-2}) {
          const auto [y, mean, rstd] =
              at::native_layer_norm(x, {96}, weight, bias, eps);
          sum += std::get<0>(at::native_layer_norm_backward(
              y, x, {96}, mean, rstd, weight, bias, {true, false, false}));
        }
        return sum;
      },
      &did);
}

// The gradient of the input with what is around it, those of the parameters
// as columns in as many parts as there are threads.
TEST_P(Tier2RowsTest, GradientsOfALayerNorm) {
  const at::NoGradGuard no_grad;
  OnThreadsAndTypes([&](at::ScalarType type) {
    const Tensor x = at::randn({40, 96}, type);
    const Tensor gradient = at::randn({40, 96}, type);
    const Tensor weight = at::randn({96}, type), bias = at::randn({96}, type);
    const auto [y, mean, rstd] =
        at::native_layer_norm(x, {96}, weight, bias, 1e-5);
    const auto backward = [=, mean = mean, rstd = rstd](const Tensor& g) {
      return at::native_layer_norm_backward(g, x, {96}, mean, rstd, weight,
                                            bias, {true, true, true});
    };
    ExpectFused(
        [=] {
          const auto [dx, dweight, dbias] = backward(gradient * 2);
          return dx * (dweight + dbias);
        },
        4);
  });
}

// Row-major, by channels, and without dims behind the channels, on one thread
// and on two.
std::vector<Tensor> NormInputs(at::ScalarType type) {
  const Tensor x = at::randn({8, 12, 7, 10}, type);
  return {x, x.contiguous(at::MemoryFormat::ChannelsLast),
          at::randn({40, 12}, type)};
}

// Of each channel, for the elements of x.
Tensor Spread(const Tensor& of_channels, const Tensor& x) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
  sizes[1] = of_channels.numel();
  return of_channels.view(sizes);
}

// With the running statistics.
TEST_P(Tier2RowsTest, BatchNorm) {
  const at::NoGradGuard no_grad;
  OnThreadsAndTypes([&](at::ScalarType type) {
    for (const Tensor& x : NormInputs(type)) {
      const Tensor weight = at::randn({12}, type);
      const Tensor bias = at::randn({12}, type);
      const Tensor mean = at::randn({12}, type), var = at::rand({12}, type);
      Stats d;
      ExpectSame(
          [=] {
            const Tensor m = mean * 2, v = var * 2;
            const Tensor y = at::relu(at::batch_norm(x * 2, weight, bias, m, v,
                                                     true, 0.1, 1e-5, false));
            return y * Spread(m + v, y);
          },
          &d);
      EXPECT_EQ(d.steps_fused, 8 * d.replays_tier2) << d.to_json();
    }
  });
}

// Two of its results are empty.
TEST_P(Tier2RowsTest, BatchNormWithGivenStatistics) {
  const at::NoGradGuard no_grad;
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({8, 12, 7, 9}, type);
    const Tensor weight = at::randn({12}, type), bias = at::randn({12}, type);
    const Tensor mean = at::randn({12}, type), var = at::rand({12}, type);
    ExpectFused(
        [=] {
          const Tensor y = at::batch_norm(x * 2, weight, bias, mean, var, false,
                                          0.1, 1e-5, false);
          return at::relu(y) + x;
        },
        4);
  }
}

TEST_P(Tier2RowsTest, GradientsOfABatchNorm) {
  const at::NoGradGuard no_grad;
  OnThreadsAndTypes([&](at::ScalarType type) {
    for (const Tensor& x : NormInputs(type)) {
      const Tensor gradient = at::randn_like(x);
      const Tensor weight = at::randn({12}, type);
      const Tensor mean = at::randn({12}, type), var = at::rand({12}, type);
      for (const bool training : {true, false}) {
        ExpectFused(
            [=] {
              const auto [dx, dweight, dbias] = at::native_batch_norm_backward(
                  at::threshold_backward(gradient, x, 0), x, weight, mean, var,
                  mean, var, training, 1e-5, {true, true, true});
              return dx + Spread(dweight * dbias, dx);
            },
            4);
      }
    }
  });
}

TEST_P(Tier2RowsTest, GroupNorm) {
  const at::NoGradGuard no_grad;
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({8, 12, 7, 9}, type);
    const Tensor weight = at::randn({12}, type), bias = at::randn({12}, type);
    ExpectFused(
        [=] { return at::relu(at::group_norm(x * 2, 3, weight, bias)) + x; },
        4);
    ExpectFused([=] { return at::group_norm(x + 1, 4) * x; }, 3);
  }
}

TEST_P(Tier2RowsTest, GradientsOfAGroupNorm) {
  const at::NoGradGuard no_grad;
  OnThreadsAndTypes([&](at::ScalarType type) {
    const Tensor x = at::randn({8, 24, 7, 9}, type);
    const Tensor gradient = at::randn({8, 24, 7, 9}, type);
    const Tensor weight = at::randn({24}, type);
    const Tensor mean = at::randn({8, 2}, type);
    const Tensor rstd = at::rand({8, 2}, type);
    ExpectFused(
        [=] {
          const auto [dx, dweight, dbias] = at::native_group_norm_backward(
              at::threshold_backward(gradient, x, 0), x, mean, rstd, weight, 8,
              24, 63, 2, {true, true, true});
          return dx + (dweight * dbias).view({24, 1, 1});
        },
        4);
  });
}

// A batch norm of one image with a channel for each image and channel.
TEST_P(Tier2RowsTest, InstanceNorm) {
  const at::NoGradGuard no_grad;
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({6, 5, 7, 10}, type);
    ExpectFused(
        [=] {
          return at::relu(at::instance_norm(x * 2, {}, {}, {}, {}, true, 0.1,
                                            1e-5, false)) +
                 x;
        },
        4);
  }
}

// A composite of powers, a mean and products.
TEST_P(Tier2RowsTest, RmsNorm) {
  const at::NoGradGuard no_grad;
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({40, 96}, type);
    const Tensor weight = at::randn({96}, type);
    ExpectFused([=] { return at::rms_norm(x * 2, {96}, weight, 1e-5) + x; }, 8);
  }
}

TEST_P(Tier2RowsTest, VariancesWithMeans) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({90, 70}, type);
    ExpectFused(
        [=] {
          const auto [var, mean] = at::var_mean(x * 2, {{1}}, 1, true);
          return (x - mean) / var;
        },
        4);
    ExpectFused(
        [=] {
          const auto [var, mean] = at::var_mean(x * 2, {{0}}, 0);
          return (x - mean) / var;
        },
        4);
    // The mean of what ends in infinity is infinite, that of what goes on NaN.
    const Tensor y = x.clone();
    y[-1].slice(0, 0, 40).fill_(INFINITY);
    ExpectFused(
        [=] { return std::get<1>(at::var_mean(y * 2, {{0}}, 0)) + 1; }, 3);
  }
}

// More elements than eager has one thread do, if it has several.
TEST_P(Tier2RowsTest, ColumnsInOnePass) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({500, 84}, type);
    ExpectFused(
        [=] {
          const Tensor y = x * 0.5;
          return (y.mean(0) + y.var(0)) * (y * y).sum(0);
        },
        7);
  }
}

// A step of a loss: what it is made of is in its sum's loop.
TEST_P(Tier2RowsTest, SumsOfAll) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({60, 70}, type), y = at::randn({60, 70}, type);
    ExpectFused([=] { return (x - y).pow(2).mean(); }, 3);
    ExpectFused(
        [=] {
          const Tensor e = at::exp(x - x.amax());
          return e / e.sum() + y.abs().amin();
        },
        8);
  }
}

TEST_P(Tier2RowsTest, Losses) {
  const Tensor x = at::randn({60, 70}), y = at::randn({60, 70});
  ExpectFused([=] { return at::mse_loss(x * 2, y); }, 2);
  ExpectFused([=] { return at::smooth_l1_loss(x * 2, y, 2, 0.5); }, 2);
  ExpectFused([=] { return at::huber_loss(x * 2, y) * 3; }, 3);
}

// Of a mean: the gradient of the loss is one number.
TEST_P(Tier2RowsTest, GradientsOfACrossEntropy) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::rand({60, 70}, type), y = at::rand({60, 70}, type);
    const Tensor weight = at::rand({70}, type), g = at::rand({}, type);
    ExpectFused(
        [=] {
          return at::binary_cross_entropy_backward(g, x * 0.5, y, weight) * x;
        },
        3);
  }
}

TEST_P(Tier2RowsTest, Norms) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({60, 70}, type);
    ExpectFused(
        [=] { return x / at::linalg_vector_norm(x * 2, 2, {{-1}}, true); }, 3);
    ExpectFused([=] { return x / (at::norm(x * 2) + 1e-6); }, 4);
    ExpectFused([=] { return at::linalg_vector_norm(x - 1, 1) * 2; }, 3);
  }
}

TEST_P(Tier2RowsTest, ExtremesOfColumns) {
  const Tensor x = at::randn({90, 70});
  ExpectFused(
      [=] {
        const Tensor y = x * 2;
        return y.amax(0) - y.amin(0);
      },
      4);
}

// With one thread of any length; with more, as long as eager does not share the
// elements among them.
TEST_P(Tier2RowsTest, SumsOfAllOfManyElements) {
  const Tensor x = at::randn({300, 301});
  ExpectFused([=] { return (x * x).sum() * 0.5; }, 3);
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  ExpectFused([=] { return (x * 0.5 + 1).sum(); }, 1);
  const Tensor few = at::randn({300, 84});
  ExpectFused([=] { return (few * 0.5 + 1).sum(); }, 3);
  at::set_num_threads(before);
}

TEST_P(Tier2RowsTest, SumsOfFewSlices) {
  const Tensor x = at::randn({9, 16, 64});
  const Tensor c = at::randn({9, 1, 1});
  ExpectFused([=] { return (x * c).sum(0) / x.sum(0); }, 4);
}

// Pooling, and the gradient of a bias of channels.
TEST_P(Tier2RowsTest, SumsAroundDims) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({8, 12, 7, 9}, type);
    const Tensor gradient = at::randn({8, 12, 7, 9}, type);
    ExpectFused(
        [=] {
          const Tensor g = at::threshold_backward(gradient, x, 0);
          return g.sum({0, 2, 3}, true) * 0.1 + g.mean({2, 3}, true);
        },
        5);
    const Tensor y = at::randn({8, 9, 64}, type);
    ExpectFused([=] { return (y * 2).sum(1) * 3; }, 3);
  }
}

// Slabs by columns, variances and norms of what lies apart.
TEST_P(Tier2RowsTest, ReductionsOfOtherDims) {
  const std::vector<std::int64_t> middle = {1}, around = {0, 2}, last = {1, 2};
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({6, 40, 33}, type);
    ExpectFused([=] { return (x * 2).mean(1) + x.amax(1); }, 4);
    ExpectFused(
        [=] {
          const Tensor y = x * 2;
          return y.var(middle, 1) + y.std(around, 1).sum();
        },
        5);
    ExpectFused(
        [=] {
          const auto [std, mean] = at::std_mean(x * 2, last, 0, true);
          return (x - mean) / std;
        },
        4);
    ExpectFused([=] { return at::linalg_vector_norm(x * 2, 1, middle) * 3; },
                3);
  }
}

// Of all shapes that a row function serves, and of those that take two.
TEST_P(Tier2RowsTest, ReductionsOfIntegers) {
  for (const auto type : {at::kInt, at::kLong, at::kByte}) {
    const Tensor x = at::randint(0, 100, {40, 50}, type);
    const Tensor y = at::randint(0, 100, {40, 50}, type);
    ExpectFused([=] { return (x + y).sum(-1) * (x * y).sum(0).select(0, 3); },
                5);
    ExpectFused([=] { return (x + y).amax(0) - (x * 2).amin(0); }, 5);
    ExpectFused([=] { return (x + y).max() + (x * y).sum(); }, 5);
    const Tensor cube = at::randint(0, 100, {6, 7, 50}, type);
    ExpectFused([=] { return (cube * 3).sum(1) + (cube * 2).sum(1); }, 5);
  }
}

TEST_P(Tier2RowsTest, ReductionsOfBooleans) {
  const Tensor x = at::randn({40, 50}), y = at::randn({40, 50});
  ExpectFused([=] { return x.gt(y).sum(-1) * x.lt(0).sum(-1); }, 5);
  ExpectFused([=] { return x.gt(y).any(0).logical_and(y.gt(-9).all(0)); }, 5);
  ExpectFused([=] { return x.gt(y).any(1).logical_or(y.gt(-1).all(1)); }, 5);
  ExpectFused([=] { return (x * 2).lt(9).all().logical_not(); }, 4);
  ExpectFused([=] { return x.gt(y).sum() * 2; }, 3);
  const Tensor cube = at::randn({6, 7, 50});
  ExpectFused([=] { return cube.gt(0).any(1).logical_not(); }, 3);
}

TEST_P(Tier2RowsTest, TheGradientOfABias) {
  const Tensor x = at::randn({300, 130});
  const Tensor gradient = at::randn({300, 130});
  ExpectFused(
      [=] {
        const Tensor g = at::threshold_backward(gradient, x, 0);
        return g.sum(0, true) * 0.1 + g.select(0, 0);
      },
      4);
}

TEST_P(Tier2RowsTest, SumsIntoWhatIsThere) {
  const Tensor x = at::randn({300, 90});
  const Tensor columns = at::zeros({1, 90});
  ExpectFused(
      [=] {
        columns.copy_((x * 3).sum(0, true));
        return columns;
      },
      3);
  const Tensor rows = at::zeros({300, 1});
  ExpectFused([=] { return rows.copy_((x * 3).sum(-1, true)); }, 3);
  const Tensor cube = at::randn({4, 5, 30}), of_cube = at::zeros({4, 5, 2});
  ExpectFused(
      [=] { return of_cube.narrow(-1, 1, 1).copy_((cube * 3).amax(-1, true)); },
      3);
}

// With several threads eager adds up so many columns in an order of its own:
// the sum is a call between what is compiled. A variance is the same on any
// number.
TEST_P(Tier2RowsTest, ColumnsOnSeveralThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  const Tensor x = at::randn({500, 84});
  ExpectFused([=] { return (x * 0.5).var(0) * 2; }, 3);
  ExpectFused([=] { return (x * 0.5 + 1).sum(0); }, 1);
  const Tensor few = at::randn({300, 84});
  ExpectFused([=] { return (few * 0.5 + 1).sum(0); }, 3);
  at::set_num_threads(before);
}

// Zeros of both signs are the extreme.
TEST_P(Tier2RowsTest, MaxAndMinOfAll) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t n : {2, 15, 16, 37, 1000}) {
      const Tensor x = at::randn({n}, type).sign() * 0;
      const Tensor y = at::randn({3, n}, type);
      ExpectFused([=] { return (x * 2).max() + (x * 3).min(); }, 5);
      ExpectFused([=] { return (x * 2 - x.abs()).max().reciprocal(); }, 5);
      ExpectFused([=] { return y / (y.max() - y.min()); }, 4);
      ExpectFused([=] { return x.expand({3, n}).t().max() * 2; }, 2);
    }
  }
}

// With its gradient, to that of the logits; the targets to ignore are a class
// or none.
TEST_P(Tier2RowsTest, CrossEntropy) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t classes : {2, 10, 100}) {
      const Tensor x = at::randn({37, classes}, type);
      Tensor target = at::randint(0, classes, {37}, at::kLong);
      const Tensor weight = at::rand({classes}, type);
      for (const std::int64_t how : {0, 1, 2, 3, 4, 5}) {
        const std::int64_t ignored = how > 2 ? 1 : -100;
        target[3] = ignored;
        const Tensor used = how % 2 == 0 ? weight : Tensor();
        ExpectNoCalls([=] {
          const Tensor logits = x.detach().requires_grad_();
          const Tensor losses = at::cross_entropy_loss(logits * 2, target, used,
                                                       how % 3, ignored);
          const Tensor loss = how % 3 == 0 ? losses.sum() : losses;
          loss.backward();
          return logits.grad() + loss.detach();
        });
      }
    }
  }
}

// Eager throws of a target that is no class, at the call; then all goes on.
TEST_P(Tier2RowsTest, TargetsOutOfRange) {
  const Tensor x = at::randn({6, 5});
  const Tensor target = at::tensor({0, 1, 2, 3, 4, 0}, at::kLong);
  Stats d;
  int step = 0, thrown = 0;
  ASSERT_NO_FATAL_FAILURE(ExpectSame(
      [&] {
        const bool is_wrong = ++step % 40 == 0;
        target[3] = is_wrong ? 5 : 3;
        try {
          return at::nll_loss(x * 2, target) * 2;
        } catch (const c10::Error& error) {
          EXPECT_TRUE(is_wrong);
          ++thrown;
          EXPECT_STREQ(error.what_without_backtrace(),
                       "Target 5 is out of bounds.");
          return x;
        }
      },
      &d));
  EXPECT_EQ(thrown, 2 * steps_ / 40);
}

INSTANTIATE_TEST_SUITE_P(Engines, Tier2RowsTest, kEngines, EngineName);

}  // namespace
}  // namespace tjit
