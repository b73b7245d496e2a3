// The modes in which a run watches itself: what each must do, that it finds
// what is planted, and that it does nothing when it is off.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/testing.h"
#include "tjit/tjit.h"

namespace tjit {
namespace {

// Kernels of the program that lie: one writes its input, one draws.
at::Tensor WritesInput(const at::Tensor& t) {
  float* p = t.data_ptr<float>();
  p[0] += 1;
  return at::sum(t);
}
at::Tensor Draws(const at::Tensor& t, std::int64_t) {
  return t + at::rand({1});
}
TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("trace", WritesInput);
  m.impl("tril", Draws);
}

using Tensors = std::vector<at::Tensor>;

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().const_data_ptr<float>(),
                     b.contiguous().const_data_ptr<float>(), a.nbytes()) == 0;
}

// In-place, views, out=, values that die pending, two scalars that vary.
Tensors Program(int steps) {
  at::Tensor w = at::ones({8, 8}) * 0.25, out = at::zeros({8, 8});
  at::Tensor loss;
  for (int i = 0; i < steps; ++i) {
    const at::Tensor h = at::relu(at::tanh(at::mm(w, w)));
    w.add_(h, 0.01 * (i + 1));
    w.select(0, 1).mul_(1.0 + 0.001 * i);
    at::mul_out(out, w.t(), h);
    loss = (out + w.narrow(1, 2, 3).sum()).sum();
    if (i % 4 == 3) loss.item<float>();
    mark_step();
  }
  return {w, out, loss};
}

class ModesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    want_ = Program(kSteps);
    before_ = stats();
  }
  void TearDown() override {
    testing::SetPlantedDefect("");
    disable();
    clear();
    // Leaves the modes.
    enable();
    disable();
  }
  void Enable(Stress stress, bool shadow = false, std::int64_t seed = 7) {
    Options options;
    options.hot_threshold = 2;
    options.stress = stress;
    options.shadow = shadow;
    options.shuffle_seed = seed;
    ASSERT_TRUE(enable(options));
  }
  void ExpectRight(const Tensors& got) {
    for (std::size_t i = 0; i < want_.size(); ++i) {
      EXPECT_TRUE(SameBits(got[i], want_[i])) << i;
    }
  }
  Stats Since() const { return stats() - before_; }

  static constexpr int kSteps = 24;
  Tensors want_;
  Stats before_;
};

TEST_F(ModesTest, OffTheyCountNothing) {
  Enable(Stress::kNone);
  ExpectRight(Program(kSteps));
  const Stats s = Since();
  EXPECT_GT(s.ops_replayed, 0);
  EXPECT_EQ(s.ops_late + s.shadow_checks + s.ops_checked +
                s.flush_count("shuffle"),
            0);
}

TEST_F(ModesTest, LateDefersFromTheFirstSighting) {
  Enable(Stress::kLate);
  const at::Tensor a = at::ones({4}), b = at::ones({4});
  sync();
  const Stats before = stats();
  const at::Tensor y = a + b;
  EXPECT_EQ((stats() - before).ops_deferred, 1);
  EXPECT_EQ((stats() - before).ops_replayed, 0);
  // Its bytes are not there: read in a way that nothing sees.
  std::uint32_t word = 0;
  std::memcpy(&word, y.storage().data(), sizeof(word));
  EXPECT_EQ(word, 0xFFFFFFFFu);
  EXPECT_EQ(y.const_data_ptr<float>()[3], 2);
  EXPECT_EQ((stats() - before).ops_replayed, 1);
  EXPECT_EQ((stats() - before).shadow_checks, 1);
}

TEST_F(ModesTest, LateGivesEagersBits) {
  Enable(Stress::kLate);
  ExpectRight(Program(kSteps));
  const Stats s = Since();
  EXPECT_GT(s.ops_late, kSteps * 9);
  EXPECT_EQ(s.ops_late, s.ops_deferred);
  EXPECT_GT(s.shadow_checks, kSteps * 3);
  EXPECT_EQ(s.shadow_mismatches, 0);
  EXPECT_GT(s.mean_queue_length(), 4);
  EXPECT_EQ(s.traces, 0);
  EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
}

TEST_F(ModesTest, LateTakesAnOpBackThatThrows) {
  Enable(Stress::kLate);
  at::Tensor y = at::ones({2, 3}) + 1;
  const at::Tensor z = y * 2;
  EXPECT_THROW(y.add_(at::ones({5, 7})), c10::Error);
  y.add_(1);
  EXPECT_TRUE(SameBits(y, at::ones({2, 3}) * 3));
  EXPECT_TRUE(SameBits(z, at::ones({2, 3}) * 4));
  const Stats s = Since();
  EXPECT_EQ(s.shadow_mismatches, 0);
  EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
}

// out= with another size: its storage changes while the op runs.
TEST_F(ModesTest, LateTakesAnOpBackThatResizes) {
  Enable(Stress::kLate);
  at::Tensor out = at::ones({2}) + 1;  // pending
  at::Tensor kept = at::ones({3});
  const at::Tensor view = kept.narrow(0, 0, 2);
  const at::Tensor a = at::ones({64}) + 2;
  at::add_out(out, a, a);
  at::add_out(kept, a, a);
  EXPECT_TRUE(SameBits(out, at::ones({64}) * 6));
  EXPECT_TRUE(SameBits(kept, at::ones({64}) * 6));
  EXPECT_TRUE(SameBits(out + kept, at::ones({64}) * 12));
  const Stats s = Since();
  EXPECT_GT(s.ops_late, 0);
  EXPECT_EQ(s.shadow_mismatches, 0);
  EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
}

