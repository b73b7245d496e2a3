// Position-dependent functions: tile by tile, in any tiles and for any number
// of threads, eager's bits; and where eager cuts.
#include "runtime/bit_exact/position_dependent.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/bit_exact/position_threads.h"

namespace tjit::runtime {
namespace {

using at::Tensor;
using ir::DType;
using ir::Op;

struct Case {
  Op op;
  bool is_binary;
  std::function<Tensor(const Tensor& a, const Tensor& b)> eager;
  double s = 0, t = 0, u = 0;
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {Op::kSigmoid, false, [](auto& a, auto&) { return at::sigmoid(a); }},
      {Op::kSilu, false, [](auto& a, auto&) { return at::silu(a); }},
      {Op::kMish, false, [](auto& a, auto&) { return at::mish(a); }},
      {Op::kGelu, false, [](auto& a, auto&) { return at::gelu(a); }},
      {Op::kGeluTanh, false,
       [](auto& a, auto&) { return at::gelu(a, "tanh"); }},
      {Op::kSoftplus, false,
       [](auto& a, auto&) { return at::softplus(a, 1.3, 0.7); }, 1.3, 0.7},
      {Op::kElu, false,
       [](auto& a, auto&) { return at::elu(a, 0.9, 1.1, 1.3); }, 0.9, 1.1, 1.3},
      {Op::kExp2, false, [](auto& a, auto&) { return at::exp2(a); }},
      {Op::kSinh, false, [](auto& a, auto&) { return at::sinh(a); }},
      {Op::kCosh, false, [](auto& a, auto&) { return at::cosh(a); }},
      {Op::kPowScalar, false, [](auto& a, auto&) { return at::pow(a, 2.7); },
       2.7},
      {Op::kPow, true, [](auto& a, auto& b) { return at::pow(a, b); }},
      {Op::kSiluBackward, true,
       [](auto& a, auto& b) { return at::silu_backward(a, b); }},
      {Op::kMishBackward, true,
       [](auto& a, auto& b) { return at::mish_backward(a, b); }},
      {Op::kGeluBackward, true,
       [](auto& a, auto& b) { return at::gelu_backward(a, b); }},
      {Op::kGeluTanhBackward, true,
       [](auto& a, auto& b) { return at::gelu_backward(a, b, "tanh"); }},
      {Op::kSoftplusBackward, true,
       [](auto& a, auto& b) { return at::softplus_backward(a, b, 1.3, 0.7); },
       1.3, 0.7},
      {Op::kSoftshrink, false,
       [](auto& a, auto&) { return at::softshrink(a, 0.7); }, 0.7},
      {Op::kAsinh, false, [](auto& a, auto&) { return at::asinh(a); }},
      {Op::kAcosh, false, [](auto& a, auto&) { return at::acosh(a); }},
      {Op::kAtanh, false, [](auto& a, auto&) { return at::atanh(a); }},
      {Op::kMaximumOfTensors, true,
       [](auto& a, auto& b) { return at::maximum(a, b); }},
      {Op::kMinimumOfTensors, true,
       [](auto& a, auto& b) { return at::minimum(a, b); }},
      {Op::kFmax, true, [](auto& a, auto& b) { return at::fmax(a, b); }},
      {Op::kFmin, true, [](auto& a, auto& b) { return at::fmin(a, b); }},
      {Op::kAtan2, true, [](auto& a, auto& b) { return at::atan2(a, b); }},
      {Op::kHypot, true, [](auto& a, auto& b) { return at::hypot(a, b); }},
      {Op::kNextafter, true,
       [](auto& a, auto& b) { return at::nextafter(a, b); }},
      {Op::kLogaddexp, true,
       [](auto& a, auto& b) { return at::logaddexp(a, b); }},
      {Op::kLogaddexp2, true,
       [](auto& a, auto& b) { return at::logaddexp2(a, b); }},
      {Op::kXlogy, true, [](auto& a, auto& b) { return at::xlogy(a, b); }},
      {Op::kInRemainder, false,
       [](auto& a, auto&) {
         return at::signbit(at::lerp(at::full_like(a, -1),
                                     at::full_like(a, -0.0), at::ones_like(a)))
             .to(a.scalar_type());
       }},
      {Op::kSmoothL1Backward, true,
       [](auto& a, auto& b) {
         return at::smooth_l1_loss_backward(b, a, at::zeros_like(a),
                                            at::Reduction::Sum, 0.7);
       },
       1.0, 0.7},
      {Op::kHuberBackward, true,
       [](auto& a, auto& b) {
         return at::huber_loss_backward(b, a, at::zeros_like(a),
                                        at::Reduction::Sum, 0.7);
       },
       1.0, 0.7},
      {Op::kEluBackward, true,
       [](auto& a, auto& b) {
         return at::elu_backward(a, 0.9, 1.1, 1.3, false, b);
       },
       0.9, 1.1, 1.3},
      {Op::kEluResultBackward, true,
       [](auto& a, auto& b) {
         return at::elu_backward(a, 0.9, 1.1, 1.3, true, b);
       },
       0.9, 1.1, 1.3},
      {Op::kHardtanhBackward, true,
       [](auto& a, auto& b) { return at::hardtanh_backward(a, b, -0.5, 0.7); },
       -0.5, 0.7},
      {Op::kHardswishBackward, true,
       [](auto& a, auto& b) { return at::hardswish_backward(a, b); }},
      {Op::kShrinkBackward, true,
       [](auto& a, auto& b) { return at::hardshrink_backward(a, b, 0.7); },
       0.7},
  };
  return *cases;
}

const std::pair<DType, at::ScalarType> kTypes[] = {
    {DType::kF32, at::kFloat},
    {DType::kF64, at::kDouble},
    {DType::kBF16, at::kBFloat16},
    {DType::kF16, at::kHalf}};

Tensor Numbers(std::int64_t n, at::ScalarType type) {
  Tensor x = at::randn({n}, at::kDouble) * 3;
  const double inf = std::numeric_limits<double>::infinity();
  const double special[] = {inf, -0.0, 0.0, inf - inf, 3.0, -0.5, 0.7};
  const Tensor pick = at::randint(0, 20, {n}, at::kLong);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t which = pick.const_data_ptr<std::int64_t>()[i];
    if (which < 7) x.mutable_data_ptr<double>()[i] = special[which];
  }
  return x.to(type);
}

