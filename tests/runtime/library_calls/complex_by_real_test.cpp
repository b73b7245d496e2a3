// Complex numbers times and over real ones: eager's bits, by our loops where
// they serve and by libtorch's kernels where they do not.
#include "runtime/library_calls/complex_by_real.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "recorder/in_place.h"
#include "runtime/memory/block.h"
#include "tests/runtime/library_calls/make_tensors.h"
#include "tests/runtime/library_calls/recorded_call.h"

namespace tjit::runtime::testing {
namespace {

// Placement needs our allocator; all memory comes from it.
const bool kInstalled = (InstallAllocator(), true);

using Ints = std::vector<std::int64_t>;

enum class Numbers { kUsual, kSpecial, kNan };

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Zeros, infinities, numbers whose quotients and products leave their range.
at::Tensor Special(Data* d, at::IntArrayRef sizes, at::ScalarType dtype) {
  constexpr double kNumbers[] = {0.0,    -0.0,    kInfinity, -kInfinity, 1.0,
                                 -3.0,   1e-320,  -1e-320,   1e-40,      -1e-40,
                                 1e308,  -1e308,  1e38,      -3e38,      2e-308,
                                 -1e-38, -1e-200, 1e-25,     0x1p-1022,  0.7};
  at::Tensor t = d->Dense(sizes, at::kDouble);
  auto* const numbers = t.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const double which = d->Uniform() * 40;  // half are usual
    if (which < std::size(kNumbers)) {
      numbers[i] = kNumbers[static_cast<std::size_t>(which)];
    }
  }
  return t.to(dtype);
}

at::Tensor Real(Data* d, at::IntArrayRef sizes, at::ScalarType dtype,
                Numbers numbers) {
  if (numbers == Numbers::kSpecial) return Special(d, sizes, dtype);
  at::Tensor t = d->Dense(sizes, dtype);
  if (numbers == Numbers::kNan) {
    // Signs and other bits of NaNs go on, too.
    t = at::where(t > 1.5, at::scalar_tensor(NAN, dtype), t);
    t = at::where(t < -1.5, -at::scalar_tensor(NAN, dtype), t);
  }
  return t;
}

at::Tensor Complex(Data* d, at::IntArrayRef sizes, at::ScalarType dtype,
                   Numbers numbers) {
  const at::Tensor real = Real(d, sizes, dtype, numbers);
  return at::complex(real, Real(d, sizes, dtype, numbers));
}

struct Variant {
  const char* name;
  bool is_real_first = false;
};
constexpr Variant kVariants[] = {
    {"aten::div.Tensor"}, {"aten::div_.Tensor"},      {"aten::div.out"},
    {"aten::mul.Tensor"}, {"aten::mul.Tensor", true}, {"aten::mul_.Tensor"},
    {"aten::mul.out"},    {"aten::mul.out", true}};

bool IsQuotient(const Variant& v) { return std::strstr(v.name, "div"); }

// The call over tensors that `lay` makes of the dense ones.
using Lay = std::function<at::Tensor(const at::Tensor&)>;
Maker MakerOf(const Variant& v, const Ints& sizes, at::ScalarType dtype,
              Numbers numbers, const Lay& lay_z = nullptr,
              const Lay& lay_c = nullptr) {
  return [=](int seed) {
    Data d(seed);
    at::Tensor z = Complex(&d, sizes, dtype, numbers);
    at::Tensor c = Real(&d, sizes, dtype, numbers);
    if (lay_z) z = lay_z(z);
    if (lay_c) c = lay_c(c);
    torch::jit::Stack stack = {z, c};
    if (v.is_real_first) std::swap(stack[0], stack[1]);
    if (std::strstr(v.name, ".out")) stack.emplace_back(at::empty_like(z));
    return stack;
  };
}

// Compares two runs with eager; how many of them were ours.
std::int64_t RunsOf(RecordedCall* call, const std::string& what) {
  PreparedStep* const step = &call->step();  // may be tried here
  const std::int64_t before = CountComplexByReal();
  for (const int seed : {1, 2}) {
    EXPECT_EQ(call->Compare(step, seed), "") << what;
  }
  EXPECT_FALSE(step->is_boxed()) << what;
  return CountComplexByReal() - before;
}

std::string What(const Variant& v, const Ints& sizes, at::ScalarType dtype) {
  return absl::StrCat(v.name, v.is_real_first ? " real first " : " ",
                      sizes.back(), " ", at::toString(dtype));
}

std::vector<Ints> AllSizes() {
  std::vector<Ints> all = {{1000}, {201, 201}, {3, 100, 200}, {}};
  for (std::int64_t n = 1; n <= 67; ++n) all.push_back({n});
  return all;
}

class ComplexByRealTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasComplexByReal()) GTEST_SKIP() << "no AVX2";
  }
  void TearDown() override {
    at::globalContext().setFlushDenormal(false);
    at::set_num_threads(1);
  }
};

