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

at::Tensor EagerMoments(RowOp op, const at::Tensor& a) {
  const std::int64_t rows = a.size(0), n = a.size(1);
  const auto all =
      op == RowOp::kMoments
          ? at::native_layer_norm(a, {n}, {}, {}, kEps)
          : at::native_group_norm(a.unsqueeze(1), {}, {}, rows, 1, n, 1, kEps);
  return at::stack({std::get<1>(all), std::get<2>(all)});
}

at::Tensor Eager(const AxisOp& what, const at::Tensor& a, const at::Tensor& b) {
  if (what.of_halves) return EagerOfHalves(what, a);
  const bool is_all = what.axis == Axis::kAll;
  const std::int64_t dim = what.axis == Axis::kInner ? -1 : 0;
  switch (what.op) {
    case RowOp::kSum:
      return is_all ? a.sum() : a.sum(dim);
    case RowOp::kMean:
      return is_all ? a.mean() : a.mean(dim);
    case RowOp::kAmax:
      return is_all ? a.amax() : a.amax(dim);
    case RowOp::kAmin:
      return is_all ? a.amin() : a.amin(dim);
    case RowOp::kSoftmax:
      return at::softmax(a, dim);
    case RowOp::kLogSoftmax:
      return at::log_softmax(a, dim);
    case RowOp::kSoftmaxBackward:
      return at::_softmax_backward_data(a, b, dim, a.scalar_type());
    case RowOp::kLogSoftmaxBackward:
      return at::_log_softmax_backward_data(a, b, dim, a.scalar_type());
    case RowOp::kMoments:
    case RowOp::kMomentsWide:
      return EagerMoments(what.op, a);
    case RowOp::kVar:
      return a.var(at::IntArrayRef{dim}, kCorrection, false);
    case RowOp::kStd:
      return a.std(at::IntArrayRef{dim}, kCorrection, false);
    case RowOp::kWelfordMean:
      return std::get<1>(
          at::var_mean(a, at::IntArrayRef{dim}, /*unbiased=*/true));
    case RowOp::kNorm:
      return is_all ? at::stack({a.norm(1), a.norm(2), a.norm(INFINITY)})
                    : at::stack({a.norm(1, dim), a.norm(2, dim),
                                 a.norm(INFINITY, dim)});
    case RowOp::kMaxOfAll:
      return a.max();
    case RowOp::kMinOfAll:
      return a.min();
    case RowOp::kSumSequential:
    case RowOp::kDot:
      return EagerSequential(what, a, b);
  }
  return {};
}

