// Reductions over several last dims, over the dims around others, and sums of a
// few slices of a dim in the middle: as eager adds them up.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/runtime/against_eager/lower_test_inputs.h"
#include "tests/runtime/against_eager/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Tensor;
using c10::IValue;
using Sizes = std::vector<std::int64_t>;

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble};

std::vector<IValue> Arguments(const std::string& op, const Tensor& x,
                              const Sizes& dims, bool keepdim) {
  std::vector<IValue> stack = {x, dims, keepdim};
  if (op != "aten::amax" && op != "aten::amin") stack.emplace_back();
  return stack;
}

// With a prologue and an epilogue, and alone.
void ExpectReduced(const std::string& op, const Tensor& x, const Sizes& dims) {
  for (const bool keepdim : {false, true}) {
    RecordedGroup group;
    const Tensor half = group.Call("aten::mul.Tensor", {x, x});
    group.Call(op, Arguments(op, x, dims, keepdim));
    const Tensor y = group.Call(op, Arguments(op, half, dims, keepdim));
    group.Call("aten::mul.Tensor", {y, y});
    EXPECT_EQ(group.Compare(), "") << op << " of " << at::IntArrayRef(x.sizes())
                                   << " over " << at::IntArrayRef(dims);
  }
}

std::string WhyNot(const std::string& op, const Tensor& x, const Sizes& dims) {
  RecordedGroup group;
  group.Call(op, Arguments(op, x, dims, false));
  return group.Lower();
}

TEST(LowerReduceOuterInnerTest, DimsAroundOthers) {
  std::uint64_t seed = 1;
  for (const at::ScalarType type : kTypes) {
    for (const std::string op : {"aten::sum.dim_IntList", "aten::mean.dim"}) {
      for (const std::int64_t before : {2, 3, 7, 17, 40}) {
        for (const std::int64_t behind : {2, 3, 4, 9, 16, 33, 70}) {
          ExpectReduced(op, NumbersToReduce({before, 5, behind}, type, ++seed),
                        {0, 2});
        }
      }
      ExpectReduced(op, NumbersToReduce({4, 6, 7, 9}, type, ++seed), {0, 2, 3});
      ExpectReduced(op, NumbersToReduce({4, 3, 6, 5, 9}, type, ++seed),
                    {-1, 0, 1});
      ExpectReduced(op, NumbersToReduce({4, 2, 3, 100}, type, ++seed), {0, 3});
      ExpectReduced(op, NumbersToReduce({4, 1, 3, 1, 5}, type, ++seed),
                    {0, 3, 4});
      ExpectReduced(op, at::full({4, 6, 5}, -0.0, type), {0, 2});
    }
  }
}

TEST(LowerReduceOuterInnerTest, SeveralLastDims) {
  std::uint64_t seed = 500;
  for (const at::ScalarType type : kTypes) {
    for (const std::string op : {"aten::sum.dim_IntList", "aten::mean.dim",
                                 "aten::amax", "aten::amin"}) {
      for (const std::int64_t n : {1, 2, 3, 5, 8, 17}) {
        ExpectReduced(op, NumbersToReduce({4, 3, n, 7}, type, ++seed), {2, 3});
        ExpectReduced(op, NumbersToReduce({5, n, 2}, type, ++seed), {1, 2});
      }
      ExpectReduced(op, NumbersToReduce({1, 6, 5, 5}, type, ++seed), {0, 2, 3});
      ExpectReduced(op, NumbersToReduce({9, 40, 40}, type, ++seed), {-1, -2});
    }
  }
}

// Fewer slices than eager has on one level, of whole groups of columns.
TEST(LowerReduceOuterInnerTest, FewSlicesInTheMiddle) {
  std::uint64_t seed = 900;
  for (const at::ScalarType type : kTypes) {
    for (const std::string op : {"aten::sum.dim_IntList", "aten::mean.dim"}) {
      for (const std::int64_t slices : {2, 5, 15}) {
        ExpectReduced(op, NumbersToReduce({4, slices, 64}, type, ++seed), {1});
        ExpectReduced(op, NumbersToReduce({3, slices, 4, 32}, type, ++seed),
                      {1});
        ExpectReduced(op, NumbersToReduce({2, 3, slices, 128}, type, ++seed),
                      {-2});
      }
    }
  }
}

// Threads share the results.
TEST(LowerReduceOuterInnerTest, OnSeveralThreads) {
  const int before = at::get_num_threads();
  std::uint64_t seed = 1200;
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    for (const at::ScalarType type : kTypes) {
      for (const char* op : {"aten::sum.dim_IntList", "aten::mean.dim"}) {
        for (const std::int64_t n : {2, 3, 5}) {
          ExpectReduced(op, NumbersToReduce({20, n, 30, 31}, type, ++seed),
                        {0, 2, 3});
          ExpectReduced(op, NumbersToReduce({700, n, 40}, type, ++seed),
                        {0, 2});
          ExpectReduced(op, NumbersToReduce({n, 30, 30, 30}, type, ++seed),
                        {2, 3});
        }
      }
    }
  }
  at::set_num_threads(before);
}

TEST(LowerReduceOuterInnerTest, WhatIsRefused) {
  const char* const sum = "aten::sum.dim_IntList";
  const Tensor x = at::randn({8, 10, 50});
  EXPECT_NE(WhyNot("aten::amax", x, {0, 2}), "") << "the sign of zeros";
  EXPECT_NE(WhyNot(sum, x.transpose(0, 1), {0, 2}), "") << "not row-major";
  EXPECT_NE(WhyNot(sum, at::randn({3, 2, 70, 70}), {0, 2, 3}), "")
      << "rows that are long";
  EXPECT_NE(WhyNot(sum, x.unsqueeze(0), {0, 2}), "") << "dims that are apart";
}

}  // namespace
}  // namespace tjit::testing
