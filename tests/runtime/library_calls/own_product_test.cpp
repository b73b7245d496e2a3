// Matrix products as prepared steps: eager's bits in every form, by own code
// where a probe has said so, which counters tell.
#include "runtime/library_calls/own_product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/bit_exact/product_verdicts.h"
#include "runtime/platform/settings.h"
#include "support/counters.h"
#include "support/planted_defect.h"
#include "support/policy.h"
#include "tests/runtime/library_calls/make_tensors.h"
#include "tests/runtime/library_calls/recorded_call.h"

namespace tjit::runtime::testing {
namespace {

using at::Tensor;
using Stack = torch::jit::Stack;

// How an operand lies in memory.
enum class Lies { kDense, kTransposed, kStrided, kExpanded };

Tensor Make(Data* d, std::int64_t rows, std::int64_t columns, Lies lies,
            at::ScalarType dtype = at::kFloat) {
  switch (lies) {
    case Lies::kDense:
      return d->Dense({rows, columns}, dtype);
    case Lies::kTransposed:
      return d->Dense({columns, rows}, dtype).t();
    case Lies::kStrided:
      return d->Dense({rows, columns + 3}, dtype).narrow(1, 2, columns);
    case Lies::kExpanded:
      return d->Dense({1, columns}, dtype).expand({rows, columns});
  }
  return {};
}

void SetOwnProducts(bool are_own) {
  Options options;
  options.own_products = are_own;
  g_settings.Set(options, 0, 0);
}

class OwnProductTest : public ::testing::Test {
 protected:
  OwnProductTest() { at::set_num_threads(1); }
  void SetUp() override {
    int count = 0;
    ProductTables(&count);
    if (count == 0) GTEST_SKIP() << "no table for this processor";
  }

