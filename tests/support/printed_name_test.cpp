#include "support/printed_name.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;

// What is read of a text, and what is left of it; or the error.
std::string Read(const std::string& text) {
  TextCursor cursor(text);
  std::string name;
  if (!ConsumePrintedName(&cursor, &name)) return cursor.error();
  return name + "|" + std::string(cursor.rest());
}

TEST(PrintedNameTest, AnOrdinaryNameStandsAsItIs) {
  for (const std::string name :
       {"x", "layer1.weight", "eq::state/a", "a-b_c", "0"}) {
    EXPECT_EQ(PrintedName(name), name);
    EXPECT_EQ(Read(name + "! rest"), name + "|! rest");
  }
}

TEST(PrintedNameTest, OthersAreQuotedAndComeBack) {
  EXPECT_EQ(PrintedName("two words"), "\"two words\"");
  EXPECT_EQ(PrintedName("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(PrintedName("say \"x\"\\"), "\"say \\\"x\\\"\\\\\"");
  EXPECT_EQ(PrintedName(std::string("a\0b", 3)), "\"a\\000b\"");
  for (const std::string& name :
       {std::string("two words"), std::string("a\nb\r\t"),
        std::string("\"\\\""), std::string("a\0b1", 4), std::string("\x1b[31m"),
        std::string("\x7f"), std::string("<b>&amp;</b>"),
        std::string("\xce\xb1 \xe2\x82\xac"), std::string("a = b; c, d")}) {
    EXPECT_EQ(PrintedName(name).find('\n'), std::string::npos);
    EXPECT_EQ(Read(PrintedName(name) + " rest"), name + "| rest");
  }
}

TEST(PrintedNameTest, WhatIsNoNameIsAnError) {
  EXPECT_EQ(Read(""), "1:1: expected a name");
  EXPECT_EQ(Read(", x"), "1:1: expected a name");
  EXPECT_EQ(Read("\"x"), "1:1: expected a closing '\"'");
  EXPECT_EQ(Read("\"x\\"), "1:1: expected a closing '\"'");
  EXPECT_EQ(Read("\"x\ny\""), "1:1: expected a closing '\"'");
  EXPECT_THAT(Read("\"\\q\""), HasSubstr("1:1: a quoted name: "));
}

TEST(PrintedNameTest, NamesThatAreRefusedSayWhy) {
  EXPECT_EQ(WhatIsWrongWithName("x"), "");
  EXPECT_EQ(WhatIsWrongWithName("a\n\"b\""), "");
  EXPECT_EQ(WhatIsWrongWithName(std::string(200, 'x')), "");
  EXPECT_EQ(WhatIsWrongWithName("\xce\xb1\xe2\x82\xac\xf0\x9f\x98\x80"), "");
  EXPECT_EQ(WhatIsWrongWithName(""), "is empty");
  EXPECT_EQ(WhatIsWrongWithName(std::string(201, 'x')),
            "has 201 bytes; 200 are accepted");
  for (const std::string& wrong :
       {std::string("ab\xff"), std::string("ab\xce"), std::string("ab\xc0\xaf"),
        std::string("ab\xed\xa0\x80"), std::string("ab\xf4\x90\x80\x80"),
        std::string("ab\x80")}) {
    EXPECT_EQ(WhatIsWrongWithName(wrong), "is no UTF-8 at byte 2");
  }
}

TEST(PrintedNameTest, AnIdentifierHasLettersAndDigits) {
  EXPECT_EQ(IdentifierOf("eq::state/a"), "eq__state_a");
  EXPECT_EQ(IdentifierOf("layer1.weight"), "layer1_weight");
  EXPECT_EQ(IdentifierOf("a\n\"b"), "a__b");
}

}  // namespace
}  // namespace tjit
