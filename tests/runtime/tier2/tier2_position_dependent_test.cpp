// Ops whose bits depend on the place of an element, in compiled kernels end to
// end: between two other ops in one group, for one and two threads, with
// eager's bits.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

using at::Tensor;
using Unary = std::function<Tensor(const Tensor& x, const Tensor& w)>;

struct Case {
  const char* name;
  Unary op;
  int steps = 1;  // of the op: one may fill its result with zeros first
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"sigmoid", [](auto& x, auto&) { return at::sigmoid(x); }},
      {"silu", [](auto& x, auto&) { return at::silu(x); }},
      {"mish", [](auto& x, auto&) { return at::mish(x); }},
      {"gelu tanh", [](auto& x, auto&) { return at::gelu(x, "tanh"); }},
      {"softplus", [](auto& x, auto&) { return at::softplus(x, 1.7, 3.1); }},
      {"elu", [](auto& x, auto&) { return at::elu(x); }},
      {"exp2", [](auto& x, auto&) { return at::exp2(x); }},
      {"pow scalar", [](auto& x, auto&) { return at::pow(x, 1.7); }},
      {"pow of a number", [](auto& x, auto&) { return at::pow(x, 4); }},
      {"pow", [](auto& x, auto& w) { return at::pow(x, w); }},
      {"silu_backward",
       [](auto& x, auto& w) { return at::silu_backward(x, w); }},
      {"gelu_backward tanh",
       [](auto& x, auto& w) { return at::gelu_backward(x, w, "tanh"); }},
      {"softplus_backward",
       [](auto& x, auto& w) { return at::softplus_backward(x, w, 1.7, 3.1); }},
      {"log_sigmoid", [](auto& x, auto&) { return at::log_sigmoid(x); }},
      {"clamp", [](auto& x, auto& w) { return at::clamp(x, w - w, w); }, 2},
      {"clamp_min", [](auto& x, auto& w) { return at::clamp_min(x, w); }},
      {"lerp", [](auto& x, auto& w) { return at::lerp(x, w, w); }},
      {"smooth_l1_backward",
       [](auto& x, auto& w) {
         return at::smooth_l1_loss_backward(w, x, w, at::Reduction::None, 0.3);
       },
       2},
      {"huber_backward",
       [](auto& x, auto& w) {
         return at::huber_loss_backward(w, x, w, at::Reduction::Mean, 0.3);
       },
       2},
  };
  return *cases;
}

class Tier2PositionDependentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    at::manual_seed(5);
  }
  void TearDown() override {
    disable();
    clear();
    at::set_num_threads(1);
  }

  // Steps whose bits differ, of `step` run until its group is machine code.
  int Differences(const std::function<Tensor()>& step, int steps = 24) {
    const Tensor eager = step().clone();
    const Stats before = stats();
    EXPECT_TRUE(enable(MachineCodeAtOnce()));
    int differences = 0;
    for (int i = 0; i < steps; ++i) {
      const Tensor ours = step();
      sync();  // before its bytes are read through a plain pointer
      differences += SameBits(ours, eager) ? 0 : 1;
      mark_step();
      testing::WaitForCompiler();
    }
    stats_ = stats() - before;
    disable();
    clear();
    return differences;
  }

  Stats stats_;
};

// All ops of the step are one group.
TEST_F(Tier2PositionDependentTest, FusedWithEagersBits) {
  for (const Case& c : Cases()) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      for (const std::int64_t n : {1, 31, 70, 2021}) {
        const Tensor x = at::rand({n}, type) + 0.1, w = at::rand({n}, type);
        EXPECT_EQ(
            Differences([&] { return at::add(c.op(at::mul(x, w), w), x); }), 0)
            << c.name << " " << n;
        EXPECT_GT(stats_.groups_run, 3) << c.name << stats_.to_json();
        EXPECT_EQ(stats_.steps_fused, (2 + c.steps) * stats_.groups_run)
            << c.name;
      }
    }
  }
}

// Eager cuts its rows one by one: those of whole vectors have one formula.
TEST_F(Tier2PositionDependentTest, HalvesOfRows) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({30, 4, 64}, type) * 3;
    const Tensor g = at::randn({30, 2, 64}, type);
    EXPECT_EQ(
        Differences([&] { return at::mul(at::glu(at::mul(x, x), 1), g); }), 0);
    EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
    EXPECT_EQ(stats_.steps_fused, 3 * stats_.groups_run);
    EXPECT_EQ(Differences([&] {
                return at::mul(at::glu_backward(at::mul(g, g), x, -2), x);
              }),
              0);
    EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
    EXPECT_EQ(stats_.steps_fused, 3 * stats_.groups_run);
    const Tensor odd = at::randn({130, 66}, type);  // products alone are calls
    EXPECT_EQ(Differences([&] { return at::glu(at::mul(odd, odd), 1) * 2; }),
              0);
    EXPECT_EQ(stats_.steps_fused, 0) << "glu between two others";
  }
}

