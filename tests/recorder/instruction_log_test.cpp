#include "recorder/instruction_log.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recorder/instruction_log_reader.h"

namespace tjit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Words = std::vector<std::uint64_t>;

constexpr LogSource kMain{LogSource::Kind::kMain, 0};
constexpr LogSource kThread2{LogSource::Kind::kThread, 2};

LogWords View(const Words& words) { return {words.data(), words.size()}; }

// f32 with these sizes.
Words Tensor(std::initializer_list<std::uint64_t> sizes) {
  Words words{LogTensorHead(6, 4, static_cast<std::uint16_t>(sizes.size()))};
  words.insert(words.end(), sizes.begin(), sizes.end());
  return words;
}

struct Read {
  std::vector<std::string> rows;
  std::vector<std::string> damage;
  LogEnd end = LogEnd::kRunning;
  bool opened = false;
};

Read ReadAll(const std::string& path) {
  Read read;
  InstructionLog log;
  std::string why;
  read.opened = log.Open(path, &why) == InstructionLog::Opened::kYes;
  if (!read.opened) return read;
  LogRow row;
  while (log.Next(/*is_live=*/false, &row)) {
    read.rows.push_back(ToText(row, 6));
  }
  read.damage = log.Damage();
  read.end = log.end();
  return read;
}

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class InstructionLogTest : public ::testing::Test {
 protected:
  InstructionLogTest() {
    static int number = 0;
    folder_ = std::filesystem::temp_directory_path() /
              ("instruction_log_test." + std::to_string(getpid()) + "." +
               std::to_string(++number));
    std::filesystem::create_directory(folder_);
    path_ = folder_ / "log";
  }
  ~InstructionLogTest() override { std::filesystem::remove_all(folder_); }

  // An op on the stream that runs at the call.
  void Eager(LogStream* stream, std::uint64_t begin_ns,
             std::uint64_t end_ns) const {
    stream->BeginOp(mm_, View(two_), begin_ns);
    stream->EndOp(View(one_), end_ns);
  }

  const OpId mm_ = InternOp("aten::mm");
  const OpId relu_ = InternOp("aten::relu");
  const Words one_ = Tensor({2, 3});
  const Words two_ = [] {
    Words both = Tensor({2, 4});
    const Words second = Tensor({4, 3});
    both.insert(both.end(), second.begin(), second.end());
    return both;
  }();
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(InstructionLogTest, TensorsAreWrittenAsDtypeAndSizes) {
  Words words = two_;
  words.push_back(LogTensorHead(4, 8, 0));
  words.push_back(kLogUndefinedTensor);
  words.push_back(kLogOpaqueTensor);
  EXPECT_EQ(LogTensorsText(View(words)), "f32[2,4], f32[4,3], i64[], -, ?");
  EXPECT_EQ(LogTensorsBytes(View(words)), 4u * (8 + 12) + 8);
  Words many;
  for (int i = 0; i < 14; ++i) many.push_back(LogTensorHead(4, 8, 0));
  EXPECT_THAT(LogTensorsText(View(many)), HasSubstr("i64[], ... 2 more"));
  EXPECT_EQ(LogTensorsBytes(View(many)), 14u * 8);
  EXPECT_EQ(LogTensorsText({nullptr, 0}), "");
}

TEST_F(InstructionLogTest, WhatIsNoLogStaysAsItIs) {
  Write(path_, "import torch\n");
  LogFile file;
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(file.Open(path_, /*is_child=*/false));
  EXPECT_EQ(file.NewChunk({}, /*part=*/0), nullptr);
  file.Close();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tjit: TJIT_INSTRUCTION_LOG: will not replace \"" + path_ +
                "\": it is no instruction log of tjit, but 13 bytes that "
                "begin with \"import torch\"; name another file, or remove "
                "this one; this run is not logged\n");
  EXPECT_EQ(Bytes(path_), "import torch\n");
}

TEST_F(InstructionLogTest, AnOldLogIsReplaced) {
  {
    LogFile old;
    ASSERT_TRUE(old.Open(path_, /*is_child=*/false));
    LogRecord* const chunk = old.NewChunk({}, /*part=*/0);
    ASSERT_NE(chunk, nullptr);
    munmap(chunk, kLogChunkBytes);  // which keeps the lock
  }
  const std::size_t before = Bytes(path_).size();
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
  EXPECT_LT(Bytes(path_).size(), before);
  // Cut short, it is still one of ours.
  file.Abandon();
  Write(path_, Bytes(path_).substr(0, 5));
  EXPECT_TRUE(file.Open(path_, /*is_child=*/false));
}

