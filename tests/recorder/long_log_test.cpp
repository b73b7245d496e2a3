// A log that is longer than a fresh chunk lasts: it is read from such a chunk
// on as it is from its beginning, by `tjit top` and by who makes rows of it.
#include "tools/tjit/long_log.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/instruction_log.h"
#include "recorder/instruction_log_reader.h"

namespace tjit::tools {
namespace {

constexpr std::uint64_t kTensor[] = {std::uint64_t{6} | 4 << 8 | 1 << 16, 16};
constexpr LogWords kWords{kTensor, 2};
constexpr int kOps = 12;  // of a run

// Rows of a run that is replayed, and of an op that is not.
class Writer {
 public:
  Writer(LogFile* file, std::uint32_t number, LogSource source)
      : stream_(file, number) {
    stream_.SetSource(source);
  }

  void Run() {
    for (int i = 0; i < kOps; ++i) {
      stream_.AddDeferred(InternOp("aten::mul"), kWords, kWords, ++now_ns_);
    }
    LogRecord* const row =
        Begin(LogEvent::kReplay, "Executed", "sequence=00000000000a ops=12");
    now_ns_ += 100;
    stream_.EndEvent(row, now_ns_);
    stream_.EndEvent(
        Begin(LogEvent::kDetect, "Finished", "sequence=00000000000a"), now_ns_);
    stream_.BeginOp(InternOp("aten::sum"), kWords, ++now_ns_);
    stream_.EndOp(kWords, ++now_ns_);
    ++runs_;
  }
  LogRecord* Begin(LogEvent event, const std::string& command,
                   const std::string& details) {
    const std::string both = command + " " + details;
    const std::vector<std::uint64_t> key(both.begin(), both.end());
    return stream_.BeginEvent(event, {key.data(), key.size()}, ++now_ns_, [&] {
      return LogStream::Text{command, details};
    });
  }
  void End(LogRecord* row) { stream_.EndEvent(row, ++now_ns_); }
  std::uint64_t runs() const { return runs_; }

 private:
  LogStream stream_;
  std::uint64_t now_ns_ = 0, runs_ = 0;
};

class LongLogTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRowsOfRun = kOps + 3;
  // Two fresh chunks behind the first one, and some more.
  static constexpr std::uint64_t kRuns =
      (2 * kLogFreshChunks + 20) * (kLogChunkBytes / 16) / kRowsOfRun;

  LongLogTest()
      : path_(std::filesystem::temp_directory_path() /
              ("long_log_test." + std::to_string(getpid()))) {
    file_.Open(path_, /*is_child=*/false);
  }
  ~LongLogTest() override { std::filesystem::remove(path_); }

