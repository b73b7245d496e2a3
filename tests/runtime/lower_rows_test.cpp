// Reductions and row ops along the last dim: what is lowered has the bits that
// eager gives each row alone, whatever lies around the row; the rest is
// refused.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/ir_text.h"
#include "gtest/gtest.h"
#include "tests/runtime/lower_numbers.h"
#include "tests/runtime/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Tensor;
using c10::IValue;

const char* const kReductions[] = {"aten::sum.dim_IntList", "aten::mean.dim",
                                   "aten::amax", "aten::amin"};

std::vector<IValue> ReductionOf(const std::string& op, const Tensor& x,
                                std::int64_t dim, bool keepdim) {
  std::vector<IValue> stack = {x, std::vector<std::int64_t>{dim}, keepdim};
  if (op == "aten::sum.dim_IntList" || op == "aten::mean.dim") {
    stack.emplace_back();
  }
  return stack;
}

// The last dim of x, with and without keepdim, counted from either side.
void ExpectReduced(const Tensor& x, const std::string& what) {
  for (const char* op : kReductions) {
    for (const bool keepdim : {false, true}) {
      for (const std::int64_t dim : {std::int64_t{-1}, x.dim() - 1}) {
        RecordedGroup group;
        const Tensor y = group.Call(op, ReductionOf(op, x, dim, keepdim));
        group.Call("aten::mul.Tensor", {y, y});
        EXPECT_EQ(group.Compare(), "") << op << " of " << what;
      }
    }
  }
}

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble};

TEST(LowerRowsTest, ReductionsOfAllLengths) {
  std::uint64_t seed = 1;
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t n :
         {2,  3,  4,  5,  7,   8,   15,  16,  17,   31,
          33, 63, 64, 65, 100, 128, 255, 513, 1000, 2048}) {
      for (const std::int64_t rows : {1, 2, 3, 4, 5, 9, 40}) {
        ExpectReduced(Numbers({rows, n}, type, ++seed),
                      absl::StrCat(rows, " rows of ", n));
      }
    }
  }
}

TEST(LowerRowsTest, ReductionsHoweverRowsLie) {
  for (const at::ScalarType type : kTypes) {
    const Tensor x = Numbers({6, 5, 40}, type, 7);
    ExpectReduced(x, "three dims");
    ExpectReduced(x.narrow(-1, 3, 3), "three of forty");
    ExpectReduced(x.narrow(-1, 1, 34), "parts");
    ExpectReduced(x.narrow(1, 1, 2), "some rows");
    ExpectReduced(x.transpose(0, 1), "rows in another order");
    ExpectReduced(x.narrow(0, 2, 1), "one of size one");
    ExpectReduced(x.select(0, 2).select(0, 2), "one dim");
  }
}

// Eager splits what is this large among threads.
TEST(LowerRowsTest, ReductionsOnSeveralThreads) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    ExpectReduced(Numbers({70, 500}, at::kFloat, 3), "150 rows");
    ExpectReduced(Numbers({20, 2000}, at::kDouble, 4), "20 rows");
    ExpectReduced(Numbers({2, 6000, 3}, at::kDouble, 5), "short rows");
  }
  at::set_num_threads(before);
}

void ExpectRowOps(const Tensor& x, const Tensor& y, const std::string& what) {
  const auto type = static_cast<std::int64_t>(x.scalar_type());
  for (const char* op : {"aten::_softmax", "aten::_log_softmax"}) {
    RecordedGroup group;
    const Tensor z = group.Call(op, {x, std::int64_t{-1}, false});
    group.Call("aten::mul.Tensor", {z, x});
    EXPECT_EQ(group.Compare(), "") << op << " of " << what;
  }
  for (const char* op :
       {"aten::_softmax_backward_data", "aten::_log_softmax_backward_data"}) {
    RecordedGroup group;
    const Tensor z = group.Call(op, {x, y, x.dim() - 1, type});
    group.Call("aten::mul.Tensor", {z, x});
    EXPECT_EQ(group.Compare(), "") << op << " of " << what;
  }
}

