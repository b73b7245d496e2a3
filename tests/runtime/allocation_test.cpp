// Recording and replaying allocate no memory of their own per op: a program
// makes as many allocations with tjit on as it makes without.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "tests/recorder/counting_new.h"

namespace tjit {
namespace {

constexpr int kOps = 20000;

std::int64_t AllocationsOf(const std::function<void()>& body) {
  const std::int64_t before = AllocationCount();
  body();
  return AllocationCount() - before;
}

// Ops whose operands are drawn from a pool: the stream never repeats.
class RandomProgram {
 public:
  explicit RandomProgram(std::function<at::Tensor(RandomProgram&)> op)
      : op_(std::move(op)) {
    for (int i = 0; i < 64; ++i) pool_.push_back(at::rand({8, 8}));
  }
  const at::Tensor& Any() { return pool_[rng_() % pool_.size()]; }
  void Run(int ops) {
    for (int i = 0; i < ops; ++i) out_ = op_(*this);
  }

 private:
  std::function<at::Tensor(RandomProgram&)> op_;
  std::mt19937_64 rng_{1};
  std::vector<at::Tensor> pool_;
  at::Tensor out_;
};

struct Case {
  const char* name;
  at::Tensor (*op)(RandomProgram&);
};

class Recording : public ::testing::TestWithParam<Case> {};

TEST_P(Recording, AllocatesNothingPerOp) {
  const at::NoGradGuard no_grad;
  disable();
  RandomProgram program(GetParam().op);
  program.Run(200);
  const std::int64_t off = AllocationsOf([&] { program.Run(kOps); });
  clear();
  ASSERT_TRUE(enable());
  program.Run(kOps);
  const Stats before = stats();
  const std::int64_t on = AllocationsOf([&] { program.Run(kOps); });
  const Stats d = stats() - before;
  disable();
  EXPECT_GE(off, kOps);  // the counter is connected
  EXPECT_LE(on, off + kOps / 100);
  EXPECT_GE(d.ops_eager, kOps) << d.to_json();
  EXPECT_EQ(d.ops_deferred, 0) << d.to_json();
}

INSTANTIATE_TEST_SUITE_P(
    Ops, Recording,
    ::testing::Values(
        Case{"Add", [](RandomProgram& p) { return p.Any() + p.Any(); }},
        Case{"InPlace",
             [](RandomProgram& p) {
               at::Tensor x = p.Any();
               return at::add(x, p.Any()).mul_(0.5);
             }},
        Case{"MatrixProduct",
             [](RandomProgram& p) {
               return at::addmm(p.Any(), p.Any(), p.Any());
             }},
        Case{"Reduction",
             [](RandomProgram& p) { return at::sum(p.Any() * p.Any(), 0); }},
        Case{"Normalisation",
             [](RandomProgram& p) {
               return at::layer_norm(p.Any(), {8}, p.Any()[0], p.Any()[0]);
             }},
        Case{"Lists",
             [](RandomProgram& p) {
               return at::cat({p.Any(), p.Any(), p.Any()});
             }},
        Case{"Flip", [](RandomProgram& p) { return at::flip(p.Any(), 0); }},
        Case{"Foreach",
             [](RandomProgram& p) {
               return at::_foreach_add({p.Any(), p.Any(), p.Any()}, 1.0)[0];
             }},
        Case{"Slices",
             [](RandomProgram& p) { return p.Any().slice(0, 2, 6) + 1; }}),
    [](const auto& info) { return info.param.name; });

TEST(Replaying, AllocatesNoMoreThanEager) {
  const at::NoGradGuard no_grad;
  const at::Tensor w = at::rand({8, 8});
  at::Tensor x = at::rand({8, 8});
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      x = at::tanh(at::mm(x, w)) + w;
      x = (x * 0.5).add_(w, 0.25);
      x = x / x.sum();
      mark_step();
    }
  };
  constexpr int kSteps = 1000;
  disable();
  run(10);
  const std::int64_t off = AllocationsOf([&] { run(kSteps); });
  clear();
  ASSERT_TRUE(enable());
  run(100);
  const Stats before = stats();
  const std::int64_t on = AllocationsOf([&] { run(kSteps); });
  const Stats d = stats() - before;
  disable();
  EXPECT_GE(off, 7 * kSteps);
  EXPECT_LE(on, off + kSteps / 100);
  EXPECT_GE(d.ops_replayed, 7 * kSteps) << d.to_json();
}

// `x * 2` is an op of a tensor and a number: eager makes a tensor of the number
// and calls the op of two tensors, a deferred step does not.
TEST(Replaying, NumbersAreNoTensors) {
  const at::NoGradGuard no_grad;
  const at::Tensor w = at::rand({8, 8});
  at::Tensor x = at::rand({8, 8});
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      x = (1 - (w * 2 + 1) / 3 - x * 0.5).mul_(0.25).add_(0.5).div_(2).sub_(1);
      mark_step();
    }
  };
  constexpr int kSteps = 1000, kNumbers = 9;
  disable();
  run(10);
  const std::int64_t off = AllocationsOf([&] { run(kSteps); });
  clear();
  ASSERT_TRUE(enable());
  run(200);
  const Stats before = stats();
  const std::int64_t on = AllocationsOf([&] { run(kSteps); });
  const Stats d = stats() - before;
  disable();
  EXPECT_LE(on, off - kNumbers * kSteps);
  EXPECT_GE(d.ops_replayed, (kNumbers + 1) * kSteps) << d.to_json();
}

}  // namespace
}  // namespace tjit
