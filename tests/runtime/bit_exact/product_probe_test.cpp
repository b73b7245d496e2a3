// The probe of products: it refuses a planted wrong order, numbers that differ
// once, and what is not faster; it confirms what an earlier process found.
#include "runtime/bit_exact/product_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/functions/products.h"
#include "runtime/bit_exact/product_verdicts.h"
#include "tests/runtime/bit_exact/known_verdicts.h"

namespace tjit::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t kRows = 16, kColumns = 32, kTerms = 24;

struct Operands {
  const float* a;
  const float* b;
  float* c;
};
using Function = std::function<void(const Operands&)>;

Product Plain(const ProductOrder& order) {
  Product p;
  p.m = kRows;
  p.n = kColumns;
  p.k = kTerms;
  p.a_row = kTerms;
  p.a_term = 1;
  p.b_term = kColumns;
  p.b_column = 1;
  p.c_row = kColumns;
  p.order = order;
  return p;
}

const ProductTable* Table() {
  int count = 0;
  const ProductTable* const* const tables = ProductTables(&count);
  return count == 0 ? nullptr : tables[0];
}

Function Own(const ProductOrder& order, int times = 1) {
  return [p = Plain(order), times](const Operands& o) {
    for (int i = 0; i < times; ++i) {
      Table()->f32(p, o.a, o.b, nullptr, o.c, nullptr);
    }
  };
}

constexpr ProductOrder kChain = {true, false, 0};
constexpr ProductOrder kApart = {false, false, 0};

class FakeTrial final : public ProductTrial {
 public:
  FakeTrial(Function library, std::vector<Function> candidates)
      : library_(std::move(library)), candidates_(std::move(candidates)) {}

  std::vector<Range> Place() override {
    for (std::vector<float>* x : {&c_, &a_, &b_}) x->assign(2048, 0);
    return {RangeOf(&c_, kRows * kColumns), RangeOf(&a_, kRows * kTerms),
            RangeOf(&b_, kTerms * kColumns)};
  }
  void FillFactors(int turn) override {
    const auto number = [](bool is_zero) { return is_zero ? 0.0F : -1.0F; };
    for (std::int64_t i = 0; i < kRows * kTerms; ++i) {
      a_[static_cast<std::size_t>(i)] = number(i / kTerms % 2 == 0);
    }
    for (std::int64_t i = 0; i < kTerms * kColumns; ++i) {
      b_[static_cast<std::size_t>(i)] = number(i % kColumns % 2 != turn);
    }
  }
  void RunLibrary() override {
    ++library_runs_;
    library_(Now());
  }
  void Run(std::size_t candidate) override { candidates_[candidate](Now()); }

  int library_runs() const { return library_runs_; }

 private:
  Range RangeOf(std::vector<float>* x, std::int64_t count) {
    return {reinterpret_cast<char*>(x->data()),
            static_cast<std::uint64_t>(count) * sizeof(float)};
  }
  Operands Now() { return {a_.data(), b_.data(), c_.data()}; }

  const Function library_;
  const std::vector<Function> candidates_;
  int library_runs_ = 0;
  std::vector<float> a_, b_, c_;
};

class ProductProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Table() == nullptr) GTEST_SKIP() << "no table for this processor";
  }

  // Names are "0", "1" ...
  std::optional<std::size_t> Find(FakeTrial* trial, std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
    return FindProduct({"product", false, kRows * kColumns, kTerms}, names,
                       &verdicts_, trial, &was_tried_);
  }
  // The same for a library that computes the chain, slowly.
  std::optional<std::size_t> FindOf(std::vector<Function> candidates) {
    const std::size_t count = candidates.size();
    FakeTrial trial(Own(kChain, 4), std::move(candidates));
    return Find(&trial, count);
  }
  std::string Answer() { return verdicts_.Find("product").value_or(""); }

  KnownVerdicts verdicts_;
  bool was_tried_ = false;
};

TEST_F(ProductProbeTest, AWrongOrderIsRefused) {
  EXPECT_EQ(FindOf({Own(kApart)}), std::nullopt);
  EXPECT_TRUE(was_tried_);
  EXPECT_THAT(Answer(), StartsWith("none: element "));
  EXPECT_THAT(Answer(), HasSubstr(" by the library"));
}

TEST_F(ProductProbeTest, TheOneWithTheBitsIsTaken) {
  EXPECT_EQ(FindOf({Own(kApart), Own({true, false, 8}), Own(kChain)}), 2);
  EXPECT_TRUE(was_tried_);
  EXPECT_EQ(Answer(), "2");
}

TEST_F(ProductProbeTest, TheFastestIsTaken) {
  EXPECT_EQ(FindOf({Own(kChain, 3), Own(kChain), Own(kChain, 2)}), 1);
}