TEST_F(InstructionLogTest, RowsComeBackInTheirPrintedForm) {
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
  LogStream stream(&file, 0);
  stream.SetSource(kMain);
  Eager(&stream, 1000, 3500);
  const Words key{1, 2};
  LogRecord* row = stream.BeginEvent(LogEvent::kCompile, View(key), 4000, [] {
    return LogStream::Text{"Starting", "sequence=abc123def456"};
  });
  stream.EndEvent(row, 4000);
  row = stream.BeginEvent(LogEvent::kReplay, View(key), 5000, [] {
    return LogStream::Text{"Executed", "sequence=abc123def456 ops=1"};
  });
  stream.AddDeferred(relu_, View(one_), View(one_), 6000);
  stream.EndEvent(row, 6500);
  stream.BeginOp(mm_, View(one_), 7000);
  stream.EndOpThrew(8000);
  stream.BeginOp(mm_, View(two_), 1500000000);  // and then it was killed
  const Read read = ReadAll(path_);
  EXPECT_THAT(
      read.rows,
      ElementsAre(
          "0.000001s | #0001 | OP | MAIN | aten::mm | 24 B | f32[2,4], "
          "f32[4,3] -> f32[2,3]",
          "0.000004s | #0001 | COMPILE | MAIN | Starting | "
          "sequence=abc123def456",
          "0.000005s | #0001 | REPLAY | MAIN | Executed | "
          "sequence=abc123def456 ops=1 time=1.5us",
          "0.000006s | #0002 | OP | MAIN | aten::relu | 24 B | f32[2,3] -> "
          "f32[2,3] (COMPILED)",
          "0.000007s | #0003 | OP | MAIN | aten::mm | 0 B | f32[2,3] (THREW)",
          "1.500000s | #0004 | OP | MAIN | aten::mm | 0 B | f32[2,4], "
          "f32[4,3] (UNFINISHED)"));
  EXPECT_THAT(read.damage, IsEmpty());
  EXPECT_EQ(read.end, LogEnd::kRunning);
  file.Close();
  EXPECT_EQ(ReadAll(path_).end, LogEnd::kClosed);
}

TEST_F(InstructionLogTest, SizesAndResultsThatDifferAreOtherRows) {
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
  LogStream stream(&file, 0);
  // The same op in growing sizes, and results that only the kernel knows.
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const Words argument = Tensor({i}), result = Tensor({10 * i});
    for (int twice = 0; twice < 2; ++twice) {
      stream.BeginOp(relu_, View(argument), i);
      stream.EndOp(View(twice == 0 ? result : argument), i);
    }
  }
  const Read read = ReadAll(path_);
  ASSERT_THAT(read.rows, SizeIs(6));
  for (int i = 1; i <= 3; ++i) {
    const std::string size = std::to_string(i);
    EXPECT_THAT(read.rows[2 * i - 2],
                HasSubstr("f32[" + size + "] -> f32[" + size + "0]"));
    EXPECT_THAT(read.rows[2 * i - 1],
                HasSubstr("f32[" + size + "] -> f32[" + size + "]"));
  }
}

// More sites than a stream keeps, over many chunks.
TEST_F(InstructionLogTest, ManySitesAndChunks) {
  constexpr std::uint64_t kOps = 80000;
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
  LogStream stream(&file, 0);
  for (std::uint64_t i = 0; i < kOps; ++i) {
    const Words tensor = Tensor({i});
    stream.BeginOp(relu_, View(tensor), i);
    stream.EndOp(View(tensor), i);
  }
  const Read read = ReadAll(path_);
  ASSERT_THAT(read.rows, SizeIs(kOps));
  for (std::uint64_t i = 0; i < kOps; i += 7777) {
    const std::string text = "f32[" + std::to_string(i) + "]";
    EXPECT_THAT(read.rows[i], HasSubstr(text + " -> " + text));
  }
  EXPECT_THAT(read.damage, IsEmpty());
}

// A row stays open while its chunk fills up.
TEST_F(InstructionLogTest, OpenRowsOutliveTheirChunk) {
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
  LogStream stream(&file, 0);
  const Words key{1};
  LogRecord* row = stream.BeginEvent(LogEvent::kReplay, View(key), 1, [] {
    return LogStream::Text{"Executed", "long"};
  });
  for (std::uint64_t i = 0; i < 10000; ++i) Eager(&stream, i + 2, i + 3);
  stream.EndEvent(row, 2001);
  const Read read = ReadAll(path_);
  ASSERT_THAT(read.rows, SizeIs(10001));
  EXPECT_THAT(read.rows[0], HasSubstr("| long time=2.0us"));
}

