// Reductions and row ops along the last dim: what is lowered has the bits that
// eager gives each row alone, whatever lies around the row; the rest is
// refused.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/ir_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/against_eager/lower_test_inputs.h"
#include "tests/runtime/against_eager/recorded_group.h"

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
    group.SetThreads(at::get_num_threads());
    const Tensor z = group.Call(op, {x, y, x.dim() - 1, type});
    group.Call("aten::mul.Tensor", {z, x});
    const bool is_known =
        op != std::string_view("aten::_softmax_backward_data") ||
        x.scalar_type() == at::kDouble || at::get_num_threads() == 1;
    const std::string why = absl::StrCat(
        "%0 ", op, ": rounds floats otherwise with several threads");
    EXPECT_EQ(group.Compare(), is_known ? "" : why) << op << " of " << what;
  }
}

void ExpectRowOps() {
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

TEST(LowerRowsTest, RowOps) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    ExpectRowOps();
  }
  at::set_num_threads(before);
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

// Alone, and with a prologue and an epilogue.
void ExpectColumns(const Tensor& x, const std::vector<std::int64_t>& dims,
                   const std::string& what) {
  for (const char* op :
       {"aten::sum.dim_IntList", "aten::mean.dim", "aten::var.correction",
        "aten::std.correction", "aten::amax", "aten::amin"}) {
    const bool is_sum = op[6] == 's' && op[7] == 'u';
    const bool is_extreme = op[6] == 'a';
    for (const bool keepdim : {false, true}) {
      RecordedGroup group;
      const Tensor square = group.Call("aten::mul.Tensor", {x, x});
      std::vector<IValue> stack = {square, dims};
      if (is_sum || op[6] == 'm') {
        stack.emplace_back(keepdim);
        stack.emplace_back();
      } else if (is_extreme) {
        stack.emplace_back(keepdim);
      } else {
        stack.emplace_back(keepdim ? IValue(0) : IValue());
        stack.emplace_back(keepdim);
      }
      const Tensor y = group.Call(op, stack);
      group.Call("aten::mul.Tensor", {y, y});
      EXPECT_EQ(group.Compare(), "") << op << " of " << what;
    }
  }
}

TEST(LowerRowsTest, ReductionsOfColumns) {
  std::uint64_t seed = 300;
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t n : {2, 3, 7, 16, 17, 33, 64, 100, 257}) {
      for (const std::int64_t rows : {2, 3, 5, 16, 17, 40, 100}) {
        ExpectColumns(Numbers({rows, n}, type, ++seed), {0},
                      absl::StrCat(rows, " rows of ", n));
      }
    }
    ExpectColumns(Numbers({4, 9, 30}, type, 1), {0, 1}, "three dims");
    ExpectColumns(Numbers({4, 9, 30}, type, 1), {-2, 0}, "three dims");
    ExpectColumns(Numbers({9, 10, 10}, type, 1), {0}, "the first of three");
    ExpectColumns(Numbers({3, 7, 5, 11}, type, 1), {0, 1}, "two of four");
    ExpectColumns(Numbers({20, 1, 6, 1}, type, 1), {0}, "dims of size one");
  }
}

// As few rows as eager adds up one after the other, of any number of dims: no
// row function, so other operations may stand around and between.
TEST(LowerRowsTest, SumsOfFewSlices) {
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t n : {2, 3, 9, 15}) {
      for (const bool keepdim : {false, true}) {
        RecordedGroup group;
        const Tensor f = Numbers({n, 8, 16}, type, 5);
        const Tensor c = Numbers({n, 1, 1}, type, 6);
        const Tensor y = group.Call("aten::mul.Tensor", {f, c});
        const Tensor z =
            group.Call("aten::sum.dim_IntList",
                       ReductionOf("aten::sum.dim_IntList", y, 0, keepdim));
        const Tensor m = group.Call(
            "aten::mean.dim", ReductionOf("aten::mean.dim", y, 0, keepdim));
        group.Call("aten::div.Tensor", {z, m});
        EXPECT_EQ(group.Compare(), "") << n;
        for (const ir::Instruction& in : group.lowered().function.body) {
          EXPECT_NE(InfoOf(in.op).family, ir::Family::kReduce);
        }
      }
    }
    // Zeros of one sign.
    RecordedGroup zeros;
    zeros.Call("aten::sum.dim_IntList",
               ReductionOf("aten::sum.dim_IntList",
                           at::full({3, 64}, -0.0, type), 0, false));
    EXPECT_EQ(zeros.Compare(), "");
  }
}