TEST(LowerRowsTest, RowOps) {
  std::uint64_t seed = 100;
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t n : {2, 3, 8, 15, 16, 17, 33, 64, 100, 513, 2048}) {
      for (const std::int64_t rows : {1, 2, 3, 9, 40}) {
        const Tensor x = Numbers({rows, n}, type, ++seed);
        const Tensor y = at::softmax(Numbers({rows, n}, type, ++seed), -1);
        ExpectRowOps(x, y, absl::StrCat(rows, " rows of ", n));
      }
    }
    const Tensor x = Numbers({6, 5, 40}, type, 7);
    ExpectRowOps(x.transpose(0, 1), x.transpose(0, 1), "another order");
    ExpectRowOps(x.transpose(1, 2), x.transpose(1, 2), "columns");
    ExpectRowOps(x.narrow(-1, 3, 30), x.narrow(-1, 4, 30), "parts");
  }
}

TEST(LowerRowsTest, ResultsThatTheProgramGives) {
  const Tensor x = Numbers({7, 30}, at::kFloat, 1);
  RecordedGroup sums;
  sums.Call("aten::sum.IntList_out",
            {x, std::vector<std::int64_t>{-1}, false, IValue(),
             at::full({14}, 9.0f).slice(0, 0, 14, 2)});
  EXPECT_EQ(sums.Compare(), "");
  RecordedGroup softmax;
  softmax.Call("aten::_softmax.out",
               {x, std::int64_t{1}, false, at::full({7, 30}, 9.0f)});
  EXPECT_EQ(softmax.Compare(), "");
}

TEST(LowerRowsTest, IntegersOfAnyDims) {
  const Tensor x = Numbers({5, 6, 7}, at::kInt, 1);
  for (const std::int64_t dim : {0, 1, 2}) {
    RecordedGroup group;
    group.Call("aten::sum.dim_IntList",
               ReductionOf("aten::sum.dim_IntList", x, dim, false));
    EXPECT_EQ(group.Compare(), "");
  }
}

TEST(LowerRowsTest, OneCompilationForAllSizes) {
  std::string first;
  for (const std::int64_t rows : {3, 50}) {
    RecordedGroup group;
    const Tensor x = Numbers({rows, 10 * rows}, at::kFloat, 1);
    const Tensor y = group.Call("aten::relu", {x});
    group.Call("aten::sum.dim_IntList",
               ReductionOf("aten::sum.dim_IntList", y, -1, true));
    ASSERT_EQ(group.Compare(), "");
    const std::string text = Print(group.lowered().function);
    if (first.empty()) first = text;
    EXPECT_EQ(text, first);
  }
}

void ExpectRefused(const Tensor& x, std::int64_t dim, const std::string& why) {
  RecordedGroup group;
  group.Call("aten::sum.dim_IntList",
             ReductionOf("aten::sum.dim_IntList", x, dim, false));
  EXPECT_EQ(group.ExpectRefused(why), "");
}

TEST(LowerRowsTest, OtherOrdersAreRefused) {
  const Tensor x = Numbers({6, 5, 40}, at::kFloat, 7);
  ExpectRefused(x, 1, "other dims than the last");
  ExpectRefused(x.transpose(1, 2), -1, "do not lie densely");
  ExpectRefused(x.narrow(-1, 0, 1), -1, "less than two elements");
  ExpectRefused(x.select(0, 0).select(0, 0).expand({3, 40}), -1,
                "do not lie densely");
  ExpectRefused(Numbers({2, 5000}, at::kFloat, 1), -1, "rows that are long");
  ExpectRefused(x.to(at::kHalf), -1, "another type than f32 and f64");
  RecordedGroup converted;
  converted.Call("aten::sum.dim_IntList",
                 {x, std::vector<std::int64_t>{-1}, false,
                  static_cast<std::int64_t>(at::kDouble)});
  EXPECT_EQ(converted.ExpectRefused("converts before it reduces"), "");
  RecordedGroup columns;
  columns.Call("aten::_softmax", {x, std::int64_t{0}, false});
  EXPECT_EQ(columns.ExpectRefused("other dims than the last"), "");
}

}  // namespace
}  // namespace tjit::testing