TEST_F(InstructionLogTest, ThreadsAreMergedByTime) {
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
  LogStream first(&file, 0), second(&file, 1);
  first.SetSource(kMain);
  second.SetSource(kThread2);
  std::thread other([&] {
    for (std::uint64_t i = 0; i < 20000; ++i) {
      second.AddDeferred(relu_, View(one_), View(one_), 20 * i + 10);
    }
  });
  for (std::uint64_t i = 0; i < 20000; ++i) Eager(&first, 20 * i, 20 * i + 1);
  other.join();
  const Read read = ReadAll(path_);
  ASSERT_THAT(read.rows, SizeIs(40000));
  for (std::size_t i = 0; i < read.rows.size(); ++i) {
    EXPECT_THAT(read.rows[i], HasSubstr(i % 2 == 0 ? "| MAIN |" : "| T2 |"));
    EXPECT_THAT(read.rows[i],
                HasSubstr("| #" + (i + 1 < 1000 ? std::string()
                                                : std::to_string(i + 1))));
  }
}

// A stream that another thread takes over names the new one.
TEST_F(InstructionLogTest, StreamsAreHandedOn) {
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
  LogStream stream(&file, 0);
  stream.SetSource(kMain);
  Eager(&stream, 1, 2);
  stream.SetSource(kThread2);
  Eager(&stream, 3, 4);
  const Read read = ReadAll(path_);
  ASSERT_THAT(read.rows, SizeIs(2));
  EXPECT_THAT(read.rows[0], HasSubstr("| MAIN | aten::mm | 24 B |"));
  EXPECT_THAT(read.rows[1], HasSubstr("| T2 | aten::mm | 24 B |"));
}

// Whatever is left of a file: its whole rows, and that something is missing.
TEST_F(InstructionLogTest, CutAtEveryByte) {
  {
    LogFile file;
    ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
    LogStream stream(&file, 0);
    for (std::uint64_t i = 0; i < 5; ++i) Eager(&stream, 10 * i, 10 * i + 5);
    stream.AddDeferred(relu_, View(one_), View(one_), 60);
    file.Close();
  }
  const std::string bytes = Bytes(path_);
  const Read whole = ReadAll(path_);
  ASSERT_THAT(whole.rows, SizeIs(6));
  ASSERT_THAT(whole.damage, IsEmpty());
  const std::size_t used = bytes.find_last_not_of('\0') + 1;
  std::vector<std::size_t> cuts;
  for (std::size_t n = 0; n < 64; ++n) cuts.push_back(n);
  for (std::size_t n = kLogPageBytes - 20; n < used + 40; ++n) {
    cuts.push_back(n);
  }
  std::size_t most = 0;
  const std::string cut = folder_ / "cut";
  for (const std::size_t n : cuts) {
    SCOPED_TRACE(n);
    Write(cut, bytes.substr(0, n));
    const Read read = ReadAll(cut);
    EXPECT_EQ(read.opened, n != 0);
    if (n == 0) continue;
    EXPECT_THAT(read.damage, SizeIs(::testing::Ge(1u)));
    EXPECT_THAT(read.damage[0], HasSubstr("cut short"));
    ASSERT_LE(read.rows.size(), whole.rows.size());
    most = std::max(most, read.rows.size());
    for (std::size_t i = 0; i < read.rows.size(); ++i) {
      // The text of the results may be cut off behind the row.
      EXPECT_THAT(read.rows[i],
                  ::testing::AnyOf(whole.rows[i], HasSubstr("| ? |")));
    }
  }
  EXPECT_EQ(most, whole.rows.size());
}