at::Tensor Computed(const RowFunction& f, const at::Tensor& a,
                    const at::Tensor& b, const at::Tensor& like) {
  at::Tensor out = at::empty_like(like);
  const std::int64_t rows = a.size(0);
  const std::int64_t n = a.size(1);
  const RowOp op = f.what.op;
  if (IsSequential(op)) {
    RunSequential(f, a, b, out);
  } else if (f.what.of_halves) {
    RunOfHalves(f, a, out);
  } else if (op == RowOp::kNorm) {
    int i = 0;
    for (const double exponent : {1.0, 2.0, double{INFINITY}}) {
      RunAlongAxis(f, rows, n, a.const_data_ptr(), nullptr, exponent,
                   out[i++].data_ptr());
    }
  } else if (op == RowOp::kMoments || op == RowOp::kMomentsWide) {
    const TjitRowNumber eps{kEps, out[0].data_ptr()};
    f.run(rows, n, a.const_data_ptr(), &eps, out[1].data_ptr());
  } else {
    RunAlongAxis(f, rows, n, a.const_data_ptr(), b.const_data_ptr(),
                 kCorrection, out.data_ptr());
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
void Compare(const AxisOp& what, bool is_double, std::int64_t rows,
             std::int64_t n, const RowFunction* f = nullptr) {
  const auto [op, axis, of_halves] = what;
  if (of_halves && is_double) return;
  if (f == nullptr) f = TheProbe().Find(what, is_double);
  ASSERT_NE(f, nullptr);
  const int threads = at::get_num_threads();
  if (!RowOrderHolds(what, is_double, rows, n, threads) ||
      (axis == Axis::kStrided &&
       !SlabOrderHolds(op, is_double, 1, n, threads))) {
    return;
  }
  // One number of all, and one column, are computed otherwise: not lowered.
  const bool is_var = op == RowOp::kVar || op == RowOp::kStd;
  if ((is_var && rows == 1) ||
      (axis == Axis::kOuter && (n == 1 || rows == 1))) {
    return;
  }
  const auto type = is_double ? at::kDouble : at::kFloat;
  at::Tensor a = Numbers(rows, n, type);
  if (of_halves) a = AsHalves(axis, a, n % 5 != 2 && n % 5 != 3);
  const at::Tensor b = op == RowOp::kLogSoftmaxBackward
                           ? at::log_softmax(at::randn_like(a), -1)
                           : at::softmax(at::randn_like(a), -1);
  const at::Tensor eager = Eager(what, a, b);
  EXPECT_EQ(Differences(Computed(*f, a, b, eager), eager), 0)
      << NameOf(what) << (is_double ? " f64" : " f32") << " rows " << rows
      << " n " << n << " threads " << at::get_num_threads();
}

class RowFunctions : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void SetUp() override {
    at::manual_seed(11);
    what_ = kAxisOps[std::get<0>(GetParam())];
    is_double_ = std::get<1>(GetParam());
  }
  void TearDown() override { at::set_num_threads(1); }

  const at::NoGradGuard no_grad_;
  AxisOp what_;
  bool is_double_;
};

TEST_P(RowFunctions, AreFound) {
  EXPECT_EQ(TheProbe().Find(what_, is_double_) != nullptr,
            !is_double_ || !what_.of_halves)
      << NameOf(what_) << " at " << at::get_cpu_capability();
}

TEST_P(RowFunctions, HaveTheBitsOfEagerForAllLengths) {
  for (std::int64_t n = 1; n <= 300; ++n) {
    at::set_num_threads(1 + static_cast<int>(n % 2));
    Compare(what_, is_double_, 1 + n % 4, n);
    if (n % 3 == 0) Compare(what_, is_double_, 19, n);
  }
}

TEST_P(RowFunctions, HaveTheBitsOfEagerForLongRows) {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const std::int64_t n : {511, 512, 768, 1000, 1024, 1037, 4096, 10000,
                                 16384, 65539, 131072, 151936}) {
      Compare(what_, is_double_, 1, n);
      Compare(what_, is_double_, 3, n);
    }
    Compare(what_, is_double_, 200, 1024);
    Compare(what_, is_double_, 20000, 3);
    Compare(what_, is_double_, 20000, 6);
  }
}

TEST_P(RowFunctions, MayWriteOverTheirOperand) {
  const bool gives_rows =
      what_.op >= RowOp::kSoftmax && what_.op <= RowOp::kLogSoftmaxBackward;
  if (!gives_rows || what_.axis != Axis::kInner) return;
  const RowFunction* f = TheProbe().Find(what_, is_double_);
  ASSERT_NE(f, nullptr);
  const auto type = is_double_ ? at::kDouble : at::kFloat;
  for (const std::int64_t n : {3, 16, 75, 1000}) {
    const at::Tensor a = at::randn({19, n}, type);
    const at::Tensor b = at::softmax(at::randn({19, n}, type), -1);
    const at::Tensor out = Computed(*f, a, b, a);
    at::Tensor over = a.clone();
    f->run(19, n, over.const_data_ptr(), b.const_data_ptr(), over.data_ptr());
    EXPECT_EQ(Differences(over, out), 0) << NameOf(what_) << " n " << n;
  }
}

// Whatever an earlier process may have found: what is taken has eager's bits.
TEST_P(RowFunctions, AVerdictThatIsWrongIsFoundOut) {
  if (what_.of_halves && is_double_) return;
  const RowFunction* right = TheProbe().Find(what_, is_double_);
  ASSERT_NE(right, nullptr);
  for (const RowTable* table : {&kPlainRows, &kAvx2Rows, &kAvx512Rows}) {
    for (int i = 0; i < table->count; ++i) {
      const RowFunction& lie = table->functions[i];
      if (lie.what != what_ || lie.is_double != is_double_) continue;
      KnownVerdicts verdicts;
      RowProbe probe;
      probe.UseVerdicts(&verdicts);
      probe.Find(what_, is_double_);
      ASSERT_EQ(verdicts.answers.size(), 1u);
      verdicts.answers.begin()->second =
          std::string(table->capability) + " " + std::to_string(i);
      RowProbe deceived;
      deceived.UseVerdicts(&verdicts);
      const RowFunction* taken = deceived.Find(what_, is_double_);
      if (taken == right) continue;
      EXPECT_EQ(taken, &lie);  // which has the same bits, then
      for (std::int64_t n = 1; n <= 200; ++n)
        Compare(what_, is_double_, 4, n, taken);
    }
  }
}

