// Random groups: steps over random views of a few storages, in place and not,
// against what eager leaves in the storages. Eager throws where a write meets
// what it reads in part; where it does not see that, lowering refuses.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/runtime/against_eager/lower_test_inputs.h"
#include "tests/runtime/against_eager/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Tensor;

class RandomGroup {
 public:
  explicit RandomGroup(std::uint64_t seed) : random_(seed) {
    for (std::uint64_t i = 0; i < 3; ++i) {
      pool_.push_back(Numbers({4, 6}, at::kFloat, seed * 10 + i));
    }
    pool_.push_back(Numbers({8, 12}, at::kFloat, seed * 10 + 4));
    pool_.push_back(Numbers({6}, at::kFloat, seed * 10 + 5));
    const int steps = Pick(1, 9);
    for (int i = 0; i < steps; ++i) Step();
  }

  RecordedGroup& group() { return group_; }

 private:
  int Pick(int low, int high) {
    return low + static_cast<int>(random_() %
                                  static_cast<std::uint64_t>(high - low + 1));
  }

  // A view of size [4, 6], or something that broadcasts to it.
  Tensor View(bool may_broadcast) {
    while (true) {
      Tensor t = pool_[static_cast<std::size_t>(
          Pick(0, static_cast<int>(pool_.size()) - 1))];
      if (t.dim() == 2 && t.size(0) == 8) {
        const int row = Pick(0, 4), column = Pick(0, 6), step = Pick(1, 2);
        t = step == 2 ? t.slice(0, row % 2, 8, 2).slice(1, column % 2, 12, 2)
                      : t.slice(0, row, row + 4).slice(1, column, column + 6);
      }
      if (t.dim() == 2 && t.size(0) == 4 && Pick(0, 5) == 0) {
        t = t.flatten().view({6, 4}).t();
      }
      if (may_broadcast && Pick(0, 3) == 0 && t.dim() == 2) {
        t = Pick(0, 1) == 0 ? t.slice(0, 1, 2) : t.slice(1, 2, 3);
      }
      if (t.dim() == 2 || may_broadcast) return t;
    }
  }

  void Step() {
    const double number = Pick(-3, 3) * 0.5;
    const Tensor a = View(false), b = View(true);
    try {
      Tensor result;
      switch (Pick(0, 9)) {
        case 0:
          result = group_.Call("aten::mul.Tensor", {a, b});
          break;
        case 1:
          group_.Call("aten::add_.Tensor", {a, b, 1});
          break;
        case 2:
          group_.Call("aten::copy_", {a, b});
          break;
        case 3:
          group_.Call("aten::mul_.Scalar", {a, number});
          if (Pick(0, 1) == 0) group_.MakeScalarsRuntime();
          break;
        case 4:
          result = group_.Call("aten::relu", {a});
          break;
        case 5:
          group_.Call("aten::sub.out", {a, b, 1, View(false)});
          break;
        case 6:
          group_.Call("aten::zero_", {a});
          break;
        case 7:
          result = group_.Call("aten::rsub.Scalar", {a, number, 1});
          break;
        case 8:  // by the position of an element
          if (a.is_contiguous()) result = group_.Call("aten::silu", {a});
          break;
        case 9:
          if (a.is_contiguous() && b.is_contiguous() &&
              b.sizes() == a.sizes()) {
            result = group_.Call("aten::gelu_backward", {a, b, "tanh"});
          }
          break;
      }
      if (!result.defined()) return;
      pool_.push_back(result);
      if (Pick(0, 2) == 0) group_.Drop(result);
    } catch (const c10::Error& error) {
      // It would write what it reads.
    }
  }

  std::mt19937_64 random_;
  std::vector<Tensor> pool_;
  RecordedGroup group_;
};

TEST(LowerRandomTest, GroupsLeaveWhatEagerLeaves) {
  int lowered = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomGroup random(seed);
    const std::string difference = random.group().Compare();
    if (absl::StrContains(difference, "element by element")) {
      ++refused;
      continue;
    }
    ++lowered;
    ASSERT_EQ(difference, "") << "seed " << seed;
  }
  EXPECT_GT(lowered, 5 * refused);
}

}  // namespace
}  // namespace tjit::testing
