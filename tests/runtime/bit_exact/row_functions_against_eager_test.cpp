// Row functions against eager: the same bits for all lengths, with one and two
// threads, wherever RowOrderHolds says so. Runs once for each capability that
// libtorch has kernels for (ATEN_CPU_CAPABILITY).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/bit_exact/half_reductions.h"
#include "runtime/bit_exact/row_probe.h"
#include "runtime/bit_exact/sequential_sums.h"
#include "tests/runtime/bit_exact/known_verdicts.h"

namespace tjit::runtime {
namespace {

constexpr double kEps = 1e-5;
constexpr std::int64_t kCorrection = 1;

RowProbe& TheProbe() {
  static RowProbe& probe = *new RowProbe;
  return probe;
}

at::Tensor Eager(RowOp op, const at::Tensor& a, const at::Tensor& b) {
  switch (op) {
    case RowOp::kSum:
      return a.sum(-1);
    case RowOp::kMean:
      return a.mean(-1);
    case RowOp::kAmax:
      return a.amax(-1);
    case RowOp::kAmin:
      return a.amin(-1);
    case RowOp::kSoftmax:
      return at::softmax(a, -1);
    case RowOp::kLogSoftmax:
      return at::log_softmax(a, -1);
    case RowOp::kSoftmaxBackward:
      return at::_softmax_backward_data(a, b, -1, a.scalar_type());
    case RowOp::kLogSoftmaxBackward:
      return at::_log_softmax_backward_data(a, b, -1, a.scalar_type());
    case RowOp::kSlabSoftmax:
      return at::softmax(a, 0);
    case RowOp::kSlabLogSoftmax:
      return at::log_softmax(a, 0);
    case RowOp::kSlabSoftmaxBackward:
      return at::_softmax_backward_data(a, b, 0, a.scalar_type());
    case RowOp::kSlabLogSoftmaxBackward:
      return at::_log_softmax_backward_data(a, b, 0, a.scalar_type());
    case RowOp::kMoments: {
      const auto all = at::native_layer_norm(a, {a.size(1)}, {}, {}, kEps);
      return at::stack({std::get<1>(all), std::get<2>(all)});
    }
    case RowOp::kMomentsWide: {
      const auto all = at::native_group_norm(a.unsqueeze(1), {}, {}, a.size(0),
                                             1, a.size(1), 1, kEps);
      return at::stack({std::get<1>(all), std::get<2>(all)});
    }
    case RowOp::kVar:
      return a.var(at::IntArrayRef{-1}, kCorrection, false);
    case RowOp::kStd:
      return a.std(at::IntArrayRef{-1}, kCorrection, false);
    case RowOp::kWelfordMean:
      return std::get<1>(at::var_mean(a, {-1}));
    case RowOp::kColumnWelfordMean:
      return std::get<1>(at::var_mean(a, {0}));
    case RowOp::kColumnSum:
      return a.sum(0);
    case RowOp::kColumnMean:
      return a.mean(0);
    case RowOp::kColumnVar:
      return a.var(at::IntArrayRef{0}, kCorrection, false);
    case RowOp::kColumnStd:
      return a.std(at::IntArrayRef{0}, kCorrection, false);
    case RowOp::kColumnAmax:
      return a.amax(0);
    case RowOp::kColumnAmin:
      return a.amin(0);
    case RowOp::kNorm:
      return at::stack({a.norm(1, -1), a.norm(2, -1), a.norm(INFINITY, -1)});
    case RowOp::kWholeNorm:
      return at::stack({a.norm(1), a.norm(2), a.norm(INFINITY)});
    case RowOp::kWholeSum:
      return a.sum();
    case RowOp::kWholeMean:
      return a.mean();
    case RowOp::kWholeAmax:
      return a.amax();
    case RowOp::kWholeAmin:
      return a.amin();
    case RowOp::kWholeMax:
      return a.max();
    case RowOp::kWholeMin:
      return a.min();
    case RowOp::kSumOfHalves:
    case RowOp::kAmaxOfHalves:
    case RowOp::kAminOfHalves:
    case RowOp::kColumnSumOfHalves:
    case RowOp::kColumnAmaxOfHalves:
    case RowOp::kColumnAminOfHalves:
    case RowOp::kWholeSumOfHalves:
    case RowOp::kWholeAmaxOfHalves:
    case RowOp::kWholeAminOfHalves:
      return EagerOfHalves(op, a);
    case RowOp::kSumSequential:
    case RowOp::kDot:
    case RowOp::kColumnSumSequential:
    case RowOp::kColumnDot:
      return EagerSequential(op, a, b);
  }
  return {};
}

at::Tensor Computed(const RowFunction& f, const at::Tensor& a,
                    const at::Tensor& b, const at::Tensor& like) {
  at::Tensor out = at::empty_like(like);
  const std::int64_t rows = a.size(0);
  const std::int64_t n = a.size(1);
  const bool has_mean = f.op == RowOp::kMoments || f.op == RowOp::kMomentsWide;
  const TjitRowNumber eps{kEps, has_mean ? out[0].data_ptr() : nullptr};
  const TjitRowNumber correction{kCorrection, nullptr};
  if (IsSequential(f.op)) {
    RunSequential(f, a, b, out);
  } else if (IsOfHalves(f.op)) {
    RunOfHalves(f, a, out);
  } else if (f.op == RowOp::kNorm || f.op == RowOp::kWholeNorm) {
    int i = 0;
    for (const double exponent : {1.0, 2.0, double{INFINITY}}) {
      const TjitRowNumber p{exponent, nullptr};
      void* norms = out[i++].data_ptr();
      if (f.op == RowOp::kNorm) {
        f.run(rows, n, a.const_data_ptr(), &p, norms);
      } else {
        RunColumns(f.run_columns, rows * n, 1, a.const_data_ptr(), exponent,
                   norms);
      }
    }
  } else if (IsOfWhole(f.op)) {
    RunColumns(f.run_columns, rows * n, 1, a.const_data_ptr(), 0,
               out.data_ptr());
  } else if (IsOfColumns(f.op)) {
    RunColumns(f.run_columns, rows, n, a.const_data_ptr(), kCorrection,
               out.data_ptr());
  } else if (IsOfSlabs(f.op)) {
    f.run_slab(rows, n, a.const_data_ptr(), n, b.const_data_ptr(), n,
               out.data_ptr(), 0, n);
  } else if (has_mean) {
    f.run(rows, n, a.const_data_ptr(), &eps, out[1].data_ptr());
  } else if (f.op == RowOp::kVar || f.op == RowOp::kStd) {
    f.run(rows, n, a.const_data_ptr(), &correction, out.data_ptr());
  } else {
    f.run(rows, n, a.const_data_ptr(),
          HasTwoOperands(f.op) ? b.const_data_ptr() : nullptr, out.data_ptr());
  }
  return out;
}

// Elements whose bits differ, but for NaN and NaN.
std::int64_t Differences(const at::Tensor& a, const at::Tensor& b) {
  const auto bits = a.scalar_type() == at::kDouble ? at::kLong : at::kInt;
  const at::Tensor differ = a.view(bits).ne(b.view(bits));
  return differ.logical_and(~(a.isnan() & b.isnan())).sum().item<int64_t>();
}

at::Tensor Numbers(std::int64_t rows, std::int64_t n, at::ScalarType type) {
  at::Tensor x = at::randn({rows, n}, type);
  switch (n % 5) {
    case 1:
      return x * 50;
    case 2:  // zeros of both signs are the greatest
      return at::where(at::rand({rows, n}).gt(0.5), x.clamp_max(0),
                       at::full({}, -0.0, type));
    case 3:
      x.view(-1)[n / 2] = -INFINITY;
      x.view(-1)[0] = rows % 2 == 0 ? NAN : 1e30;
      return x;
    default:
      return x;
  }
}

// Operands such as the op gets them: of a backward, the second one is what the
// forward has computed.
void Compare(RowOp op, bool is_double, std::int64_t rows, std::int64_t n,
             const RowFunction* f = nullptr) {
  if (IsOfHalves(op) && is_double) return;
  if (f == nullptr) f = TheProbe().Find(op, is_double);
  ASSERT_NE(f, nullptr);
  const int threads = at::get_num_threads();
  if (!RowOrderHolds(op, is_double, rows, n, threads) ||
      (IsOfSlabs(op) && !SlabOrderHolds(op, is_double, 1, n, threads))) {
    return;
  }
  // One number of all, and one column, are computed otherwise: not lowered.
  const bool is_var = op == RowOp::kVar || op == RowOp::kStd;
  if ((is_var && rows == 1) || (IsOfColumns(op) && (n == 1 || rows == 1))) {
    return;
  }
  const auto type = is_double ? at::kDouble : at::kFloat;
  at::Tensor a = Numbers(rows, n, type);
  if (IsOfHalves(op)) a = AsHalves(op, a, n % 5 != 2 && n % 5 != 3);
  const at::Tensor b =
      op == RowOp::kLogSoftmaxBackward || op == RowOp::kSlabLogSoftmaxBackward
          ? at::log_softmax(at::randn_like(a), -1)
          : at::softmax(at::randn_like(a), -1);
  const at::Tensor eager = Eager(op, a, b);
  EXPECT_EQ(Differences(Computed(*f, a, b, eager), eager), 0)
      << NameOf(op) << (is_double ? " f64" : " f32") << " rows " << rows
      << " n " << n << " threads " << at::get_num_threads();
}

class RowFunctions : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void SetUp() override {
    at::manual_seed(11);
    op_ = static_cast<RowOp>(std::get<0>(GetParam()));
    is_double_ = std::get<1>(GetParam());
  }
  void TearDown() override { at::set_num_threads(1); }

