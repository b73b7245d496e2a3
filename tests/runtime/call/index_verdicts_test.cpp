// Indices that were looked at once are not looked at again, and whoever writes
// one that is out of range gets eager's error at the call.
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/testing.h"
#include "tests/runtime/error_of.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

constexpr std::int64_t kRows = 100, kIndices = 20000;

class IndexVerdictsTest : public ::testing::Test {
 protected:
  IndexVerdictsTest() {
    torch::manual_seed(1);
    x_ = torch::randn({kRows, 3});
    Options options;
    options.hot_threshold = 4;
    options.backend = Backend::kReplay;
    options.cache_dir = "off";
    EXPECT_TRUE(enable(options));
    index_ = torch::randint(0, kRows, {kIndices});
  }
  ~IndexVerdictsTest() override {
    testing::SetPlantedDefect("");
    disable();
    clear();
  }

  at::Tensor Step(int factor = 2) {
    at::Tensor y = x_.index_select(0, index_);
    y = (y * factor + 1).tanh() - y;
    y = y.square() + y;
    mark_step();
    return y;
  }
  // Until steps are replayed, the index among them.
  void Learn() {
    std::vector<at::Tensor> eager, ours;
    {
      const Pause pause;
      for (int i = 0; i < 20; ++i) eager.push_back(Step(i));
    }
    for (int i = 0; i < 30; ++i) (void)Step(i).sum().item<float>();
    const Stats before = stats();
    for (int i = 0; i < 20; ++i) {
      ours.push_back(Step(i));
      (void)ours.back().sum().item<float>();
    }
    const Stats did = stats() - before;
    EXPECT_GE(did.ops_replayed, 20 * 8) << did.to_json();
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(SameBits(ours[i], eager[i])) << "step " << i;
    }
  }
  // The call throws what eager throws.
  void ExpectEagersError(const at::Tensor& x) const {
    const auto call = [&] { (void)x.index_select(0, index_); };
    const std::string ours = ErrorOf(call);
    const Pause pause;
    EXPECT_NE(ours, "");
    EXPECT_EQ(ours, ErrorOf(call));
  }
  // Each of these writes an index that is out of range.
  void ExpectErrorBehind(const std::function<void()>& write) {
    const at::NoGradGuard no_grad;
    Learn();
    write();
    ExpectEagersError(x_);
  }

  at::Tensor x_, index_;
};

TEST_F(IndexVerdictsTest, AnIndexThatStaysIsLookedAtOnce) { Learn(); }

TEST_F(IndexVerdictsTest, WrittenInPlace) {
  ExpectErrorBehind([&] { index_.add_(kRows); });
}
TEST_F(IndexVerdictsTest, WrittenThroughAView) {
  ExpectErrorBehind([&] { index_.select(0, 7).fill_(kRows); });
}
TEST_F(IndexVerdictsTest, WrittenThroughAnotherTensorOfTheStorage) {
  ExpectErrorBehind(
      [&] { index_.detach().slice(0, 5, 6).copy_(torch::full({1}, kRows)); });
}
TEST_F(IndexVerdictsTest, WrittenAsAResult) {
  ExpectErrorBehind([&] { at::add_out(index_, index_, index_, kRows); });
}
TEST_F(IndexVerdictsTest, WrittenThroughAPointer) {
  ExpectErrorBehind([&] { index_.data_ptr<std::int64_t>()[3] = kRows; });
}
TEST_F(IndexVerdictsTest, WrittenThroughAPointerThatWasKept) {
  const at::NoGradGuard no_grad;
  Learn();
  std::int64_t* const data = index_.data_ptr<std::int64_t>();
  for (int i = 0; i < 30; ++i) (void)Step().sum().item<float>();
  data[3] = -1 - kRows;
  ExpectEagersError(x_);
}
TEST_F(IndexVerdictsTest, WrittenByAnotherThread) {
  ExpectErrorBehind([&] { std::thread([&] { index_.add_(kRows); }).join(); });
}
TEST_F(IndexVerdictsTest, WrittenWhileTjitPauses) {
  ExpectErrorBehind([&] {
    const Pause pause;
    index_.add_(kRows);
  });
}
TEST_F(IndexVerdictsTest, WrittenWhileTjitIsOff) {
  ExpectErrorBehind([&] {
    disable();
    index_.add_(kRows);
    EXPECT_TRUE(enable());
  });
}
TEST_F(IndexVerdictsTest, AnotherIndexInItsMemory) {
  const at::NoGradGuard no_grad;
  Learn();
  for (int i = 0; i < 4; ++i) {
    index_ = at::Tensor();  // its block is free
    index_ = torch::full({kIndices}, kRows, torch::kLong);
    ExpectEagersError(x_);
  }
}
TEST_F(IndexVerdictsTest, OtherRangesAreOtherQuestions) {
  const at::NoGradGuard no_grad;
  Learn();
  const at::Tensor fewer = x_.slice(0, 0, kRows / 2).clone();
  ExpectEagersError(fewer);
}

// The index is written by an op that is pending, in each step.
class PendingIndex : public IndexVerdictsTest {
 protected:
  // The step of which the call of index_select() throws; -1: none does.
  int FirstError() {
    const at::NoGradGuard no_grad;
    const at::Tensor good = torch::randint(0, kRows, {kIndices});
    const at::Tensor bad = good.clone();
    bad[77] = kRows;
    const at::Tensor index = good.clone();
    for (int i = 0; i < 60; ++i) {
      index.copy_(i == 50 ? bad : good);
      at::Tensor y;
      if (ErrorOf([&] { y = x_.index_select(0, index); }) != "") return i;
      y = y + x_.index_select(0, index) + x_.index_select(0, index);
      if (ErrorOf([&] { (void)(y * 2).sum().item<float>(); }) != "") return -1;
    }
    return -1;
  }
};

TEST_F(PendingIndex, ThrowsAtTheCall) { EXPECT_EQ(FirstError(), 50); }

TEST_F(PendingIndex, AStaleVerdictIsSeen) {
  ASSERT_TRUE(testing::SetPlantedDefect("stale_verdict"));
  EXPECT_NE(FirstError(), 50);
}

}  // namespace
}  // namespace tjit
