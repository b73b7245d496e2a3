// Reductions over dims that are neither the last nor the first ones, and those
// of integers and booleans over any: as eager computes them.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
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

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble};

std::vector<IValue> Arguments(const std::string& op, const Tensor& x,
                              const Sizes& dims, bool keepdim) {
  if (op == "aten::sum.dim_IntList" || op == "aten::mean.dim") {
    return {x, dims, keepdim, IValue()};
  }
  if (op == "aten::amax" || op == "aten::amin") return {x, dims, keepdim};
  return {x, dims, IValue(), keepdim};  // variances
}

// All results of the op, with a prologue and an epilogue.
std::string Compare(const std::string& op, const std::vector<IValue>& stack) {
  RecordedGroup group;
  group.SetThreads(at::get_num_threads());
  std::vector<IValue> of_product = stack;
  const Tensor x = stack[0].toTensor();
  of_product[0] = group.Call("aten::mul.Tensor", {x, x});
  group.Call(op, stack);
  group.Call(op, of_product);
  for (const Tensor& t : std::vector<Tensor>(group.results())) {
    group.Call("aten::mul.Tensor", {t, t});
  }
  return group.Compare();
}

void ExpectReduced(const std::string& op, const Tensor& x, const Sizes& dims) {
  for (const bool keepdim : {false, true}) {
    EXPECT_EQ(Compare(op, Arguments(op, x, dims, keepdim)), "")
        << op << " of " << x.dtype() << at::IntArrayRef(x.sizes()) << " over "
        << at::IntArrayRef(dims);
  }
}

TEST(LowerReduceMiddleTest, Slabs) {
  std::uint64_t seed = 1;
  for (const at::ScalarType type : kTypes) {
    for (const std::string op : {"aten::sum.dim_IntList", "aten::mean.dim",
                                 "aten::amax", "aten::amin"}) {
      for (const std::int64_t rows : {2, 3, 15, 16, 17, 40, 300}) {
        for (const std::int64_t columns : {2, 5, 16, 33, 64, 70}) {
          ExpectReduced(op, NumbersToReduce({3, rows, columns}, type, ++seed),
                        {1});
        }
      }
      ExpectReduced(op, NumbersToReduce({2, 3, 20, 9}, type, ++seed), {2});
      ExpectReduced(op, NumbersToReduce({2, 4, 5, 7, 3}, type, ++seed), {1, 2});
      ExpectReduced(op, NumbersToReduce({2, 3, 20, 4, 5}, type, ++seed), {-3});
      ExpectReduced(op, NumbersToReduce({1, 20, 9}, type, ++seed), {1});
      ExpectReduced(op, at::full({3, 20, 9}, -0.0, type), {1});
    }
  }
}

TEST(LowerReduceMiddleTest, Variances) {
  std::uint64_t seed = 500;
  for (const at::ScalarType type : kTypes) {
    for (const std::string op :
         {"aten::var.correction", "aten::std.correction",
          "aten::var_mean.correction", "aten::std_mean.correction"}) {
      for (const std::int64_t n : {2, 3, 9, 40}) {
        ExpectReduced(op, NumbersToReduce({3, n, 5}, type, ++seed), {1});
        ExpectReduced(op, NumbersToReduce({3, n, 5}, type, ++seed), {0});
        ExpectReduced(op, NumbersToReduce({3, n, 5}, type, ++seed), {2});
        ExpectReduced(op, NumbersToReduce({4, 3, n}, type, ++seed), {1, 2});
        ExpectReduced(op, NumbersToReduce({n, 3, 4}, type, ++seed), {0, 2});
        ExpectReduced(op, NumbersToReduce({2, n, 3, 4, 2}, type, ++seed),
                      {1, 3});
      }
    }
  }
}

TEST(LowerReduceMiddleTest, Norms) {
  std::uint64_t seed = 900;
  for (const at::ScalarType type : kTypes) {
    const auto expect = [&](const Sizes& sizes, double p, const Sizes& dims) {
      for (const bool keepdim : {false, true}) {
        EXPECT_EQ(Compare("aten::linalg_vector_norm",
                          {NumbersToReduce(sizes, type, ++seed), p, dims,
                           keepdim, IValue()}),
                  "")
            << at::IntArrayRef(sizes) << p << at::IntArrayRef(dims) << type;
      }
    };
    for (const std::int64_t n : {2, 3, 9, 40}) {
      for (const double p : {1.0, static_cast<double>(INFINITY)}) {
        expect({3, n, 5}, p, {1});
        expect({n, 5}, p, {0});
        expect({n, 3, 4}, p, {0, 2});
      }
      for (const double p : {1.0, 2.0, static_cast<double>(INFINITY)}) {
        expect({5, n, 4}, p, {1, 2});
        expect({5, 2, n, 3}, p, {1, 2, 3});
      }
    }
  }
}