void CompareAll(Numbers numbers) {
  for (const Variant& v : kVariants) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      std::int64_t ours = 0, all = 0;
      for (Ints sizes : AllSizes()) {
        RecordedCall call(v.name, MakerOf(v, sizes, dtype, numbers));
        if (sizes.empty()) sizes = {0};
        const std::int64_t runs = RunsOf(&call, What(v, sizes, dtype));
        ours += runs;
        all += 2;
      }
      // Of special numbers some products are rounded to zero.
      const bool is_all = numbers == Numbers::kUsual || IsQuotient(v);
      EXPECT_GE(ours, is_all ? all : all / 20) << v.name;
    }
  }
}

TEST_F(ComplexByRealTest, HasEagersBits) {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    CompareAll(Numbers::kUsual);
  }
}

TEST_F(ComplexByRealTest, HasEagersBitsOfSpecialNumbers) {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    CompareAll(Numbers::kSpecial);
  }
}

TEST_F(ComplexByRealTest, HasEagersBitsWhereSmallNumbersAreFlushed) {
  ASSERT_TRUE(at::globalContext().setFlushDenormal(true));
  CompareAll(Numbers::kSpecial);
}

// As the memory plan may have it, of products; libtorch's loops, too, where
// there is a NaN, or where the real ones are broadcast.
TEST_F(ComplexByRealTest, HasEagersBitsOverAnOperand) {
  const Lay kBroadcast = [](const at::Tensor& t) {
    return t.dim() == 0 ? t : t.narrow(-1, 0, 1);
  };
  int compared = 0;
  for (const Variant& v : kVariants) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      for (const Numbers numbers :
           {Numbers::kUsual, Numbers::kSpecial, Numbers::kNan}) {
        for (const Ints& sizes : AllSizes()) {
          for (const Lay& lay : {Lay(), kBroadcast}) {
            RecordedCall call(v.name,
                              MakerOf(v, sizes, dtype, numbers, nullptr, lay));
            for (const auto& [result, operand] : InPlacePairs(call.record())) {
              EXPECT_EQ(call.CompareOver(&call.step(), 1, result, operand), "")
                  << What(v, sizes.empty() ? Ints{0} : sizes, dtype);
              ++compared;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 500);
}

TEST_F(ComplexByRealTest, LeavesNansToLibtorch) {
  for (const Variant& v : kVariants) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      for (const Ints& sizes : std::vector<Ints>{{67}, {300, 200}}) {
        RecordedCall call(v.name, MakerOf(v, sizes, dtype, Numbers::kNan));
        EXPECT_EQ(RunsOf(&call, What(v, sizes, dtype)), 0);
      }
    }
  }
}

// One NaN anywhere is seen.
TEST_F(ComplexByRealTest, SeesEachNan) {
  for (const Variant& v : kVariants) {
    for (std::int64_t i = 0; i < 3 * 37; ++i) {
      RecordedCall call(v.name, [=](int seed) {
        torch::jit::Stack stack =
            MakerOf(v, {37}, at::kFloat, Numbers::kUsual)(seed);
        const at::Tensor c = stack[v.is_real_first ? 0 : 1].toTensor();
        const at::Tensor z =
            at::view_as_real(stack[v.is_real_first ? 1 : 0].toTensor());
        if (seed != 0) (i < 37 ? c : z.view({-1})).select(0, i % 74).fill_(NAN);
        return stack;
      });
      if (i >= 37 && i < 74) continue;
      EXPECT_EQ(RunsOf(&call, What(v, {37}, at::kFloat)), 0) << i;
    }
  }
}

TEST_F(ComplexByRealTest, StopsLookingWhereItLooksInVain) {
  for (const Numbers later : {Numbers::kNan, Numbers::kUsual}) {
    const Variant v = {"aten::div.Tensor"};
    RecordedCall call(v.name, [=](int seed) {
      return MakerOf(v, {50}, at::kDouble,
                     seed < 20 ? later : Numbers::kUsual)(seed);
    });
    for (int seed = 0; seed < 20; ++seed) {
      EXPECT_EQ(call.Compare(&call.step(), seed), "");
    }
    const std::int64_t before = CountComplexByReal();
    EXPECT_EQ(call.Compare(&call.step(), 20), "");
    EXPECT_EQ(CountComplexByReal() - before, later == Numbers::kUsual ? 1 : 0);
  }
}

TEST_F(ComplexByRealTest, ServesOperandsThatLieAlike) {
  const Lay transposed = [](const at::Tensor& t) { return t.t(); };
  const Lay sliced = [](const at::Tensor& t) { return t.slice(0, 1, 5); };
  for (const Variant& v : kVariants) {
    for (const Lay& lay : {transposed, sliced}) {
      RecordedCall call(
          v.name, MakerOf(v, {6, 9}, at::kDouble, Numbers::kUsual, lay, lay));
      EXPECT_EQ(RunsOf(&call, v.name), 2);
    }
  }
}

TEST_F(ComplexByRealTest, LeavesOtherLayoutsToLibtorch) {
  const std::vector<Lay> lays = {
      [](const at::Tensor& t) { return t.t().contiguous().t(); },
      [](const at::Tensor& t) {
        return at::cat({t, t}, 1).slice(1, 0, 18, 2);
      },
      [](const at::Tensor& t) {
        return t.slice(0, 0, 1).expand({9, 9});
      },
      [](const at::Tensor& t) { return t.slice(1, 0, 1); },
      [](const at::Tensor& t) { return t.select(0, 1); }};
  const Lay square = [](const at::Tensor& t) {
    return t.slice(0, 0, 9).contiguous();
  };
  for (const Variant& v : kVariants) {
    for (std::size_t i = 0; i < lays.size(); ++i) {
      const Lay lay = [&](const at::Tensor& t) { return lays[i](square(t)); };
      RecordedCall by(v.name, MakerOf(v, {10, 9}, at::kFloat, Numbers::kUsual,
                                      square, lay));
      EXPECT_EQ(RunsOf(&by, v.name), 0) << i;
    }
  }
}

TEST_F(ComplexByRealTest, LeavesOtherTypesToLibtorch) {
  for (const Variant& v : kVariants) {
    for (const at::ScalarType type :
         {at::kDouble, at::kLong, at::kBFloat16, at::kComplexFloat}) {
      const Lay other = [=](const at::Tensor& t) { return t.to(type) + 3; };
      RecordedCall call(v.name, MakerOf(v, {33}, at::kFloat, Numbers::kUsual,
                                        nullptr, other));
      EXPECT_EQ(RunsOf(&call, v.name), 0) << at::toString(type);
    }
  }
}

TEST_F(ComplexByRealTest, MayWriteOverItsNumbers) {
  for (const Variant& v : {kVariants[0], kVariants[3], kVariants[4]}) {
    for (const Numbers numbers :
         {Numbers::kUsual, Numbers::kSpecial, Numbers::kNan}) {
      RecordedCall call(v.name, MakerOf(v, {67}, at::kDouble, numbers));
      const auto z = call.record().args[v.is_real_first ? 1 : 0].slot;
      const auto out = call.record().results[0].slot;
      const std::int64_t before = CountComplexByReal();
      EXPECT_EQ(call.CompareOver(&call.step(), 1, out, z), "");
      if (numbers != Numbers::kUsual) continue;
      EXPECT_GT(CountComplexByReal(), before);
    }
  }
}

std::vector<at::Tensor> RunSteps(std::int64_t n, at::ScalarType dtype) {
  constexpr int kSteps = 40;
  Data d(1);
  const at::Tensor z = Complex(&d, {n}, dtype, Numbers::kUsual);
  const at::Tensor k = Real(&d, {n}, dtype, Numbers::kUsual);
  std::vector<at::Tensor> results;
  for (int i = 0; i < kSteps; ++i) {
    const at::NoGradGuard no_grad;
    const at::Tensor change = -5 * k * z.conj();
    results.push_back(((z + 0.1 * i * change) / (1 + k * k)).clone());
    mark_step();
  }
  return results;
}

TEST_F(ComplexByRealTest, RunsInReplayedSegments) {
  Options options;
  options.hot_threshold = 2;
  options.cache_dir = "off";
  for (const Backend backend : {Backend::kReplay, Backend::kInterpreter}) {
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      for (const std::int64_t n : {37, 40401}) {
        const auto eager = RunSteps(n, at::kDouble);
        const Stats before = stats();
        const std::int64_t runs = CountComplexByReal();
        options.backend = backend;
        ASSERT_TRUE(enable(options));
        const auto ours = RunSteps(n, at::kDouble);
        disable();
        EXPECT_GT((stats() - before).ops_replayed, 100);
        EXPECT_GT(CountComplexByReal() - runs, 40);
        for (std::size_t i = 0; i < eager.size(); ++i) {
          EXPECT_EQ(Elements(ours[i]), Elements(eager[i])) << i;
        }
        clear();
      }
    }
  }
}

}  // namespace
}  // namespace tjit::runtime::testing