  // Which products are own was measured on these processors. On others only
  // bits are compared.
  static bool IsKnown() {
    return __builtin_cpu_is("amd") != 0 &&
           __builtin_cpu_supports("avx512f") != 0;
  }
  static void ExpectOwn(bool is_own, const std::string& what = "") {
    EXPECT_TRUE(is_own || !IsKnown()) << what;
  }
  // Prepares the call and compares some runs with eager. True if they were own.
  bool Compare(const std::string& op, const Maker& maker, int seeds = 5) {
    RecordedCall call(op, maker);
    Counters counters;
    call.trials().counters = &counters;
    for (int seed = 1; seed <= seeds; ++seed) {
      EXPECT_EQ(call.Compare(&call.step(), seed), "") << op;
    }
    const std::int64_t own = counters.products_own.value();
    EXPECT_TRUE(own == 0 || own == seeds) << own;
    return own != 0;
  }
  bool CompareMm(std::int64_t m, std::int64_t k, std::int64_t n, Lies a, Lies b,
                 at::ScalarType dtype = at::kFloat) {
    return Compare("aten::mm", [=](int seed) {
      Data d(seed);
      return Stack{Make(&d, m, k, a, dtype), Make(&d, k, n, b, dtype)};
    });
  }
};

TEST_F(OwnProductTest, SmallProductsAreOwnInAllForms) {
  for (const Lies a : {Lies::kDense, Lies::kTransposed, Lies::kStrided}) {
    for (const Lies b : {Lies::kDense, Lies::kTransposed, Lies::kStrided}) {
      ExpectOwn(CompareMm(8, 16, 32, a, b),
                absl::StrCat(static_cast<int>(a), " ", static_cast<int>(b)));
    }
  }
}

// Own or not: the bits are eager's.
TEST_F(OwnProductTest, AllSizesHaveEagersBits) {
  int own = 0, all = 0;
  for (const std::int64_t m : {1, 2, 5, 17}) {
    for (const std::int64_t k : {1, 2, 7, 200, 390}) {
      for (const std::int64_t n : {1, 3, 16, 37}) {
        for (const Lies a : {Lies::kDense, Lies::kTransposed}) {
          for (const Lies b : {Lies::kDense, Lies::kTransposed}) {
            own += CompareMm(m, k, n, a, b) ? 1 : 0;
            ++all;
          }
        }
      }
    }
  }
  ExpectOwn(own > all / 10, absl::StrCat(own, " of ", all));
}

TEST_F(OwnProductTest, DoublesHaveEagersBits) {
  for (const Lies a : {Lies::kDense, Lies::kTransposed}) {
    for (const Lies b : {Lies::kDense, Lies::kTransposed}) {
      for (const std::int64_t n : {1, 8, 24, 33}) {
        CompareMm(9, 20, n, a, b, at::kDouble);
      }
    }
  }
  ExpectOwn(CompareMm(4, 8, 24, Lies::kDense, Lies::kDense, at::kDouble));
}

// As of a layer of ten classes.
TEST_F(OwnProductTest, NarrowProductsAreOwnWhereTheSecondIsTransposed) {
  for (const std::int64_t n : {4, 7, 10}) {
    for (const std::int64_t k : {16, 20, 32}) {
      ExpectOwn(CompareMm(32, k, n, Lies::kDense, Lies::kTransposed),
                absl::StrCat(k, " ", n));
    }
  }
}

// As of the weight of a layer of eight inputs: MKL begins rows elsewhere where
// they are not multiples of 16 bytes.
TEST_F(OwnProductTest, NarrowProductsAreOwnAtAlignedAddresses) {
  ExpectOwn(CompareMm(32, 32, 8, Lies::kTransposed, Lies::kDense));
  ExpectOwn(CompareMm(16, 4, 8, Lies::kTransposed, Lies::kDense));
}

// MKL adds most sums to zeros, so one that underflows to -0 becomes 0.
TEST_F(OwnProductTest, SumsThatVanishHaveEagersBits) {
  constexpr int kSeeds = 20;
  int own = 0;
  // `exponent`: of two, for each operand.
  const auto compare = [&](std::int64_t m, std::int64_t k, std::int64_t n,
                           Lies a, Lies b, at::ScalarType dtype, int exponent) {
    SCOPED_TRACE(absl::StrCat(m, "x", k, "x", n, " ", at::toString(dtype), " ",
                              static_cast<int>(a), " ", static_cast<int>(b),
                              " ", exponent));
    const auto maker = [=](int seed) {
      Data d(seed);
      const double scale = std::ldexp(1.0, exponent);
      return Stack{Make(&d, m, k, a, dtype).mul_(scale),
                   Make(&d, k, n, b, dtype).mul_(scale)};
    };
    own += Compare("aten::mm", maker, kSeeds) ? 1 : 0;
  };
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{32, 64, 64},
                                {8, 16, 32},
                                {32, 4, 8},
                                {5, 1, 9},
                                {4, 250, 16},
                                {32, 16, 10},
                                {2, 400, 33}}) {
    for (const Lies a : {Lies::kDense, Lies::kTransposed}) {
      for (const Lies b : {Lies::kDense, Lies::kTransposed}) {
        for (const int more : {0, 2, 5}) {
          compare(m, k, n, a, b, at::kFloat, -75 - more);
          compare(m, k, n, a, b, at::kDouble, -538 - more);
        }
      }
    }
  }
  ExpectOwn(own > 30, absl::StrCat(own));
}

// A sum of which all terms are -0 is -0, unless it begins at 0.
TEST_F(OwnProductTest, SumsOfNegativeZerosHaveEagersBits) {
  int own = 0;
  for (const std::int64_t m : {1, 2, 6}) {
    for (const std::int64_t k : {1, 4, 7, 16}) {
      for (const std::int64_t n : {1, 3, 6, 8}) {
        for (const Lies b : {Lies::kDense, Lies::kTransposed}) {
          SCOPED_TRACE(absl::StrCat(m, "x", k, "x", n));
          const auto factors = [=](int seed) {
            Data d(seed);
            return Stack{at::zeros({m, k}),
                         Make(&d, k, n, b).abs_().add_(1).neg_()};
          };
          const auto with_addend = [=](int seed) {
            Stack stack = factors(seed);
            stack.insert(stack.begin(), at::full({n}, -0.0));
            stack.insert(stack.end(), {1, 1});
            return stack;
          };
          own += Compare("aten::mm", factors) ? 1 : 0;
          own += Compare("aten::addmm", with_addend) ? 1 : 0;
        }
      }
    }
  }
  ExpectOwn(own > 0);
}