  const at::NoGradGuard no_grad_;
  RowOp op_;
  bool is_double_;
};

TEST_P(RowFunctions, AreFound) {
  EXPECT_EQ(TheProbe().Find(op_, is_double_) != nullptr,
            !is_double_ || !IsOfHalves(op_))
      << NameOf(op_) << " at " << at::get_cpu_capability();
}

TEST_P(RowFunctions, HaveTheBitsOfEagerForAllLengths) {
  for (std::int64_t n = 1; n <= 300; ++n) {
    at::set_num_threads(1 + static_cast<int>(n % 2));
    Compare(op_, is_double_, 1 + n % 4, n);
    if (n % 3 == 0) Compare(op_, is_double_, 19, n);
  }
}

TEST_P(RowFunctions, HaveTheBitsOfEagerForLongRows) {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const std::int64_t n : {511, 512, 768, 1000, 1024, 1037, 4096, 10000,
                                 16384, 65539, 131072, 151936}) {
      Compare(op_, is_double_, 1, n);
      Compare(op_, is_double_, 3, n);
    }
    Compare(op_, is_double_, 200, 1024);
    Compare(op_, is_double_, 20000, 3);
    Compare(op_, is_double_, 20000, 6);
  }
}

TEST_P(RowFunctions, MayWriteOverTheirOperand) {
  if (op_ < RowOp::kSoftmax || op_ > RowOp::kLogSoftmaxBackward) return;
  const RowFunction* f = TheProbe().Find(op_, is_double_);
  ASSERT_NE(f, nullptr);
  const auto type = is_double_ ? at::kDouble : at::kFloat;
  for (const std::int64_t n : {3, 16, 75, 1000}) {
    const at::Tensor a = at::randn({19, n}, type);
    const at::Tensor b = at::softmax(at::randn({19, n}, type), -1);
    const at::Tensor out = Computed(*f, a, b, a);
    at::Tensor over = a.clone();
    f->run(19, n, over.const_data_ptr(), b.const_data_ptr(), over.data_ptr());
    EXPECT_EQ(Differences(over, out), 0) << NameOf(op_) << " n " << n;
  }
}