TEST(LowerRowsTest, ColumnsThatEagerSplitsAmongThreads) {
  const Tensor x = Numbers({700, 50}, at::kFloat, 1);
  const auto call = [&](RecordedGroup& group, const std::string& op) {
    group.Call(op, op == "aten::var.correction"
                       ? std::vector<IValue>{x, std::vector<std::int64_t>{0},
                                             IValue(), false}
                       : ReductionOf(op, x, 0, false));
  };
  RecordedGroup sums;
  call(sums, "aten::sum.dim_IntList");
  EXPECT_EQ(sums.ExpectRefused("is split among threads"), "");
  sums.SetThreads(1);
  EXPECT_EQ(sums.Compare(), "");
  sums.SetThreads(2);
  EXPECT_EQ(sums.ExpectRefused("is split among threads"), "");
  RecordedGroup var;
  call(var, "aten::var.correction");
  EXPECT_EQ(var.Compare(), "");
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  ExpectColumns(Numbers({100, 300}, at::kFloat, 2), {0}, "three threads");
  at::set_num_threads(before);
}

// Of all elements, alone and with a prologue and an epilogue.
void ExpectWhole(const Tensor& x, const std::vector<std::int64_t>& dims,
                 const std::string& what) {
  for (const char* op : kReductions) {
    for (const bool keepdim : {false, true}) {
      RecordedGroup group;
      const Tensor square = group.Call("aten::mul.Tensor", {x, x});
      std::vector<IValue> stack = ReductionOf(op, square, 0, keepdim);
      stack[1] = dims;
      const Tensor y = group.Call(op, stack);
      stack[0] = x;
      const Tensor z = group.Call(op, stack);
      group.Call("aten::mul.Tensor", {y, z});
      group.SetThreads(1);
      EXPECT_EQ(group.Compare(), "") << op << " of " << what;
    }
  }
}

TEST(LowerRowsTest, ReductionsOfAll) {
  std::uint64_t seed = 500;
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t n : {2, 3, 7, 15, 16, 17, 31, 33, 64, 127, 129, 500,
                                 1000, 4097, 30000, 70001}) {
      ExpectWhole(Numbers({n}, type, ++seed), {0}, absl::StrCat(n));
      ExpectWhole(Numbers({3, n}, type, ++seed), {0, 1},
                  absl::StrCat("3 rows of ", n));
    }
    ExpectWhole(Numbers({4, 9, 30}, type, 1), {}, "three dims");
    ExpectWhole(Numbers({4, 9, 30}, type, 1), {-1, 0, 1}, "three dims");
    ExpectWhole(Numbers({1, 9, 1, 30}, type, 1), {}, "dims of size one");
    ExpectWhole(Numbers({9, 10}, type, 1).narrow(0, 2, 5), {}, "some rows");
    ExpectWhole(at::full({3, 50}, -0.0, type), {}, "zeros");
  }
}

// mean and sum, with a prologue and an epilogue, and what is refused.
TEST(LowerRowsTest, LossesThatReduce) {
  for (const at::ScalarType type : kTypes) {
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
             {2}, {33}, {5, 7}, {3, 4, 50}, {300, 70}}) {
      for (const std::int64_t reduction : {1, 2}) {
        for (const std::string op : {"mse", "smooth_l1", "huber"}) {
          RecordedGroup group;
          const Tensor x = Numbers(sizes, type, 31),
                       y = Numbers(sizes, type, 4);
          const Tensor half = group.Call("aten::mul.Tensor", {x, y});
          std::vector<IValue> stack = {half, y, reduction};
          if (op[0] == 's') stack.emplace_back(0.7);
          if (op[0] == 'h') stack.emplace_back(1.5);
          const Tensor z = group.Call("aten::" + op + "_loss", stack);
          group.Call("aten::mul.Tensor", {z, z});
          EXPECT_EQ(group.Compare(), "") << op << " " << reduction;
        }
      }
    }
  }
  const Tensor x = Numbers({6, 50}, at::kFloat, 7);
  RecordedGroup turned;
  turned.Call("aten::mse_loss", {x.t(), x.t(), std::int64_t{1}});
  EXPECT_EQ(turned.ExpectRefused("do not lie densely"), "");
  RecordedGroup given;
  given.Call("aten::mse_loss.out", {x, x, std::int64_t{2}, at::zeros({})});
  EXPECT_EQ(given.ExpectRefused("reduces into an argument"), "");
}

