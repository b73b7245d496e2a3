// Transforms with descriptors that are kept: eager's bits, and of MKL exactly
// what libtorch asks of it. What a KeptFft refuses is libtorch's own call.
#include "runtime/library_calls/fft_plan_cache.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <complex>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/memory/block.h"
#include "tests/runtime/library_calls/dfti_log.h"
#include "tests/runtime/library_calls/make_tensors.h"
#include "tests/runtime/library_calls/recorded_call.h"

namespace tjit::runtime::testing {
namespace {

// Placement needs our allocator; all memory comes from it.
const bool kInstalled = (InstallAllocator(), true);

using Ints = std::vector<std::int64_t>;

struct Case {
  std::string name;
  std::string what;
  Maker maker;
};

at::Tensor Complex(Data* d, at::IntArrayRef sizes, at::ScalarType dtype) {
  const at::Tensor real = d->Dense(sizes, dtype);
  return at::complex(real, d->Dense(sizes, dtype));
}

// A tensor of these sizes that lies in one of these ways.
at::Tensor Lay(const std::string& layout, const Ints& sizes, bool is_complex,
               at::ScalarType dtype, Data* d) {
  Ints outer = sizes;
  const std::int64_t last = static_cast<std::int64_t>(sizes.size()) - 1;
  if (layout == "transposed") std::swap(outer[0], outer[last]);
  if (layout == "sliced") outer[0] += 3;
  if (layout == "strided") outer[last] *= 2;
  if (layout == "expanded") outer[0] = 1;
  const at::Tensor t =
      is_complex ? Complex(d, outer, dtype) : d->Dense(outer, dtype);
  if (layout == "transposed") return t.transpose(0, last);
  if (layout == "sliced") return t.slice(0, 2, 2 + sizes[0]);
  if (layout == "strided") return t.slice(last, 0, outer[last], 2);
  if (layout == "expanded") return t.expand(sizes);
  if (layout == "overlapping") return t.as_strided(sizes, {4, 1});
  if (layout == "unsqueezed") return t.as_strided(sizes, {8, 0, 1});
  return t;
}

void AddAll(const Ints& sizes, const Ints& dims, const std::string& layout,
            at::ScalarType dtype, std::int64_t norm, std::vector<Case>* cases) {
  const std::string what = absl::StrCat(
      layout, " [", absl::StrJoin(sizes, ","), "] over [",
      absl::StrJoin(dims, ","), "] norm ", norm, " ", at::toString(dtype));
  const auto last = static_cast<std::size_t>(dims.back());
  for (const bool flag : {false, true}) {
    cases->push_back({"aten::_fft_c2c", absl::StrCat(what, " forward ", flag),
                      [=](int seed) {
                        Data d(seed);
                        return torch::jit::Stack{
                            Lay(layout, sizes, true, dtype, &d), dims, norm,
                            flag};
                      }});
    const std::int64_t size = 2 * sizes[last] - (flag ? 1 : 2);
    if (size < 1) continue;
    cases->push_back(
        {"aten::_fft_c2r", absl::StrCat(what, " to ", size), [=](int seed) {
           Data d(seed);
           return torch::jit::Stack{Lay(layout, sizes, true, dtype, &d), dims,
                                    norm, size};
         }});
  }
  cases->push_back({"aten::_fft_r2c", what, [=](int seed) {
                      Data d(seed);
                      return torch::jit::Stack{
                          Lay(layout, sizes, false, dtype, &d), dims, norm,
                          true};
                    }});
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const std::int64_t n : {1, 2, 7, 20, 64, 97, 200}) {
      AddAll({n}, {0}, "dense", dtype, n % 3, &cases);
      AddAll({3, n}, {1}, "dense", dtype, 2, &cases);
      AddAll({n, n}, {0, 1}, "dense", dtype, (n + 1) % 3, &cases);
      AddAll({n, 5}, {1, 0}, "transposed", dtype, 1, &cases);
    }
    for (const std::string layout : {"dense", "transposed", "sliced"}) {
      for (const std::int64_t norm : {0, 1, 2}) {
        AddAll({6, 8, 10}, {0, 1, 2}, layout, dtype, norm, &cases);
        AddAll({6, 8, 10}, {1, 2}, layout, dtype, norm, &cases);
      }
    }
    AddAll({4, 5, 6, 7}, {2, 3}, "dense", dtype, 2, &cases);
    AddAll({4, 5, 6, 7}, {3, 2}, "sliced", dtype, 2, &cases);
    AddAll({4, 1, 6, 7}, {0, 1, 2, 3}, "dense", dtype, 1, &cases);
    AddAll({1, 9}, {1}, "dense", dtype, 1, &cases);
    AddAll({1, 1, 9}, {1, 2}, "transposed", dtype, 0, &cases);
    AddAll({30, 20}, {0, 1}, "strided", dtype, 2, &cases);
    AddAll({30, 20}, {0}, "dense", dtype, 2, &cases);
    AddAll({4, 5, 6}, {1}, "sliced", dtype, 2, &cases);
    AddAll({4, 5, 6}, {1, 2}, "expanded", dtype, 2, &cases);
    AddAll({4, 5}, {0}, "expanded", dtype, 0, &cases);
    AddAll({1, 5}, {1}, "expanded", dtype, 0, &cases);
    AddAll({5, 8}, {1}, "overlapping", dtype, 0, &cases);
    AddAll({5, 8}, {1, 0}, "overlapping", dtype, 0, &cases);
    AddAll({3, 1, 8}, {0, 1}, "unsqueezed", dtype, 2, &cases);
    AddAll({40, 50, 60}, {1}, "transposed", dtype, 0, &cases);
    AddAll({3, 4, 5, 6}, {2, 0}, "dense", dtype, 1, &cases);
    AddAll({3, 4, 5, 6}, {1, 3}, "strided", dtype, 1, &cases);
  }
  return cases;
}

class KeptFftTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasDfti()) GTEST_SKIP() << "libtorch has no MKL";
  }
  void TearDown() override {
    TEST_SetDfti(nullptr);
    at::set_num_threads(1);
  }
};

// Compares a call with eager; how many transforms were KeptFft's.
std::int64_t RunsOf(const Case& c, RecordedCall* call) {
  const std::int64_t before = CountKeptFfts().runs;
  for (const int seed : {1, 2}) {
    EXPECT_EQ(call->Compare(&call->step(), seed), "")
        << c.name << " " << c.what;
  }
  return CountKeptFfts().runs - before;
}

TEST_F(KeptFftTest, HasEagersBits) {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const Case& c : AllCases()) {
      RecordedCall call(c.name, c.maker);
      ASSERT_FALSE(call.step().is_boxed()) << c.name << " " << c.what;
      EXPECT_GE(RunsOf(c, &call), 2) << c.name << " " << c.what;
    }
  }
}

TEST_F(KeptFftTest, AsksMklWhatLibtorchAsks) {
  const Dfti logging = LoggingDfti();
  TEST_SetDfti(&logging);
  std::int64_t compared = 0;
  for (const Case& c : AllCases()) {
    DftiLog(Caller::kLibtorch).clear();
    RecordedCall call(c.name, c.maker);
    const std::vector<std::string> theirs = DftiLog(Caller::kLibtorch);
    ASSERT_FALSE(theirs.empty()) << "libtorch's calls do not come by here";
    DftiLog(Caller::kKeptFft).clear();
    call.step();  // is tried, unless its like was
    if (DftiLog(Caller::kKeptFft).empty()) {
      if (call.step().is_boxed()) continue;
      call.Compare(&call.step(), 1);
    }
    EXPECT_EQ(DftiLog(Caller::kKeptFft), theirs) << c.name << " " << c.what;
    ++compared;
  }
  EXPECT_GT(compared, 150);
}

TEST_F(KeptFftTest, MakesOneDescriptorForAllRuns) {
  const Case c = {"aten::_fft_c2r", "", [](int seed) {
                    Data d(seed);
                    return torch::jit::Stack{Complex(&d, {12, 9}, at::kDouble),
                                             Ints{0, 1}, 2, 16};
                  }};
  RecordedCall call(c.name, c.maker);
  RunsOf(c, &call);
  const KeptFftCounts before = CountKeptFfts();
  EXPECT_EQ(RunsOf(c, &call), 4);  // two runs of two
  EXPECT_EQ(CountKeptFfts().made, before.made);
  EXPECT_GE(before.kept, 2);
}

Maker Rfft(std::int64_t n, bool is_onesided = true) {
  return [=](int seed) {
    Data d(seed);
    return torch::jit::Stack{d.Dense({3, n}, at::kDouble), Ints{1}, 0,
                             is_onesided};
  };
}