// Whatever an earlier process may have found: what is taken has eager's bits.
TEST_P(RowFunctions, AVerdictThatIsWrongIsFoundOut) {
  if (IsOfHalves(op_) && is_double_) return;
  const RowFunction* right = TheProbe().Find(op_, is_double_);
  ASSERT_NE(right, nullptr);
  for (const RowTable* table : {&kPlainRows, &kAvx2Rows, &kAvx512Rows}) {
    for (int i = 0; i < table->count; ++i) {
      const RowFunction& lie = table->functions[i];
      if (lie.op != op_ || lie.is_double != is_double_) continue;
      KnownVerdicts verdicts;
      RowProbe probe;
      probe.UseVerdicts(&verdicts);
      probe.Find(op_, is_double_);
      ASSERT_EQ(verdicts.answers.size(), 1u);
      verdicts.answers.begin()->second =
          std::string(table->capability) + " " + std::to_string(i);
      RowProbe deceived;
      deceived.UseVerdicts(&verdicts);
      const RowFunction* taken = deceived.Find(op_, is_double_);
      if (taken == right) continue;
      EXPECT_EQ(taken, &lie);  // which has the same bits, then
      for (std::int64_t n = 1; n <= 200; ++n)
        Compare(op_, is_double_, 4, n, taken);
    }
  }
}

