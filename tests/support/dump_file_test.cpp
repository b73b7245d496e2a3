#include "support/dump_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "support/env.h"

namespace tjit {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DumpFileTest : public testing::Test {
 protected:
  ~DumpFileTest() override {
    std::remove(path_.c_str());
    std::remove(Own().c_str());
  }
  std::string Own() const { return path_ + "." + std::to_string(getpid()); }

  const std::string path_ = testing::TempDir() + "dump_file_test.txt";
};

TEST_F(DumpFileTest, WritesItsParts) {
  DumpFile file(kDumpIr | kDumpAsm, path_);
  EXPECT_TRUE(file.Wants(kDumpIr) && file.Wants(kDumpAsm));
  EXPECT_FALSE(file.Wants(kDumpPlan));
  EXPECT_EQ(file.NextNumber(), 1);
  EXPECT_EQ(file.NextNumber(), 2);
}

TEST_F(DumpFileTest, EmptiesTheFileAtTheFirstText) {
  std::ofstream(path_) << "; ==== segment 7 plan\n";
  DumpFile file(kDumpIr, path_);
  EXPECT_EQ(ReadText(path_), "; ==== segment 7 plan\n");
  file.Write("a\n");
  file.Write("b\n");
  EXPECT_EQ(ReadText(path_), "a\nb\n");
}

TEST_F(DumpFileTest, WhatIsNoDumpStaysAsItIs) {
  std::ofstream(path_) << "import torch\n";
  DumpFile file(kDumpIr, path_);
  testing::internal::CaptureStderr();
  file.Write("; ==== segment 1 lowered\n");
  file.Write("; ==== segment 2 lowered\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tjit: TJIT_DUMP_FILE: will not replace \"" + path_ +
                "\": it is no dump of tjit, but 13 bytes that begin with "
                "\"import torch\"; name another file, or remove this one; "
                "the dump is lost\n");
  EXPECT_EQ(ReadText(path_), "import torch\n");
}

TEST_F(DumpFileTest, AnotherWriterTakesAnotherFile) {
  DumpFile first(kDumpIr, path_), second(kDumpIr, path_);
  first.Write("; ==== segment 1 plan\n");
  second.Write("; ==== segment 2 plan\n");
  EXPECT_EQ(ReadText(path_), "; ==== segment 1 plan\n");
  EXPECT_EQ(ReadText(Own()), "; ==== segment 2 plan\n");
}

TEST_F(DumpFileTest, AForkedChildAppends) {
  DumpFile file(kDumpIr, path_);
  file.Write("parent\n");
  const pid_t child = fork();
  if (child == 0) {
    file.Write("child\n");
    _exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ReadText(path_), "parent\nchild\n");
}

TEST_F(DumpFileTest, WhatCannotBeWrittenIsSaidOnce) {
  DumpFile file(kDumpIr, "/no/such/file");
  testing::internal::CaptureStderr();
  file.Write("a");
  file.Write("b");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tjit: TJIT_DUMP_FILE: cannot write \"/no/such/file\": No such "
            "file or directory; the dump is lost\n");
}

}  // namespace
}  // namespace tjit
