#include "compiler/ir/ir_text.h"

#include <string>

#include "compiler/ir/verifier.h"
#include "gtest/gtest.h"

namespace tjit::ir {
namespace {

// Has all that the text can show.
constexpr char kSample[] =
    "func sample(n0, n1) {\n"
    "  external %0: f32[n0*8+1]\n"
    "  external %1: bf16[8]\n"
    "  scalar $0: f64\n"
    "  scalar $1: i64\n"
    "  %2 = add f32[n0,8] %0[n0,8]+1, %0[n0,8](0,1), $0\n"
    "  %3 = sum f32[1,8] %2 dims=[0] keepdim\n"
    "  %4 = full bf16[8,n1](1,8) -0.5\n"
    "  %5 = mul f32[n0,8] %2, nan:7ff8000000000001\n"
    "  %6, %7 = call f32[n0], f32[n0*8+1] \"aten::x.out\" step=3 %5, "
    "!%0[n0](8), $1, true, 2, inf\n"
    "  write %0[n0,8]+1 = %5\n"
    "  write %1 = %4[8]\n"
    "  return %3, %6\n"
    "}\n";

std::string Canonical(const std::string& text) {
  Function f;
  std::string error;
  return Parse(text, &f, &error) ? Print(f) : error;
}

TEST(IrTextTest, ComesBack) { EXPECT_EQ(Canonical(kSample), kSample); }

TEST(IrTextTest, TheSampleIsSound) {
  Function f;
  std::string error;
  ASSERT_TRUE(Parse(kSample, &f, &error)) << error;
  EXPECT_TRUE(Verify(f).empty()) << Verify(f)[0];
}

TEST(IrTextTest, OtherWritingsHaveOneForm) {
  EXPECT_EQ(Canonical("; a comment\n\n func f ( n0 ) {  ; more\n"
                      "external %0 : f32 [ 8 * n0 + 0 ]( 1 )\n\n"
                      "%1 = neg f32[n0,8] %0[n0,8](8,1)+0 ; and more\n"
                      "%2 = full f32[2] 1e3\n}\n"),
            "func f(n0) {\n"
            "  external %0: f32[n0*8]\n"
            "  %1 = neg f32[n0,8] %0[n0,8]\n"
            "  %2 = full f32[2] 1000.0\n"
            "}\n");
}

TEST(IrTextTest, DoublesKeepTheirBits) {
  for (const char* number : {"0.10000000000000001", "-0.0", "inf", "-inf",
                             "nan", "4.9406564584124654e-324", "1e+22"}) {
    const std::string text =
        std::string("func f() {\n  %0 = full f64[1] ") + number + "\n}\n";
    EXPECT_EQ(Canonical(text), text);
  }
}

TEST(IrTextTest, ErrorsNameLineAndColumn) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"", "1:1: expected 'func'"},
      {"func f(n1) {\n}\n", "1:8: expected 'n0'"},
      {"func f() {\n", "2:1: expected a name"},
      {"func f() {\n}\nx", "3:1: expected the end of the text"},
      {"func f() {\n  external %1: f32[2]\n",
       "2:12: expected %0, the next one"},
      {"func f() {\n  external %0: f33[2]\n", "2:16: there is no dtype 'f33'"},
      {"func f() {\n  external %0: f32[n0]\n", "2:20: there is no symbol n0"},
      {"func f() {\n  %0 = ad f32[2] 1.0\n", "2:8: there is no op 'ad'"},
      {"func f() {\n  %0 = neg f32[2] %0\n", "2:19: %0 is not defined"},
      {"func f() {\n  %0 = full f32[2] $0\n", "2:22: there is no $0"},
      {"func f() {\n  %0 = full f32[2] 1 2\n",
       "2:22: expected the end of the line"},
      {"func f() {\n  %0 = full f32[9999999999999999999] 1\n",
       "2:17: a number that does not fit 64 bits"},
      {"func f() {\n  %0 = full f32[9223372036854775807*2] 1\n",
       "2:38: a size that is too large"},
      {"func f() {\n  call \"x step=1\n", "2:9: expected a closing '\"'"},
      {"func f() {\n  return %0\n}\n", "2:10: %0 is not defined"},
      {"func f() {\n  %0 = full f32[2] 1\n  return %0\n  %1 = neg f32[2] %0\n",
       "4:3: an instruction after a write or return"},
      {"func f() {\n  %0 = full f32[2] 1\n  external %1: f32[2]\n",
       "3:3: an external after the first instruction"},
  };
  for (const auto& c : cases) EXPECT_EQ(Canonical(c.text), c.error) << c.text;
}

// Every text that is one edit away is an error or a function that prints,
// verifies (soundly or not) and comes back.
TEST(IrTextTest, NoEditCrashes) {
  const std::string text = kSample;
  Function f;
  std::string error;
  int wrong = 0, sound = 0, unsound = 0;
  const auto check = [&](const std::string& edited) {
    if (!Parse(edited, &f, &error)) {
      EXPECT_NE(error.find(": "), std::string::npos);
      ++wrong;
      return;
    }
    ++(Verify(f).empty() ? sound : unsound);
    const std::string canonical = Print(f);
    ASSERT_EQ(Canonical(canonical), canonical) << edited;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    check(text.substr(0, i));
    check(text.substr(0, i) + text.substr(i + 1));
    for (int byte = 0; byte < 256; ++byte) {
      std::string edited = text;
      edited[i] = static_cast<char>(byte);
      check(edited);
    }
  }
  EXPECT_GT(wrong, 1000);
  EXPECT_GT(sound, 100);
  EXPECT_GT(unsound, 100);
}

}  // namespace
}  // namespace tjit::ir