TEST(LowerReduceMiddleTest, OnSeveralThreads) {
  const int before = at::get_num_threads();
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    for (const at::ScalarType type : kTypes) {
      ExpectReduced("aten::sum.dim_IntList",
                    NumbersToReduce({4, 30, 70}, type, 7), {1});
      ExpectReduced("aten::var.correction",
                    NumbersToReduce({40, 50, 30}, type, 7), {1});
      ExpectReduced("aten::std.correction",
                    NumbersToReduce({30, 50, 30}, type, 8), {0, 2});
      EXPECT_EQ(Compare("aten::linalg_vector_norm",
                        {NumbersToReduce({40, 30, 50}, type, 9), 1, Sizes{1},
                         false, IValue()}),
                "");
    }
  }
  at::set_num_threads(before);
}

TEST(LowerReduceMiddleTest, IntegersAndBooleans) {
  std::uint64_t seed = 1;
  const std::vector<Sizes> all_dims = {{0},    {1},    {2},      {0, 1},
                                       {1, 2}, {0, 2}, {0, 1, 2}};
  for (const at::ScalarType type :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kBool}) {
    const Tensor x = type == at::kBool
                         ? Numbers({5, 6, 7}, at::kChar, ++seed).gt(3)
                         : Numbers({5, 6, 7}, type, ++seed);
    for (const std::string op :
         {"aten::sum.dim_IntList", "aten::amax", "aten::amin"}) {
      for (const Sizes& dims : all_dims) {
        ExpectReduced(op, x, dims);
        ExpectReduced(op, x.transpose(0, 2), dims);
      }
      ExpectReduced(op, x.flatten(), {0});
    }
    for (const std::string op : {"aten::max", "aten::min"}) {
      EXPECT_EQ(Compare(op, {x}), "") << op << type;
    }
  }
}

TEST(LowerReduceMiddleTest, AnyAndAll) {
  for (const at::ScalarType type : {at::kByte, at::kInt, at::kFloat,
                                    at::kDouble, at::kBFloat16, at::kBool}) {
    for (const double rate : {0.0, 0.02, 0.98, 1.0}) {
      at::manual_seed(5);
      const Tensor x = at::rand({5, 6, 7}).lt(rate).to(type);
      for (const std::string op : {"aten::any", "aten::all"}) {
        EXPECT_EQ(Compare(op, {x}), "") << op << type;
        for (const std::int64_t dim : {0, 1, -1}) {
          for (const bool keepdim : {false, true}) {
            EXPECT_EQ(Compare(op + ".dim", {x, dim, keepdim}), "")
                << op << type << dim;
          }
        }
      }
    }
  }
  const Tensor special = at::tensor({-0.0, 0.0, std::nan(""), 0.0});
  for (const char* op : {"aten::any", "aten::all"}) {
    EXPECT_EQ(Compare(op, {special}), "");
  }
}

std::string WhyNot(const std::string& op, const std::vector<IValue>& stack,
                   const std::string& why) {
  RecordedGroup group;
  group.Call(op, stack);
  return group.ExpectRefused(why);
}

TEST(LowerReduceMiddleTest, WhatIsRefused) {
  const Tensor x = at::randn({8, 10, 50});
  const auto sum = [](const Tensor& x, const Sizes& dims) {
    return WhyNot("aten::sum.dim_IntList", {x, dims, false, IValue()},
                  "other dims than the last");
  };
  EXPECT_EQ(sum(at::randn({40, 10, 8}), {1}), "") << "many slabs";
  EXPECT_EQ(sum(x.transpose(0, 1), {1}), "") << "not row-major";
  EXPECT_EQ(sum(at::randn({20, 10, 200}), {1}), "") << "on several threads";
  const char* var = "aten::var.correction";
  EXPECT_EQ(WhyNot(var, {x.transpose(0, 1), Sizes{1}, IValue(), false},
                   "do not lie densely"),
            "");
  EXPECT_EQ(WhyNot(var, {at::randn({2, 5000, 2}), Sizes{1}, IValue(), false},
                   "rows that are long"),
            "");
  EXPECT_EQ(WhyNot("aten::linalg_vector_norm",
                   {x, 2, Sizes{1}, false, IValue()}, "other dims than"),
            "");
  EXPECT_EQ(
      WhyNot("aten::amax", {at::ones({2, 9000}, at::kInt), Sizes{1}, false},
             "rows that are long"),
      "");
}

}  // namespace
}  // namespace tjit::testing