// Nonsense in the file is left out and said; it never leads out of the file.
TEST_F(InstructionLogTest, DamagedBytes) {
  {
    LogFile file;
    ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
    LogStream stream(&file, 0);
    for (std::uint64_t i = 0; i < 5; ++i) Eager(&stream, 10 * i, 10 * i + 5);
    file.Close();
  }
  const std::string bytes = Bytes(path_);
  const std::size_t used = bytes.find_last_not_of('\0') + 1;
  const auto damage_with = [&](std::size_t n, char value) {
    std::string damaged = bytes;
    damaged[n] = value;
    Write(path_, damaged);
    return ReadAll(path_).damage;
  };
  for (std::size_t n = sizeof(kLogMagic); n < used; ++n) {
    if (n == 64) n = kLogPageBytes;
    for (const char value : {'\xff', '\0', '\x7f'}) {
      damage_with(n, value);
    }
  }
  // The magic word, the number of the chunk, the kind of the first record.
  for (const std::size_t n : {0, 8, 24}) {
    EXPECT_THAT(damage_with(kLogPageBytes + n, '\xff'), SizeIs(1)) << n;
  }
}

TEST_F(InstructionLogTest, OtherFilesAreNoLogs) {
  const auto why_not = [](const std::string& path) {
    InstructionLog log;
    std::string why;
    EXPECT_NE(log.Open(path, &why), InstructionLog::Opened::kYes) << path;
    return why;
  };
  EXPECT_EQ(why_not(folder_ / "none"), "No such file or directory");
  EXPECT_EQ(why_not(folder_), "it is a folder");
  EXPECT_EQ(why_not("/dev/null"), "it is no instruction log of tjit");
  Write(path_, "");
  EXPECT_EQ(why_not(path_), "it is empty");
  Write(path_, "time,op\n0,mm\n");
  EXPECT_EQ(why_not(path_), "it is no instruction log of tjit");
  LogFileHeader header{};
  std::copy(std::begin(kLogMagic), std::end(kLogMagic), header.magic);
  header.version = 9;
  Write(path_, {reinterpret_cast<const char*>(&header), sizeof(header)});
  EXPECT_EQ(why_not(path_),
            "it is of version 9, this tjit reads versions 1 to 2");
}

TEST_F(InstructionLogTest, PathsThatCannotBeWrittenAreSaidOnce) {
  for (const auto& [path, why] :
       std::vector<std::pair<std::string, std::string>>{
           {folder_ / "none" / "log", "No such file or directory"},
           {folder_, "Is a directory"},
           {"/dev/full", "not a regular file"}}) {
    ::testing::internal::CaptureStderr();
    LogFile file;
    EXPECT_FALSE(file.Open(path, /*is_child=*/false));
    LogStream stream(&file, 0);
    for (std::uint64_t i = 0; i < 10; ++i) Eager(&stream, i, i);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "tjit: TJIT_INSTRUCTION_LOG: cannot write \"" + path +
                  "\": " + why + "; this run is not logged\n");
  }
}

// The limit on file sizes stands for a disk that gets full.
TEST_F(InstructionLogTest, NoMoreSpaceEndsTheLogWithOneLine) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = kLogPageBytes + 2 * kLogChunkBytes;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  ::testing::internal::CaptureStderr();
  LogFile file;
  EXPECT_TRUE(file.Open(path_, /*is_child=*/false));
  LogStream first(&file, 0), second(&file, 1);
  for (std::uint64_t i = 0; i < 50000; ++i) Eager(&first, i, i);
  for (std::uint64_t i = 0; i < 10; ++i) Eager(&second, i, i);
  file.Close();
  const std::string said = ::testing::internal::GetCapturedStderr();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(said, "tjit: TJIT_INSTRUCTION_LOG: cannot write \"" + path_ +
                      "\": File too large; the log ends here, the program "
                      "goes on\n");
  const Read read = ReadAll(path_);
  EXPECT_EQ(read.end, LogEnd::kNoSpace);
  EXPECT_THAT(read.damage, IsEmpty());
  EXPECT_GT(read.rows.size(), 8000u);
  EXPECT_LT(read.rows.size(), 8192u);
}

constexpr std::uint32_t kFewChunks = 4;

// The time of a row in ns, of "0.000123s | ...".
std::uint64_t TimeOf(const std::string& row) {
  return static_cast<std::uint64_t>(std::llround(1e9 * std::stod(row)));
}

// A row a microsecond, which a text has.
constexpr std::uint64_t kTickNs = 1000;

