// Hot profiles by call: what one run promoted is replayed from its second step
// on in the next, with eager's bits; a profile of something else changes
// nothing; what is wrong with a file is named.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "compiler/cache/entry.h"
#include "runtime/testing.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;

constexpr int kThreshold = 40;
constexpr int kSteps = 200;
// A step that is captured, and the one that is replayed; two of each where a
// sequence is several iterations long.
constexpr int kSoon = 20;

using Program = std::function<at::Tensor(int step)>;
using Make = std::function<Program()>;

Options With(Backend backend) {
  Options options;
  options.hot_threshold = kThreshold;
  options.backend = backend;
  options.cache_dir = "off";
  return options;
}

Program Marked() {
  at::manual_seed(1);
  const at::Tensor x = at::randn({8, 8}), w = at::randn({8, 8});
  return [=](int) {
    at::Tensor a = at::add(x, w);
    at::Tensor b = at::mul(a, at::mm(x, w));
    b.sub_(x);
    const at::Tensor y = at::mul(at::add(b, a), w);
    x.add_(y, 0.001);
    mark_step();
    return y;
  };
}

// No boundaries, and no op twice.
Program Unmarked() {
  using Unary = at::Tensor (*)(const at::Tensor&);
  static constexpr Unary kOps[] = {
      at::sin,    at::cos,   at::tanh,  at::abs,   at::neg,   at::sigmoid,
      at::relu,   at::floor, at::ceil,  at::round, at::trunc, at::erf,
      at::atan,   at::asinh, at::expm1, at::sign,  at::erfc,  at::sinh,
      at::exp,    at::cosh,  at::log1p, at::exp2,  at::sqrt,  at::rsqrt,
      at::lgamma, at::frac,  at::log,   at::log2,  at::log10, at::reciprocal};
  at::manual_seed(1);
  const at::Tensor b = at::randn({16});
  return [b, x = at::randn({16})](int) mutable {
    x = at::sub(at::mul(at::add(x, b), 0.5), b);
    for (const Unary op : kOps) x = op(x);
    x = at::nan_to_num(x);
    return x;
  };
}

// A batch of its own in each step, by slices; sizes in turn; a scalar varies.
Program Batches() {
  at::manual_seed(1);
  const at::Tensor data = at::randn({kSteps + 8, 4});
  const at::Tensor w = at::randn({4, 4});
  return [=](int i) {
    const at::Tensor x = data.slice(0, i, i + (i % 2 == 0 ? 3 : 5));
    at::Tensor y = at::relu(at::mm(x, w));
    y = at::add(y, x, 1.0 + i);
    w.mul_(0.999);
    mark_step();
    return y;
  };
}

// A scalar varies, which code that was compiled anew takes as an argument.
Program Varying() {
  at::manual_seed(1);
  const at::Tensor x = at::randn({8, 8}), w = at::randn({8, 8});
  return [=](int i) {
    const at::Tensor y = at::relu(at::add(at::mul(x, w), x, 2.0 + i % 50));
    mark_step();
    return y;
  };
}

// Begins as Marked() does.
Program Other() {
  at::manual_seed(1);
  const at::Tensor x = at::randn({8, 8}), w = at::randn({8, 8});
  return [=](int) {
    const at::Tensor a = at::add(x, w);
    const at::Tensor y = at::relu(at::mul(a, at::sub(x, w)));
    mark_step();
    return y;
  };
}

// Two programs that begin alike: with a number of its own, and with the last of
// a list, as solvers go through the times of theirs.
Program OfOneNumber() {
  return [a = at::full({}, 0.5)](int) {
    const at::Tensor u = at::mul(a, a);
    const at::Tensor y = at::mul(at::tanh(at::add(u, a)), u);
    mark_step();
    return y;
  };
}
Program OfAList() {
  return [s = at::linspace(0, 1, 41).select(0, 40)](int) {
    const at::Tensor u = at::mul(s, s);
    const at::Tensor y = at::mul(at::tanh(at::sub(u, s)), u);
    mark_step();
    return y;
  };
}

struct Outcome {
  std::vector<at::Tensor> results;
  int first_replay = kSteps;  // the first step in which ops were replayed
  Stats stats;
};

Outcome RunSteps(const Make& make) {
  Outcome out;
  const Program program = make();
  const Stats before = stats();
  for (int i = 0; i < kSteps; ++i) {
    out.results.push_back(program(i).clone());
    testing::WaitForCompiler();
    const bool replays = (stats() - before).ops_replayed > 0;
    if (replays && out.first_replay == kSteps) out.first_replay = i;
  }
  sync();
  out.stats = stats() - before;
  return out;
}

void ExpectSame(const Outcome& a, const Outcome& b) {
  for (int i = 0; i < kSteps; ++i) {
    const at::Tensor &x = a.results[i], &y = b.results[i];
    ASSERT_EQ(x.sizes(), y.sizes());
    ASSERT_EQ(std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()),
              0)
        << "step " << i;
  }
}