TEST_F(KeptFftTest, WritesToAnOutThatLiesAsTheResult) {
  for (const bool is_transposed : {false, true}) {
    const Case c = {"aten::_fft_r2c.out", "", [=](int seed) {
                      Data d(seed);
                      at::Tensor out =
                          Complex(&d, is_transposed ? Ints{7, 3} : Ints{3, 7},
                                  at::kDouble);
                      if (is_transposed) out = out.t();
                      return torch::jit::Stack{d.Dense({3, 12}, at::kDouble),
                                               Ints{1}, 0, true, out};
                    }};
    RecordedCall call(c.name, c.maker);
    EXPECT_EQ(call.step().is_boxed(), is_transposed);
    EXPECT_EQ(RunsOf(c, &call), is_transposed ? 0 : 2);
  }
}

TEST_F(KeptFftTest, LeavesToLibtorchWhatItFillsAndWhatIsLarge) {
  const std::vector<Case> cases = {
      {"aten::_fft_r2c", "both halves", Rfft(20, false)},
      {"aten::_fft_r2c", "large", Rfft(100000)}};
  for (const Case& c : cases) {
    RecordedCall call(c.name, c.maker);
    EXPECT_TRUE(call.step().is_boxed()) << c.what;
    EXPECT_EQ(RunsOf(c, &call), 0) << c.what;
  }
}

TEST_F(KeptFftTest, WithoutMklIsLibtorchsCall) {
  Dfti none = LibtorchDfti();
  none.set_value = nullptr;
  TEST_SetDfti(&none);
  const Case c = {"aten::_fft_r2c", "", Rfft(33)};
  RecordedCall call(c.name, c.maker);
  EXPECT_TRUE(call.step().is_boxed());
  EXPECT_EQ(RunsOf(c, &call), 0);
}

int refusals = 0;
Dfti::Status RefusesToCommit(void*) { return ++refusals; }
Dfti::Status RefusesToRun(void*, void*, ...) { return ++refusals; }

TEST_F(KeptFftTest, WhatMklRefusesIsLibtorchsCall) {
  Dfti no_commit = LibtorchDfti(), no_forward = LibtorchDfti();
  no_commit.commit = RefusesToCommit;
  no_forward.forward = RefusesToRun;
  refusals = 0;
  TEST_SetDfti(&no_commit);
  const Case at_first = {"aten::_fft_r2c", "", Rfft(34)};
  RecordedCall refused(at_first.name, at_first.maker);
  EXPECT_TRUE(refused.step().is_boxed());
  EXPECT_EQ(refusals, 1);
  TEST_SetDfti(nullptr);
  const Case later = {"aten::_fft_r2c", "", Rfft(36)};
  RecordedCall call(later.name, later.maker);
  EXPECT_FALSE(call.step().is_boxed());
  TEST_SetDfti(&no_forward);
  RunsOf(later, &call);
  EXPECT_EQ(refusals, 3);
}

// Commits on one thread, runs where MKL has two.
TEST_F(KeptFftTest, RefusesInAnotherState) {
  const Case c = {"aten::_fft_r2c", "", Rfft(35)};
  at::set_num_threads(1);
  RecordedCall call(c.name, c.maker);
  call.step();
  EXPECT_EQ(RunsOf(c, &call), 2);
  at::set_num_threads(2);
  EXPECT_EQ(RunsOf(c, &call), 0);
  at::set_num_threads(1);
  EXPECT_EQ(RunsOf(c, &call), 2);
}

FftPlan PlanOf(std::int64_t n) {
  return {.is_double = true,
          .is_real = true,
          .is_forward = true,
          .in_distance = n,
          .out_distance = n / 2 + 1,
          .lengths = {n},
          .in_strides = {1},
          .out_strides = {1}};
}

bool HasEagersBits(KeptFft* fft, const at::Tensor& x) {
  const at::Tensor eager = at::_fft_r2c(x, {0}, 0, true);
  const at::Tensor ours = at::empty_like(eager);
  return fft->Run(x.const_data_ptr(), ours.mutable_data_ptr()) &&
         std::memcmp(ours.const_data_ptr(), eager.const_data_ptr(),
                     eager.nbytes()) == 0;
}