TEST_F(ModesTest, LateSeesMemoryThatTheProgramFills) {
  Enable(Stress::kLate);
  at::Tensor x = at::zeros({4});
  float* raw = x.data_ptr<float>();
  Tensors results;
  for (int i = 0; i < 5; ++i) {
    raw[0] = static_cast<float>(i);
    results.push_back(x + 1);
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(results[i].const_data_ptr<float>()[0], static_cast<float>(i + 1));
  }
  EXPECT_EQ(Since().shadow_mismatches, 0);
  EXPECT_GT(Since().inputs_copied, 0);
}

TEST_F(ModesTest, LateOnTwoThreads) {
  Enable(Stress::kLate);
  Tensors other;
  std::thread thread([&] { other = Program(kSteps); });
  ExpectRight(Program(kSteps));
  thread.join();
  ExpectRight(other);
  EXPECT_EQ(Since().shadow_mismatches, 0);
}

TEST_F(ModesTest, ShadowComparesWhatIsReplayed) {
  Enable(Stress::kNone, /*shadow=*/true);
  ExpectRight(Program(kSteps));
  const Stats s = Since();
  EXPECT_GT(s.ops_replayed, 0);
  EXPECT_GT(s.shadow_checks, 0);
  EXPECT_EQ(s.shadow_mismatches, 0);
  EXPECT_EQ(s.ops_late, 0);
  EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
}

class PlantedTest : public ModesTest,
                    public ::testing::WithParamInterface<const char*> {};

TEST_P(PlantedTest, LateFindsIt) {
  if (!testing::SetPlantedDefect(GetParam())) GTEST_SKIP() << "not built in";
  Enable(Stress::kLate);
  ExpectRight(Program(kSteps));  // eager's bits are kept
  EXPECT_GT(Since().shadow_mismatches, 0);
}

TEST_P(PlantedTest, ShadowFindsItAndTheTraceIsLeft) {
  if (!testing::SetPlantedDefect(GetParam())) GTEST_SKIP() << "not built in";
  Enable(Stress::kNone, /*shadow=*/true);
  ExpectRight(Program(kSteps));
  EXPECT_GT(Since().shadow_mismatches, 0);
  EXPECT_GT(Since().side_exit_count("shadow_mismatch"), 0);
  const Stats before = stats();
  ExpectRight(Program(kSteps));
  EXPECT_EQ((stats() - before).ops_deferred, 0);
}

INSTANTIATE_TEST_SUITE_P(All, PlantedTest,
                         ::testing::Values("stale_scalar", "wrong_live_out",
                                           "no_execute"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST_F(ModesTest, CheckNamesWhatASchemaHides) {
  Enable(Stress::kCheck);
  const at::Tensor t = at::ones({4, 4});
  ::testing::internal::CaptureStderr();
  at::trace(t);
  EXPECT_EQ(Since().check_failures, 1);
  at::tril(t);
  EXPECT_EQ(Since().check_failures, 2);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("aten::trace wrote argument 0"), std::string::npos)
      << said;
  EXPECT_NE(said.find("aten::tril drew random numbers"), std::string::npos);
  EXPECT_GT(Since().ops_checked, 0);
}

TEST_F(ModesTest, CheckKnowsOrdinaryOps) {
  Enable(Stress::kCheck);
  ExpectRight(Program(kSteps));
  const at::Tensor x = at::rand({4, 3}), mean = at::zeros({3}),
                   var = at::ones({3});
  at::native_batch_norm(x, {}, {}, mean, var, true, 0.1, 1e-5);
  at::rand({3}).normal_();
  EXPECT_GT(Since().ops_checked, kSteps * 9);
  EXPECT_EQ(Since().check_failures, 0);
  EXPECT_EQ(Since().ops_deferred, 0);
}

TEST_F(ModesTest, CheckGoesWithLate) {
  Enable(Stress::kCheck | Stress::kLate);
  ExpectRight(Program(kSteps));
  EXPECT_GT(Since().ops_checked, kSteps * 9);
  EXPECT_EQ(Since().check_failures, 0);
  EXPECT_GT(Since().ops_late, kSteps * 9);
}

TEST_F(ModesTest, ShuffleFlushesAtTheSamePointsForTheSameSeed) {
  std::vector<std::int64_t> flushes;
  for (const std::int64_t seed : {3, 3, 4}) {
    Enable(Stress::kNone);
    clear();
    const Stats before = stats();
    Enable(Stress::kShuffle, /*shadow=*/true, seed);
    ExpectRight(Program(kSteps));
    const Stats s = stats() - before;
    EXPECT_GT(s.flush_count("shuffle"), 0);
    EXPECT_EQ(s.shadow_mismatches, 0);
    flushes.push_back(s.flush_count("shuffle") * 1000 + s.segments);
  }
  EXPECT_EQ(flushes[0], flushes[1]);
  EXPECT_NE(flushes[0], flushes[2]);
}

TEST_F(ModesTest, ShuffleGoesWithLate) {
  Enable(Stress::kShuffle | Stress::kLate);
  ExpectRight(Program(kSteps));
  EXPECT_GT(Since().flush_count("shuffle"), 0);
  EXPECT_GT(Since().ops_late, kSteps * 9);
  EXPECT_EQ(Since().shadow_mismatches, 0);
}

TEST_F(ModesTest, HideIsAlone) {
  Options options;
  options.stress = Stress::kHide | Stress::kLate;
  EXPECT_THROW(enable(options), c10::Error);
}

}  // namespace
}  // namespace tjit