class HotProfileTest : public ::testing::Test {
 protected:
  HotProfileTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("tjit_profile_" + std::to_string(getpid()))),
        file_((folder_ / "a.tjitprofile").string()) {
    std::filesystem::create_directories(folder_);
  }
  ~HotProfileTest() override {
    disable();
    clear();
    std::filesystem::remove_all(folder_);
  }

  // Eager, then cold, then with the profile of the cold run.
  void ExpectSoonerWith(const Make& make, Backend backend) {
    const Outcome eager = RunSteps(make);
    ASSERT_EQ(eager.stats.ops_seen, 0);
    enable(With(backend));
    const Outcome cold = RunSteps(make);
    EXPECT_GE(cold.first_replay, kSoon);
    EXPECT_EQ(cold.stats.traces_known, 0);
    saved_ = save_profile(file_);
    EXPECT_GT(saved_, 0);
    clear();
    EXPECT_EQ(prewarm(file_), saved_);
    const Outcome warm = RunSteps(make);
    EXPECT_LT(warm.first_replay, kSoon);
    EXPECT_GT(warm.stats.traces_known, 0);
    EXPECT_GT(warm.stats.ops_replayed, cold.stats.ops_replayed);
    ExpectSame(eager, cold);
    ExpectSame(eager, warm);
  }

  std::string ErrorOfPrewarm(const std::string& file) {
    try {
      prewarm(file);
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "";
  }

  std::string Bytes() const {
    std::stringstream bytes;
    bytes << std::ifstream(file_, std::ios::binary).rdbuf();
    return bytes.str();
  }
  void Write(const std::string& bytes) const {
    std::ofstream(file_, std::ios::binary) << bytes;
  }

  const std::filesystem::path folder_;
  const std::string file_;
  std::int64_t saved_ = 0;
};

TEST_F(HotProfileTest, AMarkedLoop) {
  ExpectSoonerWith(&Marked, Backend::kReplay);
}

// The copy of a step's result is the first op of the next run.
TEST_F(HotProfileTest, AMarkedLoopIsReplayedFromItsSecondRunOn) {
  enable(With(Backend::kReplay));
  RunSteps(&Marked);
  save_profile(file_);
  clear();
  prewarm(file_);
  EXPECT_EQ(RunSteps(&Marked).first_replay, 2);
}

TEST_F(HotProfileTest, ALoopWithoutBoundaries) {
  ExpectSoonerWith(&Unmarked, Backend::kReplay);
}

TEST_F(HotProfileTest, SizesInTurnAndSlices) {
  ExpectSoonerWith(&Batches, Backend::kReplay);
}

TEST_F(HotProfileTest, SequencesThatBeginAlikeOverOtherStorages) {
  for (const bool list_first : {false, true}) {
    enable(With(Backend::kReplay));
    RunSteps(list_first ? &OfAList : &OfOneNumber);
    RunSteps(list_first ? &OfOneNumber : &OfAList);
    const std::int64_t saved = save_profile(file_);
    EXPECT_GE(saved, 2);
    clear();
    EXPECT_EQ(ErrorOfPrewarm(file_), "");
    EXPECT_EQ(prewarm(file_), saved);
    EXPECT_LT(RunSteps(&OfAList).first_replay, kSoon);
    EXPECT_LT(RunSteps(&OfOneNumber).first_replay, kSoon);
    clear();
  }
}

TEST_F(HotProfileTest, EachBackend) {
  ExpectSoonerWith(&Marked, Backend::kInterpreter);
}

TEST_F(HotProfileTest, CodeIsThereBeforeTheFirstStep) {
  for (const Make& make : {Make(&Marked), Make(&Varying)}) {
    enable(With(Backend::kInterpreter));
    const Outcome cold = RunSteps(make);
    EXPECT_GT(cold.stats.kernels_compiled, 0);
    save_profile(file_);
    clear();
    const Stats before = stats();
    prewarm(file_);
    EXPECT_GT((stats() - before).kernels_compiled, 0);
    const Outcome warm = RunSteps(make);
    EXPECT_EQ(warm.stats.kernels_compiled, 0);
    EXPECT_EQ(warm.stats.recompiles, 0);
    EXPECT_GT(warm.stats.kernels_reused, 0);
    EXPECT_GT(warm.stats.replays_tier2, cold.stats.replays_tier2);
    ExpectSame(cold, warm);
    clear();
  }
}

TEST_F(HotProfileTest, AnotherProgramsProfileChangesNothing) {
  const Outcome eager = RunSteps(&Other);
  enable(With(Backend::kReplay));
  const Outcome cold = RunSteps(&Other);
  clear();
  RunSteps(&Marked);
  save_profile(file_);
  clear();
  prewarm(file_);
  const Outcome warm = RunSteps(&Other);
  EXPECT_EQ(warm.stats.traces_known, 0);
  EXPECT_LE(warm.first_replay, cold.first_replay + 5);
  EXPECT_GT(warm.stats.ops_replayed, 0);
  ExpectSame(eager, warm);
}

