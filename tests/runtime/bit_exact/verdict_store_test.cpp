// VerdictStore: what is added and saved is known to the next one with the same
// key, and to nobody else; unusual arithmetic gets and adds nothing.
#include "runtime/bit_exact/verdict_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tjit::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VerdictStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/verdict_store_test.XXXXXX";
    folder_ = mkdtemp(name);
    disk_ = std::make_unique<cache::ObjectCache>(
        folder_, [this](const std::string& text) { said_.push_back(text); });
    cache_ = disk_.get();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<VerdictStore> Open() {
    auto store = std::make_unique<VerdictStore>(&cache_);
    store->RecordProcess();
    return store;
  }
  std::size_t Files() {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }

  std::string folder_;
  std::vector<std::string> said_;
  std::unique_ptr<cache::ObjectCache> disk_;
  std::atomic<cache::ObjectCache*> cache_{nullptr};
};

TEST_F(VerdictStoreTest, WhatIsSavedIsKnownToTheNext) {
  const auto one = Open();
  EXPECT_EQ(one->Find("math exp f32"), std::nullopt);
  one->Add("math exp f32", "vmsExp");
  one->Add("row 3 f64", kNoCandidate);
  EXPECT_TRUE(one->has_news());
  EXPECT_EQ(Open()->Find("math exp f32"), std::nullopt);
  one->Save();
  EXPECT_FALSE(one->has_news());
  const auto two = Open();
  EXPECT_EQ(two->Find("math exp f32"), "vmsExp");
  EXPECT_EQ(two->Find("row 3 f64"), kNoCandidate);
  EXPECT_EQ(two->Find("math"), std::nullopt);
  EXPECT_EQ(two->known(), 2);
  EXPECT_EQ(two->probed(), 0);
  EXPECT_EQ(one->probed(), 2);
  EXPECT_EQ(disk_->hits() + disk_->misses() + disk_->writes(), 0)
      << "these count code";
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(VerdictStoreTest, WhatIsTakenIsNotedWhereverItIsFrom) {
  const auto no_candidate = [](std::size_t i, Check, std::string* difference) {
    *difference = i == 0 ? "of 2 eager makes 3" : "";
    return false;
  };
  const auto one = Open();
  EXPECT_EQ(FirstWithBits(one.get(), "math a f32", {"x", "y"}, no_candidate),
            std::nullopt);
  EXPECT_EQ(
      FirstWithBits(one.get(), "math b f32", {"x", "y"},
                    [](std::size_t i, Check, std::string*) { return i == 1; }),
      1u);
  one->Save();
  const auto two = Open();
  EXPECT_TRUE(two->Recorded().empty());
  EXPECT_EQ(FirstWithBits(two.get(), "math a f32", {"x", "y"}, no_candidate),
            std::nullopt);
  EXPECT_EQ(two->probed(), 0);
  EXPECT_EQ(two->Recorded().size(), 1u) << "what this process asked for";
  for (const auto& store : {one.get(), two.get()}) {
    EXPECT_EQ(store->Recorded().at("math a f32"), "none: of 2 eager makes 3");
  }
  EXPECT_EQ(one->Recorded().at("math b f32"), "y");
}

TEST_F(VerdictStoreTest, WritersKeepWhatOthersFound) {
  const auto one = Open(), two = Open();
  EXPECT_EQ(two->Find("a"), std::nullopt);  // has read
  one->Add("a", "1");
  one->Add("c", "1");
  one->Save();
  two->Add("b", "2");
  two->Add("c", "2");  // found out to be so
  two->Save();
  two->Add("d", "2");
  two->Save();
  EXPECT_EQ(Files(), 1u);
  const auto three = Open();
  EXPECT_EQ(three->Find("a"), "1");
  EXPECT_EQ(three->Find("b"), "2");
  EXPECT_EQ(three->Find("c"), "2");
  EXPECT_EQ(three->Find("d"), "2");
}

TEST_F(VerdictStoreTest, AnotherEnvironmentHasAnotherEntry) {
  const auto one = Open();
  one->Add("a", "1");
  for (const char* name : {"MKL_CBWR", "ONEDNN_MAX_CPU_ISA",
                           "ATEN_CPU_CAPABILITY", "GLIBC_TUNABLES"}) {
    setenv(name, "x", 1);
    const auto other = Open();
    unsetenv(name);
    one->Save();
    EXPECT_EQ(other->Find("a"), std::nullopt) << name;
  }
  EXPECT_EQ(Open()->Find("a"), "1");
}

TEST_F(VerdictStoreTest, UnusualArithmeticGetsAndAddsNothing) {
  const auto one = Open();
  one->Add("a", "1");
  one->Save();
  const unsigned usual = _mm_getcsr();
  for (const unsigned bits : {0x8000u, 0x40u, 0x2000u}) {
    const auto two = Open();
    _mm_setcsr(usual | bits);
    const auto found = two->Find("a");
    two->Add("b", "1");
    two->Save();
    _mm_setcsr(usual);
    EXPECT_EQ(found, std::nullopt) << bits;
    EXPECT_FALSE(two->has_news());
    EXPECT_EQ(two->Find("a"), "1");
    EXPECT_EQ(two->Find("b"), std::nullopt);
  }
}

TEST_F(VerdictStoreTest, WithoutAFolderOrAProcessItKeepsNothing) {
  VerdictStore not_taken(&cache_);
  not_taken.Add("a", "1");
  not_taken.Save();
  cache_ = nullptr;
  const auto one = Open();
  one->Add("a", "1");
  one->Save();
  cache_ = disk_.get();
  EXPECT_EQ(Files(), 0u);
  EXPECT_EQ(Open()->Find("a"), std::nullopt);
}

TEST_F(VerdictStoreTest, LinesThatAreNoneAreLeftOut) {
  VerdictKey key;
  key.RecordProcess();
  disk_->Store(key.Text(), "a=1\nrubbish\n=\n\nb=2",
               cache::EntryKind::kVerdicts);
  const auto one = Open();
  EXPECT_EQ(one->Find("a"), "1");
  EXPECT_EQ(one->Find("b"), "2");
  EXPECT_EQ(one->Find("rubbish"), std::nullopt);
}

TEST(VerdictKey, NamesWhatDecides) {
  setenv("MKL_CBWR", "AVX2", 1);
  VerdictKey key;
  key.RecordProcess();
  unsetenv("MKL_CBWR");
  const std::string text = key.Text();
  EXPECT_THAT(text, HasSubstr("MKL_CBWR=AVX2\n"));
  EXPECT_THAT(text, HasSubstr("\ncapability "));
  EXPECT_THAT(text, HasSubstr("\ncpu "));
  EXPECT_THAT(text, HasSubstr("\nobject "));
  EXPECT_EQ(text, key.Text());
}

}  // namespace
}  // namespace tjit::runtime
