#include "recorder/trace_parse.h"

#include <string>

#include "gtest/gtest.h"
#include "recorder/trace_text.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

// Has all that the text can show.
PathBuilder Everything() {
  PathBuilder path;
  TensorGeometry t = WithStrides(F32({8, 4}), {1, 8}, 16);
  t.wrapped_number = true;
  t.key_set = 0x9;
  const int x = path.External(t, 1000);
  path.Op("my::op", {x, -1}, F32({2}));
  StepRecord& step = path.last();
  step.kind = StepKind::kAtCall;
  step.context = 0x1f;
  step.statics = {1, 255};
  ScalarRecord boolean, complex = BakedScalar(1), unknown, absent;
  boolean.value = {11, {1, 0}};
  complex.value.type = 10;
  complex.value.bits[1] = BakedScalar(-2).value.bits[0];
  unknown.value = {29, {15, 0}};
  absent.value.type = ~std::uint64_t{0};
  step.scalars = {BakedScalar(0.1), FreeScalar(3), boolean,
                  complex,          unknown,       absent};
  step.scalars[1].value_class = 7;
  step.scalars[1].runtime = true;
  ResultRecord undefined;
  undefined.kind = ResultRecord::Kind::kUndefined;
  step.results.push_back(undefined);
  ResultRecord empty;
  empty.kind = ResultRecord::Kind::kEmpty;
  empty.geometry = F32({2, 0});
  empty.geometry.Own().key_set = 0x3;
  step.results.push_back(empty);
  path.InPlace("aten::add_.Tensor", {x, path.External(F32({}))});
  path.last().scalars = {FreeScalar(1)};
  return path;
}

std::string Text(const PathBuilder& path) {
  return ToText(path.records(), path.slots());
}

TEST(TraceParseTest, EverythingComesBack) {
  const PathBuilder path = Everything();
  ParsedTrace parsed;
  std::string error;
  ASSERT_TRUE(ParseTrace(Text(path), &parsed, &error)) << error;
  EXPECT_EQ(ToText(parsed), Text(path));
  const StepRecord& was = *path.records()[0];
  const StepRecord& is = parsed.steps[0];
  EXPECT_EQ(is.op, was.op);
  EXPECT_EQ(is.kind, was.kind);
  EXPECT_EQ(is.context, was.context);
  EXPECT_EQ(is.statics, was.statics);
  EXPECT_TRUE(is.args[0].geometry == was.args[0].geometry);
  ASSERT_EQ(is.results.size(), was.results.size());
  for (std::size_t i = 0; i < was.results.size(); ++i) {
    EXPECT_EQ(is.results[i].kind, was.results[i].kind) << i;
    EXPECT_TRUE(is.results[i].geometry == was.results[i].geometry) << i;
  }
  for (std::size_t i = 0; i < was.scalars.size(); ++i) {
    EXPECT_TRUE(is.scalars[i].value.SameBits(was.scalars[i].value)) << i;
    EXPECT_EQ(is.scalars[i].runtime, was.scalars[i].runtime) << i;
  }
  EXPECT_EQ(parsed.slots[0].bytes, 1000u);
}

TEST(TraceParseTest, NamesComeBack) {
  const PathBuilder path = Everything();
  for (const std::string name :
       {"eq::state/a", "two words", "a\n\"b\"\\", "<b>&", ", s1 = ("}) {
    const std::vector<std::string> names = {name, "", "x"};
    const std::string text = ToText(path.records(), path.slots(), names);
    ParsedTrace parsed;
    std::string error;
    ASSERT_TRUE(ParseTrace(text, &parsed, &error)) << error << "\n" << text;
    EXPECT_EQ(parsed.names[0], name);
    EXPECT_EQ(ToText(parsed), text);
  }
}

TEST(TraceParseTest, ANameInAStepIsThatOfTheSlot) {
  ParsedTrace parsed;
  std::string error;
  const std::string slots =
      "  s0: external 4 bytes called x\n"
      "  s1: external 4 bytes\n";
  EXPECT_FALSE(
      ParseTrace(slots + "  %0 my::op(s0:y f32[])\n", &parsed, &error));
  EXPECT_EQ(error, "3:17: slot 0 is called x in its line");
  EXPECT_FALSE(ParseTrace(slots + "  %0 my::op(s0 f32[])\n", &parsed, &error));
  EXPECT_EQ(error, "3:16: slot 0 is called x in its line");
  EXPECT_FALSE(
      ParseTrace(slots + "  %0 my::op(s1:x f32[])\n", &parsed, &error));
  EXPECT_EQ(error, "3:17: slot 1 has no name in its line");
}

TEST(TraceParseTest, TheHeaderComesBack) {
  const std::string text =
      "trace 7 ops=1 slots=2 key=00ab000000000001 at_boundary\n"
      "  s0: external 4 bytes\n"
      "  s1: born %0 4 bytes\n"
      "  %0 aten::relu(s0 bf16[2] ks=8001) -> s1 bf16[2]\n";
  ParsedTrace parsed;
  std::string error;
  ASSERT_TRUE(ParseTrace(text, &parsed, &error)) << error;
  EXPECT_EQ(ToText(parsed), text);
  EXPECT_EQ(parsed.id, 7u);
  EXPECT_TRUE(parsed.starts_at_boundary);
  EXPECT_EQ(parsed.steps[0].args[0].geometry->itemsize, 2);
}

TEST(TraceParseTest, ErrorsNameLineAndColumn) {
  const auto error_of = [](const std::string& text) {
    ParsedTrace parsed;
    std::string error;
    EXPECT_FALSE(ParseTrace(text, &parsed, &error)) << text;
    return error;
  };
  EXPECT_EQ(error_of("  s0: external 4 bytes\n  s2: external 4 bytes\n"),
            "2:5: expected s1, the next one");
  EXPECT_EQ(error_of("  s0: gone 4 bytes\n"), "1:7: expected 'born %'");
  EXPECT_EQ(error_of("  %0 my::op(s0 f33[2])\n"),
            "1:16: there is no dtype 'f33'");
  EXPECT_EQ(error_of("  %0 my::op(s0 f32[2](1,1))\n"),
            "1:27: 1 sizes, 2 strides");
  EXPECT_EQ(error_of("  %0 my::op() -> s0! f32[]\n"),
            "1:27: a result that is written");
  EXPECT_EQ(error_of("hello\n"), "1:1: expected a slot or a step");
}

// Every text that is one edit away is an error or a trace; nothing crashes.
TEST(TraceParseTest, NoEditCrashes) {
  const std::string text = Text(Everything());
  ParsedTrace parsed;
  std::string error;
  int wrong = 0;
  const auto check = [&](const std::string& edited) {
    if (!ParseTrace(edited, &parsed, &error)) {
      EXPECT_NE(error.find(": "), std::string::npos);
      ++wrong;
      return;
    }
    const std::string canonical = ToText(parsed);
    ASSERT_TRUE(ParseTrace(canonical, &parsed, &error)) << canonical << error;
    EXPECT_EQ(ToText(parsed), canonical);
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    check(text.substr(0, i));
    for (int byte = 0; byte < 256; ++byte) {
      std::string edited = text;
      edited[i] = static_cast<char>(byte);
      check(edited);
    }
  }
  EXPECT_GT(wrong, 1000);
}

}  // namespace
}  // namespace tjit