// One product is no sum: a zero keeps its sign.
TEST_F(OwnProductTest, ProductsOfAColumnAndARow) {
  for (const std::int64_t m : {4, 32}) {
    CompareMm(m, 1, 16, Lies::kDense, Lies::kDense);
    Compare("aten::mm", [=](int seed) {
      Data d(seed);
      return Stack{Make(&d, m, 1, Lies::kDense) * 0.0,
                   Make(&d, 1, 32, Lies::kDense)};
    });
  }
}

// MKL's order is another one there.
TEST_F(OwnProductTest, OperandsAtOddAddressesHaveEagersBits) {
  for (const std::int64_t offset : {0, 1, 2, 4}) {
    Compare("aten::mm", [=](int seed) {
      Data d(seed);
      const Tensor a = d.Dense({32 * 16 + 8}, at::kFloat);
      return Stack{a.narrow(0, offset, 32 * 16).view({32, 16}),
                   Make(&d, 16, 10, Lies::kTransposed)};
    });
  }
}

// What is known of one call is not what another one has that only looks like
// it: eager computes these pairs in other orders.
TEST_F(OwnProductTest, AnotherOpIsAnotherQuestion) {
  for (const std::int64_t k : {4, 6}) {
    ExpectOwn(CompareMm(4, k, 16, Lies::kDense, Lies::kDense));
    Compare("aten::bmm", [=](int seed) {
      Data d(seed);
      return Stack{d.Dense({1, 4, k}, at::kFloat),
                   d.Dense({1, k, 16}, at::kFloat)};
    });
  }
}

TEST_F(OwnProductTest, OtherAddressesAreAnotherQuestion) {
  const auto compare = [&](std::int64_t m, std::int64_t k, std::int64_t n,
                           std::int64_t of_a, std::int64_t of_b) {
    Compare("aten::mm", [=](int seed) {
      Data d(seed);
      const Tensor a = d.Dense({m * k + 8}, at::kFloat);
      const Tensor b = d.Dense({n * k + 8}, at::kFloat);
      return Stack{a.narrow(0, of_a, m * k).view({m, k}),
                   b.narrow(0, of_b, n * k).view({n, k}).t()};
    });
  };
  for (const std::int64_t m : {2, 8, 16, 32}) {
    for (const std::int64_t first : {0, 1, 2}) {
      for (const std::int64_t second : {0, 1, 2}) {
        compare(m, 4, 8, first, second);
      }
    }
  }
}

TEST_F(OwnProductTest, OtherStridesAreAnotherQuestion) {
  const auto compare = [&](std::int64_t k, std::int64_t n, bool is_copied) {
    Compare("aten::mm", [=](int seed) {
      Data d(seed);
      const Tensor x = d.Dense({k, 5}, at::kFloat);
      const Tensor y = d.Dense({1, k, 5}, at::kFloat);
      return Stack{is_copied ? y.select(2, 0) : x.narrow(1, 0, 1).t(),
                   d.Dense({n, k}, at::kFloat).t()};
    });
  };
  for (const std::int64_t n : {1, 2, 3}) {
    for (const bool is_copied : {false, true, false}) {
      compare(12, n, is_copied);
      compare(16, n, is_copied);
    }
  }
}

TEST_F(OwnProductTest, ExpandedOperandsHaveEagersBits) {
  CompareMm(8, 16, 32, Lies::kExpanded, Lies::kDense);
  CompareMm(8, 16, 32, Lies::kDense, Lies::kExpanded);
}

TEST_F(OwnProductTest, AMatrixTimesItselfTurned) {
  Compare("aten::mm", [](int seed) {
    Data d(seed);
    const Tensor x = d.Dense({16, 24}, at::kFloat);
    return Stack{x, x.t()};
  });
}