// In tiles of so many elements; in the arrays halves are floats.
Tensor InTiles(const TjitMath& f, const Case& c, const Tensor& a,
               const Tensor& b, std::int64_t step) {
  const auto wide = a.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor x = a.to(wide), y = b.to(wide);
  Tensor out = at::empty_like(x);
  const auto item = static_cast<std::int64_t>(x.itemsize());
  for (std::int64_t i = 0; i < x.numel(); i += step) {
    const auto place = [&](const Tensor& t) {
      return static_cast<char*>(t.data_ptr()) + i * item;
    };
    reinterpret_cast<TjitPositionFn>(f.address)(
        std::min(step, x.numel() - i), place(x),
        c.is_binary ? place(y) : nullptr, place(out), i, x.numel(), c.s, c.t,
        c.u);
  }
  return out.to(a.scalar_type());
}

std::int64_t Differences(const Tensor& a, const Tensor& b) {
  const auto bits = a.itemsize() == 8   ? at::kLong
                    : a.itemsize() == 4 ? at::kInt
                                        : at::kShort;
  const Tensor differs = a.view(bits).ne(b.view(bits));
  return differs.logical_and(~a.isnan().logical_and(b.isnan()))
      .sum()
      .item<std::int64_t>();
}

// Looked for once: that compares all it does with eager.
const TjitMath& Found(Op op, DType dtype) {
  static auto* const found = new std::map<std::pair<Op, DType>, TjitMath>;
  const auto known = found->find({op, dtype});
  if (known != found->end()) return known->second;
  return found
      ->emplace(std::pair(op, dtype), FindPositionDependent(op, dtype).value())
      .first->second;
}

