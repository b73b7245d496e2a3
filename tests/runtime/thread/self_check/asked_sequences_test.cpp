// Sequences that are asked for as files (TJIT_REPRO, write_sequences()): which
// of them are written, when, and with what; the program computes what it
// computes without it.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/sequence.h>
#include <tjit/tjit.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/testing.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

namespace fs = std::filesystem;
using at::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

Options Replayed() {
  Options options;
  options.hot_threshold = 3;
  options.backend = Backend::kReplay;
  options.cache_dir = "off";
  return options;
}

// A loop whose steps change what the next ones read: 4 ops, one in place.
struct Loop {
  Tensor x = at::full({4, 8}, 0.5), w = at::rand({4, 8}), last;

  void Step(bool is_other = false) {
    const Tensor y = at::mul(x, w);
    x.add_(is_other ? at::sin(y) : at::cos(y), 0.25);
    last = at::sub(x, y);
  }
  void Run(int steps, bool is_other = false) {
    for (int i = 0; i < steps; ++i) {
      Step(is_other);
      mark_step();
    }
  }
};

// The first `n` numbers of a storage.
std::vector<float> Numbers(const SequenceStorage& storage, std::size_t n) {
  std::vector<float> numbers(n);
  std::memcpy(numbers.data(), storage.content.const_data_ptr(), 4 * n);
  return numbers;
}
std::vector<float> Numbers(const Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<float>();
  return {data, data + tensor.numel()};
}

std::vector<std::string> OpsOf(const SequenceRun& run) {
  std::vector<std::string> ops;
  for (const SequenceCall& call : run.calls) ops.push_back(call.op);
  return ops;
}

// "1a2b..." of "nothing; by: sequence 1a2b..., 4 ops".
std::string NameIn(const Sequence& sequence) {
  constexpr std::string_view kBefore = ": sequence ";
  const std::size_t at = sequence.found.find(kBefore);
  return sequence.found.substr(at + kBefore.size(), 12);
}

class AskedSequencesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(::testing::TempDir()) / ("asked" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override {
    write_sequences(folder_, "");
    testing::SetReplayDelayNs(0);
    disable();
    clear();
    fs::remove_all(folder_);
  }

  // What was written since the last call, in order of names.
  std::vector<Sequence> TakeFiles() {
    std::vector<std::string> paths;
    if (fs::exists(folder_)) {
      for (const auto& file : fs::directory_iterator(folder_)) {
        paths.push_back(file.path());
      }
    }
    std::sort(paths.begin(), paths.end(), [](const auto& a, const auto& b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    std::vector<Sequence> files;
    for (const std::string& path : paths) {
      files.push_back(load_sequence(path));
      fs::remove(path);
    }
    return files;
  }

  fs::path folder_;
};

TEST_F(AskedSequencesTest, EachIsWrittenOnceWithWhatItReadBefore) {
  Loop eager, loop;
  loop.x = eager.x.clone();
  loop.w = eager.w.clone();
  eager.Run(60);
  eager.Run(60, /*is_other=*/true);

  ASSERT_TRUE(enable(Replayed()));
  const Stats before = stats();
  write_sequences(folder_, "all");
  std::vector<std::vector<float>> x_before;
  std::vector<Sequence> files;
  for (int i = 0; i < 120; ++i) {
    const std::vector<float> x = Numbers(loop.x);
    loop.Run(1, /*is_other=*/i >= 60);
    for (Sequence& file : TakeFiles()) {
      files.push_back(std::move(file));
      x_before.push_back(x);
    }
  }
  EXPECT_TRUE(SameBits(loop.x, eager.x));
  EXPECT_TRUE(SameBits(loop.last, eager.last));
  EXPECT_GT((stats() - before).ops_replayed, 4 * 90);
  EXPECT_EQ((stats() - before).shadow_samples, 0);

  ASSERT_THAT(files, SizeIs(2));
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_THAT(files[i].found,
                MatchesRegex("nothing; tjit::write_sequences: sequence "
                             "[0-9a-f]{12}, 4 ops"));
    ASSERT_THAT(files[i].runs, SizeIs(2));
    const SequenceRun& run = files[i].runs.back();
    EXPECT_THAT(
        OpsOf(run),
        ElementsAre("aten::mul.Tensor", i == 0 ? "aten::cos" : "aten::sin",
                    "aten::add_.Tensor", "aten::sub.Tensor"));
    EXPECT_EQ(Numbers(run.storages[0], 32), x_before[i]);
    EXPECT_EQ(Numbers(run.storages[1], 32), Numbers(loop.w));
    EXPECT_TRUE(run.calls[2].tensors[0].is_written);
    EXPECT_FALSE(run.storages[2].is_live);
    EXPECT_TRUE(run.storages.back().is_live);
  }
  EXPECT_NE(NameIn(files[0]), NameIn(files[1]));
}

TEST_F(AskedSequencesTest, ByTheBeginningsOfNames) {
  ASSERT_TRUE(enable(Replayed()));
  write_sequences(folder_, "all");
  Loop loop;
  loop.Run(20);
  loop.Run(20, true);
  const std::vector<Sequence> all = TakeFiles();
  ASSERT_THAT(all, SizeIs(2));
  for (const Sequence& one : all) {
    // A whole name and a beginning; they are written again, as they are asked
    // for again.
    for (const std::size_t digits : {12, 6}) {
      write_sequences(folder_, NameIn(one).substr(0, digits));
      loop.Run(20);
      loop.Run(20, true);
      const std::vector<Sequence> files = TakeFiles();
      ASSERT_THAT(files, SizeIs(1));
      EXPECT_EQ(NameIn(files[0]), NameIn(one));
      EXPECT_EQ(OpsOf(files[0].runs[0]), OpsOf(one.runs[0]));
    }
  }
  const std::string none =
      NameIn(all[0]) == "000000000000" ? "1" : "00000000000";
  write_sequences(folder_, none);
  loop.Run(20);
  EXPECT_THAT(TakeFiles(), IsEmpty());
  write_sequences(folder_, "");
  loop.Run(20);
  EXPECT_THAT(TakeFiles(), IsEmpty());
}

// The seam makes replays slow, so that the trial is lost. Until then nothing is
// written; then the run that is recorded is one more that is replayed.
TEST_F(AskedSequencesTest, SlowOnes) {
  constexpr int kBeforeTrial = 300, kMostRuns = 4000;
  Options options = Replayed();
  options.hot_threshold = 4;
  Loop eager, loop;
  loop.w = eager.w.clone();
  ASSERT_TRUE(enable(options));
  write_sequences(folder_, "slow");
  const Stats before = stats();
  testing::SetReplayDelayNs(8'000'000);  // half a second in all
  loop.Run(kBeforeTrial);
  testing::SetReplayDelayNs(100'000);
  EXPECT_THAT(TakeFiles(), IsEmpty());
  int runs = kBeforeTrial;
  std::vector<float> x;
  std::int64_t replayed = 0;
  std::vector<Sequence> files;
  for (; runs < kMostRuns && files.empty(); ++runs) {
    x = Numbers(loop.x);
    const std::int64_t then = stats().ops_replayed;
    loop.Run(1);
    replayed = stats().ops_replayed - then;
    files = TakeFiles();
  }
  EXPECT_EQ((stats() - before).traces_switched_off, 1);
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_EQ(replayed, 4);
  EXPECT_EQ(Numbers(files[0].runs.back().storages[0], 32), x);
  EXPECT_THAT(files[0].found,
              HasSubstr("4 ops, which runs eagerly, as that is faster: "));
  // It runs eagerly again, and is not written again.
  const std::int64_t then = stats().ops_replayed;
  loop.Run(50);
  EXPECT_EQ(stats().ops_replayed, then);
  EXPECT_THAT(TakeFiles(), IsEmpty());
  disable();
  eager.Run(runs + 50);
  EXPECT_TRUE(SameBits(loop.x, eager.x));
}

// The seam makes machine code slow, so that its trial is lost and it is
// switched off. The sequence is replayed by library calls from then on.
TEST_F(AskedSequencesTest, OnesOfWhichMachineCodeIsSlow) {
  const Program program = PlainLoop()();
  const auto step = [&] {
    const Tensor result = program(0).clone();
    mark_step();
    return result;
  };
  const Tensor eager = step();
  testing::SetCodeDelayNs(200'000);
  Options options = WithInterpreter();
  options.backend = Backend::kLlvm;
  ASSERT_TRUE(enable(options));
  write_sequences(folder_, "slow");
  const Stats before = stats();
  const auto is_off = [&] {
    return (stats() - before).tier2_switched_off != 0;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  int differences = 0, files_before = 0;
  while (!is_off() && std::chrono::steady_clock::now() < end) {
    differences += SameBits(step(), eager) ? 0 : 1;
    if (!is_off()) files_before += fs::exists(folder_);
  }
  testing::SetCodeDelayNs(0);
  EXPECT_EQ(files_before, 0);
  EXPECT_EQ((stats() - before).tier2_switched_off, 1);
  const Stats then = stats();
  for (int i = 0; i < 20; ++i) {
    differences += SameBits(step(), eager) ? 0 : 1;
  }
  EXPECT_EQ(differences, 0);
  EXPECT_EQ((stats() - then).ops_replayed, 20 * 7);
  const std::vector<Sequence> files = TakeFiles();
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_THAT(files[0].found, MatchesRegex(".*: sequence [0-9a-f]{12}, 7 ops"));
  // The report says how to have it, by the same name.
  EXPECT_THAT(explain(),
              HasSubstr("`tjit run --repro=" + NameIn(files[0]) + " "));
}

// A value that is read in between ends what is pending: two files.
TEST_F(AskedSequencesTest, ARunInTwoParts) {
  ASSERT_TRUE(enable(Replayed()));
  write_sequences(folder_, "all");
  const Tensor x = at::rand({8});
  float sum = 0;
  for (int i = 0; i < 40; ++i) {
    const Tensor y = at::mul(at::cos(x), 0.5);
    sum = y.sum().item<float>();
    const Tensor z = at::exp(at::add(y, x));
    mark_step();
  }
  const std::vector<Sequence> files = TakeFiles();
  ASSERT_THAT(files, SizeIs(2));
  EXPECT_EQ(NameIn(files[0]), NameIn(files[1]));
  EXPECT_THAT(files[0].found, HasSubstr(", 3 of its 6 ops, from op 0 on"));
  EXPECT_THAT(files[1].found, HasSubstr(", 2 of its 6 ops, from op 4 on"));
  EXPECT_THAT(OpsOf(files[1].runs.back()),
              ElementsAre("aten::add.Tensor", "aten::exp"));
  const SequenceRun& last = files[1].runs.back();
  EXPECT_EQ(Numbers(last.storages[0], 8), Numbers(at::mul(at::cos(x), 0.5)));
  EXPECT_GT(sum, 0);
}

// A run that ends elsewhere is no run of it; the next one that is complete is.
TEST_F(AskedSequencesTest, ARunThatIsLeftIsNone) {
  ASSERT_TRUE(enable(Replayed()));
  Loop loop;
  loop.Run(30);
  write_sequences(folder_, "all");
  const Stats before = stats();
  const Tensor y = at::mul(loop.x, loop.w);
  const Tensor left = at::tanh(at::tanh(y));
  mark_step();
  EXPECT_GT((stats() - before).ops_drained, 0);
  EXPECT_THAT(TakeFiles(), IsEmpty());
  loop.Run(10);
  EXPECT_THAT(TakeFiles(), SizeIs(1));
}

// Bits are eager's with a recorded run in the middle, of a thread that is new,
// and while the others write, too.
TEST_F(AskedSequencesTest, OnOtherThreads) {
  constexpr int kThreads = 4;
  const Tensor w = at::rand({4, 8});
  Loop eager;
  eager.w = w;
  eager.Run(200);
  ASSERT_TRUE(enable(Replayed()));
  write_sequences(folder_, "all");
  std::vector<Loop> loops(kThreads);
  std::vector<std::thread> threads;
  for (Loop& loop : loops) {
    loop.w = w;
    threads.emplace_back([&loop] { loop.Run(200); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Loop& loop : loops) EXPECT_TRUE(SameBits(loop.x, eager.x));
  EXPECT_THAT(TakeFiles(), SizeIs(1));
}

// Machine code runs in the run that is recorded, as in any other.
TEST_F(AskedSequencesTest, WithMachineCode) {
  Loop eager, loop;
  loop.w = eager.w.clone();
  eager.Run(60);
  ASSERT_TRUE(enable(MachineCodeAtOnce()));
  loop.Run(40);
  wait_until_compiled();
  write_sequences(folder_, "all");
  const Stats before = stats();
  loop.Run(1);
  EXPECT_EQ((stats() - before).replays_tier2, 1);
  EXPECT_THAT(TakeFiles(), SizeIs(1));
  loop.Run(19);
  EXPECT_TRUE(SameBits(loop.x, eager.x));
}

// A run may be compared and recorded; and what was sampled before goes on.
TEST_F(AskedSequencesTest, WhileEagerIsCompared) {
  Loop eager;
  eager.Run(60);
  for (const bool is_sample : {false, true}) {
    Loop loop;
    loop.w = eager.w;
    Options options = Replayed();
    options.shadow = !is_sample;
    options.shadow_sample = is_sample ? 2 : 0;
    ASSERT_TRUE(enable(options));
    write_sequences(folder_, "all");
    const Stats before = stats();
    loop.Run(60);
    EXPECT_TRUE(SameBits(loop.x, eager.x));
    EXPECT_EQ((stats() - before).shadow_mismatches, 0);
    EXPECT_GT((stats() - before).shadow_checks, 20);
    const std::vector<Sequence> files = TakeFiles();
    ASSERT_THAT(files, SizeIs(1));
    EXPECT_THAT(files[0].runs.back().calls, SizeIs(4));
    disable();
    clear();
  }
}

TEST_F(AskedSequencesTest, WhatIsNoListIsRefused) {
  const auto error = [](const std::string& folder, const std::string& which) {
    try {
      write_sequences(folder, which);
    } catch (const c10::Error& e) {
      return std::string(e.what_without_backtrace());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error(folder_, "fast"),
            "tjit::write_sequences: \"fast\" names no sequences, accepted is "
            "all, slow, or beginnings of names of sequences (1 to 12 of the "
            "digits 0-9 and a-f), with commas between, and \"\" for none");
  EXPECT_THAT(error("", "all"), HasSubstr("the folder is empty"));
}

}  // namespace
}  // namespace tjit