TEST_F(InstructionLogTest, ABoundedLogKeepsWhatCameLast) {
  constexpr std::uint64_t kRows = 100000;
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false, kFewChunks));
  LogStream stream(&file, 0);
  for (std::uint64_t i = 0; i < kRows; ++i) {
    Eager(&stream, i * kTickNs, i * kTickNs);
  }
  file.Close();
  const Read old = ReadAll(path_ + kOldPart), now = ReadAll(path_);
  EXPECT_EQ(old.end, LogEnd::kContinued);
  EXPECT_EQ(now.end, LogEnd::kClosed);
  EXPECT_THAT(old.damage, IsEmpty());
  EXPECT_THAT(now.damage, IsEmpty());
  std::vector<std::string> rows = old.rows;
  rows.insert(rows.end(), now.rows.begin(), now.rows.end());
  ASSERT_GT(rows.size(), kFewChunks * 4000);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(TimeOf(rows[i]), (kRows - rows.size() + i) * kTickNs) << rows[i];
    EXPECT_THAT(rows[i], HasSubstr("aten::mm | 24 B | f32[2,4], f32[4,3] -> "
                                   "f32[2,3]"));
  }
  EXPECT_LE(std::filesystem::file_size(path_ + kOldPart),
            kLogPageBytes + (kFewChunks + 1) * kLogChunkBytes);
}

// An op that is open stays in its part, which may be gone when it is done.
TEST_F(InstructionLogTest, AnOpenOpOutlivesItsPart) {
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false, kFewChunks));
  LogStream slow(&file, 0), quick(&file, 1);
  std::uint64_t now = 0;
  const auto go_on = [&](std::uint32_t parts) {
    const std::uint32_t until = file.part() + parts;
    while (file.part() < until) {
      ++now;
      Eager(&quick, now * kTickNs, now * kTickNs);
    }
  };
  slow.BeginOp(relu_, View(one_), ++now * kTickNs);
  const std::uint64_t began = now;
  go_on(1);
  slow.EndOp(View(one_), ++now * kTickNs);
  const Read old = ReadAll(path_ + kOldPart);
  EXPECT_THAT(old.damage, IsEmpty());
  EXPECT_THAT(old.rows, ::testing::Contains(HasSubstr("aten::relu")));
  EXPECT_EQ(TimeOf(old.rows[0]), began * kTickNs);
  slow.BeginOp(relu_, View(one_), ++now * kTickNs);
  go_on(2);
  slow.EndOp(View(one_), ++now * kTickNs);
  ++now;
  Eager(&slow, now * kTickNs, now * kTickNs);
  file.Close();
  const Read last = ReadAll(path_);
  EXPECT_THAT(last.damage, IsEmpty());
  EXPECT_THAT(last.rows, Not(::testing::Contains(HasSubstr("aten::relu"))));
  EXPECT_EQ(TimeOf(last.rows.back()), now * kTickNs);
}

// Each row is whole and in one part, whoever begins the next.
TEST_F(InstructionLogTest, ThreadsShareABoundedLog) {
  constexpr std::uint64_t kRows = 60000;
  constexpr int kThreads = 3;
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false, kFewChunks));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      LogStream stream(&file, static_cast<std::uint32_t>(t));
      stream.SetSource(
          {LogSource::Kind::kThread, static_cast<std::uint16_t>(t)});
      for (std::uint64_t i = 0; i < kRows; ++i) {
        // Texts that are new now and then.
        stream.BeginOp(mm_, View(Tensor({1 + i % 300, 2})), i * kTickNs);
        stream.EndOp(View(Tensor({1 + i % 300, 3})), i * kTickNs);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  file.Close();
  EXPECT_GT(file.part(), 5u);
  std::vector<std::vector<std::uint64_t>> seen(kThreads);
  for (const std::string& part : {path_ + kOldPart, path_}) {
    const Read read = ReadAll(part);
    EXPECT_THAT(read.damage, IsEmpty()) << part;
    for (const std::string& row : read.rows) {
      const std::uint64_t i = TimeOf(row) / kTickNs;
      const std::string size = std::to_string(1 + i % 300);
      EXPECT_THAT(row, HasSubstr("| f32[" + size + ",2]"));
      seen[row[row.find("| T") + 3] - '0'].push_back(i);
    }
  }
  // A thread's rows are all there from some row on.
  for (const auto& rows : seen) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(rows[i], kRows - rows.size() + i);
    }
  }
}

TEST_F(InstructionLogTest, AnotherFileInTheWayOfPartsIsLeftAlone) {
  Write(path_ + kOldPart, "import torch\n");
  ::testing::internal::CaptureStderr();
  LogFile file;
  EXPECT_FALSE(file.Open(path_, /*is_child=*/false, kFewChunks));
  LogStream stream(&file, 0);
  for (std::uint64_t i = 0; i < 50000; ++i) Eager(&stream, i, i);
  file.Close();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tjit: TJIT_INSTRUCTION_LOG: will not replace \"" + path_ +
                ".old\": it is no instruction log of tjit, but 13 bytes that "
                "begin with \"import torch\"; name another file, or remove "
                "this one; this run is not logged\n");
  EXPECT_EQ(Bytes(path_ + kOldPart), "import torch\n");
}