// With weights that are broadcast, where there are some.
TEST(LowerRowsTest, GradientsOfCrossEntropies) {
  for (const at::ScalarType type : kTypes) {
    const Tensor x = at::rand({7, 33}, type), y = at::rand({7, 33}, type);
    const Tensor weight = at::rand({33}, type);
    for (const std::int64_t reduction : {1, 2}) {
      RecordedGroup group;
      const Tensor number = at::rand({}, type);
      for (const IValue& w : {IValue(weight), IValue()}) {
        group.Call("aten::binary_cross_entropy_backward",
                   {number, x, y, w, reduction});
      }
      EXPECT_EQ(group.Compare(), "") << reduction;
    }
  }
}

// Of rows and of all, alone and with a prologue and an epilogue.
TEST(LowerRowsTest, Norms) {
  const IValue rows = std::vector<std::int64_t>{-1};
  std::uint64_t seed = 700;
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t n : {2, 3, 4, 7, 8, 9, 16, 31, 33, 100, 1000}) {
      for (const IValue& p : {IValue(1), IValue(2.0), IValue(INFINITY)}) {
        for (const IValue& dims : {rows, IValue()}) {
          RecordedGroup group;
          const Tensor x = Numbers({5, n}, type, ++seed);
          const Tensor half = group.Call("aten::mul.Tensor", {x, x});
          const Tensor y = group.Call("aten::linalg_vector_norm",
                                      {half, p, dims, true, IValue()});
          const Tensor z = group.Call("aten::linalg_vector_norm",
                                      {x, p, dims, true, IValue()});
          group.Call("aten::div.Tensor", {z, y});
          EXPECT_EQ(group.Compare(), "") << n;
        }
      }
    }
    // Of 2, on any number of threads.
    RecordedGroup many;
    many.Call("aten::linalg_vector_norm",
              {Numbers({300, 200}, type, 3), 2, IValue(), false, IValue()});
    EXPECT_EQ(many.Compare(), "");
    RecordedGroup split;
    split.Call("aten::linalg_vector_norm",
               {Numbers({300, 200}, type, 3), 1, IValue(), false, IValue()});
    EXPECT_EQ(split.ExpectRefused("is split among threads"), "");
    RecordedGroup cubes;
    cubes.Call("aten::linalg_vector_norm",
               {Numbers({3, 20}, type, 3), 3, rows, false, IValue()});
    EXPECT_EQ(cubes.ExpectRefused("an exponent other than"), "");
  }
}

TEST(LowerRowsTest, ReductionsOfAllThatAreRefused) {
  const std::vector<std::int64_t> all = {};
  const auto expect = [&](const Tensor& x, const std::string& why) {
    RecordedGroup group;
    std::vector<IValue> stack = ReductionOf("aten::amax", x, 0, false);
    stack[1] = all;
    group.Call("aten::amax", stack);
    EXPECT_EQ(group.ExpectRefused(why), "");
  };
  const Tensor x = Numbers({6, 50}, at::kFloat, 7);
  expect(x.t(), "do not lie densely");
  expect(x.narrow(1, 0, 3), "do not lie densely");
  expect(x.narrow(1, 0, 1).narrow(0, 0, 1), "less than two elements");
  expect(Numbers({400, 100}, at::kFloat, 7), "is split among threads");
  for (const char* op : {"aten::max", "aten::min"}) {
    RecordedGroup group;
    group.Call(op, {Numbers({400, 100}, at::kFloat, 7)});
    EXPECT_EQ(group.ExpectRefused("is split among threads"), "");
    RecordedGroup halves;
    halves.Call(op, {x.to(at::kBFloat16)});
    EXPECT_EQ(halves.ExpectRefused("another type than f32 and f64"), "");
  }
}