// Log_sigmoid and three others, then the mean; and their gradients.
TEST_F(Tier2PositionDependentTest, CrossEntropyWithLogits) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const Tensor x = (at::randn({70, 31}) * 5).to(type);
    const Tensor y = at::rand({70, 31}).to(type);
    EXPECT_EQ(Differences([&] {
                return at::mul(at::binary_cross_entropy_with_logits(
                                   x, y, {}, {}, at::Reduction::None),
                               y);
              }),
              0);
    EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
    EXPECT_EQ(stats_.steps_fused, 6 * stats_.groups_run) << stats_.to_json();
  }
}

// Eager's chunks and the kernel's parts are of different sizes.
TEST_F(Tier2PositionDependentTest, TwoThreads) {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const std::int64_t n : {32829, 40062, 100123}) {
      for (const char* name :
           {"sigmoid", "mish", "gelu tanh", "silu_backward"}) {
        const Case* c = nullptr;
        for (const Case& known : Cases()) {
          if (std::string(known.name) == name) c = &known;
        }
        ASSERT_NE(c, nullptr);
        const Tensor x = at::rand({n}) + 0.1, w = at::rand({n});
        EXPECT_EQ(Differences(
                      [&] { return at::add(c->op(at::mul(x, w), w), x); }, 14),
                  0)
            << name << " " << n << ", " << threads << " threads";
        EXPECT_EQ(stats_.steps_fused, 3 * stats_.groups_run) << name;
        EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
      }
    }
  }
}

// A bias makes rows of the loop; the op's own operands are flat.
TEST_F(Tier2PositionDependentTest, RowsAndHalves) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t columns : {5, 33, 1500}) {
      const Tensor x = at::randn({30, columns}).to(type);
      const Tensor bias = at::randn({columns}).to(type);
      EXPECT_EQ(Differences(
                    [&] { return at::mul(at::silu(at::add(x, bias)), bias); }),
                0)
          << columns;
      EXPECT_EQ(stats_.steps_fused, 3 * stats_.groups_run);
      EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
    }
  }
}

// Gelu by erf is oneDNN's in eager; of one element it is not.
TEST_F(Tier2PositionDependentTest, GeluOfBF16) {
  for (const std::int64_t n : {1, 2, 31, 2021, 40062}) {
    const auto make = [&] { return at::randn({n}).to(at::kBFloat16); };
    const Tensor x = make(), s = make(), b = make(), y = make();
    EXPECT_EQ(Differences([&] {
                return at::mul(at::gelu(at::add(at::mul(x, s), b)), y);
              }),
              0)
        << n;
    EXPECT_EQ(stats_.steps_fused, 4 * stats_.groups_run) << n;
    EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
    EXPECT_EQ(Differences([&] { return at::mul(at::gelu_backward(x, s), y); }),
              0)
        << n;
    EXPECT_EQ(stats_.steps_fused, 2 * stats_.groups_run) << n;
    EXPECT_EQ(
        Differences([&] { return at::mul(at::exp(at::tanh(x)).sqrt(), y); }), 0)
        << n;
    EXPECT_EQ(stats_.steps_fused, 4 * stats_.groups_run) << n;
  }
}

TEST_F(Tier2PositionDependentTest, GeluOfFloats) {
  for (const std::int64_t n : {1, 2, 31, 2021, 40062}) {
    const Tensor g = at::randn({n}), x = at::randn({n}) * 3;
    EXPECT_EQ(Differences([&] { return at::add(at::gelu(at::mul(g, x)), g); }),
              0)
        << n;
    EXPECT_EQ(stats_.steps_fused, 3 * stats_.groups_run) << n;
    EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
    EXPECT_EQ(Differences([&] {
                return at::add(at::gelu_backward(at::mul(g, x), x), g);
              }),
              0)
        << n;
    EXPECT_EQ(stats_.steps_fused, 3 * stats_.groups_run) << n;
    EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
  }
}

// The kernel goes the way that eager goes while it runs.
TEST_F(Tier2PositionDependentTest, OneDnnSwitchedOff) {
  at::globalContext().setUserEnabledMkldnn(false);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensor g = at::randn({2021}).to(type), x = at::randn({2021}).to(type);
    EXPECT_EQ(Differences([&] { return at::add(at::gelu_backward(g, x), g); }),
              0);
    EXPECT_EQ(Differences([&] { return at::add(at::gelu(x), g); }), 0);
  }
  at::globalContext().setUserEnabledMkldnn(true);
}

TEST_F(Tier2PositionDependentTest, FunctionsOfF16) {
  for (const std::int64_t n : {2, 31, 2021, 40062}) {
    const auto make = [&] { return at::randn({n}).to(at::kHalf); };
    const Tensor x = make(), y = make();
    EXPECT_EQ(Differences(
                  [&] { return at::mul(at::exp(at::tanh(at::add(x, y))), y); }),
              0)
        << n;
    EXPECT_EQ(stats_.steps_fused, 4 * stats_.groups_run) << n;
    EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
    EXPECT_EQ(Differences([&] {
                return at::mul(at::silu(at::gelu(at::sigmoid(x))), y);
              }),
              0)
        << n;
    EXPECT_EQ(stats_.steps_fused, 4 * stats_.groups_run) << n;
  }
}