TEST_F(ProductProbeTest, WhatIsNotFasterIsRefused) {
  FakeTrial trial(Own(kChain), {Own(kChain, 2)});
  EXPECT_EQ(Find(&trial, 1), std::nullopt);
  EXPECT_THAT(Answer(), StartsWith("none: own code takes "));
}

TEST_F(ProductProbeTest, TheReasonIsThatOfTheLastOne) {
  constexpr ProductOrder kToZero = {true, false, 0, 0, false, true};
  FakeTrial trial(Own(kToZero), {Own(kApart), Own(kChain), Own(kToZero, 2)});
  EXPECT_EQ(Find(&trial, 3), std::nullopt);
  EXPECT_THAT(Answer(), StartsWith("none: own code takes "));
}

// As the chain, but `change` afterwards.
Function Changed(std::function<void(const Operands&)> change) {
  return [chain = Own(kChain), change = std::move(change)](const Operands& o) {
    chain(o);
    change(o);
  };
}

TEST_F(ProductProbeTest, OneElementThatDiffersIsFound) {
  EXPECT_EQ(FindOf({Changed([](const Operands& o) {
              float& last = o.c[kRows * kColumns - 1];
              last = std::nextafter(last, 100.0F);
            })}),
            std::nullopt);
  EXPECT_THAT(Answer(), StartsWith("none: element "));
}

TEST_F(ProductProbeTest, AZeroOfTheOtherSignIsFound) {
  EXPECT_EQ(FindOf({Changed([](const Operands& o) {
              for (int i = 0; i < kRows * kColumns; ++i) {
                if (o.c[i] == 0) o.c[i] = -o.c[i];
              }
            })}),
            std::nullopt);
  EXPECT_THAT(Answer(), StartsWith("none: element "));
}

// Each differs from the other in sums that underflow alone.
TEST_F(ProductProbeTest, ASumThatIsNotStoredAsTheLibraryDoesIsFound) {
  constexpr ProductOrder kToZero = {true, false, 0, 0, false, true};
  EXPECT_EQ(FindOf({Own(kToZero), Own(kChain)}), 1);
  verdicts_ = KnownVerdicts();
  FakeTrial trial(Own(kToZero, 4), {Own(kChain), Own(kToZero)});
  EXPECT_EQ(Find(&trial, 2), 1);
}

TEST_F(ProductProbeTest, AVerdictOfTheOtherWayToStoreIsNotBelieved) {
  verdicts_.Add("product", "0");
  FakeTrial trial(Own({true, false, 0, 0, false, true}, 4), {Own(kChain)});
  EXPECT_EQ(Find(&trial, 1), std::nullopt);
  EXPECT_TRUE(was_tried_);
  EXPECT_THAT(Answer(), StartsWith("none: element "));
}

// The chain, but from the first product on, not from 0: a sum is -0 where all
// products are.
void ChainFromTheFirst(const Operands& o) {
  Own(kChain)(o);
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    bool are_all = true;
    for (std::int64_t k = 0; k < kTerms; ++k) {
      const float term =
          o.a[i / kColumns * kTerms + k] * o.b[k * kColumns + i % kColumns];
      are_all = are_all && term == 0 && std::signbit(term);
    }
    if (are_all) o.c[i] = -0.0F;
  }
}

TEST_F(ProductProbeTest, ASumOfNegativeZerosThatIsZeroIsFound) {
  FakeTrial trial(ChainFromTheFirst, {Own(kChain)});
  EXPECT_EQ(Find(&trial, 1), std::nullopt);
  EXPECT_EQ(Answer(), "none: element 0 is 0, and -0 by the library");
  verdicts_ = KnownVerdicts();
  verdicts_.Add("product", "0");
  FakeTrial known(ChainFromTheFirst, {Own(kChain)});
  EXPECT_EQ(Find(&known, 1), std::nullopt);
  EXPECT_TRUE(was_tried_);
}

TEST_F(ProductProbeTest, FlushedDenormalsAreFound) {
  EXPECT_EQ(FindOf({Changed([](const Operands& o) {
              for (int i = 0; i < kRows * kColumns; ++i) {
                if (std::abs(o.c[i]) < 0x1p-126F) o.c[i] = 0;
              }
            })}),
            std::nullopt);
  EXPECT_THAT(Answer(), StartsWith("none: element "));
}

TEST_F(ProductProbeTest, ALostNanIsFound) {
  EXPECT_EQ(FindOf({Changed([](const Operands& o) {
              for (int i = 0; i < kRows * kColumns; ++i) {
                if (std::isnan(o.c[i])) o.c[i] = 0;
              }
            })}),
            std::nullopt);
  EXPECT_THAT(Answer(), StartsWith("none: element "));
}

