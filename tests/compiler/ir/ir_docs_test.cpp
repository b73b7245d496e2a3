// docs/ir.md says what ops.def says; with TJIT_BLESS=1 the test writes it.
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/op.h"
#include "gtest/gtest.h"
#include "support/env.h"

namespace tjit::ir {
namespace {

constexpr char kBegin[] =
    "<!-- written by tests/compiler/ir/ir_docs_test.cpp -->\n";

std::string Tables() {
  std::string text =
      "\n## Element types\n\n| name | bytes | computed in |\n|---|---|---|\n";
  const char* const compute[] = {"int64", "float", "double"};
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeInfo& info = InfoOf(static_cast<DType>(i));
    absl::StrAppend(&text, "| ", info.name, " | ", int{info.bytes}, " | ",
                    compute[static_cast<int>(info.compute)], " |\n");
  }
  const char* family = "";
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& info = InfoOf(static_cast<Op>(i));
    if (std::strcmp(family, Name(info.family)) != 0) {
      family = Name(info.family);
      absl::StrAppend(&text, "\n## Ops: ", family,
                      "\n\n| op | operands | for | result | shape | computes "
                      "|\n|---|---|---|---|---|---|\n");
    }
    absl::StrAppend(
        &text, "| ", info.name, " | ", info.operands, " | ", Name(info.dtypes),
        " | ", Name(info.type_rule), " | ", Name(info.shape_rule), " | ",
        absl::StrReplaceAll(info.doc, {{"|", "\\|"}, {"*", "\\*"}}), " |\n");
  }
  return text;
}

TEST(IrDocsTest, TheTablesAreThoseOfOpsDef) {
  std::ifstream file(TJIT_IR_DOCUMENT);
  std::string document{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = document.find(kBegin);
  ASSERT_NE(begin, std::string::npos) << "no mark in " << TJIT_IR_DOCUMENT;
  const std::size_t from = begin + std::strlen(kBegin);
  if (Environment().bless) {
    document.replace(from, std::string::npos, Tables());
    std::ofstream(TJIT_IR_DOCUMENT) << document;
    return;
  }
  EXPECT_EQ(document.substr(from), Tables())
      << "run this test with TJIT_BLESS=1, and read what changed";
}

TEST(IrDocsTest, NamesLeadBackToOps) {
  for (int i = 0; i < kOpCount; ++i) {
    Op back = Op::kCount;
    EXPECT_TRUE(OpByName(InfoOf(static_cast<Op>(i)).name, &back));
    EXPECT_EQ(static_cast<int>(back), i);
    EXPECT_LE(std::strlen(InfoOf(back).operands), 5u);
  }
  Op none;
  EXPECT_FALSE(OpByName("ad", &none));
}

}  // namespace
}  // namespace tjit::ir
