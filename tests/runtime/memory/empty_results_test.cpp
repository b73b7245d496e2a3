// Results without elements (the statistics that batch norm saves in
// evaluation): the op is deferred all the same, and they are what eager makes.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/testing.h"
#include "tjit/tjit.h"

namespace tjit {
namespace {

using at::Tensor;

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr<float>(), b.const_data_ptr<float>(),
                     a.nbytes()) == 0;
}

constexpr int kSteps = 30;

class EmptyResultsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    testing::SetForcedDrainAt(-1);
    disable();
    clear();
    enable();  // leaves the modes
    disable();
  }

  static void Enable(Stress stress = Stress::kNone, bool shadow = false) {
    Options options;
    options.hot_threshold = 2;
    options.stress = stress;
    options.shadow = shadow;
    options.backend = Backend::kReplay;
    ASSERT_TRUE(enable(options));
  }

  using Results = std::tuple<Tensor, Tensor, Tensor>;
  Results Norm(bool training = false) const {
    return at::native_batch_norm(x_ * 2, weight_, bias_, mean_, var_, training,
                                 0.1, 1e-5);
  }
  Tensor NextTo(const Results& norm) const {
    return at::relu(std::get<0>(norm)) + 1;
  }
  void WarmUp() const {
    for (int i = 0; i < kSteps; ++i) {
      NextTo(Norm());
      mark_step();
    }
  }

  const Tensor x_ = at::randn({2, 3, 5, 4});
  const Tensor weight_ = at::rand({3}), bias_ = at::rand({3});
  const Tensor mean_ = at::rand({3}), var_ = at::rand({3});
};

TEST_F(EmptyResultsTest, TheOpIsDeferred) {
  const Results eager = Norm();
  const Tensor want = NextTo(eager);
  Enable();
  WarmUp();
  const Stats before = stats();
  const Results norm = Norm();
  const Tensor y = NextTo(norm);
  EXPECT_EQ((stats() - before).ops_deferred, 4);
  const auto expect_same = [](const Tensor& got, const Tensor& want) {
    EXPECT_EQ(got.sizes(), want.sizes());
    EXPECT_EQ(got.strides(), want.strides());
    EXPECT_EQ(got.dtype(), want.dtype());
    EXPECT_EQ(got.key_set(), want.key_set());
    EXPECT_EQ(got._version(), want._version());
    EXPECT_EQ(got.storage().nbytes(), 0u);
    EXPECT_EQ(got.storage().resizable(), want.storage().resizable());
    EXPECT_EQ(got.mutable_data_ptr(), want.mutable_data_ptr());
    EXPECT_EQ(got.data_ptr(), nullptr);
  };
  expect_same(std::get<1>(norm), std::get<1>(eager));
  expect_same(std::get<2>(norm), std::get<2>(eager));
  EXPECT_FALSE(std::get<1>(norm).is_alias_of(std::get<2>(norm)));
  // Nothing of it made the others run.
  EXPECT_EQ((stats() - before).flush_count(), 0);
  EXPECT_TRUE(SameBits(y, want));
  EXPECT_EQ((stats() - before).ops_replayed, 4);
  EXPECT_EQ((stats() - before).flush_count(), 1);
}

TEST_F(EmptyResultsTest, BatchNormsAreOneSegment) {
  for (const bool training : {false, true}) {
    for (const bool no_grad : {false, true}) {
      const c10::AutoGradMode mode(!no_grad);
      const auto step = [&] {
        Tensor y = x_ * 2;
        for (int i = 0; i < 2; ++i) {
          y = at::relu(at::batch_norm(y, weight_, bias_, mean_.clone(),
                                      var_.clone(), training, 0.1, 1e-5,
                                      false));
        }
        return y + 1;
      };
      const Tensor want = step();
      Enable();
      Stats before;
      Tensor got;
      for (int i = 0; i < kSteps; ++i) {
        before = stats();
        got = step();
        mark_step();
      }
      const Stats d = stats() - before;
      EXPECT_EQ(d.ops_eager, 0) << d.to_json();
      EXPECT_EQ(d.ops_replayed, 10) << d.to_json();
      EXPECT_EQ(d.segments, 1) << d.to_json();
      EXPECT_TRUE(SameBits(got, want));
      disable();
      clear();
    }
  }
}