Maker Addmm(std::int64_t m, std::int64_t k, std::int64_t n,
            std::vector<std::int64_t> self, const at::Scalar& beta,
            const at::Scalar& alpha) {
  return [=](int seed) {
    Data d(seed);
    const Tensor z = d.Dense(self, at::kFloat);
    return Stack{z, Make(&d, m, k, Lies::kDense),
                 Make(&d, k, n, Lies::kTransposed), beta, alpha};
  };
}

TEST_F(OwnProductTest, LinearLayersAreOwn) {
  ExpectOwn(Compare("aten::addmm", Addmm(8, 16, 32, {32}, 1, 1)));
  ExpectOwn(Compare("aten::addmm", Addmm(8, 16, 32, {1, 32}, 1, 1)));
  ExpectOwn(Compare("aten::addmm", Addmm(8, 16, 32, {8, 32}, 1, 1)));
  ExpectOwn(Compare("aten::addmm", Addmm(8, 16, 32, {8, 32}, 1.0, 1.0)));
}

TEST_F(OwnProductTest, OtherAddendsAreTheLibrarys) {
  EXPECT_FALSE(Compare("aten::addmm", Addmm(8, 16, 32, {32}, 0.5, 1)));
  EXPECT_FALSE(Compare("aten::addmm", Addmm(8, 16, 32, {32}, 1, 2)));
  EXPECT_FALSE(Compare("aten::addmm", Addmm(8, 16, 32, {8, 1}, 1, 1)));
}

TEST_F(OwnProductTest, NothingOfTheAddendIsReadWhereBetaIsZero) {
  ExpectOwn(Compare("aten::addmm", [](int seed) {
    Data d(seed);
    const Tensor z =
        at::full({32}, std::numeric_limits<float>::quiet_NaN(), at::kFloat);
    return Stack{z, Make(&d, 8, 16, Lies::kDense),
                 Make(&d, 16, 32, Lies::kDense), 0, 1};
  }));
}

// The step was prepared for beta 1 and alpha 1.
TEST_F(OwnProductTest, OtherScalarsRunTheLibrary) {
  if (!IsKnown()) GTEST_SKIP() << "which are own is not known here";
  RecordedCall call("aten::addmm", [](int seed) {
    Data d(seed);
    const double beta = seed < 3 ? 1 : 0.5 * seed;
    return Stack{d.Dense({32}, at::kFloat), Make(&d, 8, 16, Lies::kDense),
                 Make(&d, 16, 32, Lies::kDense), beta, seed == 4 ? 2.0 : 1.0};
  });
  Counters counters;
  call.trials().counters = &counters;
  for (int seed = 1; seed < 6; ++seed) {
    EXPECT_EQ(call.Compare(&call.step(), seed), "") << seed;
  }
  EXPECT_EQ(counters.products_own.value(), 2);
}

TEST_F(OwnProductTest, InPlace) {
  ExpectOwn(Compare("aten::addmm_", [](int seed) {
    Data d(seed);
    return Stack{d.Dense({8, 32}, at::kFloat), Make(&d, 8, 16, Lies::kDense),
                 Make(&d, 16, 32, Lies::kDense), 1, 1};
  }));
}

TEST_F(OwnProductTest, BatchesHaveEagersBits) {
  int own = 0;
  for (const bool is_turned : {false, true}) {
    for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
             {4, 4, 4}, {7, 16, 16}, {16, 32, 48}, {1, 32, 20}}) {
      own += Compare("aten::bmm", [=](int seed) {
        Data d(seed);
        Tensor b =
            d.Dense({3, is_turned ? n : k, is_turned ? k : n}, at::kFloat);
        if (is_turned) b = b.transpose(1, 2);
        return Stack{d.Dense({3, m, k}, at::kFloat), b};
      });
    }
  }
  ExpectOwn(own > 0);
}