// 0 against -0, and what NaN becomes, by its position.
TEST_F(Tier2PositionDependentTest, ChoicesByPosition) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double special[] = {0.0, -0.0, nan, 3.0, -3.0, 0.5, -0.5, 1.0};
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf}) {
    for (const std::int64_t n : {15, 31, 47, 70, 2021}) {
      const Tensor numbers = at::tensor(at::ArrayRef<double>(special)).to(type);
      const auto make = [&] {
        return numbers.index_select(0, at::randint(8, {n}, at::kLong));
      };
      const Tensor g = make(), x = make();
      const std::function<Tensor()> steps[] = {
          [&] { return at::maximum(at::neg(g), x); },
          [&] { return at::minimum(at::neg(g), x); },
          [&] { return at::hardtanh_backward(at::neg(g), x, -0.5, 0.5); },
          [&] { return at::hardswish_backward(at::neg(g), x); },
          [&] { return at::softshrink(at::neg(g), 0.5); },
          [&] { return at::hardshrink_backward(at::neg(g), x, 0.5); }};
      for (const auto& step : steps) {
        EXPECT_EQ(Differences(step), 0)
            << at::toString(type) << " " << n << " " << &step - steps;
        EXPECT_EQ(stats_.steps_fused, 2 * stats_.groups_run);
        EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
      }
    }
  }
}

TEST_F(Tier2PositionDependentTest, LayerNormGeluAndResidual) {
  for (const std::int64_t columns : {48, 768}) {
    const Tensor x = at::randn({30, columns}), y = at::randn({30, columns});
    const Tensor w = at::rand({columns}) + 0.5, b = at::randn({columns});
    const auto step = [&] {
      const Tensor normal = at::layer_norm(x, {columns}, w, b);
      return at::add(at::gelu(normal), y);
    };
    EXPECT_EQ(Differences(step), 0) << columns;
    EXPECT_EQ(stats_.steps_fused, 3 * stats_.groups_run);
    EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
  }
}

// In loops over rows: behind a function of whole rows, and of its results.
TEST_F(Tier2PositionDependentTest, BehindFunctionsOfRows) {
  for (const std::int64_t rows : {1, 7, 30, 400}) {
    for (const std::int64_t columns : {5, 33, 1500}) {
      const Tensor x = at::randn({rows, columns});
      EXPECT_EQ(
          Differences([&] { return at::mul(at::silu(at::softmax(x, 1)), x); }),
          0)
          << rows << " rows of " << columns;
      EXPECT_EQ(stats_.steps_fused, 3 * stats_.groups_run);
      EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
      EXPECT_EQ(Differences([&] {
                  return at::mul(at::sigmoid(at::sum(x, {1}, true)), x);
                }),
                0)
          << rows << " rows of " << columns;
      EXPECT_EQ(stats_.steps_fused, 3 * stats_.groups_run);
      EXPECT_GT(stats_.groups_run, 3) << stats_.to_json();
    }
  }
}

// What is not flat stays a library call, with its bits.
TEST_F(Tier2PositionDependentTest, StridedAndBroadcastOperandsAreLibraryCalls) {
  const Tensor wide = at::randn({40, 70}), w = at::randn({40, 35});
  const Tensor strided = wide.slice(1, 0, 70, 2);
  EXPECT_EQ(Differences([&] { return at::add(at::sigmoid(strided), w); }), 0);
  const Tensor base = at::rand({40, 35}) + 0.1, row = at::rand({35});
  EXPECT_EQ(Differences([&] { return at::add(at::pow(base, row), w); }), 0);
  const Tensor t = at::randn({35, 40}).t();
  EXPECT_EQ(Differences([&] { return at::add(at::silu(t), w); }), 0);
}

// The number of threads may change while the kernel stays.
TEST_F(Tier2PositionDependentTest, ThreadsThatChange) {
  const Tensor x = at::randn({40062}), w = at::randn({40062});
  const auto step = [&] { return at::add(at::mish(at::mul(x, w)), x); };
  std::vector<Tensor> eager;
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    eager.push_back(step().clone());
  }
  ASSERT_FALSE(SameBits(eager[0], eager[1]));
  const Stats before = stats();
  ASSERT_TRUE(enable(MachineCodeAtOnce()));
  for (int i = 0; i < 60; ++i) {
    const int threads = 1 + i / 10 % 2;
    at::set_num_threads(threads);
    const Tensor ours = step();
    sync();
    EXPECT_TRUE(SameBits(ours, eager[static_cast<std::size_t>(threads) - 1]))
        << i;
    mark_step();
    testing::WaitForCompiler();
  }
  const Stats d = stats() - before;
  EXPECT_GT(d.groups_run, 30) << d.to_json();
}

}  // namespace
}  // namespace tjit