TEST_F(HotProfileTest, TwoProfiles) {
  enable(With(Backend::kReplay));
  RunSteps(&Marked);
  save_profile(file_);
  clear();
  RunSteps(&Other);
  const std::string other = file_ + "2";
  save_profile(other);
  clear();
  prewarm(file_);
  prewarm(other);
  EXPECT_LT(RunSteps(&Other).first_replay, kSoon);
  EXPECT_LT(RunSteps(&Marked).first_replay, kSoon);
}

TEST_F(HotProfileTest, OtherThreads) {
  enable(With(Backend::kReplay));
  RunSteps(&Marked);
  save_profile(file_);
  clear();
  prewarm(file_);
  Outcome here, there;
  std::thread([&] { there = RunSteps(&Marked); }).join();
  EXPECT_LT(there.first_replay, kSoon);
}

TEST_F(HotProfileTest, ClearForgetsTheProfile) {
  enable(With(Backend::kReplay));
  RunSteps(&Marked);
  save_profile(file_);
  prewarm(file_);
  clear();
  const Outcome again = RunSteps(&Marked);
  EXPECT_GE(again.first_replay, kSoon);
  EXPECT_EQ(again.stats.traces_known, 0);
}

TEST_F(HotProfileTest, SwitchedOff) {
  enable(With(Backend::kReplay));
  RunSteps(&Marked);
  save_profile(file_);
  clear();
  disable();
  EXPECT_GT(prewarm(file_), 0);
  enable(With(Backend::kReplay));
  EXPECT_LT(RunSteps(&Marked).first_replay, kSoon);
}

TEST_F(HotProfileTest, NothingIsHot) {
  enable(With(Backend::kReplay));
  EXPECT_EQ(save_profile(file_), 0);
  EXPECT_EQ(prewarm(file_), 0);
}

TEST_F(HotProfileTest, WhatIsWrongWithAFileIsNamed) {
  enable(With(Backend::kReplay));
  RunSteps(&Marked);
  save_profile(file_);
  const std::string good = Bytes();
  EXPECT_THAT(ErrorOfPrewarm(file_ + "x"),
              HasSubstr("a.tjitprofilex\": there is no such file"));
  EXPECT_THAT(ErrorOfPrewarm(folder_.string()), HasSubstr("it is no file"));
  Write("");
  EXPECT_THAT(ErrorOfPrewarm(file_), HasSubstr("it is cut short"));
  Write(good.substr(0, good.size() - 1));
  EXPECT_THAT(ErrorOfPrewarm(file_), HasSubstr("it is cut short"));
  std::string changed = good;
  changed[changed.size() / 2] ^= 1;
  Write(changed);
  EXPECT_THAT(ErrorOfPrewarm(file_), HasSubstr("its checksum is wrong"));
  cache::Entry entry;
  ASSERT_EQ(cache::Decode(good, &entry), "");
  Write(cache::Encode({"tjit profile 0", entry.object}));
  EXPECT_THAT(ErrorOfPrewarm(file_), HasSubstr("another build of tjit or"));
  Write(cache::Encode({"an object", entry.object}));
  EXPECT_THAT(ErrorOfPrewarm(file_), HasSubstr("it is no profile of tjit"));
  Write(cache::Encode({entry.key, "trace 0 ops=1"}));
  EXPECT_THAT(ErrorOfPrewarm(file_), HasSubstr("1: "));
  Write(good);
  EXPECT_EQ(ErrorOfPrewarm(file_), "");
}

// A file that nobody's recorder wrote, with a right checksum: never a crash.
TEST_F(HotProfileTest, DamagedTexts) {
  const Outcome eager = RunSteps(&Marked);
  enable(With(Backend::kInterpreter));
  RunSteps(&Marked);
  save_profile(file_);
  const std::string good = Bytes();
  cache::Entry entry;
  ASSERT_EQ(cache::Decode(good, &entry), "");
  std::uint64_t random = 1;
  for (int i = 0; i < 200; ++i) {
    std::string text(entry.object);
    for (int k = 0; k < 3; ++k) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const std::size_t at = (random >> 33) % text.size();
      text[at] = static_cast<char>('0' + (random >> 20) % 10);
    }
    Write(cache::Encode({entry.key, text}));
    clear();
    ErrorOfPrewarm(file_);
  }
  ExpectSame(eager, RunSteps(&Marked));
}

TEST_F(HotProfileTest, WhereNothingCanBeWritten) {
  enable(With(Backend::kReplay));
  try {
    save_profile("/proc/tjit/a");
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what_without_backtrace(),
                HasSubstr("tjit::save_profile: cannot write \"/proc/tjit/a\": "
                          "No such file"));
  }
}

}  // namespace
}  // namespace tjit