// There is none for halves.
bool IsCall(Op op, DType dtype) {
  switch (op) {
    case Op::kInRemainder:
    case Op::kSmoothL1Backward:
    case Op::kHuberBackward:
      return InfoOf(dtype).bytes == 2;
    default:
      return false;
  }
}

class PositionDependentTest : public ::testing::Test {
 protected:
  // Checks all ops.
  void Check(std::int64_t n, std::int64_t step) {
    for (const auto& [dtype, type] : kTypes) {
      const Tensor a = Numbers(n, type), b = Numbers(n, type);
      for (const Case& c : Cases()) {
        if (IsCall(c.op, dtype)) continue;
        const TjitMath& f = Found(c.op, dtype);
        EXPECT_EQ(Differences(InTiles(f, c, a, b, step), c.eager(a, b)), 0)
            << InfoOf(c.op).name << " " << InfoOf(dtype).name << ", " << n
            << " elements, tiles of " << step << ", " << at::get_num_threads()
            << " threads";
      }
    }
  }
  void SetUp() override {
    at::set_num_threads(1);
    at::manual_seed(5);
  }
  void TearDown() override { at::set_num_threads(1); }
};

// Gelu by erf is oneDNN's but for f64, with and without AVX-512.
TEST_F(PositionDependentTest, AreFoundForAllTypes) {
  std::string missing;
  for (const Case& c : Cases()) {
    for (const auto& [dtype, type] : kTypes) {
      if (FindPositionDependent(c.op, dtype).has_value() !=
          IsCall(c.op, dtype)) {
        continue;
      }
      absl::StrAppend(&missing, InfoOf(c.op).name, " ", Name(dtype), "; ");
    }
  }
  EXPECT_EQ(missing, "");
  EXPECT_FALSE(FindPositionDependent(Op::kExp, DType::kF32));
  EXPECT_TRUE(IsPositionDependent(Op::kSigmoid, DType::kF16));
  EXPECT_FALSE(IsPositionDependent(Op::kTanh, DType::kF32));
}

// Passes ask the ops of the IR, lowering and the runtime have these.
TEST_F(PositionDependentTest, AreOfTheOpsThatDependOnPosition) {
  for (int i = 0; i < ir::kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    EXPECT_EQ(DependsOnPosition(op), IsPositionDependent(op, DType::kF32))
        << InfoOf(op).name;
  }
}

TEST_F(PositionDependentTest, AllLengths) {
  for (const Case& c : Cases()) {
    for (const auto& [dtype, type] : kTypes) {
      const auto f = FindPositionDependent(c.op, dtype);
      if (!f) continue;
      for (std::int64_t n = 1; n <= 70; ++n) {
        const Tensor a = Numbers(n, type), b = Numbers(n, type);
        const Tensor eager = c.eager(a, b);
        for (const std::int64_t step : {std::int64_t{1}, std::int64_t{13}, n}) {
          ASSERT_EQ(Differences(InTiles(*f, c, a, b, step), eager), 0)
              << InfoOf(c.op).name << " " << InfoOf(dtype).name << " " << n;
        }
      }
    }
  }
}

// Around the sizes at which eager begins to use threads, and at which parts of
// two and three threads end within a block.
TEST_F(PositionDependentTest, ChunksOfThreads) {
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (const std::int64_t n : {16384, 16413, 32768, 32829, 40062, 100155}) {
      Check(n, n % 2 == 0 ? 1024 : n);
    }
  }
}