TEST_F(ProductProbeTest, NansMayHaveOtherBits) {
  EXPECT_EQ(FindOf({Changed([](const Operands& o) {
              for (int i = 0; i < kRows * kColumns; ++i) {
                if (std::isnan(o.c[i])) o.c[i] = std::copysign(o.c[i], -1.0F);
              }
            })}),
            0);
}

// Each takes as long as some thousand runs of the library.
TEST_F(ProductProbeTest, FarSlowerOnesAreGivenUpSoon) {
  int runs = 0;
  const auto slow = [&](const Operands& o) {
    ++runs;
    Own(kChain, 5000)(o);
  };
  FakeTrial trial(Own(kChain), {slow, slow, slow, slow, slow});
  EXPECT_EQ(Find(&trial, 5), std::nullopt);
  EXPECT_EQ(Answer(), "none: own code takes far longer");
  EXPECT_EQ(runs, 4);  // two of them, each twice
}

TEST_F(ProductProbeTest, WhatIsKnownIsConfirmed) {
  verdicts_.Add("product", "1");
  FakeTrial trial(Own(kChain), {Own(kChain), Own(kChain, 2)});
  EXPECT_EQ(Find(&trial, 2), 1);
  EXPECT_FALSE(was_tried_);
  EXPECT_EQ(trial.library_runs(), 5);
}

TEST_F(ProductProbeTest, WhatIsKnownToBeRefusedIsNotTried) {
  verdicts_.Add("product", "none: something");
  FakeTrial trial(Own(kChain, 4), {Own(kChain)});
  EXPECT_EQ(Find(&trial, 1), std::nullopt);
  EXPECT_FALSE(was_tried_);
  EXPECT_EQ(trial.library_runs(), 0);
}

TEST_F(ProductProbeTest, AWrongVerdictIsNotBelieved) {
  verdicts_.Add("product", "0");
  EXPECT_EQ(FindOf({Own(kApart), Own(kChain)}), 1);
  EXPECT_TRUE(was_tried_);
  EXPECT_EQ(Answer(), "1");
}

TEST_F(ProductProbeTest, AnUnknownNameIsNotBelieved) {
  verdicts_.Add("product", "chain, of another version");
  EXPECT_EQ(FindOf({Own(kChain)}), 0);
  EXPECT_TRUE(was_tried_);
}

class ProductVerdictsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/product_verdicts_test.XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(ProductVerdictsTest, AreKeptApartFromOthers) {
  ProductVerdicts first;
  first.UseFolder(folder_);
  EXPECT_EQ(first.Find("product 2x2x2 f32"), std::nullopt);
  first.Add("product 2x2x2 f32", "chain, AVX2");
  first.Add("product 1x2x2 f32", kNoCandidate);
  first.Save();
  ProductVerdicts second;
  EXPECT_EQ(second.Find("product 2x2x2 f32"), std::nullopt);
  second.UseFolder(folder_);
  EXPECT_EQ(second.Find("product 2x2x2 f32"), "chain, AVX2");
  EXPECT_EQ(second.Find("product 1x2x2 f32"), kNoCandidate);

  const auto disk = std::make_unique<cache::ObjectCache>(
      folder_, [](const std::string& text) { ADD_FAILURE() << text; });
  const std::atomic<cache::ObjectCache*> cache{disk.get()};
  VerdictStore others(&cache);
  others.RecordProcess();
  EXPECT_EQ(others.Find("product 2x2x2 f32"), std::nullopt);
}

TEST_F(ProductVerdictsTest, ADamagedEntryIsSaidAndReplaced) {
  ProductVerdicts first;
  first.UseFolder(folder_);
  first.Add("product 2x2x2 f32", "chain, AVX2");
  first.Save();
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    std::filesystem::resize_file(file.path(), file.file_size() - 1);
  }
  ProductVerdicts second;
  second.UseFolder(folder_);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(second.Find("product 2x2x2 f32"), std::nullopt);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("it is cut short"));
  second.Add("product 2x2x2 f32", "chain, AVX512");
  second.Save();
  ProductVerdicts third;
  third.UseFolder(folder_);
  EXPECT_EQ(third.Find("product 2x2x2 f32"), "chain, AVX512");
}

TEST_F(ProductVerdictsTest, WithoutAFolderNothingIsKept) {
  ProductVerdicts verdicts;
  verdicts.UseFolder("");
  verdicts.Add("product 2x2x2 f32", "chain, AVX2");
  verdicts.Save();
  EXPECT_EQ(verdicts.Find("product 2x2x2 f32"), std::nullopt);
}

TEST_F(ProductVerdictsTest, AreRecordedForExplain) {
  ProductVerdicts verdicts;
  verdicts.Record("product 2x2x2 f32", "chain, AVX2");
  EXPECT_EQ(verdicts.Recorded().at("product 2x2x2 f32"), "chain, AVX2");
}

}  // namespace
}  // namespace tjit::runtime