// Which of 0 and -0 they take is not as in amax and amin.
TEST(LowerRowsTest, MaxAndMinOfAll) {
  std::uint64_t seed = 1;
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t n : {2, 3, 8, 15, 16, 17, 33, 100, 1000}) {
      const Tensor zeros = Numbers({3, n}, type, ++seed).sign() * 0;
      for (const Tensor& x : {Numbers({3, n}, type, ++seed), zeros.nan_to_num(),
                              RoundingInputs({3, n}, type, ++seed)}) {
        for (const Lay lay : kLays) {
          for (const char* op : {"aten::max", "aten::min"}) {
            RecordedGroup group;
            const Tensor y = group.Call(op, {Laid(x, lay)});
            group.Call("aten::mul.Tensor", {y, x});
            EXPECT_EQ(group.Compare(), "") << op << " of 3 times " << n;
          }
        }
      }
    }
  }
}

// Of rows and of columns.
TEST(LowerRowsTest, VariancesWithMeans) {
  for (const at::ScalarType type : kTypes) {
    const char* op = "aten::var_mean.correction";
    for (const std::int64_t n : {2, 3, 17, 100}) {
      for (const std::int64_t dim : {-1, 0}) {
        for (const bool keepdim : {false, true}) {
          RecordedGroup group;
          const Tensor x = Numbers({19, n}, type, 3);
          const Tensor y = group.Call("aten::mul.Tensor", {x, x});
          group.Call(op,
                     {y, std::vector<std::int64_t>{dim}, IValue(), keepdim});
          for (const Tensor& t : std::vector<Tensor>(group.results())) {
            group.Call("aten::mul.Tensor", {t, t});
          }
          EXPECT_EQ(group.Compare(), "") << op << " " << n << " " << dim;
        }
      }
    }
    RecordedGroup all;
    all.Call(op, {Numbers({3, 30}, type, 3), std::vector<std::int64_t>{0, 1},
                  IValue(), false});
    EXPECT_EQ(all.ExpectRefused("reduces all to one number"), "");
  }
}

TEST(LowerRowsTest, VariancesOfRows) {
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t n : {2, 3, 17, 100}) {
      for (const char* op : {"aten::var.correction", "aten::std.correction"}) {
        RecordedGroup group;
        const Tensor x = Numbers({19, n}, type, 3);
        const Tensor y =
            group.Call(op, {x, std::vector<std::int64_t>{-1}, IValue(), true});
        group.Call("aten::mul.Tensor", {y, x});
        EXPECT_EQ(group.Compare(), "") << op << " " << n;
      }
    }
    RecordedGroup all;
    all.Call("aten::var.correction",
             {Numbers({1, 30}, type, 3), std::vector<std::int64_t>{-1},
              IValue(), false});
    EXPECT_EQ(all.ExpectRefused("reduces all to one number"), "");
  }
}

// weight and bias: 0 none, 1 the weight, 2 both.
std::string CompareLayerNorm(const Tensor& x, int given) {
  RecordedGroup group;
  const std::int64_t n = x.size(-1);
  const Tensor weight = Numbers({n}, x.scalar_type(), 11);
  const Tensor bias = Numbers({n}, x.scalar_type(), 12);
  const Tensor half = group.Call("aten::mul.Tensor", {x, x});
  const Tensor y = group.Call("aten::native_layer_norm",
                              {half, std::vector<std::int64_t>{n},
                               given > 0 ? IValue(weight) : IValue(),
                               given > 1 ? IValue(bias) : IValue(), 1e-5});
  group.Call("aten::add.Tensor", {y, x});
  return group.Compare();
}