TEST_F(OwnProductTest, SpecialNumbersHaveEagersBits) {
  using Limits = std::numeric_limits<float>;
  ExpectOwn(Compare("aten::mm", [](int seed) {
    Data d(seed);
    const Tensor a = Make(&d, 8, 16, Lies::kDense);
    const Tensor b = Make(&d, 16, 32, Lies::kDense);
    const float numbers[] = {Limits::infinity(), -Limits::infinity(),
                             Limits::denorm_min(), Limits::max(), -0.0F};
    a.data_ptr<float>()[seed * 7] = numbers[seed - 1];
    b.data_ptr<float>()[seed * 5] = Limits::quiet_NaN();
    b.select(1, 3).zero_();
    a.select(0, 2).mul_(-0.0F);
    return Stack{a, b};
  }));
}

// What is lent is used, and what is taken back is not.
TEST_F(OwnProductTest, ScratchIsTheSegments) {
  if (!IsKnown()) GTEST_SKIP() << "which are own is not known here";
  RecordedCall call("aten::mm", [](int seed) {
    Data d(seed);
    return Stack{Make(&d, 32, 16, Lies::kDense),
                 Make(&d, 16, 10, Lies::kTransposed)};
  });
  PreparedStep& step = call.step();
  ASSERT_TRUE(step.takes_scratch());
  const std::vector<std::uint64_t> need = step.Scratch();
  ASSERT_EQ(need.size(), 1);
  const auto bytes = static_cast<std::int64_t>(need[0]);
  const Tensor lent = at::full({bytes}, 255, at::kByte);
  step.Lend(static_cast<char*>(lent.mutable_data_ptr()), need[0]);
  EXPECT_EQ(call.Compare(&step, 1), "");
  EXPECT_FALSE(at::equal(lent, at::full({bytes}, 255, at::kByte)));
  step.Lend(nullptr, 0);
  lent.fill_(255);
  EXPECT_EQ(call.Compare(&step, 2), "");
  EXPECT_TRUE(at::equal(lent, at::full({bytes}, 255, at::kByte)));
}

TEST_F(OwnProductTest, TheSwitchLeavesItToTheLibrary) {
  if (!IsKnown()) GTEST_SKIP() << "which are own is not known here";
  SetOwnProducts(false);
  EXPECT_FALSE(CompareMm(8, 16, 32, Lies::kDense, Lies::kDense));
  SetOwnProducts(true);
  ExpectOwn(CompareMm(8, 16, 32, Lies::kDense, Lies::kDense));
}

TEST_F(OwnProductTest, ANewSizeUsesTheLibraryUntilItMayBeTried) {
  if (!IsKnown()) GTEST_SKIP() << "which are own is not known here";
  const Maker maker = [](int seed) {
    Data d(seed);
    return Stack{Make(&d, 8, 18, Lies::kDense), Make(&d, 18, 32, Lies::kDense)};
  };
  RecordedCall first("aten::mm", maker);
  Counters counters;
  first.trials() = {false, false, &counters};
  EXPECT_EQ(first.Compare(&first.step(), 1), "");
  EXPECT_TRUE(first.trials().are_wanted);
  EXPECT_EQ(counters.products_tried.value(), 0);
  EXPECT_EQ(counters.products_own.value(), 0);
  ExpectOwn(Compare("aten::mm", maker));
  // What is known needs no trial.
  RecordedCall again("aten::mm", maker);
  again.trials() = {false, false, &counters};
  EXPECT_EQ(again.Compare(&again.step(), 1), "");
  EXPECT_FALSE(again.trials().are_wanted);
  EXPECT_EQ(counters.products_own.value(), 1);
}

TEST_F(OwnProductTest, OneRunOfManyIsCompared) {
  if (!IsKnown()) GTEST_SKIP() << "which are own is not known here";
  const Maker maker = [](int seed) {
    Data d(seed);
    return Stack{Make(&d, 8, 26, Lies::kDense), Make(&d, 26, 32, Lies::kDense)};
  };
  RecordedCall call("aten::mm", maker);
  Counters counters;
  call.trials().counters = &counters;
  EXPECT_EQ(call.Compare(&call.step(), 1), "");
  for (int i = 2; i < policy::kProductRunsPerCheck; ++i) {
    call.RunAgain(&call.step());
  }
  EXPECT_EQ(counters.products_checked.value(), 0);
  EXPECT_EQ(call.Compare(&call.step(), 2), "");
  EXPECT_EQ(counters.products_checked.value(), 1);
  EXPECT_EQ(counters.products_switched_off.value(), 0);
  EXPECT_EQ(counters.products_own.value(), policy::kProductRunsPerCheck);
}

