// Transforms in replayed segments: programs get descriptors that are kept, and
// eager's bits.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <tjit/tjit.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/library_calls/fft_plan_cache.h"

namespace tjit {
namespace {

using at::Tensor;
using runtime::CountKeptFfts;
using runtime::KeptFftCounts;

using Program = std::function<Tensor(int step)>;

std::vector<Tensor> RunSteps(const Program& program, int steps) {
  std::vector<Tensor> results;
  for (int i = 0; i < steps; ++i) {
    results.push_back(program(i).clone());
    mark_step();
  }
  return results;
}

bool HaveSameBits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].sizes() != b[i].sizes() ||
        std::memcmp(a[i].const_data_ptr(), b[i].const_data_ptr(),
                    a[i].nbytes()) != 0) {
      return false;
    }
  }
  return a.size() == b.size();
}

// A step of a spectral solver: three transforms, which are four of MKL.
Program Solver(std::vector<std::int64_t> sizes, at::ScalarType dtype) {
  at::manual_seed(1);
  const Tensor start = at::rand(sizes, dtype);
  std::vector<std::int64_t> dims(sizes.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    dims[d] = static_cast<std::int64_t>(d);
  }
  return [=](int step) {
    const at::NoGradGuard no_grad;
    const Tensor c = start + 0.01 * step;
    const Tensor change = at::fft_rfftn(c * c * 0.5, std::nullopt, dims);
    const Tensor next = at::fft_rfftn(c, std::nullopt, dims) + change * 0.1;
    return at::fft_irfftn(next, at::IntArrayRef(sizes), dims);
  };
}

class KeptFftReplayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::HasDfti()) GTEST_SKIP() << "libtorch has no MKL";
  }
  void TearDown() override {
    disable();
    clear();
    at::set_num_threads(1);
  }
  static void Enable(Backend backend) {
    Options options;
    options.hot_threshold = 2;
    options.backend = backend;
    options.cache_dir = "off";
    ASSERT_TRUE(enable(options));
  }
};

constexpr int kSteps = 40;

TEST_F(KeptFftReplayTest, HasEagersBits) {
  const std::vector<std::vector<std::int64_t>> all = {
      {20}, {20, 20}, {7, 64}, {6, 5, 8}};
  for (const Backend backend : {Backend::kReplay, Backend::kInterpreter}) {
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      for (const auto& sizes : all) {
        for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
          const Program program = Solver(sizes, dtype);
          const std::vector<Tensor> eager = RunSteps(program, kSteps);
          const Stats before = stats();
          const std::int64_t runs = CountKeptFfts().runs;
          Enable(backend);
          const std::vector<Tensor> ours = RunSteps(program, kSteps);
          disable();
          EXPECT_TRUE(HaveSameBits(ours, eager));
          EXPECT_GT((stats() - before).ops_replayed, 100);
          const int each = sizes.size() > 1 ? 4 : 3;
          EXPECT_GT(CountKeptFfts().runs - runs, 20 * each);
          clear();
        }
      }
    }
  }
}

// Some are seen often, some for the first time when others are replayed.
TEST_F(KeptFftReplayTest, SizesThatChange) {
  std::vector<Program> programs;
  for (const std::int64_t n : {12, 20, 33, 7}) {
    programs.push_back(Solver({n, n}, at::kDouble));
  }
  const Program program = [&](int step) {
    return programs[step < 40 ? step % 3 : step % 4](step);
  };
  const std::vector<Tensor> eager = RunSteps(program, 120);
  const KeptFftCounts before = CountKeptFfts();
  Enable(Backend::kReplay);
  const std::vector<Tensor> ours = RunSteps(program, 120);
  disable();
  EXPECT_TRUE(HaveSameBits(ours, eager));
  const KeptFftCounts after = CountKeptFfts();
  EXPECT_GT(after.runs - before.runs, 300);
  EXPECT_LE(after.made - before.made, 4 * 3 * 2);
}

// What threads run was prepared by each for itself; they end with it.
TEST_F(KeptFftReplayTest, ThreadsThatEnd) {
  const Program program = Solver({20, 20}, at::kDouble);
  const std::vector<Tensor> eager = RunSteps(program, kSteps);
  const KeptFftCounts before = CountKeptFfts();
  Enable(Backend::kReplay);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> threads;
    std::vector<int> is_same(3);
    for (int& same : is_same) {
      threads.emplace_back([&] {
        same = HaveSameBits(RunSteps(program, kSteps), eager) ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(is_same, std::vector<int>(3, 1));
  }
  EXPECT_GT(CountKeptFfts().runs - before.runs, 6 * 20 * 4);
}

// KiB, at most so far.
std::int64_t PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Windows of a long signal: a trial touches what the transform reads.
TEST_F(KeptFftReplayTest, WindowsOfALargeStorage) {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kBytes = std::int64_t{1} << 30, kWindow = 4096;
  const Tensor signal = at::empty({kBytes / 4});
  const auto window = [&](int step) {
    return signal.narrow(0, step % 3 * kWindow, kWindow);
  };
  for (int i = 0; i < 3; ++i) window(i).copy_(at::rand({kWindow}));
  const Program program = [&](int step) { return at::fft_rfft(window(step)); };
  const std::vector<Tensor> eager = RunSteps(program, kSteps);
  const std::int64_t peak = PeakMemory();
  const std::int64_t runs = CountKeptFfts().runs;
  Enable(Backend::kReplay);
  EXPECT_TRUE(HaveSameBits(RunSteps(program, kSteps), eager));
  EXPECT_GT(CountKeptFfts().runs - runs, 20);
  EXPECT_LT(PeakMemory() - peak, kBytes / 1024 / 4);
}

// Into a place where libtorch itself would not transform: that call is its own,
// and others of the plan are not.
TEST_F(KeptFftReplayTest, APlaceThatIsRefusedIsNoVerdict) {
  const at::NoGradGuard no_grad;
  const Tensor x = at::rand({22, 18}, at::kDouble);
  Tensor memory = at::empty({22 * 10 + 1}, at::kComplexDouble);
  Tensor aside = memory.narrow(0, 1, 22 * 10).view({22, 10});
  const Program odd = [&](int) {
    at::_fft_r2c_out(aside, x * 2, {0, 1}, 0, true);
    return aside;
  };
  const Program plain = [&](int) {
    return at::_fft_r2c(x * 3, {0, 1}, 0, true);
  };
  const std::vector<Tensor> eager_odd = RunSteps(odd, kSteps);
  const std::vector<Tensor> eager = RunSteps(plain, kSteps);
  Enable(Backend::kReplay);
  EXPECT_TRUE(HaveSameBits(RunSteps(odd, kSteps), eager_odd));
  const std::int64_t runs = CountKeptFfts().runs;
  EXPECT_TRUE(HaveSameBits(RunSteps(plain, kSteps), eager));
  EXPECT_GT(CountKeptFfts().runs - runs, 20);
}

}  // namespace
}  // namespace tjit