TEST(LowerRowsTest, LayerNorms) {
  for (const at::ScalarType type : kTypes) {
    for (const int given : {0, 1, 2}) {
      for (const std::int64_t n : {2, 3, 8, 16, 17, 33, 100, 768}) {
        EXPECT_EQ(CompareLayerNorm(Numbers({5, n}, type, 20), given), "") << n;
        EXPECT_EQ(CompareLayerNorm(Numbers({3, 4, n}, type, 21), given), "");
        // Equal elements: zeros, of which the weight's sign makes two.
        EXPECT_EQ(CompareLayerNorm(at::full({3, n}, 0.7, type), given), "");
      }
      EXPECT_EQ(CompareLayerNorm(Numbers({6, 40}, type, 7).t().narrow(0, 3, 30),
                                 given),
                "");
    }
  }
  const Tensor x = Numbers({4, 6, 8}, at::kFloat, 1);
  RecordedGroup two;
  two.Call("aten::native_layer_norm",
           {x, std::vector<std::int64_t>{6, 8}, IValue(), IValue(), 1e-5});
  EXPECT_EQ(two.ExpectRefused("rows of several dims"), "");
  RecordedGroup bias;
  bias.Call("aten::native_layer_norm",
            {x, std::vector<std::int64_t>{8}, IValue(),
             Numbers({8}, at::kFloat, 1), 1e-5});
  EXPECT_EQ(bias.ExpectRefused("a bias without a weight"), "");
}

// `mask`: which gradients; of the gradients' rows there may be a weight.
std::string CompareLayerNormBackward(const Tensor& x, bool has_weight, int mask,
                                     int threads) {
  RecordedGroup group;
  group.SetThreads(threads);
  const std::int64_t n = x.size(-1);
  const Tensor weight = Numbers({n}, x.scalar_type(), 11);
  const Tensor y = Numbers(x.sizes(), x.scalar_type(), 13);
  const auto [norm, mean, rstd] = at::native_layer_norm(x, {n}, {}, {}, 1e-5);
  const Tensor gradient = group.Call("aten::mul.Tensor", {y, y});
  const c10::List<bool> wanted(
      {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0});
  const IValue parameter = has_weight ? IValue(weight) : IValue();
  group.Call("aten::native_layer_norm_backward",
             {gradient, x, std::vector<std::int64_t>{n}, mean, rstd, parameter,
              parameter, wanted});
  for (const Tensor& t : std::vector<Tensor>(group.results())) {
    if (t.defined()) group.Call("aten::mul.Tensor", {t, t});
  }
  return group.Compare();
}

TEST(LowerRowsTest, LayerNormGradients) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (const at::ScalarType type : kTypes) {
      for (const std::int64_t n : {2, 3, 8, 16, 17, 33, 100, 768}) {
        for (const std::int64_t rows : {2, 3, 5, 40}) {
          const Tensor x = Numbers({rows, n}, type, 20);
          EXPECT_EQ(CompareLayerNormBackward(x, true, 7, threads), "")
              << rows << " rows of " << n << ", " << threads << " threads";
        }
        const Tensor x = Numbers({3, 4, n}, type, 21);
        EXPECT_EQ(CompareLayerNormBackward(x, false, 1, threads), "") << n;
        EXPECT_EQ(CompareLayerNormBackward(x, true, 6, threads), "") << n;
        EXPECT_EQ(CompareLayerNormBackward(x, true, 1, 0), "") << n;
        const Tensor equal = at::full({3, n}, 0.7, type);
        EXPECT_EQ(CompareLayerNormBackward(equal, true, 7, threads), "");
      }
      const Tensor x = Numbers({6, 40}, type, 7).t().narrow(0, 3, 30);
      EXPECT_EQ(CompareLayerNormBackward(x, true, 7, threads), "");
    }
  }
  at::set_num_threads(before);
}

TEST(LowerRowsTest, LayerNormGradientsThatAreRefused) {
  const Tensor x = Numbers({4, 6}, at::kFloat, 1);
  const auto why = [](const Tensor& x, int threads) {
    return CompareLayerNormBackward(x, true, 7, threads);
  };
  EXPECT_THAT(why(x, 0), ::testing::HasSubstr("as many parts as threads"));
  EXPECT_THAT(why(x.narrow(0, 0, 1), 1),
              ::testing::HasSubstr("less than two rows"));
  EXPECT_THAT(why(x.to(at::kBFloat16), 1),
              ::testing::HasSubstr("another type than f32 and f64"));
}

void ExpectRefused(const Tensor& x, std::int64_t dim, const std::string& why) {
  RecordedGroup group;
  group.Call("aten::sum.dim_IntList",
             ReductionOf("aten::sum.dim_IntList", x, dim, false));
  EXPECT_EQ(group.ExpectRefused(why), "");
}