std::string NameOfCase(
    const testing::TestParamInfo<std::tuple<int, bool>>& info) {
  return std::string(NameOf(static_cast<RowOp>(std::get<0>(info.param)))) +
         (IsOfColumns(static_cast<RowOp>(std::get<0>(info.param)))
              ? "_of_columns"
          : IsOfWhole(static_cast<RowOp>(std::get<0>(info.param))) ? "_of_all"
          : IsOfSlabs(static_cast<RowOp>(std::get<0>(info.param))) ? "_of_slabs"
                                                                   : "") +
         (std::get<1>(info.param) ? "_f64" : "_f32");
}

INSTANTIATE_TEST_SUITE_P(All, RowFunctions,
                         testing::Combine(testing::Range(0, kRowOpCount),
                                          testing::Bool()),
                         NameOfCase);

// Of f32 of all exponents, with gradients of which only e^y is left.
TEST(RowFunctionsExp, HasTheBitsOfEagerForAllExponents) {
  constexpr std::int64_t kCount = 1 << 22, kRow = 32;
  const at::NoGradGuard no_grad;
  const at::Tensor y = at::arange(kCount, at::kLong)
                           .mul_(1021)
                           .to(at::kInt)
                           .view(at::kFloat)
                           .view({-1, kRow});
  at::Tensor gradient = at::zeros_like(y);
  gradient.select(1, 0).fill_(1);
  constexpr RowOp kOp = RowOp::kLogSoftmaxBackward;
  const RowFunction* f = TheProbe().Find(kOp, false);
  ASSERT_NE(f, nullptr);
  const at::Tensor eager = Eager(kOp, gradient, y);
  EXPECT_EQ(Differences(Computed(*f, gradient, y, eager), eager), 0);
}

TEST(RowFunctionsOfAvx512, HaveAnExpInTheMidstOfTheLoop) {
  if (at::get_cpu_capability() != "AVX512") GTEST_SKIP() << "no AVX-512";
  const RowFunction* f = TheProbe().Find(RowOp::kSoftmax, false);
  ASSERT_NE(f, nullptr);
  EXPECT_TRUE(f->has_own_exp);
  EXPECT_TRUE(kAvx512Rows.own_exp_holds(1)) << "of all numbers up to 0";
}

