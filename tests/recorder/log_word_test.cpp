#include "recorder/log_word.h"

#include <gtest/gtest.h>

#include <string>

namespace tjit {
namespace {

TEST(LogWordTest, OneWordWithoutEquals) {
  EXPECT_EQ(LogWordOf("train/step"), "train/step");
  EXPECT_EQ(LogWordOf("one step"), "one%20step");
  EXPECT_EQ(LogWordOf("a=b\n%\x7f"), "a%3db%0a%25%7f");
  EXPECT_EQ(LogWordOf("größe"), "größe");
  EXPECT_EQ(LogWordOf(""), "");
}

TEST(LogWordTest, EachByteComesBack) {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  const std::string word = LogWordOf(every);
  EXPECT_EQ(word.find_first_of(" =\n\t"), std::string::npos);
  EXPECT_EQ(TextOfLogWord(word), every);
}

TEST(LogWordTest, WhatIsNoEscapeStays) {
  for (const char* word : {"100%", "%2", "%g0", "%-1", "%", "a%zz"}) {
    EXPECT_EQ(TextOfLogWord(word), word);
  }
}

}  // namespace
}  // namespace tjit