TEST(LowerRowsTest, OtherOrdersAreRefused) {
  const Tensor x = Numbers({6, 5, 40}, at::kFloat, 7);
  ExpectRefused(Numbers({40, 5, 8}, at::kFloat, 7), 1,
                "other dims than the last");
  ExpectRefused(x.transpose(1, 2), -1, "do not lie densely");
  ExpectRefused(x.narrow(-1, 0, 1), -1, "less than two elements");
  ExpectRefused(x.select(0, 0).select(0, 0).expand({3, 40}), -1,
                "do not lie densely");
  ExpectRefused(Numbers({2, 131073}, at::kFloat, 1), -1, "rows that are long");
  RecordedGroup converted;
  converted.Call("aten::sum.dim_IntList",
                 {x.to(at::kInt), std::vector<std::int64_t>{-1}, false,
                  static_cast<std::int64_t>(at::kDouble)});
  EXPECT_EQ(converted.ExpectRefused("converts before it reduces"), "");
}

// Longer than first-level caches; so long that eager splits them, if there is
// one alone.
TEST(LowerRowsTest, LongRows) {
  const int before = at::get_num_threads();
  std::uint64_t seed = 500;
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const at::ScalarType type : kTypes) {
      for (const std::int64_t n : {8192, 10007, 32768, 50257, 65536}) {
        const std::string what = absl::StrCat("3 rows of ", n);
        const Tensor x = Numbers({3, n}, type, ++seed);
        ExpectReduced(x, what);
        ExpectRowOps(x, at::softmax(Numbers({3, n}, type, ++seed), -1), what);
        EXPECT_EQ(CompareLayerNorm(x, 2), "") << what;
      }
    }
    const Tensor x = Numbers({2, 128256}, at::kFloat, ++seed);
    ExpectReduced(x, "a vocabulary");
    ExpectRowOps(x, at::softmax(x, -1), "a vocabulary");
  }
  at::set_num_threads(before);
}

TEST(LowerRowsTest, LongRowsThatAreRefused) {
  const auto why = [](const char* op, const std::vector<IValue>& stack,
                      int threads) {
    RecordedGroup group;
    group.SetThreads(threads);
    group.Call(op, stack);
    return group.Lower();
  };
  const Tensor x = Numbers({2, 40000}, at::kFloat, 1);
  const Tensor row = x.narrow(0, 0, 1);
  const char* const kSum = "aten::sum.dim_IntList";
  for (const int threads : {0, 2}) {
    EXPECT_THAT(why(kSum, ReductionOf(kSum, row, -1, false), threads),
                ::testing::HasSubstr("split among threads"));
    EXPECT_EQ(why(kSum, ReductionOf(kSum, x, -1, false), threads), "");
    for (const double p : {1.0, 2.0}) {
      const std::string norm =
          why("aten::linalg_vector_norm",
              {x, p, std::vector<std::int64_t>{1}, false, IValue()}, threads);
      EXPECT_EQ(norm.find("split among threads") != norm.npos, p == 1) << norm;
    }
  }
  EXPECT_EQ(why(kSum, ReductionOf(kSum, row, -1, false), 1), "");
  // Those go through a row one element after the other, or keep some numbers
  // of each column.
  EXPECT_THAT(why("aten::var.correction",
                  {x, std::vector<std::int64_t>{1}, IValue(1), false}, 1),
              ::testing::HasSubstr("rows that are long"));
  for (const int mask : {1, 7}) {
    EXPECT_THAT(CompareLayerNormBackward(x, true, mask, 1),
                ::testing::HasSubstr("rows that are long"));
  }
}

// Eager does not look, and reads what lies behind the smaller one.
TEST(LowerRowsTest, GradientsOfOtherSizesAreRefused) {
  RecordedGroup group;
  group.Call("aten::_log_softmax_backward_data",
             {at::rand({7}), at::rand({3, 7}), std::int64_t{0},
              static_cast<std::int64_t>(at::kFloat)});
  EXPECT_EQ(group.ExpectRefused("several sizes"), "");
  RecordedGroup slabs;
  slabs.Call("aten::_log_softmax_backward_data",
             {at::rand({3, 20}), at::rand({5, 3, 20}), std::int64_t{0},
              static_cast<std::int64_t>(at::kFloat)});
  EXPECT_EQ(slabs.ExpectRefused("several sizes"), "");
}

}  // namespace
}  // namespace tjit::testing