// Eager's sums are those of AVX2.
TEST(RowFunctionsOfAvx512, AddUpByHalves) {
  if (at::get_cpu_capability() != "AVX512") GTEST_SKIP() << "no AVX-512";
  for (const RowOp op : {RowOp::kSum, RowOp::kColumnSum, RowOp::kColumnMean}) {
    for (const bool is_double : {false, true}) {
      const RowFunction* f = TheProbe().Find(op, is_double);
      EXPECT_GE(f, kAvx512Rows.functions) << NameOf(op);
      EXPECT_LT(f, kAvx512Rows.functions + kAvx512Rows.count) << NameOf(op);
    }
  }
}

// Else the comparison with eager would find any function of f32 right.
TEST(RowFunctionsOfHalves, AreNotThoseOfF32) {
  at::manual_seed(3);
  for (const auto& [halves, other] :
       {std::pair(RowOp::kSumOfHalves, RowOp::kSum),
        std::pair(RowOp::kColumnSumOfHalves, RowOp::kColumnSum),
        std::pair(RowOp::kWholeSumOfHalves, RowOp::kWholeSum)}) {
    RowFunction wrong = *TheProbe().Find(other, false);
    wrong.op = halves;
    std::int64_t differ = 0;
    for (std::int64_t n = 8; n < 16; ++n) {
      // Of so many columns eager has vectors of f32 and none of halves.
      const at::Tensor a =
          AsHalves(halves, at::randn({100 * n, n}), /*cancels=*/true);
      const at::Tensor x = IsOfColumns(halves) ? a : a.view({n, 100 * n});
      const at::Tensor eager = Eager(halves, x, x);
      differ += Differences(Computed(wrong, x, x, eager), eager);
    }
    EXPECT_GT(differ, 0) << NameOf(halves);
  }
}

// Where RowOrderHolds says that it does not, it does not: else the condition
// would refuse for nothing.
TEST(RowOrder, IsAnotherOneWhereEagerSplitsRows) {
  at::manual_seed(5);
  at::set_num_threads(2);
  const RowFunction* f = TheProbe().Find(RowOp::kSum, false);
  ASSERT_NE(f, nullptr);
  EXPECT_FALSE(RowOrderHolds(RowOp::kSum, false, 1, 100000, 2));
  std::int64_t differ = 0;
  for (int i = 0; i < 20; ++i) {
    const at::Tensor a = at::randn({1, 100000});
    const at::Tensor eager = a.sum(-1);
    differ += Differences(Computed(*f, a, a, eager), eager);
  }
  at::set_num_threads(1);
  EXPECT_GT(differ, 0);
}

TEST(RowProbeTable, HasAnEntryForEachReductionOfColumns) {
  for (const ir::Op op :
       {ir::Op::kSum, ir::Op::kMean, ir::Op::kVar, ir::Op::kStd,
        ir::Op::kWelfordMean, ir::Op::kSumSequential, ir::Op::kDot,
        ir::Op::kAmax, ir::Op::kAmin}) {
    for (const ir::DType dtype : {ir::DType::kF32, ir::DType::kF64}) {
      const TjitMath* entry = TheProbe().ForColumns(op, dtype);
      ASSERT_NE(entry, nullptr);
      EXPECT_STREQ(entry->op, InfoOf(op).name);
      EXPECT_EQ(entry->kind,
                dtype == ir::DType::kF64 ? kTjitColumnF64 : kTjitColumnF32);
    }
  }
  EXPECT_EQ(TheProbe().ForColumns(ir::Op::kNorm, ir::DType::kF32), nullptr);
  EXPECT_EQ(TheProbe().ForColumns(ir::Op::kSum, ir::DType::kBF16), nullptr);
  EXPECT_NE(TheProbe().ForColumns(ir::Op::kSumOfHalves, ir::DType::kF32),
            nullptr);
  EXPECT_EQ(TheProbe().ForColumns(ir::Op::kSumOfHalves, ir::DType::kF64),
            nullptr);
  const TjitMath* mean = TheProbe().For(ir::Op::kNormMean, ir::DType::kF32);
  const TjitMath* rstd = TheProbe().For(ir::Op::kNormRstd, ir::DType::kF32);
  ASSERT_NE(mean, nullptr);
  ASSERT_NE(rstd, nullptr);
  EXPECT_STREQ(mean->op, "norm_mean");
  EXPECT_EQ(mean->address, rstd->address);
}