TEST_F(EmptyResultsTest, GrowsWhilePending) {
  const Tensor want = NextTo(Norm());
  Enable();
  WarmUp();
  const Stats before = stats();
  const Results norm = Norm();
  const Tensor y = NextTo(norm);
  EXPECT_EQ((stats() - before).ops_deferred, 4);
  std::get<1>(norm).resize_({7}).fill_(3);
  std::get<2>(norm).resize_({64, 64}).fill_(4);
  EXPECT_TRUE(SameBits(y, want));
  EXPECT_EQ((stats() - before).ops_replayed, 4);
  EXPECT_EQ(std::get<1>(norm).sum().item<double>(), 21);
  EXPECT_EQ(std::get<2>(norm).sum().item<double>(), 4 * 64 * 64);
}

TEST_F(EmptyResultsTest, IsReadWhilePending) {
  const Results eager = Norm();
  const auto read = [](const Tensor& t) {
    std::ostringstream text;
    text << t << t.view({0, 1}).sizes() << t.clone().sum().item<float>()
         << (t + 1).numel() << t.t().contiguous().sizes();
    return text.str();
  };
  Enable();
  WarmUp();
  const Stats before = stats();
  const Results norm = Norm();
  EXPECT_EQ((stats() - before).ops_deferred, 2);
  EXPECT_EQ(read(std::get<1>(norm)), read(std::get<1>(eager)));
  EXPECT_TRUE(SameBits(std::get<0>(norm), std::get<0>(eager)));
}

TEST_F(EmptyResultsTest, LeavesTheTraceBehindTheOp) {
  const Results eager = Norm();
  const Tensor want = at::cumsum(std::get<0>(eager), 0);
  Enable();
  WarmUp();
  const Stats before = stats();
  Results norm = Norm();
  std::get<1>(norm).reset();  // and the other one lives
  const Tensor got = at::cumsum(std::get<0>(norm), 0);
  EXPECT_EQ((stats() - before).ops_drained, 2);
  EXPECT_TRUE(SameBits(got, want));
  EXPECT_EQ(std::get<2>(norm).numel(), 0);
}

// Sizes may be those of the recorded run and the mode another.
TEST_F(EmptyResultsTest, TrainingHasOthers) {
  const Tensor mean = mean_.clone(), var = var_.clone();
  Enable();
  WarmUp();
  const Results norm = Norm(/*training=*/true);
  EXPECT_EQ(std::get<1>(norm).numel(), 3);
  sync();
  mean_.copy_(mean);
  var_.copy_(var);
  disable();
  EXPECT_TRUE(SameBits(std::get<1>(norm), std::get<1>(Norm(true))));
}

TEST_F(EmptyResultsTest, DrainedAtEachDepth) {
  const Tensor want = NextTo(Norm());
  Enable();
  WarmUp();
  for (int k = 0; k < 4; ++k) {
    testing::SetForcedDrainAt(k);
    const Stats before = stats();
    const Results norm = Norm();
    const Tensor y = NextTo(norm);
    EXPECT_TRUE(SameBits(y, want)) << k;
    EXPECT_EQ((stats() - before).ops_drained, 4) << k;
    mark_step();
  }
}

TEST_F(EmptyResultsTest, WatchedRunsAgree) {
  const Tensor want = NextTo(Norm());
  for (const bool shadow : {true, false}) {
    Enable(shadow ? Stress::kNone : Stress::kLate, shadow);
    const Stats before = stats();
    WarmUp();
    const Results norm = Norm();
    EXPECT_EQ(std::get<1>(norm).numel(), 0);
    EXPECT_TRUE(SameBits(NextTo(norm), want));
    const Stats d = stats() - before;
    EXPECT_GE(d.ops_replayed, 4 * (kSteps - 5)) << d.to_json();
    EXPECT_GT(d.shadow_checks, 0);
    EXPECT_EQ(d.shadow_mismatches, 0);
    disable();
    clear();
  }
}

}  // namespace
}  // namespace tjit