TEST_F(PositionDependentTest, ThreadsAreThoseOfTheCaller) {
  const Case& c = Cases()[2];  // mish: a fifth of all bits differ
  const auto f = FindPositionDependent(c.op, DType::kF32);
  ASSERT_TRUE(f);
  const Tensor a = Numbers(40062, at::kFloat);
  const Tensor one = c.eager(a, a);
  at::set_num_threads(2);
  const Tensor two = c.eager(a, a);
  EXPECT_GT(Differences(one, two), 0) << "the chunks' remainders show";
  EXPECT_EQ(Differences(InTiles(*f, c, a, a, 1024), two), 0);
  {
    const PositionThreads as_one(1);
    EXPECT_EQ(Differences(InTiles(*f, c, a, a, 1024), one), 0);
  }
  at::set_num_threads(1);
  {
    const PositionThreads as_two(2);
    EXPECT_EQ(Differences(InTiles(*f, c, a, a, 1024), two), 0);
  }
}

// All exponents, denormals, infinities and NaNs.
TEST_F(PositionDependentTest, GeluByErfOfAllSizes) {
  constexpr std::int64_t kCount = 1 << 20;
  const Tensor bits = at::arange(kCount, at::kLong)
                          .mul_(4099)
                          .bitwise_and_(0xffffffff)
                          .to(at::kInt);
  for (const Case& c : Cases()) {
    if (c.op != Op::kGelu && c.op != Op::kGeluBackward) continue;
    for (const auto& [dtype, type] : kTypes) {
      const auto f = FindPositionDependent(c.op, dtype);
      if (!f || dtype == DType::kF64) continue;
      const Tensor a = bits.view(at::kFloat).to(type);
      const Tensor b = c.op == Op::kGelu ? a : a.flip(0);
      const Tensor x = c.op == Op::kGelu ? a : at::randn({kCount}).to(type);
      EXPECT_EQ(Differences(InTiles(*f, c, x, b, 1000), c.eager(x, b)), 0)
          << InfoOf(c.op).name << " " << InfoOf(dtype).name;
    }
  }
}

// MXCSR: denormals as zeros, rounding up.
TEST_F(PositionDependentTest, InUnusualArithmetic) {
  const unsigned usual = _mm_getcsr();
  for (const Case& c : Cases()) {
    for (const auto& [dtype, type] : kTypes) {
      const auto f = FindPositionDependent(c.op, dtype);
      if (!f) continue;
      const Tensor a = Numbers(2021, type), b = Numbers(2021, type) * 1e-36;
      for (const unsigned mode : {0x8040U, 0x4000U}) {
        _mm_setcsr(usual | mode);
        const Tensor eager = c.eager(a, b), ours = InTiles(*f, c, a, b, 100);
        _mm_setcsr(usual);
        EXPECT_EQ(Differences(ours, eager), 0)
            << InfoOf(c.op).name << " " << InfoOf(dtype).name << " " << mode;
      }
    }
  }
}

TEST_F(PositionDependentTest, WithoutOneDnn) {
  const auto with = FindPositionDependent(Op::kGeluBackward, DType::kF32);
  ASSERT_TRUE(with);
  at::globalContext().setUserEnabledMkldnn(false);
  EXPECT_FALSE(FindPositionDependent(Op::kGeluBackward, DType::kF32));
  const Tensor a = Numbers(2021, at::kFloat), b = Numbers(2021, at::kFloat);
  for (const Case& c : Cases()) {
    if (c.op != Op::kGeluBackward) continue;
    EXPECT_EQ(Differences(InTiles(*with, c, a, b, 100), c.eager(a, b)), 0);
  }
  at::globalContext().setUserEnabledMkldnn(true);
}

TEST_F(PositionDependentTest, TheCutsOfEager) {
  EXPECT_EQ(PositionChunk(100, 32768, 4), 100);
  EXPECT_EQ(PositionChunk(32768, 32768, 4), 32768);
  EXPECT_EQ(PositionChunk(32769, 32768, 4), 16385);
  EXPECT_EQ(PositionChunk(100000, 32768, 1), 100000);
  EXPECT_EQ(PositionChunk(100000, 32768, 4), 25000);
  EXPECT_EQ(PositionChunk(100000, 32768, 2), 50000);
}

}  // namespace
}  // namespace tjit::runtime
