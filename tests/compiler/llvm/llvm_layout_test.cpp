// Operands and results that lie in any way, over sizes that come with the run.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

// All sizes as n0, n1, on all widths, in one part and in three.
void ExpectSame(const std::string& text) {
  const Function f = Parsed(text);
  for (const int bits : {512, 256, 128}) {
    TjitLlvmOptions options = DefaultOptions();
    options.vector_bits = bits;
    const CompiledKernel kernel(f, options);
    ASSERT_EQ(kernel.error(), "") << text;
    for (const std::int64_t n0 : {0, 1, 2, 5, 16, 33}) {
      for (const std::int64_t n1 : {0, 1, 3, 8, 17, 70}) {
        for (const int parts : {1, 3}) {
          ASSERT_EQ(Compare(f, kernel, {n0, n1}, 7, {}, parts), "")
              << n0 << ", " << n1 << " in " << parts << ", " << bits
              << " bits\n"
              << text;
        }
      }
    }
  }
}

TEST(LlvmLayoutTest, Broadcasts) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n1]
  external %2: f32[n0]
  external %3: f32[1]
  %4 = add f32[n0,n1] %0[n0,n1], %1[n0,n1](0,1), 1.0
  %5 = mul f32[n0,n1] %4, %2[n0,n1](1,0)
  %6 = div f32[n0,n1] %5, %3[n0,n1](0,0)
  return %6
})");
}

// Rows whose length is part of the code: some at a time fill registers.
TEST(LlvmLayoutTest, NarrowRows) {
  for (const int row : {2, 3, 6, 7, 8, 12, 15, 16, 17}) {
    for (const char* type : {"f32", "f64", "bf16"}) {
      const std::string sizes = absl::StrCat("[n0,", row, "]");
      const std::string of = absl::StrCat(type, sizes);
      const std::string text = absl::StrCat(
          "func f(n0, n1) {\n  external %0: ", type, "[n0*", row,
          "+2]\n  external %1: ", type, "[", row, "]\n  external %2: ", type,
          "[n0+1]\n  external %3: bool[n0]\n  external %4: ", type,
          "[3]\n  %5 = add ", of, " %0", sizes, "+2, %1", sizes,
          "(0,1), 1.0\n  %6 = mul ", of, " %5, %2", sizes,
          "(1,0)+1\n  %7 = where ", of, " %3", sizes, "(1,0), %6, %4", sizes,
          "(0,0)+2\n  %8 = gt bool", sizes, " %7, %5\n  return %7, %8\n}");
      ExpectSame(text);
    }
  }
}

// More columns than a block has, for more rows than one has.
TEST(LlvmLayoutTest, ColumnsThatRepeatForManyRows) {
  const Function f = Parsed(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n1]
  %2 = add f32[n0,n1] %0[n0,n1], %1[n0,n1](0,1), 1.0
  return %2
})");
  const CompiledKernel kernel(f);
  ASSERT_EQ(kernel.error(), "");
  for (const std::int64_t rows : {1, 9, 16, 35}) {
    for (const std::int64_t columns : {4095, 4096, 10001}) {
      EXPECT_EQ(Compare(f, kernel, {rows, columns}, 7, {}, 3), "")
          << rows << ", " << columns;
    }
  }
}

TEST(LlvmLayoutTest, TransposedOperandAndResult) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n0*n1]
  %2 = sub f32[n0,n1] %0[n0,n1], %1[n0,n1](1,n0), 1.0
  %3 = neg f32[n0,n1](1,n0) %0[n0,n1]
  return %2
  return %3
})");
}

TEST(LlvmLayoutTest, PartsOfAStorage) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1*4+9]
  external %1: i64[n0*n1*3+1]
  %2 = mul f32[n0,n1] %0[n0,n1](n1*4,2)+5, %0[n0,n1](n1*4,2)+6
  %3 = neg i64[n0,n1] %1[n0,n1](n1*3,3)
  write %0[n0,n1](n1*4,2)+5 = %2
  write %1[n0,n1](n1*3,3) = %3
})");
}

// Every type through gathers, scatters, masks and rows.
TEST(LlvmLayoutTest, StridedOfEveryType) {
  for (const char* type :
       {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"}) {
    ExpectSame(absl::StrCat("func f(n0, n1) {\n  external %0: ", type,
                            "[n0*n1*2]\n  external %1: ", type,
                            "[n0*n1]\n  %2 = maximum ", type,
                            "[n0,n1] %0[n0,n1](n1*2,2), %1[n0,n1](1,n0)\n"
                            "  write %0[n0,n1](n1*2,2) = %2\n  return %2\n}"));
  }
}

TEST(LlvmLayoutTest, CastsBetweenAllTypes) {
  const char* kTypes[] = {"bool", "u8",  "i8",   "i16", "i32",
                          "i64",  "f16", "bf16", "f32", "f64"};
  for (const char* from : kTypes) {
    std::string text =
        absl::StrCat("func f(n0) {\n  external %0: ", from, "[n0]\n");
    for (int i = 0; i < 10; ++i) {
      absl::StrAppend(&text, "  %", i + 1, " = to ", kTypes[i], "[n0] %0\n");
    }
    for (int i = 0; i < 10; ++i)
      absl::StrAppend(&text, "  return %", i + 1, "\n");
    const Function f = Parsed(text + "}");
    for (const int bits : {512, 256, 128}) {
      TjitLlvmOptions options = DefaultOptions();
      options.vector_bits = bits;
      const CompiledKernel kernel(f, options);
      ASSERT_EQ(kernel.error(), "") << text;
      for (const std::int64_t n : {1, 37, 1000}) {
        ASSERT_EQ(Compare(f, kernel, {n}, 3), "") << bits << "\n" << text;
      }
    }
  }
}

// Several loops, scratch between them, updates of parts.
TEST(LlvmLayoutTest, LoopsThatReadOneAnother) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n0*n1]
  %2 = mul f32[n0,n1] %0[n0,n1], 2.0
  %3 = add f32[n1,n0] %2[n1,n0](1,n1), %1[n1,n0], 1.0
  %4 = update f32[n0*n1] %1[n1,n0], %3
  write %0[n0,n1] = %4[n0,n1]
  write %1[n0,n1] = %0[n0,n1]
})");
}

TEST(LlvmLayoutTest, NoDims) {
  const Function f = Parsed(R"(func f() {
  external %0: f32[1]
  %1 = add f32[] %0[], 1.5, 1.0
  %2 = full f64[3] 0.1
  write %0[] = %1
  return %2
})");
  EXPECT_EQ(Compare(f, CompiledKernel(f), {}, 1), "");
}

}  // namespace
}  // namespace tjit::ir
