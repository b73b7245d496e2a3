// Reductions of bf16 and f16: what is lowered has eager's bits, of sums that
// cancel, so that each rounding on the way is seen; the rest is refused. And
// reductions that convert before.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/against_eager/lower_test_inputs.h"
#include "tests/runtime/against_eager/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Tensor;
using c10::IValue;
using Sizes = std::vector<std::int64_t>;

constexpr at::ScalarType kHalves[] = {at::kBFloat16, at::kHalf};
const char* const kSums[] = {"aten::sum.dim_IntList", "aten::mean.dim"};
const char* const kReductions[] = {"aten::sum.dim_IntList", "aten::mean.dim",
                                   "aten::amax", "aten::amin"};

std::vector<IValue> Arguments(const std::string& op, const Tensor& x,
                              const Sizes& dims, bool keepdim,
                              IValue dtype = {}) {
  std::vector<IValue> stack = {x, dims, keepdim};
  if (op != "aten::amax" && op != "aten::amin") stack.push_back(dtype);
  return stack;
}

// Alone, and between two other ops.
void ExpectReduced(const std::string& op, const Tensor& x, const Sizes& dims,
                   int threads = 1) {
  for (const bool keepdim : {false, true}) {
    RecordedGroup group;
    const Tensor other = group.Call("aten::neg", {x});
    group.Call(op, Arguments(op, x, dims, keepdim));
    const Tensor y = group.Call(op, Arguments(op, other, dims, keepdim));
    group.Call("aten::mul.Tensor", {y, y});
    group.SetThreads(threads);
    EXPECT_EQ(group.Compare(), "")
        << op << " " << x.scalar_type() << " of " << at::IntArrayRef(x.sizes())
        << " over " << at::IntArrayRef(dims);
  }
}

void ExpectAllReduced(const Sizes& sizes, const Sizes& dims, std::uint64_t seed,
                      int threads = 1) {
  for (const at::ScalarType type : kHalves) {
    for (const char* op : kReductions) {
      ExpectReduced(op, CancellingInputs(sizes, type, seed), dims, threads);
      ExpectReduced(op, Numbers(sizes, type, seed), dims, threads);
    }
  }
}

TEST(LowerHalvesTest, Rows) {
  std::uint64_t seed = 1;
  for (const std::int64_t n : {2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64,
                               65, 100, 128, 255, 1000, 2048}) {
    for (const std::int64_t rows : {1, 3, 40}) {
      ExpectAllReduced({rows, n}, {1}, ++seed);
    }
  }
}

TEST(LowerHalvesTest, RowsHoweverTheyLie) {
  for (const at::ScalarType type : kHalves) {
    const Tensor x = CancellingInputs({6, 5, 40}, type, 7);
    for (const char* op : kReductions) {
      for (const Tensor& y :
           {x, x.narrow(-1, 3, 34), x.narrow(-1, 3, 3), x.narrow(1, 1, 2),
            x.transpose(0, 1), x.select(0, 2).select(0, 2)}) {
        ExpectReduced(op, y, {y.dim() - 1});
      }
    }
  }
}

TEST(LowerHalvesTest, Columns) {
  std::uint64_t seed = 300;
  for (const std::int64_t n : {2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 257}) {
    for (const std::int64_t rows : {2, 5, 16, 17, 70}) {
      ExpectAllReduced({rows, n}, {0}, ++seed);
    }
  }
  ExpectAllReduced({4, 9, 30}, {0, 1}, 1);
  ExpectAllReduced({9, 10, 10}, {0}, 2);
}

TEST(LowerHalvesTest, All) {
  std::uint64_t seed = 500;
  for (const std::int64_t n :
       {2, 3, 15, 16, 17, 33, 63, 64, 65, 129, 500, 4097, 30000, 70001}) {
    ExpectAllReduced({n}, {0}, ++seed);
    ExpectAllReduced({3, n}, {0, 1}, ++seed);
  }
}

TEST(LowerHalvesTest, OtherDims) {
  ExpectAllReduced({4, 3, 5, 7}, {2, 3}, 1);  // the last ones
  ExpectAllReduced({9, 40, 40}, {1, 2}, 2);
  ExpectAllReduced({3, 20, 33}, {1}, 3);  // slabs
  ExpectAllReduced({5, 128}, {0}, 4);     // a few slices
  ExpectAllReduced({4, 5, 128}, {1}, 5);
  for (const at::ScalarType type : kHalves) {  // around others
    ExpectReduced("aten::mean.dim", CancellingInputs({7, 5, 33}, type, 6),
                  {0, 2});
  }
}