TEST(RowProbeTable, HasAnEntryForEachReductionOfAll) {
  for (const ir::Op op :
       {ir::Op::kSum, ir::Op::kMean, ir::Op::kAmax, ir::Op::kAmin,
        ir::Op::kNorm, ir::Op::kMaxOfAll, ir::Op::kMinOfAll}) {
    for (const ir::DType dtype : {ir::DType::kF32, ir::DType::kF64}) {
      const TjitMath* entry = TheProbe().ForWhole(op, dtype);
      ASSERT_NE(entry, nullptr);
      EXPECT_STREQ(entry->op, InfoOf(op).name);
      EXPECT_EQ(entry->kind,
                dtype == ir::DType::kF64 ? kTjitWholeF64 : kTjitWholeF32);
    }
  }
  EXPECT_EQ(TheProbe().ForWhole(ir::Op::kVar, ir::DType::kF32), nullptr);
  EXPECT_EQ(TheProbe().ForWhole(ir::Op::kSum, ir::DType::kBF16), nullptr);
}

TEST(RowProbeTable, HasAnEntryForEachRowOpOfSlabs) {
  for (const ir::Op op :
       {ir::Op::kSoftmax, ir::Op::kLogSoftmax, ir::Op::kSoftmaxBackward,
        ir::Op::kLogSoftmaxBackward}) {
    for (const ir::DType dtype : {ir::DType::kF32, ir::DType::kF64}) {
      const TjitMath* entry = TheProbe().ForSlabs(op, dtype);
      ASSERT_NE(entry, nullptr);
      EXPECT_STREQ(entry->op, InfoOf(op).name);
      EXPECT_EQ(entry->kind,
                dtype == ir::DType::kF64 ? kTjitSlabF64 : kTjitSlabF32);
    }
  }
  EXPECT_EQ(TheProbe().ForSlabs(ir::Op::kCumsum, ir::DType::kF32), nullptr);
  EXPECT_EQ(TheProbe().ForSlabs(ir::Op::kSoftmax, ir::DType::kBF16), nullptr);
}

TEST(RowProbeTable, HasAnEntryForEachRowOpOfTheIr) {
  for (const ir::Op op :
       {ir::Op::kSum, ir::Op::kAmin, ir::Op::kSoftmax,
        ir::Op::kSoftmaxBackward,  // with several threads lowering refuses it
        ir::Op::kLogSoftmaxBackward}) {
    for (const ir::DType dtype : {ir::DType::kF32, ir::DType::kF64}) {
      const TjitMath* entry = TheProbe().For(op, dtype);
      ASSERT_NE(entry, nullptr);
      EXPECT_STREQ(entry->op, InfoOf(op).name);
      EXPECT_EQ(entry->kind,
                dtype == ir::DType::kF64 ? kTjitRowF64 : kTjitRowF32);
      EXPECT_EQ(TheProbe().For(op, dtype), entry);
    }
  }
  EXPECT_EQ(TheProbe().For(ir::Op::kSum, ir::DType::kF16), nullptr);
  EXPECT_EQ(TheProbe().For(ir::Op::kAdd, ir::DType::kF32), nullptr);
  EXPECT_EQ(TheProbe().For(ir::Op::kProd, ir::DType::kF32), nullptr);
}

}  // namespace
}  // namespace tjit::runtime
