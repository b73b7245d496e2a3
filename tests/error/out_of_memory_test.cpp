// Memory that cannot be had under deferral: the program sees the error that
// eager raises, at the call or where the pending ops run, nothing that was
// computed or is pending is lost, and later ops go on.
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <tjit/tjit.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace tjit {
namespace {

constexpr std::int64_t kSide = 4096;  // a result of 64 MiB

// While it lives, no block of so many bytes (64 MiB) can be had.
class NoMemory {
 public:
  explicit NoMemory(std::int64_t side = kSide) {
    getrlimit(RLIMIT_AS, &saved_);
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = saved_;
    limit.rlim_cur = static_cast<rlim_t>(pages) * 4096 + (32 << 20);
    setrlimit(RLIMIT_AS, &limit);
    // What tjit's allocator still has.
    try {
      for (;;) taken_.push_back(at::empty({side, side}));
    } catch (const c10::Error&) {
      EXPECT_LT(taken_.size(), 16u);
    }
  }
  ~NoMemory() { setrlimit(RLIMIT_AS, &saved_); }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;

 private:
  rlimit saved_{};
  std::vector<at::Tensor> taken_;
};

// What `f` throws, without its backtrace; "" if nothing.
template <class F>
std::string ErrorOf(F&& f) {
  try {
    f();
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
  return "";
}

// One step: two small ops, a big one, small ones.
struct Program {
  at::Tensor row = at::ones({1, kSide}), column = at::ones({kSide, 1});
  at::Tensor total;

  void Small() {
    row = at::tanh(at::add(row, row, 0.5));
    column = at::add(column, column, -0.25);
  }
  at::Tensor Big() { return at::mul(row, column); }
  void Step() {
    Small();
    total = at::sum(Big());
    column = at::add(column, total, 1e-9);
    mark_step();
  }
  float Value() { return at::add(total, at::sum(column)).item<float>(); }
};

class OutOfMemoryTest : public testing::Test {
 protected:
  // Where an uninterrupted run arrives after `steps`.
  static float Eager(int steps) {
    disable();
    Program p;
    for (int i = 0; i < steps; ++i) p.Step();
    return p.Value();
  }
  void Start() {
    clear();
    Options fast;
    fast.hot_threshold = 2;
    ASSERT_TRUE(enable(fast));
    for (int i = 0; i < 12; ++i) program_.Step();
    before_ = stats();
    program_.Step();
    sync();
    ASSERT_GE((stats() - before_).ops_replayed, 5);
  }
  void TearDown() override { disable(); }

  Program program_;
  Stats before_;
};

TEST_F(OutOfMemoryTest, ADeferredOpWithoutABlockThrowsAtTheCall) {
  std::string eager_error;
  {
    Program p;
    const NoMemory none;
    eager_error = ErrorOf([&] { p.Big(); });
  }
  ASSERT_NE(eager_error, "");
  const float expected = Eager(20);
  Start();
  program_.Small();
  {
    const NoMemory none;
    EXPECT_EQ(ErrorOf([&] { program_.Big(); }), eager_error);
    EXPECT_EQ(ErrorOf([&] { program_.Big(); }), eager_error);
  }
  const Stats then = stats();
  EXPECT_GE((then - before_).side_exit_count("out_of_memory"), 1);
  // The step goes on from where it was.
  program_.total = at::sum(program_.Big());
  program_.column = at::add(program_.column, program_.total, 1e-9);
  mark_step();
  for (int i = 14; i < 20; ++i) program_.Step();
  EXPECT_EQ(program_.Value(), expected);
  EXPECT_GE((stats() - then).ops_replayed, 5);
}

// The beginning is deferred, the branch is recorded but not hot yet: its
// kernel runs at the call and throws there.
TEST_F(OutOfMemoryTest, AKernelOfABranchThatIsNotHotYet) {
  const auto other_end = [](Program* p) {
    p->Small();
    p->total = at::sum(at::add(p->row, p->column));
    p->column = at::add(p->column, p->total, 1e-9);
    mark_step();
  };
  Start();
  for (int i = 0; i < 2; ++i) other_end(&program_);
  {
    const NoMemory none;
    EXPECT_NE(ErrorOf([&] { other_end(&program_); }), "");
  }
  const Stats then = stats() - before_;
  EXPECT_EQ(then.side_exit_count("call_threw"), 1) << then.to_json();
  program_.total = at::sum(at::add(program_.row, program_.column));
  program_.column = at::add(program_.column, program_.total, 1e-9);
  const float value = program_.Value();
  disable();
  Program eager;
  for (int i = 0; i < 13; ++i) eager.Step();
  for (int i = 0; i < 3; ++i) other_end(&eager);
  EXPECT_EQ(value, eager.Value());
}

TEST_F(OutOfMemoryTest, AFirstOpWithoutABlock) {
  const float expected = Eager(14);
  Start();
  // A trace of its own, which begins with the big op.
  at::Tensor sum = at::ones({});
  for (int i = 0; i < 12; ++i) {
    sum = at::add(sum, at::sum(program_.Big()));
    mark_step();
  }
  {
    const NoMemory none;
    EXPECT_NE(ErrorOf([&] { program_.Big(); }), "");
  }
  program_.Step();
  EXPECT_EQ(program_.Value(), expected);
}

TEST_F(OutOfMemoryTest, AFlushWithoutAnArenaKeepsEverythingPending) {
  const float expected = Eager(20);
  Start();
  // The big result is dropped while it is pending: it needs memory again when
  // it is computed.
  program_.Small();
  program_.total = at::sum(program_.Big());
  {
    const NoMemory none;
    for (int i = 0; i < 2; ++i) {
      const std::string error =
          ErrorOf([&] { (void)program_.total.item<float>(); });
      EXPECT_NE(error.find("can't allocate memory"), std::string::npos)
          << error;
      EXPECT_NE(ErrorOf([] { sync(); }), "");
      EXPECT_NE(ErrorOf([] { mark_step(); }), "");
    }
  }
  const Stats then = stats();
  EXPECT_EQ((then - before_).side_exit_count("step_threw"), 0);
  program_.column = at::add(program_.column, program_.total, 1e-9);
  mark_step();
  for (int i = 14; i < 20; ++i) program_.Step();
  EXPECT_EQ(program_.Value(), expected);
  sync();
  const Stats d = stats();
  EXPECT_GE((d - then).ops_replayed, 5);
  EXPECT_EQ(d.ops_seen, d.ops_eager + d.ops_replayed + d.ops_drained);
}

TEST_F(OutOfMemoryTest, AMismatchWithoutMemoryCanBeTriedAgain) {
  const float expected = Eager(14);
  Start();
  program_.Small();
  program_.total = at::sum(program_.Big());
  at::Tensor other;
  {
    const NoMemory none;
    // Not what comes next in the trace: what is pending is drained first.
    const auto leave = [&] { other = at::tanh(program_.row); };
    EXPECT_NE(ErrorOf(leave), "");
    EXPECT_NE(ErrorOf(leave), "");
    EXPECT_FALSE(other.defined());
  }
  other = at::tanh(program_.row);
  program_.column = at::add(program_.column, program_.total, 1e-9);
  EXPECT_EQ(program_.Value(), expected);
}

// Eager throws while an op runs in TJIT_SHADOW, and what was pending before it
// cannot run either: it stays pending.
TEST_F(OutOfMemoryTest, UnderShadowAnOpThatThrowsLeavesTheOthersPending) {
  constexpr std::int64_t kMid = 3200;  // 39 MiB; eager copies may hold 64
  const at::Tensor row = at::ones({1, kMid}), column = at::ones({kMid, 1});
  at::Tensor sum;
  const auto begin = [&] { sum = at::sum(at::mul(row, column)); };
  const auto end = [&] { return at::sum(at::add(row, column)); };
  Options options;
  options.hot_threshold = 2;
  options.shadow = true;
  clear();
  ASSERT_TRUE(enable(options));
  for (int i = 0; i < 12; ++i) {
    begin();
    EXPECT_EQ(end().item<float>(), 2.0f * kMid * kMid);
    mark_step();
  }
  const Stats before = stats();
  begin();
  ASSERT_EQ((stats() - before).ops_deferred, 2);
  {
    const NoMemory none(kMid);
    const std::string error = ErrorOf([&] { end(); });
    EXPECT_NE(error.find("can't allocate memory"), std::string::npos) << error;
    EXPECT_EQ((stats() - before).ops_replayed, 0);
  }
  EXPECT_EQ(end().item<float>(), 2.0f * kMid * kMid);
  EXPECT_EQ(sum.item<float>(), 1.0f * kMid * kMid);
  sync();
  const Stats d = stats();
  EXPECT_EQ(d.ops_seen, d.ops_eager + d.ops_replayed + d.ops_drained);
  options.shadow = false;
  ASSERT_TRUE(enable(options));
}

}  // namespace
}  // namespace tjit