// Runs fn(data) on two threads of OpenMP, as a program's parallel loop does.
using Parallel = void (*)(void (*fn)(void*), void* data, unsigned, unsigned);

TEST_F(KeptFftTest, RefusesInParallelRegions) {
  const auto parallel =
      reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  if (parallel == nullptr) GTEST_SKIP() << "libtorch has no GNU OpenMP";
  at::set_num_threads(2);
  KeptFft fft(PlanOf(37));
  const at::Tensor x = at::rand({37}, at::kDouble);
  EXPECT_TRUE(HasEagersBits(&fft, x));
  struct Work {
    KeptFft* fft;
    const void* from;
    std::complex<double> to[19];
    std::atomic<int> turn = 0;
    bool ran = true;
  } work = {&fft, x.const_data_ptr(), {}};
  parallel(
      [](void* data) {
        auto* const w = static_cast<Work*>(data);
        if (w->turn++ == 0) w->ran = w->fft->Run(w->from, w->to);
      },
      &work, 2, 0);
  EXPECT_EQ(work.turn, 2);
  EXPECT_FALSE(work.ran);
  EXPECT_TRUE(HasEagersBits(&fft, x));
}

TEST_F(KeptFftTest, RefusesWhereSmallNumbersAreFlushed) {
  KeptFft fft(PlanOf(38));
  const at::Tensor x = at::rand({38}, at::kDouble);
  EXPECT_TRUE(HasEagersBits(&fft, x));
  std::complex<double> to[20];
  ASSERT_TRUE(at::globalContext().setFlushDenormal(true));
  EXPECT_FALSE(fft.Run(x.const_data_ptr(), to));
  at::globalContext().setFlushDenormal(false);
  EXPECT_TRUE(HasEagersBits(&fft, x));
}

TEST_F(KeptFftTest, KeepsSoManyAndNoMore) {
  std::vector<std::unique_ptr<KeptFft>> ffts;
  const KeptFftCounts before = CountKeptFfts();
  for (std::int64_t n = 2; n < 2 + 2 * kMostKeptFfts; ++n) {
    ffts.push_back(std::make_unique<KeptFft>(PlanOf(n)));
    EXPECT_TRUE(HasEagersBits(ffts.back().get(), at::rand({n}, at::kDouble)));
    EXPECT_LE(CountKeptFfts().kept, kMostKeptFfts);
  }
  const KeptFftCounts full = CountKeptFfts();
  EXPECT_EQ(full.made - before.made, 2 * kMostKeptFfts);
  EXPECT_GE(full.given_up - before.given_up, kMostKeptFfts);
  EXPECT_TRUE(HasEagersBits(ffts[0].get(), at::rand({2}, at::kDouble)));
  EXPECT_TRUE(HasEagersBits(ffts.back().get(),
                            at::rand({1 + 2 * kMostKeptFfts}, at::kDouble)));
  EXPECT_EQ(CountKeptFfts().made - full.made, 1);
  ffts.clear();
  EXPECT_LE(CountKeptFfts().kept, before.kept);
}

TEST_F(KeptFftTest, KeepsNoMoreThanSoLong) {
  std::vector<std::unique_ptr<KeptFft>> ffts;
  constexpr std::int64_t kLong = kMostKeptFftLength / 4;
  for (int i = 0; i < 6; ++i) {
    ffts.push_back(std::make_unique<KeptFft>(PlanOf(kLong)));
    EXPECT_TRUE(
        HasEagersBits(ffts.back().get(), at::rand({kLong}, at::kDouble)));
    EXPECT_LE(CountKeptFfts().kept, 4);
  }
}

// While others make descriptors and give them up.
TEST_F(KeptFftTest, RunsOnManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> different = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::unique_ptr<KeptFft>> ffts;
      for (int i = 0; i < 40; ++i) {
        ffts.push_back(std::make_unique<KeptFft>(PlanOf(10 + i)));
      }
      for (int i = 0; i < 2000; ++i) {
        const int n = 10 + (i * 7 + t) % 40;
        const at::Tensor x = at::rand({n}, at::kDouble);
        if (!HasEagersBits(ffts[n - 10].get(), x)) ++different;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, 0);
  EXPECT_LE(CountKeptFfts().kept, kMostKeptFfts);
}

}  // namespace
}  // namespace tjit::runtime::testing
