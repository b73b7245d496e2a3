// Files of recorded sequences (tjit/sequence.h): what is written is read, and
// what is wrong with one is said.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "tjit/sequence.h"

namespace tjit {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// y = cat({x, x}, 0) ; y.mul_(1.5) with a number, a list and None.
Sequence Example() {
  const at::Tensor content = at::arange(12, at::kFloat).view(at::kByte).clone();
  SequenceRun run;
  run.storages = {{48, content, true, false}, {96, at::Tensor(), true, false}};
  SequenceTensor x{0, at::kFloat, {3, 4}, {4, 1}};
  SequenceTensor y{1, at::kFloat, {6, 4}, {4, 1}};
  SequenceCall cat;
  cat.op = "aten::cat";
  c10::List<at::Tensor> both;
  both.push_back(at::scalar_tensor(0, at::kLong));
  both.push_back(at::scalar_tensor(1, at::kLong));
  cat.arguments = {both,          std::int64_t{0},
                   c10::IValue(), std::vector<std::int64_t>{2, 3},
                   "a word",      true};
  cat.tensors = {x, x};
  cat.results = {y};
  SequenceCall mul;
  mul.op = "aten::mul_.Scalar";
  mul.arguments = {at::scalar_tensor(0, at::kLong), 1.5};
  y.is_written = true;
  mul.tensors = {y};
  mul.has_grad_mode = true;
  run.calls = {cat, mul};
  Sequence sequence;
  sequence.found = "a line\nand \"another\"";
  sequence.threads = 3;
  sequence.runs = {run, run};
  return sequence;
}

class SequenceFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "sequence" + std::to_string(getpid()) +
            ".tjitseq";
    save_sequence(Example(), path_);
    std::ifstream file(path_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }
  void TearDown() override { std::remove(path_.c_str()); }

  void SetBytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  // What loading it says.
  std::string Error() {
    try {
      load_sequence(path_);
    } catch (const c10::Error& e) {
      EXPECT_THAT(e.what_without_backtrace(), HasSubstr(path_));
      return e.what_without_backtrace();
    }
    return "no error";
  }

  std::string path_, bytes_;
};

TEST_F(SequenceFileTest, IsReadAsItWasWritten) {
  const Sequence read = load_sequence(path_);
  EXPECT_EQ(read.torch, TORCH_VERSION);
  EXPECT_FALSE(read.tjit.empty());
  EXPECT_EQ(read.found, Example().found);
  EXPECT_EQ(read.threads, 3);
  ASSERT_EQ(read.runs.size(), 2u);
  for (const SequenceRun& run : read.runs) {
    ASSERT_EQ(run.calls.size(), 2u);
    EXPECT_EQ(run.calls[0].op, "aten::cat");
    ASSERT_EQ(run.calls[0].arguments.size(), 6u);
    const auto& arguments = run.calls[0].arguments;
    EXPECT_EQ(arguments[0].toListRef()[1].toTensor().item<int>(), 1);
    EXPECT_EQ(arguments[1].toInt(), 0);
    EXPECT_TRUE(arguments[2].isNone());
    EXPECT_EQ(arguments[3].toIntVector(), (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(arguments[4].toStringRef(), "a word");
    EXPECT_TRUE(arguments[5].toBool());
    EXPECT_EQ(run.calls[1].arguments[1].toDouble(), 1.5);
    EXPECT_TRUE(run.calls[1].has_grad_mode);
    EXPECT_TRUE(run.calls[1].tensors[0].is_written);
    EXPECT_EQ(run.calls[0].results[0].sizes, (std::vector<std::int64_t>{6, 4}));
    EXPECT_TRUE(
        run.storages[0].content.equal(Example().runs[0].storages[0].content));
    EXPECT_FALSE(run.storages[1].content.defined());
  }
}

TEST_F(SequenceFileTest, CutShortWhereverItIs) {
  const std::size_t payload = bytes_.find("\n\n") + 2;
  for (std::size_t n = 1; n < bytes_.size(); n += bytes_.size() / 60 + 1) {
    SetBytes(bytes_.substr(0, n));
    EXPECT_THAT(Error(), HasSubstr("is cut short")) << n;
  }
  SetBytes(bytes_.substr(0, bytes_.size() - 1));
  EXPECT_THAT(
      Error(),
      HasSubstr("is cut short: " + std::to_string(bytes_.size() - payload - 1) +
                " of " + std::to_string(bytes_.size() - payload) + " bytes"));
  SetBytes("");
  EXPECT_THAT(Error(), HasSubstr("is empty"));
}

TEST_F(SequenceFileTest, AByteIsAnotherOne) {
  for (std::size_t i = 0; i < bytes_.size(); i += bytes_.size() / 200 + 1) {
    std::string changed = bytes_;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    SetBytes(changed);
    EXPECT_THAT(
        Error(),
        AnyOf(HasSubstr("is damaged"), HasSubstr("is cut short"),
              HasSubstr("is no file of a sequence"), HasSubstr("has format")))
        << i;
  }
  SetBytes(bytes_ + "more");
  EXPECT_THAT(Error(), HasSubstr("is damaged: its checksum is wrong"));
}

TEST_F(SequenceFileTest, OfAnotherFormat) {
  std::string newer = bytes_;
  newer.replace(newer.find("sequence 1"), 10, "sequence 2");
  SetBytes(newer);
  EXPECT_THAT(Error(), HasSubstr("has format 2, and this tjit reads format 1"));
}

TEST_F(SequenceFileTest, OfAnotherLibtorch) {
  Sequence old = Example();
  old.torch = "2.12.1";
  save_sequence(old, path_);
  EXPECT_THAT(Error(), HasSubstr("was written with libtorch 2.12.1, and this "
                                 "is libtorch " TORCH_VERSION));
}

TEST_F(SequenceFileTest, ThatIsNone) {
  SetBytes("#!/bin/sh\necho\n");
  EXPECT_THAT(Error(), HasSubstr("is no file of a sequence; TJIT_SHADOW=1 "));
  std::remove(path_.c_str());
  EXPECT_THAT(Error(), HasSubstr("cannot be read: No such file or directory"));
  path_ = ::testing::TempDir();
  EXPECT_THAT(Error(), HasSubstr("cannot be read"));
}

// The checksum is right, and what it holds is not.
TEST_F(SequenceFileTest, WithATensorBehindItsStorage) {
  Sequence wrong = Example();
  wrong.runs[1].calls[0].tensors[1].offset = 1;
  save_sequence(wrong, path_);
  EXPECT_THAT(Error(), HasSubstr("is damaged: a tensor reaches behind its "
                                 "storage of 48 bytes"));
  wrong = Example();
  wrong.runs[0].calls[1].tensors[0].storage = 2;
  save_sequence(wrong, path_);
  EXPECT_THAT(Error(),
              HasSubstr("is damaged: there are 2 storages, and none of number "
                        "2"));
  wrong = Example();
  wrong.runs[0].calls.pop_back();
  save_sequence(wrong, path_);
  EXPECT_THAT(Error(), HasSubstr("is damaged: its runs have other calls"));
  wrong.runs.clear();
  save_sequence(wrong, path_);
  EXPECT_THAT(Error(), HasSubstr("is damaged: it has no run"));
}

TEST_F(SequenceFileTest, ThatCannotBeWritten) {
  const std::string path = path_ + "/below";
  try {
    save_sequence(Example(), path);
    FAIL() << "written";
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what_without_backtrace(),
                AllOf(HasSubstr(path), HasSubstr("cannot be written: Not a "
                                                 "directory")));
  }
}

}  // namespace
}  // namespace tjit