// Nanoseconds of a run, the least of some.
double TimeOf(RecordedCall* call, int times) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) call->RunAgain(&call->step());
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now() - start)
             .count() /
         times;
}

// Prints a table: the prepared step with own products and with the library's,
// in turn. --gtest_also_run_disabled_tests --gtest_filter='*Speed'
TEST_F(OwnProductTest, DISABLED_Speed) {
  const std::int64_t sizes[][3] = {{8, 16, 16},    {8, 16, 32},   {16, 32, 32},
                                   {32, 32, 32},   {32, 32, 10},  {64, 64, 64},
                                   {64, 784, 256}, {128, 256, 64}};
  std::printf("%-12s %-4s %10s %10s %6s\n", "m k n", "form", "library us",
              "own us", "ratio");
  for (const char* form : {"nn", "nt", "tn"}) {
    for (const auto& [m, k, n] : sizes) {
      const auto lies = [&](int i) {
        return form[i] == 't' ? Lies::kTransposed : Lies::kDense;
      };
      RecordedCall call("aten::mm", [&](int seed) {
        Data d(seed);
        return Stack{Make(&d, m, k, lies(0)), Make(&d, k, n, lies(1))};
      });
      EXPECT_EQ(call.Compare(&call.step(), 1), "");
      const int times = static_cast<int>(1 + 4'000'000 / (m * k * n + 1000));
      std::vector<double> own, library;
      for (int turn = 0; turn < 15; ++turn) {
        SetOwnProducts(false);
        library.push_back(TimeOf(&call, times));
        SetOwnProducts(true);
        own.push_back(TimeOf(&call, times));
      }
      std::sort(own.begin(), own.end());
      std::sort(library.begin(), library.end());
      std::printf("%-4ld%-4ld%-4ld %-4s %10.3f %10.3f %6.2f\n",
                  static_cast<long>(m), static_cast<long>(k),
                  static_cast<long>(n), form, library[7] / 1e3, own[7] / 1e3,
                  library[7] / own[7]);
    }
  }
  for (const auto& [question, answer] : VerdictsOfProducts().Recorded()) {
    std::printf("%s: %s\n", question.c_str(), answer.c_str());
  }
}

#if defined(TJIT_PLANTED_DEFECTS)
TEST_F(OwnProductTest, ACheckThatFindsADifferenceSwitchesItOff) {
  if (!IsKnown()) GTEST_SKIP() << "which are own is not known here";
  const Maker maker = [](int seed) {
    Data d(seed);
    return Stack{Make(&d, 8, 20, Lies::kDense), Make(&d, 20, 32, Lies::kDense)};
  };
  RecordedCall call("aten::mm", maker);
  Counters counters;
  call.trials().counters = &counters;
  EXPECT_EQ(call.Compare(&call.step(), 1), "");
  Plant(Defect::kWrongProduct);
  EXPECT_NE(call.Compare(&call.step(), 2), "");
  for (int i = 3; i < policy::kProductRunsPerCheck; ++i) {
    call.RunAgain(&call.step());
  }
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(call.Compare(&call.step(), 3),
            "");  // the check keeps the library's
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("product 8x20x32 f32"), std::string::npos) << said;
  EXPECT_EQ(counters.products_switched_off.value(), 1);
  EXPECT_EQ(call.Compare(&call.step(), 4), "");  // so does every run behind it
  EXPECT_EQ(counters.products_own.value(), policy::kProductRunsPerCheck);
  Plant(Defect::kNone);
  EXPECT_FALSE(Compare("aten::mm", maker));  // and every new step
}

TEST_F(OwnProductTest, AWrongProductIsRefusedByTheProbe) {
  Plant(Defect::kWrongProduct);
  EXPECT_FALSE(CompareMm(8, 22, 32, Lies::kDense, Lies::kDense));
  Plant(Defect::kNone);
}
#endif

}  // namespace
}  // namespace tjit::runtime::testing
