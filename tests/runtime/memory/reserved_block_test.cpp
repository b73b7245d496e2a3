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
class ReservedBlockTest : public ::testing::Test {
 protected:
  ReservedBlockTest() { at::manual_seed(4); }
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

TEST_F(ReservedBlockTest, AReadThatNothingAnnounces) {
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

TEST_F(ReservedBlockTest, AReadFromAnotherThread) {
  const Values v = Step();
  ExpectPending(Since());
  std::thread([&] { EXPECT_TRUE(SameBits(Unseen(v.z), want_.z)); }).join();
  EXPECT_EQ(Since().flush_count("fault"), 1);
  EXPECT_TRUE(SameBits(Unseen(v.y), want_.y));
}

// A pointer that nobody saw is taken: the program may go on using it.
TEST_F(ReservedBlockTest, AWriteThatNothingAnnounces) {
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
TEST_F(ReservedBlockTest, AnAnnouncedRead) {
  const Values v = Step();
  ExpectPending(Since());
  const float* address = Unseen(v.y);
  EXPECT_TRUE(SameBits(v.y.const_data_ptr<float>(), want_.y));
  EXPECT_EQ(v.y.const_data_ptr<float>(), address);
  EXPECT_EQ(Since().flush_count("fault"), 0);
}

TEST_F(ReservedBlockTest, TheProgramLeavesTheTrace) {
  const at::Tensor y = at::tanh(at::mul(x_, w_));
  const at::Tensor other = at::mul(y, 3);
  EXPECT_GT(Since().ops_drained, 0);
  EXPECT_TRUE(SameBits(Unseen(y), want_.y));
}

// What lived once gets memory from then on.
TEST_F(ReservedBlockTest, OneThatIsKeptFromNowOn) {
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

TEST_F(ReservedBlockTest, SystemCallsFailInsteadOfReading) {
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

TEST_F(ReservedBlockTest, AForkedChildReads) {
  const Values v = Step();
  ExpectPending(Since());
  const pid_t child = fork();
  if (child == 0) _exit(SameBits(Unseen(v.y), want_.y) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// A fault of the program's own reaches the program's handler, or kills it.
TEST_F(ReservedBlockTest, OtherFaultsArePassedOn) {
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
TEST_F(ReservedBlockTest, ASignalThatWasSentKills) {
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

// A handler of the program's from before us, in a new process: ours comes with
// the first value that has no memory.
class EarlierHandlerTest : public ReservedBlockTest {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // REQUIRES (all below): in the process that is to end.
  static void Install(void (*handler)(int, siginfo_t*, void*), int flags) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, nullptr);
  }
  // Nothing may be written below it.
  static void UseAlternateStack(std::size_t bytes) {
    auto* guard = static_cast<char*>(mmap(nullptr, kGuard + bytes, PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    stack_t stack{};
    stack.ss_sp = guard + kGuard;
    stack.ss_size = bytes;
    if (mprotect(stack.ss_sp, bytes, PROT_READ | PROT_WRITE) != 0 ||
        sigaltstack(&stack, nullptr) != 0) {
      _exit(1);
    }
  }
  // Then there is a value without memory.
  Values Defer() {
    ReservedBlockTest::SetUp();
    Values v = Step();
    if (HasFailure() || Since().ops_replayed != 0 ||
        ResidentAt(Unseen(v.y)) != 0) {
      _exit(1);
    }
    return v;
  }
  static void TouchNothing() {
    void* nothing = mmap(nullptr, kGuard, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *static_cast<volatile int*>(nothing) = 1;
  }
  static bool IsBlocked(int signal_number) {
    sigset_t now;
    sigprocmask(SIG_BLOCK, nullptr, &now);
    return sigismember(&now, signal_number) == 1;
  }

  static constexpr std::size_t kGuard = 1 << 20;
  static constexpr int kCalled = 42;
};

// Goes down until the stack ends.
int Overflow(volatile char* above) {
  volatile char frame[1 << 14];
  frame[0] = *above;
  return *above == 0 ? Overflow(frame) + frame[0] : 0;
}

TEST_F(EarlierHandlerTest, OfAStackThatOverflows) {
  EXPECT_EXIT(
      {
        UseAlternateStack(64 << 10);
        Install([](int, siginfo_t*, void*) { _exit(kCalled); }, SA_ONSTACK);
        const Values v = Defer();
        volatile char first = 0;
        Overflow(&first);
      },
      ::testing::ExitedWithCode(kCalled), "");
}

// Kernels would not fit on its stack, and it must not be called.
TEST_F(EarlierHandlerTest, OnASmallStackAndTheValueIsThere) {
  EXPECT_EXIT(
      {
        UseAlternateStack(static_cast<std::size_t>(MINSIGSTKSZ) + (12 << 10));
        Install([](int, siginfo_t*, void*) { _exit(1); }, SA_ONSTACK);
        const Values v = Defer();
        const bool same =
            SameBits(Unseen(v.y), want_.y) && SameBits(Unseen(v.z), want_.z);
        _exit(same && Since().flush_count("fault") == 1 ? 0 : 2);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(EarlierHandlerTest, IsCalledWithTheSignalsBlockedThatItWants) {
  EXPECT_EXIT(
      {
        Install(
            [](int, siginfo_t*, void*) {
              _exit(IsBlocked(SIGSEGV) && IsBlocked(SIGUSR1) ? kCalled : 1);
            },
            0);
        const Values v = Defer();
        TouchNothing();
      },
      ::testing::ExitedWithCode(kCalled), "");
  EXPECT_EXIT(
      {
        Install(
            [](int, siginfo_t*, void*) {
              _exit(!IsBlocked(SIGSEGV) && IsBlocked(SIGUSR1) ? kCalled : 1);
            },
            SA_NODEFER);
        const Values v = Defer();
        TouchNothing();
      },
      ::testing::ExitedWithCode(kCalled), "");
}

// It returns, and the access that faults again kills.
TEST_F(EarlierHandlerTest, IsCalledOnceIfItWantsThat) {
  EXPECT_EXIT(
      {
        Install([](int, siginfo_t*, void*) { (void)!write(2, "once\n", 5); },
                SA_RESETHAND);
        const Values v = Defer();
        TouchNothing();
      },
      ::testing::KilledBySignal(SIGSEGV), "^once\n$");
}

}  // namespace
}  // namespace tjit
