#include "recorder/trace_text.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

std::string Text(const PathBuilder& path) {
  return ToText(path.records(), path.slots());
}

TEST(TraceTextTest, PathReadsAsAProgram) {
  PathBuilder path;
  const int x = path.External(F32({32, 8}));
  const int w = path.External(F32({8, 4}));
  const int h = path.Op("aten::mm", {x, w}, F32({32, 4}));
  path.InPlace("aten::add_.Tensor", {h, path.External(F32({}))});
  path.last().scalars = {FreeScalar(1)};
  path.Op("aten::sum.dim_IntList", {h}, F32({4}));
  path.last().statics = {1, 255};
  EXPECT_EQ(Text(path),
            "  s0: external 1024 bytes\n"
            "  s1: external 128 bytes\n"
            "  s2: born %0 512 bytes\n"
            "  s3: external 4 bytes\n"
            "  s4: born %2 16 bytes\n"
            "  %0 aten::mm(s0 f32[32,8] ks=8001, s1 f32[8,4]) -> s2 f32[32,4]\n"
            "  %1 aten::add_.Tensor(s2! f32[32,4], s3 f32[]) {d:1~#0} "
            "-> arg 0\n"
            "  %2 aten::sum.dim_IntList(s2 f32[32,4]) <1,ff> -> s4 f32[4]\n");
}

TEST(TraceTextTest, SlotsThatWereNamedSaySo) {
  PathBuilder path;
  const int x = path.External(F32({2}));
  const int w = path.External(F32({2}));
  const int y = path.Op("aten::mul.Tensor", {x, w}, F32({2}));
  path.InPlace("aten::relu_", {y});
  EXPECT_EQ(
      ToText(path.records(), path.slots(), {"", "layer1.weight", "the sum"}),
      "  s0: external 8 bytes\n"
      "  s1: external 8 bytes called layer1.weight\n"
      "  s2: born %0 8 bytes called \"the sum\"\n"
      "  %0 aten::mul.Tensor(s0 f32[2] ks=8001, s1:layer1.weight f32[2]) "
      "-> s2:\"the sum\" f32[2]\n"
      "  %1 aten::relu_(s2:\"the sum\"! f32[2]) -> arg 0\n");
}

TEST(TraceTextTest, WhatIsNotOrdinaryIsShown) {
  PathBuilder path;
  TensorGeometry t = WithStrides(F32({8, 4}), {1, 8}, 16);
  t.wrapped_number = true;
  t.key_set = 0x9;
  const int x = path.External(t, 1000);
  path.Op("my::op", {x, -1}, F32({2}));
  StepRecord& step = path.last();
  step.kind = StepKind::kAtCall;
  step.context = 0x1f;
  step.scalars = {BakedScalar(0.1), FreeScalar(3), FreeScalar(0)};
  step.scalars[1].value_class = 7;
  step.scalars[1].runtime = true;
  step.scalars[2].value.type = 4;
  step.scalars[2].value.bits[0] = static_cast<std::uint64_t>(-2);
  ResultRecord undefined;
  undefined.kind = ResultRecord::Kind::kUndefined;
  step.results.push_back(undefined);
  ResultRecord empty;
  empty.kind = ResultRecord::Kind::kEmpty;
  empty.geometry = F32({0});
  step.results.push_back(empty);
  EXPECT_EQ(Text(path),
            "  s0: external 1000 bytes\n"
            "  s1: born %0 8 bytes\n"
            "  %0 call my::op(s0 f32[8,4](1,8)+16' ks=9, -) "
            "{d:0.10000000000000001, d:3*#7, i:-2~#0} @1f "
            "-> s1 f32[2] ks=8001, -, empty f32[0]\n");
}

TEST(TraceTextTest, ScalarsOfEachType) {
  PathBuilder path;
  path.Op("my::op", {path.External(F32({1}))});
  ScalarRecord boolean, complex = BakedScalar(1), unknown;
  boolean.value = {11, {1, 0}};
  complex.value.type = 10;
  complex.value.bits[1] = BakedScalar(-2).value.bits[0];
  unknown.value = {29, {15, 0}};
  path.last().scalars = {boolean, complex, unknown};
  EXPECT_NE(Text(path).find("{b:true, c:1-2i, t29:f,0}"), std::string::npos)
      << Text(path);
}

TEST(TraceTextTest, DtypesHaveShortNames) {
  EXPECT_EQ(DtypeName(6), "f32");
  EXPECT_EQ(DtypeName(4), "i64");
  EXPECT_EQ(DtypeName(11), "bool");
  EXPECT_EQ(DtypeName(15), "bf16");
  EXPECT_EQ(DtypeName(12), "t12");
  EXPECT_EQ(DtypeName(200), "t200");
}

TEST(TraceTextTest, TraceHasAHeaderLine) {
  TraceStore store;
  PathBuilder path;
  path.Op("aten::relu", {path.External(F32({8}))});
  BailReason why;
  Trace* trace = store.Insert(store.top(), std::move(path.steps()), true, &why);
  ASSERT_NE(trace, nullptr);
  const std::string text = ToText(*trace, store.PathOf(trace));
  EXPECT_EQ(text.rfind("trace 1 ops=1 slots=2 key=", 0), 0u) << text;
  EXPECT_NE(text.find(" at_boundary\n  s0: "), std::string::npos) << text;
  TraceStore other;
  PathBuilder again;
  again.Op("aten::relu", {again.External(F32({8}))});
  Trace* other_trace =
      other.Insert(other.top(), std::move(again.steps()), true, &why);
  EXPECT_EQ(ToText(*other_trace, other.PathOf(other_trace)), text);
}

}  // namespace
}  // namespace tjit