std::string NameOfCase(
    const testing::TestParamInfo<std::tuple<int, bool>>& info) {
  const AxisOp& what = kAxisOps[std::get<0>(info.param)];
  const char* const axes[] = {"", "_of_columns", "_of_all", "_of_slabs"};
  return std::string(NameOf(what)) + axes[static_cast<int>(what.axis)] +
         (std::get<1>(info.param) ? "_f64" : "_f32");
}

INSTANTIATE_TEST_SUITE_P(All, RowFunctions,
                         testing::Combine(testing::Range(0, kAxisOpCount),
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
  constexpr AxisOp kOp = {RowOp::kLogSoftmaxBackward};
  const RowFunction* f = TheProbe().Find(kOp, false);
  ASSERT_NE(f, nullptr);
  const at::Tensor eager = Eager(kOp, gradient, y);
  EXPECT_EQ(Differences(Computed(*f, gradient, y, eager), eager), 0);
}

TEST(RowFunctionsOfAvx512, HaveAnExpInTheMidstOfTheLoop) {
  if (at::get_cpu_capability() != "AVX512") GTEST_SKIP() << "no AVX-512";
  const RowFunction* f = TheProbe().Find({RowOp::kSoftmax}, false);
  ASSERT_NE(f, nullptr);
  EXPECT_TRUE(f->has_own_exp);
  EXPECT_TRUE(kAvx512Rows.own_exp_holds(1)) << "of all numbers up to 0";
}

// Eager's sums are those of AVX2.
TEST(RowFunctionsOfAvx512, AddUpByHalves) {
  if (at::get_cpu_capability() != "AVX512") GTEST_SKIP() << "no AVX-512";
  for (const AxisOp& what :
       {AxisOp{RowOp::kSum}, AxisOp{RowOp::kSum, Axis::kOuter},
        AxisOp{RowOp::kMean, Axis::kOuter}}) {
    for (const bool is_double : {false, true}) {
      const RowFunction* f = TheProbe().Find(what, is_double);
      EXPECT_GE(f, kAvx512Rows.functions) << NameOf(what);
      EXPECT_LT(f, kAvx512Rows.functions + kAvx512Rows.count) << NameOf(what);
    }
  }
}

// Else the comparison with eager would find any function of f32 right.
TEST(RowFunctionsOfHalves, AreNotThoseOfF32) {
  at::manual_seed(3);
  for (const Axis axis : {Axis::kInner, Axis::kOuter, Axis::kAll}) {
    RowFunction wrong = *TheProbe().Find({RowOp::kSum, axis}, false);
    wrong.what.of_halves = true;
    std::int64_t differ = 0;
    for (std::int64_t n = 8; n < 16; ++n) {
      // Of so many columns eager has vectors of f32 and none of halves.
      const at::Tensor a =
          AsHalves(axis, at::randn({100 * n, n}), /*cancels=*/true);
      const at::Tensor x = axis == Axis::kOuter ? a : a.view({n, 100 * n});
      const at::Tensor eager = Eager(wrong.what, x, x);
      differ += Differences(Computed(wrong, x, x, eager), eager);
    }
    EXPECT_GT(differ, 0) << NameOf(wrong.what);
  }
}

// Where RowOrderHolds says that it does not, it does not: else the condition
// would refuse for nothing.
TEST(RowOrder, IsAnotherOneWhereEagerSplitsRows) {
  at::manual_seed(5);
  at::set_num_threads(2);
  const RowFunction* f = TheProbe().Find({RowOp::kSum}, false);
  ASSERT_NE(f, nullptr);
  EXPECT_FALSE(RowOrderHolds({RowOp::kSum}, false, 1, 100000, 2));
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
      const TjitMath* entry = TheProbe().For(op, Axis::kOuter, dtype);
      ASSERT_NE(entry, nullptr);
      EXPECT_STREQ(entry->op, InfoOf(op).name);
      EXPECT_EQ(entry->kind,
                dtype == ir::DType::kF64 ? kTjitColumnF64 : kTjitColumnF32);
    }
  }
  EXPECT_EQ(TheProbe().For(ir::Op::kNorm, Axis::kOuter, ir::DType::kF32),
            nullptr);
  EXPECT_EQ(TheProbe().For(ir::Op::kSum, Axis::kOuter, ir::DType::kBF16),
            nullptr);
  EXPECT_NE(TheProbe().For(ir::Op::kSumOfHalves, Axis::kOuter, ir::DType::kF32),
            nullptr);
  EXPECT_EQ(TheProbe().For(ir::Op::kSumOfHalves, Axis::kOuter, ir::DType::kF64),
            nullptr);
  const TjitMath* mean =
      TheProbe().For(ir::Op::kNormMean, Axis::kInner, ir::DType::kF32);
  const TjitMath* rstd =
      TheProbe().For(ir::Op::kNormRstd, Axis::kInner, ir::DType::kF32);
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
      const TjitMath* entry = TheProbe().For(op, Axis::kAll, dtype);
      ASSERT_NE(entry, nullptr);
      EXPECT_STREQ(entry->op, InfoOf(op).name);
      EXPECT_EQ(entry->kind,
                dtype == ir::DType::kF64 ? kTjitWholeF64 : kTjitWholeF32);
    }
  }
  EXPECT_EQ(TheProbe().For(ir::Op::kVar, Axis::kAll, ir::DType::kF32), nullptr);
  EXPECT_EQ(TheProbe().For(ir::Op::kSum, Axis::kAll, ir::DType::kBF16),
            nullptr);
}

