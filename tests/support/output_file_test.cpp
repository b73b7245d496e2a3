// What may be written over: files of tjit's own and nothing else.
#include "support/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tjit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("output_file_test." + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
  }
  ~OutputFileTest() override { std::filesystem::remove_all(folder_); }

  std::string PathOf(const std::string& name) const { return folder_ / name; }
  std::string Make(const std::string& name, const std::string& bytes) const {
    std::ofstream(PathOf(name), std::ios::binary) << bytes;
    return PathOf(name);
  }

  std::filesystem::path folder_;
};

constexpr FileKind kKinds[] = {kStatsFile, kDumpFile, kLogFile, kProfileFile};

TEST_F(OutputFileTest, NothingAndAnEmptyFileAreFree) {
  for (const FileKind& kind : kKinds) {
    EXPECT_EQ(WhyNotReplaced(PathOf("none"), kind), "");
    EXPECT_EQ(WhyNotReplaced(Make("empty", ""), kind), "");
    EXPECT_EQ(WhyNotReplaced("/dev/null", kind), "");
  }
}

TEST_F(OutputFileTest, FilesOfOneKindAreReplacedByTheSameKindOnly) {
  for (const FileKind& kind : kKinds) {
    const std::string begins(kind.beginning);
    const std::string path = Make("file", begins + "and more");
    for (const FileKind& other : kKinds) {
      const std::string why = WhyNotReplaced(path, other);
      if (other.beginning == kind.beginning) {
        EXPECT_EQ(why, "");
      } else {
        EXPECT_THAT(why, HasSubstr(std::string("it is no ") + other.what +
                                   " of tjit"));
      }
    }
    // Cut short.
    EXPECT_EQ(WhyNotReplaced(Make("cut", begins.substr(0, 5)), kind), "");
  }
}

TEST_F(OutputFileTest, AUsersFileIsNamedWithWhatItIsAndWhatToDo) {
  const std::string path = Make("train.py", "import torch\nprint(1)\n");
  EXPECT_EQ(WhyNotReplaced(path, kStatsFile),
            "will not replace \"" + path +
                "\": it is no file of counters of tjit, but 22 bytes that "
                "begin with \"import torch\"; name another file, or remove "
                "this one");
  // By a link, and with bytes that no line shows.
  std::filesystem::create_symlink(path, PathOf("link"));
  EXPECT_THAT(WhyNotReplaced(PathOf("link"), kLogFile),
              HasSubstr("it is no instruction log of tjit, but 22 bytes"));
  EXPECT_THAT(WhyNotReplaced(Make("binary", "\x7f" "ELF"), kDumpFile),
              AllOf(HasSubstr("but 4 bytes; "), Not(HasSubstr("begin"))));
  // JSON that is not ours.
  EXPECT_NE(WhyNotReplaced(Make("a.json", "{\n  \"loss\": 1\n}"), kStatsFile),
            "");
}

TEST_F(OutputFileTest, StreamsAreAppendedTo) {
  EXPECT_TRUE(IsStream("/dev/stdout"));
  EXPECT_TRUE(IsStream("/dev/fd/7"));
  EXPECT_TRUE(IsStream("/proc/self/fd/1"));
  std::filesystem::create_symlink("/dev/stderr", PathOf("link"));
  EXPECT_TRUE(IsStream(PathOf("link")));
  EXPECT_FALSE(IsStream(PathOf("none")));
  EXPECT_FALSE(IsStream("/dev/null"));
}

TEST_F(OutputFileTest, WritableOrWhyNot) {
  EXPECT_EQ(WhyNotWritable(PathOf("new")), "");
  EXPECT_EQ(WhyNotWritable(Make("old", "x")), "");
  EXPECT_EQ(WhyNotWritable("/dev/null"), "");
  EXPECT_EQ(WhyNotWritable(folder_), "Is a directory");
  EXPECT_EQ(WhyNotWritable(PathOf("new/")), "Is a directory");
  EXPECT_EQ(WhyNotWritable(PathOf("none/new")), "No such file or directory");
  EXPECT_EQ(WhyNotWritable(PathOf("old/new")), "Not a directory");
  std::filesystem::create_symlink(PathOf("later"), PathOf("link"));
  EXPECT_EQ(WhyNotWritable(PathOf("link")), "");
  if (geteuid() == 0) return;  // who may write everywhere
  chmod(PathOf("old").c_str(), 0400);
  EXPECT_EQ(WhyNotWritable(PathOf("old")), "Permission denied");
}

}  // namespace
}  // namespace tjit
