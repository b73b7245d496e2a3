// Row ops along a dim before the last: what is lowered has the bits that eager
// gives each slab, in all lengths of columns and on several threads; the rest
// is refused.
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

const char* const kForwards[] = {"aten::_softmax", "aten::_log_softmax"};
const char* const kBackwards[] = {"aten::_softmax_backward_data",
                                  "aten::_log_softmax_backward_data"};

// With a prologue and an epilogue.
std::string CompareAlong(const std::string& op, const Tensor& x,
                         const std::vector<IValue>& rest) {
  RecordedGroup group;
  group.SetThreads(at::get_num_threads());
  std::vector<IValue> stack = {group.Call("aten::mul.Tensor", {x, x})};
  stack.insert(stack.end(), rest.begin(), rest.end());
  const Tensor y = group.Call(op, stack);
  group.Call("aten::mul.Tensor", {y, x});
  return group.Compare();
}

void ExpectAlong(const Tensor& x, std::int64_t dim, const std::string& what) {
  const auto type = static_cast<std::int64_t>(x.scalar_type());
  for (const char* op : kForwards) {
    EXPECT_EQ(CompareAlong(op, x, {dim, false}), "") << op << " of " << what;
  }
  const Tensor y = at::softmax(x, dim);
  for (const char* op : kBackwards) {
    EXPECT_EQ(CompareAlong(op, x, {y, dim, type}), "") << op << " of " << what;
  }
}

TEST(LowerSlabsTest, ColumnsOfAllLengths) {
  std::uint64_t seed = 1;
  for (const at::ScalarType type : kTypes) {
    const std::int64_t vector = type == at::kDouble ? 8 : 16;
    for (std::int64_t columns = vector; columns <= 70; ++columns) {
      const std::int64_t rows = 2 + columns % 20;
      ExpectAlong(Numbers({3, rows, columns}, type, ++seed), 1,
                  absl::StrCat(rows, " rows of ", columns));
    }
    ExpectAlong(Numbers({2, vector * 32, 33}, type, ++seed), 1, "many rows");
    ExpectAlong(Numbers({2, 3, 5000}, type, ++seed), 1, "many columns");
  }
}

TEST(LowerSlabsTest, DimsBeforeAndBehind) {
  for (const at::ScalarType type : kTypes) {
    ExpectAlong(Numbers({9, 40}, type, 1), 0, "the first dim");
    ExpectAlong(Numbers({9, 40}, type, 1), -2, "from behind");
    ExpectAlong(Numbers({2, 5, 6, 7}, type, 2), 1, "two dims behind");
    ExpectAlong(Numbers({2, 5, 6, 17}, type, 3), 2, "two dims before");
    ExpectAlong(Numbers({2, 5, 16, 1}, type, 4), 1, "a last dim of size one");
    ExpectAlong(Numbers({1, 5, 1, 23}, type, 5), 1, "dims of size one");
  }
}

// Eager deals columns out to threads.
TEST(LowerSlabsTest, SeveralThreads) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (const at::ScalarType type : kTypes) {
      ExpectAlong(Numbers({6, 21, 33}, type, 1), 1, "two or three slabs each");
      ExpectAlong(Numbers({3, 21, 96}, type, 2), 1, "one and a half each");
      ExpectAlong(Numbers({16, 21, 96}, type, 3), 1, "five and a third each");
    }
  }
  at::set_num_threads(before);
}

// Softmax alone: others deal out whole vectors.
TEST(LowerSlabsTest, ColumnsThatEagerSplitsAreRefused) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  const Tensor x = Numbers({3, 21, 50}, at::kFloat, 1);
  EXPECT_THAT(CompareAlong("aten::_softmax", x, {std::int64_t{1}, false}),
              HasSubstr("has columns that are split among threads"));
  EXPECT_EQ(CompareAlong("aten::_log_softmax", x, {std::int64_t{1}, false}),
            "");
  at::set_num_threads(before);
}

TEST(LowerSlabsTest, OtherSlabsAreRefused) {
  const auto along = [](const Tensor& x, int threads = 1) {
    RecordedGroup group;
    group.SetThreads(threads);
    group.Call("aten::_softmax", {x, std::int64_t{1}, false});
    return group.Compare();
  };
  EXPECT_THAT(along(Numbers({3, 8, 8}, at::kHalf, 1)),
              HasSubstr("computes in another type than f32 and f64"));
  EXPECT_THAT(along(Numbers({3, 8, 9}, at::kFloat, 1).transpose(1, 2)),
              HasSubstr("reads rows that do not lie densely"));
  EXPECT_THAT(along(Numbers({3, 1, 8}, at::kFloat, 1)),
              HasSubstr("has slabs of less than two rows"));
  EXPECT_THAT(along(Numbers({3, 513, 16}, at::kFloat, 1)),
              HasSubstr("has slabs of many rows"));
  EXPECT_THAT(along(Numbers({3, 257, 16}, at::kDouble, 1)),
              HasSubstr("has slabs of many rows"));
  EXPECT_THAT(along(Numbers({3, 8, 15}, at::kFloat, 1)),
              HasSubstr("has slabs of few columns"));
  EXPECT_THAT(along(Numbers({3, 8, 7}, at::kDouble, 1)),
              HasSubstr("has slabs of few columns"));
  EXPECT_THAT(along(Numbers({1, 8, 64}, at::kFloat, 1), 2),
              HasSubstr("has fewer slabs than threads"));
  EXPECT_THAT(along(Numbers({2, 8, 64}, at::kFloat, 1), 0),
              HasSubstr("has columns that are split among threads"));
}

}  // namespace
}  // namespace tjit::testing