  const std::string path_;
  LogFile file_;
  Writer main_{&file_, 0, {LogSource::Kind::kMain, 0}};
  Writer other_{&file_, 1, {LogSource::Kind::kThread, 1}};
};

TEST_F(LongLogTest, ItsEndIsReadAloneAndThenTheRest) {
  other_.Run();  // one chunk alone
  main_.End(main_.Begin(LogEvent::kDetect, "Promoted",
                        "sequence=00000000000a ops=12 executed=3 mul -> mul"));
  // It is still open when the texts of its time are forgotten.
  LogRecord* const wait = main_.Begin(LogEvent::kWait, "Waited", "for=thread");
  for (std::uint64_t i = 0; i < kRuns; ++i) main_.Run();
  LogChunks chunks;
  std::string why;
  ASSERT_EQ(chunks.Open(path_, &why), LogChunks::Opened::kYes) << why;
  EXPECT_EQ(FindEnds(chunks), (LogEnds{{0, 2 * kLogFreshChunks}, {1, 0}}));
  LongLog log(&chunks);
  log.Read();
  const LogCounts end = log.tail().counts();
  EXPECT_GT(end.runs, 5000u);
  EXPECT_LT(end.runs, kRuns / 4);
  EXPECT_EQ(end.replayed, kOps * end.runs);
  EXPECT_EQ(log.earlier().counts().rows, 0u);
  EXPECT_FALSE(log.has_all());
  EXPECT_TRUE(log.ReadEarlier());
  EXPECT_GT(log.earlier().counts().rows, 0u);
  log.ReadAllEarlier();
  EXPECT_TRUE(log.has_all());
  // What comes is at its end.
  main_.End(wait);
  main_.Run();
  chunks.Update();
  log.Read();
  EXPECT_FALSE(log.ReadEarlier());
  LogCounts all = log.tail().counts();
  EXPECT_EQ(all.runs, end.runs + 1);
  all.Add(log.earlier().counts());
  EXPECT_EQ(all.runs, main_.runs() + other_.runs());
  EXPECT_EQ(all.ops, (kOps + 1) * all.runs);
  EXPECT_EQ(all.deferred, kOps * all.runs);
  EXPECT_EQ(log.damaged(), 0u);
  SequenceCounts sequence = log.tail().sequences().at("00000000000a");
  EXPECT_EQ(sequence.what, "");
  sequence.Add(log.earlier().sequences().at("00000000000a"));
  EXPECT_EQ(sequence.what, "mul -> mul");
  EXPECT_EQ(static_cast<std::uint64_t>(sequence.won.replays()), all.runs);
  // In one piece it is the same.
  LogTail whole(&chunks);
  whole.Read();
  EXPECT_EQ(whole.counts().runs, all.runs);
  EXPECT_EQ(whole.counts().rows, all.rows);
  EXPECT_EQ(whole.counts().waits, 1u);
  EXPECT_EQ(all.waits, 1u);
  EXPECT_EQ(whole.damaged(), 0u);
}

TEST_F(LongLogTest, AllOfItAreRows) {
  for (std::uint64_t i = 0; i < kRuns; ++i) main_.Run();
  InstructionLog log;
  std::string why;
  ASSERT_EQ(log.Open(path_, &why), InstructionLog::Opened::kYes) << why;
  std::uint64_t rows = 0, wrong = 0;
  LogRow row;
  while (log.Next(/*is_live=*/false, &row)) {
    ++rows;
    const bool is_op = row.event == LogEvent::kOp;
    wrong += is_op ? row.details != "f32[16] -> f32[16]"
                   : row.details.find("sequence=00000000000a") != 0;
  }
  EXPECT_EQ(rows, kRowsOfRun * kRuns);
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(log.Damage().empty());
}

// Its results would be lost, as they belong to what was forgotten.
TEST_F(LongLogTest, NoFreshChunkBeginsWithinAnOp) {
  LogStream stream(&file_, 2);
  stream.BeginOp(InternOp("aten::sum"), kWords, 1);
  const auto make = [] { return LogStream::Text{"Waited", "for=thread"}; };
  const std::uint64_t rows =
      std::uint64_t{kLogFreshChunks + 10} * kLogChunkBytes / 16;
  for (std::uint64_t i = 0; i < rows; ++i) {
    stream.EndEvent(stream.BeginEvent(LogEvent::kWait, kWords, 2 + i, make),
                    2 + i);
  }
  stream.EndOp(kWords, rows + 9);
  stream.AddDeferred(InternOp("aten::sum"), kWords, kWords, rows + 10);
  InstructionLog log;
  std::string why;
  ASSERT_EQ(log.Open(path_, &why), InstructionLog::Opened::kYes) << why;
  std::vector<std::string> ops;
  LogRow row;
  while (log.Next(/*is_live=*/false, &row)) {
    if (row.event == LogEvent::kOp) ops.push_back(row.details);
  }
  EXPECT_EQ(ops, std::vector<std::string>(2, "f32[16] -> f32[16]"));
  LogChunks chunks;
  ASSERT_EQ(chunks.Open(path_, &why), LogChunks::Opened::kYes) << why;
  // With the op behind it.
  EXPECT_EQ(FindEnds(chunks).at(2), kLogFreshChunks + 11);
}

}  // namespace
}  // namespace tjit::tools