// The file of that name is another program's by now.
TEST_F(InstructionLogTest, AFileThatWasReplacedIsLeftAlone) {
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false, kFewChunks));
  LogStream stream(&file, 0);
  Eager(&stream, 0, 0);
  std::filesystem::remove(path_);
  Write(path_, "another one\n");
  ::testing::internal::CaptureStderr();
  for (std::uint64_t i = 0; i < 50000; ++i) Eager(&stream, i, i);
  file.Close();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tjit: TJIT_INSTRUCTION_LOG: \"" + path_ +
                "\" is another file by now; the log ends here, the program "
                "goes on\n");
  EXPECT_EQ(Bytes(path_), "another one\n");
  EXPECT_FALSE(std::filesystem::exists(path_ + kOldPart));
}

TEST_F(InstructionLogTest, PartsLieWhereALinkLeads) {
  std::filesystem::create_directory(folder_ / "disk");
  const std::string target = folder_ / "disk" / "log";
  std::filesystem::create_symlink(target, path_);
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false, kFewChunks));
  LogStream stream(&file, 0);
  for (std::uint64_t i = 0; i < 50000; ++i) Eager(&stream, i, i);
  file.Close();
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(ReadAll(target + kOldPart).end, LogEnd::kContinued);
  EXPECT_EQ(ReadAll(path_).end, LogEnd::kClosed);
  EXPECT_FALSE(std::filesystem::exists(path_ + kOldPart));
}

// Nobody empties a file that another process has mapped.
TEST_F(InstructionLogTest, ASecondWriterHasAFileOfItsOwn) {
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
  LogStream stream(&file, 0);
  Eager(&stream, 1, 2);
  LogFile second, child;
  ASSERT_TRUE(second.Open(path_, /*is_child=*/false));
  EXPECT_THAT(ReadAll(path_).rows, SizeIs(1));
  EXPECT_TRUE(std::filesystem::exists(path_ + "." + std::to_string(getpid())));
}

// What a killed process wrote is there without any flush.
TEST_F(InstructionLogTest, SurvivesAKill) {
  const pid_t child = fork();
  if (child == 0) {
    LogFile file;
    file.Open(path_, /*is_child=*/false);
    LogStream stream(&file, 0);
    for (std::uint64_t i = 0; i < 10000; ++i) Eager(&stream, i, i);
    stream.BeginOp(relu_, View(one_), 10000);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Read read = ReadAll(path_);
  ASSERT_THAT(read.rows, SizeIs(10001));
  EXPECT_THAT(read.rows.back(), HasSubstr("aten::relu | 0 B | f32[2,3] "
                                          "(UNFINISHED)"));
  InstructionLog log;
  std::string why;
  ASSERT_EQ(log.Open(path_, &why), InstructionLog::Opened::kYes);
  EXPECT_TRUE(log.HasEnded());
}

TEST_F(InstructionLogTest, FollowsWhatIsWritten) {
  LogFile file;
  ASSERT_TRUE(file.Open(path_, /*is_child=*/false));
  LogStream stream(&file, 0);
  InstructionLog log;
  std::string why;
  ASSERT_EQ(log.Open(path_, &why), InstructionLog::Opened::kYes);
  LogRow row;
  std::uint64_t rows = 0, time_ns = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 300; ++i, ++time_ns) Eager(&stream, time_ns, time_ns);
    // Not before it is finished.
    stream.BeginOp(relu_, View(one_), time_ns);
    log.Update();
    while (log.Next(/*is_live=*/true, &row)) {
      EXPECT_EQ(row.number, ++rows);
      EXPECT_FALSE(row.is_open);
      EXPECT_EQ(row.bytes, 24u);
    }
    EXPECT_EQ(rows, 301u * round + 300);
    EXPECT_FALSE(log.HasEnded());
    stream.EndOp(View(one_), time_ns);
  }
  file.Close();
  log.Update();
  EXPECT_TRUE(log.HasEnded());
  while (log.Next(/*is_live=*/false, &row)) ++rows;
  EXPECT_EQ(rows, 301u * 50);
  EXPECT_THAT(log.Damage(), IsEmpty());
}

}  // namespace
}  // namespace tjit
