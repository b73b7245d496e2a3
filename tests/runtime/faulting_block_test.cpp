// Deferred values that died in every run so far have an address and no
// memory. Touched in a way that nothing announces they have eager's bits all
// the same, on any thread, and cost nothing if they die again.
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tjit/tjit.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace tjit {
namespace {

// Without a hook or an interposed function: inline in libtorch's headers.
const float* Unseen(const at::Tensor& t) {
  return static_cast<const float*>(t.const_data_ptr());
}

bool SameBits(const float* a, const at::Tensor& b) {
  return std::memcmp(a, b.const_data_ptr<float>(), b.nbytes()) == 0;
}

// Kilobytes in memory in the mapping that `address` lies in; -1: there is none.
std::int64_t ResidentAt(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = at >= begin && at < end;
    }
    std::int64_t kilobytes = 0;
    if (inside && std::sscanf(line.c_str(), "Rss: %ld", &kilobytes) == 1) {
      return kilobytes;
    }
  }
  return -1;
}

// 256 KiB values; `y` and `z` die before the step ends.
class FaultingBlockTest : public ::testing::Test {
 protected:
  FaultingBlockTest() { at::manual_seed(4); }
  struct Values {
    at::Tensor y, z, sum;
  };
  Values Step() const {
    Values v;
    v.y = at::tanh(at::mul(x_, w_));
    v.z = at::add(v.y, x_, 0.5);
    v.sum = at::sum(v.z);
    return v;
  }
  void SetUp() override {
    x_ = at::randn({256, 256});
    w_ = at::randn({256});
    want_ = Step();
    Options fast;
    fast.hot_threshold = 2;
    ASSERT_TRUE(enable(fast));
    for (int i = 0; i < 20; ++i) {
      const at::Tensor sum = Step().sum;
      (void)sum.item<float>();
    }
    before_ = stats();
  }
  void TearDown() override {
    disable();
    clear();
  }
  Stats Since() const { return stats() - before_; }
  static void ExpectPending(const Stats& s) {
    EXPECT_EQ(s.ops_deferred, 4);
    EXPECT_EQ(s.ops_replayed + s.ops_drained, 0);
  }

  at::Tensor x_, w_;
  Values want_;
  Stats before_;
};

TEST_F(FaultingBlockTest, AReadThatNothingAnnounces) {
  const Values v = Step();
  ExpectPending(Since());
  const float* y = Unseen(v.y);
  EXPECT_EQ(ResidentAt(y), 0);  // an address, and no memory
  EXPECT_EQ(y[70], want_.y.const_data_ptr<float>()[70]);
  EXPECT_EQ(Since().flush_count("fault"), 1);
  EXPECT_EQ(Since().ops_replayed, 4);
  EXPECT_TRUE(SameBits(Unseen(v.y), want_.y));
  EXPECT_TRUE(SameBits(Unseen(v.z), want_.z));
  EXPECT_EQ(v.sum.item<float>(), want_.sum.item<float>());
}

TEST_F(FaultingBlockTest, AReadFromAnotherThread) {
  const Values v = Step();
  ExpectPending(Since());
  std::thread([&] { EXPECT_TRUE(SameBits(Unseen(v.z), want_.z)); }).join();
  EXPECT_EQ(Since().flush_count("fault"), 1);
  EXPECT_TRUE(SameBits(Unseen(v.y), want_.y));
}

// A pointer that nobody saw is taken: the program may go on using it.
TEST_F(FaultingBlockTest, AWriteThatNothingAnnounces) {
  const Values v = Step();
  ExpectPending(Since());
  const_cast<float*>(Unseen(v.y))[0] = 42;
  const at::Tensor later = at::mul(v.y, 2);
  const_cast<float*>(Unseen(v.y))[1] = 43;
  EXPECT_EQ(later.const_data_ptr<float>()[0], 84);
  EXPECT_EQ(later.const_data_ptr<float>()[1],
            2 * want_.y.const_data_ptr<float>()[1]);
}

// Announced reads need no fault, and an address stays what it was.
TEST_F(FaultingBlockTest, AnAnnouncedRead) {
  const Values v = Step();
  ExpectPending(Since());
  const float* address = Unseen(v.y);
  EXPECT_TRUE(SameBits(v.y.const_data_ptr<float>(), want_.y));
  EXPECT_EQ(v.y.const_data_ptr<float>(), address);
  EXPECT_EQ(Since().flush_count("fault"), 0);
}

TEST_F(FaultingBlockTest, TheProgramLeavesTheTrace) {
  const at::Tensor y = at::tanh(at::mul(x_, w_));
  const at::Tensor other = at::mul(y, 3);
  EXPECT_GT(Since().ops_drained, 0);
  EXPECT_TRUE(SameBits(Unseen(y), want_.y));
}

// What lived once gets memory from then on.
TEST_F(FaultingBlockTest, OneThatIsKeptFromNowOn) {
  std::vector<Values> kept;
  for (int i = 0; i < 10; ++i) {
    kept.push_back(Step());
    (void)kept.back().sum.item<float>();
  }
  EXPECT_EQ(Since().flush_count("fault"), 0);
  EXPECT_EQ(Since().ops_replayed, 40);
  for (const Values& v : kept) {
    EXPECT_TRUE(SameBits(Unseen(v.y), want_.y));
    EXPECT_TRUE(SameBits(Unseen(v.z), want_.z));
  }
  const std::int64_t peak = stats().memory_peak_bytes;
  kept.clear();
  for (int i = 0; i < 100; ++i) (void)Step().sum.item<float>();
  EXPECT_LE(stats().memory_peak_bytes, peak + (1 << 20));
}

TEST_F(FaultingBlockTest, SystemCallsFailInsteadOfReading) {
  const Values v = Step();
  ExpectPending(Since());
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_EQ(write(pipes[1], Unseen(v.y), 64), -1);
  EXPECT_EQ(errno, EFAULT);
  sync();
  EXPECT_EQ(write(pipes[1], Unseen(v.y), 64), 64);
  close(pipes[0]);
  close(pipes[1]);
}

TEST_F(FaultingBlockTest, AForkedChildReads) {
  const Values v = Step();
  ExpectPending(Since());
  const pid_t child = fork();
  if (child == 0) _exit(SameBits(Unseen(v.y), want_.y) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// A fault of the program's own reaches the program's handler, or kills it.
TEST_F(FaultingBlockTest, OtherFaultsArePassedOn) {
  (void)Step();
  EXPECT_EXIT(
      {
        void* nothing = mmap(nullptr, 4096, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *static_cast<volatile int*>(nothing) = 1;
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

// The signal that somebody sends has no access behind it that faults again.
TEST_F(FaultingBlockTest, ASignalThatWasSentKills) {
  (void)Step();
  const auto ends = [](auto send) {
    send();
    _exit(0);
  };
  EXPECT_EXIT(ends([] { raise(SIGSEGV); }),
              ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(ends([] { kill(getpid(), SIGSEGV); }),
              ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace tjit