TEST(RowProbeTable, HasAnEntryForEachRowOpOfSlabs) {
  for (const ir::Op op :
       {ir::Op::kSoftmax, ir::Op::kLogSoftmax, ir::Op::kSoftmaxBackward,
        ir::Op::kLogSoftmaxBackward}) {
    for (const ir::DType dtype : {ir::DType::kF32, ir::DType::kF64}) {
      const TjitMath* entry = TheProbe().For(op, Axis::kStrided, dtype);
      ASSERT_NE(entry, nullptr);
      EXPECT_STREQ(entry->op, InfoOf(op).name);
      EXPECT_EQ(entry->kind,
                dtype == ir::DType::kF64 ? kTjitSlabF64 : kTjitSlabF32);
    }
  }
  EXPECT_EQ(TheProbe().For(ir::Op::kCumsum, Axis::kStrided, ir::DType::kF32),
            nullptr);
  EXPECT_EQ(TheProbe().For(ir::Op::kSoftmax, Axis::kStrided, ir::DType::kBF16),
            nullptr);
}

TEST(RowProbeTable, HasAnEntryForEachRowOpOfTheIr) {
  for (const ir::Op op :
       {ir::Op::kSum, ir::Op::kAmin, ir::Op::kSoftmax,
        ir::Op::kSoftmaxBackward,  // with several threads lowering refuses it
        ir::Op::kLogSoftmaxBackward}) {
    for (const ir::DType dtype : {ir::DType::kF32, ir::DType::kF64}) {
      const TjitMath* entry = TheProbe().For(op, Axis::kInner, dtype);
      ASSERT_NE(entry, nullptr);
      EXPECT_STREQ(entry->op, InfoOf(op).name);
      EXPECT_EQ(entry->kind,
                dtype == ir::DType::kF64 ? kTjitRowF64 : kTjitRowF32);
      EXPECT_EQ(TheProbe().For(op, Axis::kInner, dtype), entry);
    }
  }
  EXPECT_EQ(TheProbe().For(ir::Op::kSum, Axis::kInner, ir::DType::kF16),
            nullptr);
  EXPECT_EQ(TheProbe().For(ir::Op::kAdd, Axis::kInner, ir::DType::kF32),
            nullptr);
  EXPECT_EQ(TheProbe().For(ir::Op::kProd, Axis::kInner, ir::DType::kF32),
            nullptr);
}

}  // namespace
}  // namespace tjit::runtime
