#include "recorder/trace_verifier.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PathBuilder Good() {
  PathBuilder path;
  const int x = path.External(F32({32, 8}));
  const int w = path.External(F32({8, 4}));
  const int h = path.Op("aten::mm", {x, w}, F32({32, 4}));
  path.InPlace("aten::add_.Tensor", {h, path.External(F32({4}))});
  path.last().scalars = {FreeScalar(1), BakedScalar(2)};
  path.Op("my::op", {h, -1}, F32({4}));
  return path;
}

TEST(TraceVerifierTest, GoodPathHasNoViolations) {
  const PathBuilder path = Good();
  EXPECT_THAT(VerifyPath(path.records(), path.slots()), IsEmpty());
}

struct Case {
  const char* expected;
  void (*apply)(std::vector<NewStep>*);
};

const Case kBroken[] = {
    {"%0: unknown op", [](auto* s) { (*s)[0].step.op = kNoOp; }},
    {"%0 arg 0: s1 is used before s0",
     [](auto* s) { (*s)[0].step.args[0].slot = 1; }},
    {"%2 arg 0: there is no s9",
     [](auto* s) { (*s)[2].step.args[0].slot = 9; }},
    {"%2 arg 0: there is no s-2",
     [](auto* s) { (*s)[2].step.args[0].slot = -2; }},
    {"%0 arg 0: s0 is read before %1 makes it",
     [](auto* s) { (*s)[0].new_slots[0].born_step = 1; }},
    {"%0 result 0: s2 was born at -1",
     [](auto* s) { (*s)[0].new_slots[2].born_step = -1; }},
    {"%2 result 0: s1 is not fresh",
     [](auto* s) { (*s)[2].step.results[0].slot = 1; }},
    {"path: uses 5 of 6 slots",
     [](auto* s) { (*s)[2].new_slots.push_back({4, -1}); }},
    {"%1 arg 1: f32[4] ends at byte 16 of 12",
     [](auto* s) { (*s)[1].new_slots[0].bytes = 12; }},
    {"%0 result 0: f32[32,4] ends at byte 512 of 511",
     [](auto* s) { (*s)[0].new_slots[2].bytes = 511; }},
    {"%0 arg 0: has 9 dims",
     [](auto* s) { (*s)[0].step.args[0].geometry.Own().ndim = 9; }},
    {"%0 arg 0: dims past ndim are set",
     [](auto* s) { (*s)[0].step.args[0].geometry.Own().ndim = 1; }},
    {"%0 arg 0: reserved bytes are set",
     [](auto* s) { (*s)[0].step.args[0].geometry.Own().reserved = 1; }},
    {"%0 arg 0: a size, stride or offset is negative",
     [](auto* s) { (*s)[0].step.args[0].geometry.Own().offset = -1; }},
    {"%0 arg 0: a size, stride or offset is negative",
     [](auto* s) { (*s)[0].step.args[0].geometry.Own().strides[1] = -1; }},
    {"%0 arg 0: items of f64 have 4 bytes",
     [](auto* s) { (*s)[0].step.args[0].geometry.Own().dtype = 7; }},
    {"%2 arg 1: an undefined tensor is written",
     [](auto* s) { (*s)[2].step.args[1].written = true; }},
    {"%2 arg 1: has a geometry but no storage",
     [](auto* s) { (*s)[2].step.args[1].geometry.Own().ndim = 1; }},
    {"%1 result 0: is alias of arg 2",
     [](auto* s) { (*s)[1].step.results[0].alias_arg = 2; }},
    {"%1 result 0: has a slot but is not fresh",
     [](auto* s) { (*s)[1].step.results[0].slot = 1; }},
    {"%1 result 0: has elements but no storage",
     [](auto* s) {
       (*s)[1].step.results[0].kind = ResultRecord::Kind::kEmpty;
       (*s)[1].step.results[0].geometry = F32({2});
     }},
    {"%1 scalar 1: a run-time scalar that may not vary",
     [](auto* s) { (*s)[1].step.scalars[1].runtime = true; }},
};

TEST(TraceVerifierTest, EachRuleIsChecked) {
  for (const Case& broken : kBroken) {
    PathBuilder path = Good();
    broken.apply(&path.steps());
    EXPECT_THAT(VerifyPath(path.records(), path.slots()),
                Contains(HasSubstr(broken.expected)));
  }
}

TEST(TraceVerifierTest, AliasOfAnUndefinedTensor) {
  PathBuilder path = Good();
  ResultRecord& result = path.last().results[0];
  result = ResultRecord();
  result.kind = ResultRecord::Kind::kAlias;
  result.alias_arg = 1;
  EXPECT_THAT(VerifyPath(path.records(), path.slots()),
              Contains(HasSubstr("is alias of an undefined tensor")));
}

TEST(TraceVerifierTest, AllViolationsAreReported) {
  PathBuilder path = Good();
  path.steps()[0].step.op = kNoOp;
  path.steps()[2].step.args[1].written = true;
  EXPECT_EQ(VerifyPath(path.records(), path.slots()).size(), 2u);
}

TEST(TraceVerifierTest, EmptyTensorsNeedNoBytes) {
  PathBuilder path;
  path.Op("aten::relu", {path.External(F32({0, 4}), 0)});
  EXPECT_THAT(VerifyPath(path.records(), path.slots()), IsEmpty());
}

TEST(TraceVerifierTest, SeveralResultsMayShareAFreshStorage) {
  PathBuilder path;
  path.Op("my::split", {path.External(F32({8}))}, F32({8}));
  path.last().results.push_back(path.last().results[0]);
  EXPECT_THAT(VerifyPath(path.records(), path.slots()), IsEmpty());
}

TEST(TraceVerifierTest, NodesMustAgreeWithTheirPath) {
  TraceStore store;
  BailReason why;
  PathBuilder path = Good();
  const Trace* trace =
      store.Insert(store.top(), std::move(path.steps()), false, &why);
  auto nodes = store.PathOf(trace);
  EXPECT_THAT(VerifyPath(nodes), IsEmpty());
  auto* node = const_cast<TraceNode*>(nodes[2]);
  node->depth = 5;
  node->slot_begin = 1;
  node->scalar_begin = 9;
  node->parent = store.top();
  EXPECT_THAT(VerifyPath(nodes),
              ::testing::ElementsAre("%2 node: wrong depth",
                                     "%2 node: wrong slot_begin",
                                     "%2 node: wrong scalar_begin",
                                     "%2 node: wrong parent"));
}

}  // namespace
}  // namespace tjit