// Eager splits what is this large among threads.
TEST(LowerHalvesTest, OnSeveralThreads) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    ExpectAllReduced({70, 500}, {1}, 3, threads);
    ExpectAllReduced({12000, 3}, {1}, 4, threads);
    ExpectAllReduced({90, 350}, {0}, 5, threads);
  }
  at::set_num_threads(before);
}

TEST(LowerHalvesTest, Zeros) {
  for (const at::ScalarType type : kHalves) {
    for (const char* op : kReductions) {
      for (const std::int64_t n : {3, 70, 200}) {
        const Tensor x = at::where(at::rand({5, n}).gt(0.5), 0.0, -0.0);
        for (const Sizes& dims : {Sizes{1}, Sizes{0}, Sizes{0, 1}}) {
          ExpectReduced(op, x.to(type), dims);
          ExpectReduced(op, at::full({5, n}, -0.0, type), dims);
        }
      }
    }
    // A mean that is too small for the type.
    ExpectReduced("aten::mean.dim", at::full({3, 64}, -1e-7, type), {1});
  }
}

// The operand is converted, but for a mean of halves, which is.
TEST(LowerHalvesTest, ReductionsThatConvert) {
  constexpr at::ScalarType kFloats[] = {at::kBFloat16, at::kHalf, at::kFloat,
                                        at::kDouble};
  for (const at::ScalarType from : kFloats) {
    for (const at::ScalarType to : kFloats) {
      for (const char* op : kSums) {
        for (const Sizes& dims : {Sizes{1}, Sizes{0}, Sizes{0, 1}}) {
          const Tensor x = CancellingInputs({9, 70}, from, 5);
          RecordedGroup group;
          const Tensor y = group.Call(
              op, Arguments(op, x, dims, false, static_cast<std::int64_t>(to)));
          group.Call("aten::mul.Tensor", {y, y});
          group.SetThreads(1);
          EXPECT_EQ(group.Compare(), "") << op << " " << from << " to " << to;
        }
      }
    }
  }
}

TEST(LowerHalvesTest, ResultsThatTheProgramGives) {
  for (const at::ScalarType from : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const at::ScalarType to : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const char* op : {"aten::sum.IntList_out", "aten::mean.out"}) {
        RecordedGroup group;
        group.Call(op, {CancellingInputs({7, 70}, from, 3), Sizes{-1}, false,
                        IValue(), at::full({7}, 9, to)});
        EXPECT_EQ(group.Compare(), "") << op << " " << from << " to " << to;
      }
    }
  }
}

std::string WhyNot(const std::string& op, const Tensor& x, const Sizes& dims,
                   IValue dtype = {}) {
  RecordedGroup group;
  group.Call(op, Arguments(op, x, dims, false, std::move(dtype)));
  return group.Lower();
}

TEST(LowerHalvesTest, WhatIsRefused) {
  const char* const sum = "aten::sum.dim_IntList";
  const Tensor x = at::randn({8, 10, 50}).to(at::kBFloat16);
  EXPECT_NE(WhyNot(sum, x, {0, 2}), "") << "each row's sum is rounded";
  EXPECT_NE(WhyNot(sum, x.transpose(1, 2), {2}), "") << "not dense";
  EXPECT_EQ(WhyNot(sum, at::randn({2, 131072}).to(at::kHalf), {1}), "");
  EXPECT_NE(WhyNot(sum, at::randn({2, 131073}).to(at::kHalf), {1}), "")
      << "rows that are long as f32";
  const auto f64 = static_cast<std::int64_t>(at::kDouble);
  EXPECT_EQ(WhyNot(sum, at::randn({2, 65536}), {1}, f64), "");
  EXPECT_NE(WhyNot(sum, at::randn({2, 65537}), {1}, f64), "")
      << "rows that are long as f64";
  EXPECT_NE(WhyNot(sum, at::arange(12).view({3, 4}), {1}, f64), "");
  for (const at::ScalarType type : {at::kLong, at::kInt, at::kBool}) {
    for (const Sizes& sizes : {Sizes{8, 64}, Sizes{9, 70}, Sizes{100, 3}}) {
      for (const std::int64_t dim : {0, 1}) {
        EXPECT_NE(WhyNot(sum, at::randn(sizes), {dim},
                         static_cast<std::int64_t>(type)),
                  "")
            << type << " of " << at::IntArrayRef(sizes) << " over " << dim;
      }
    }
  }
}

}  // namespace
}  // namespace tjit::testing
