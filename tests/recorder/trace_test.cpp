#include "recorder/trace.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/sightings.h"
#include "recorder/trace_verifier.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

// `ops` applied one after the other to one external.
PathBuilder Chain(const std::vector<const char*>& ops, std::int64_t size = 8) {
  PathBuilder path;
  int x = path.External(F32({size}));
  for (const char* op : ops) x = path.Op(op, {x});
  return path;
}

class TraceStoreTest : public ::testing::Test {
 protected:
  Trace* Insert(PathBuilder path) {
    BailReason why = BailReason::kCount;
    Trace* trace = store_.Insert(store_.top(), std::move(path.steps()), false,
                                 &why);
    EXPECT_NE(trace, nullptr) << BailName(why);
    return trace;
  }
  std::vector<TraceNode*> Children(const TraceNode* node) {
    std::vector<TraceNode*> children;
    for (TraceNode* c = node->first_child; c != nullptr; c = c->next_sibling) {
      children.push_back(c);
    }
    return children;
  }
  TraceStore store_;
};

TEST_F(TraceStoreTest, PathIsKeptAndNumbered) {
  PathBuilder path;
  const int x = path.External(F32({32, 8}));
  const int w = path.External(F32({8, 4}));
  const int h = path.Op("aten::mm", {x, w}, F32({32, 4}));
  path.last().scalars = {FreeScalar(1), FreeScalar(2)};
  path.InPlace("aten::add_.Tensor", {h, path.External(F32({4}))});
  path.last().scalars = {FreeScalar(1)};
  path.Op("aten::relu", {h});
  Trace* trace = Insert(path);
  EXPECT_EQ(trace->id, 1u);
  EXPECT_EQ(trace->length, 3u);
  EXPECT_EQ(store_.node_count(), 3u);

  const auto nodes = store_.PathOf(trace);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(VerifyPath(nodes), std::vector<std::string>());
  EXPECT_EQ(nodes[0]->slot_begin, 0u);
  EXPECT_EQ(nodes[1]->slot_begin, 3u);
  EXPECT_EQ(nodes[2]->slot_begin, 4u);
  EXPECT_EQ(nodes[2]->slot_end(), 5u);
  EXPECT_EQ(nodes[1]->scalar_begin, 2u);
  EXPECT_EQ(nodes[2]->scalar_begin, 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(nodes[i]->depth, i);
    EXPECT_EQ(nodes[i]->id, nodes[0]->id + i);
    EXPECT_EQ(nodes[i]->owner, trace);
    EXPECT_EQ(nodes[i]->ends, i == 2 ? trace : nullptr);
    EXPECT_FALSE(nodes[i]->hot);
  }
}

TEST_F(TraceStoreTest, EqualStepsAreShared) {
  Trace* a = Insert(Chain({"aten::relu", "aten::tanh", "aten::exp"}));
  Trace* b = Insert(Chain({"aten::relu", "aten::tanh", "aten::neg"}));
  EXPECT_NE(a, b);
  EXPECT_EQ(store_.node_count(), 4u);
  EXPECT_EQ(Insert(Chain({"aten::relu", "aten::tanh", "aten::exp"})), a);
  EXPECT_EQ(store_.node_count(), 4u);
  EXPECT_EQ(store_.PathOf(b)[1], store_.PathOf(a)[1]);
  EXPECT_EQ(store_.PathOf(b)[1]->owner, a);
  EXPECT_EQ(store_.PathOf(b)[2]->owner, b);
  EXPECT_EQ(Children(store_.PathOf(a)[1]).size(), 2u);
}

TEST_F(TraceStoreTest, PrefixOfATraceIsATraceOfItsOwn) {
  Trace* whole = Insert(Chain({"aten::relu", "aten::tanh"}));
  Trace* prefix = Insert(Chain({"aten::relu"}));
  EXPECT_NE(whole, prefix);
  EXPECT_EQ(store_.PathOf(whole)[0]->ends, prefix);
  EXPECT_EQ(store_.PathOf(whole)[0]->owner, whole);
}

TEST_F(TraceStoreTest, InsertGoesOnFromANode) {
  Trace* a = Insert(Chain({"aten::relu", "aten::tanh", "aten::exp"}));
  PathBuilder other = Chain({"aten::relu", "aten::tanh", "aten::neg"});
  std::vector<NewStep> rest;
  rest.push_back(std::move(other.steps()[2]));
  auto* from = const_cast<TraceNode*>(store_.PathOf(a)[1]);
  BailReason why;
  Trace* b = store_.Insert(from, std::move(rest), false, &why);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->length, 3u);
  EXPECT_EQ(b, Insert(Chain({"aten::relu", "aten::tanh", "aten::neg"})));
  EXPECT_EQ(VerifyPath(store_.PathOf(b)), std::vector<std::string>());
}

struct Change {
  const char* name;
  void (*apply)(NewStep*);
};

const Change kDifferent[] = {
    {"op", [](NewStep* s) { s->step.op = InternOp("aten::sin"); }},
    {"kind",
     [](NewStep* s) {
       const OpId op = s->step.op;
       s->step = StepRecord();
       s->step.op = op;
       s->step.kind = StepKind::kAtCall;
       s->new_slots.clear();
     }},
    {"context", [](NewStep* s) { s->step.context = 4; }},
    {"arg slot",
     [](NewStep* s) {
       s->step.args[1].slot = 0;
       s->step.results[0].slot = 1;
       s->new_slots.erase(s->new_slots.begin());
     }},
    {"arg written", [](NewStep* s) { s->step.args[1].written = true; }},
    {"arg size",
     [](NewStep* s) { s->step.args[1].geometry.Own().sizes[0] = 7; }},
    {"arg stride",
     [](NewStep* s) { s->step.args[1].geometry.Own().strides[0] = 2; }},
    {"arg offset",
     [](NewStep* s) { s->step.args[1].geometry.Own().offset = 1; }},
    {"arg dtype", [](NewStep* s) { s->step.args[1].geometry.Own().dtype = 3; }},
    {"arg key set",
     [](NewStep* s) { s->step.args[1].geometry.Own().key_set = 3; }},
    {"static", [](NewStep* s) { s->step.statics[0] = 3; }},
    {"baked bits", [](NewStep* s) { s->step.scalars[0].value.bits[0] = 3; }},
    {"free type", [](NewStep* s) { s->step.scalars[1].value.type = 4; }},
    {"free class", [](NewStep* s) { s->step.scalars[1].value_class = 3; }},
    {"may vary", [](NewStep* s) { s->step.scalars[1].may_vary = false; }},
    {"result size",
     [](NewStep* s) { s->step.results[0].geometry.Own().sizes[0]--; }},
    {"result kind",
     [](NewStep* s) {
       s->step.results[0] = ResultRecord();
       s->step.results[0].kind = ResultRecord::Kind::kUndefined;
       s->new_slots.pop_back();
     }},
    {"an empty result",
     [](NewStep* s) {
       s->step.results[0].kind = ResultRecord::Kind::kEmpty;
       s->step.results[0].slot = kNoSlot;
       s->step.results[0].geometry = F32({0});
       s->new_slots.pop_back();
     }},
    {"bytes of a new slot", [](NewStep* s) { s->new_slots[0].bytes += 4; }},
};

PathBuilder OneStep() {
  PathBuilder path;
  path.Op("aten::add.Tensor",
          {path.External(F32({8}), 256), path.External(F32({8}), 256)});
  path.last().statics = {1};
  path.last().scalars = {BakedScalar(1), FreeScalar(1)};
  return path;
}

TEST_F(TraceStoreTest, EveryFieldOfAStepMakesASibling) {
  Insert(OneStep());
  std::size_t siblings = 1;
  for (const Change& change : kDifferent) {
    PathBuilder path = OneStep();
    change.apply(&path.steps()[0]);
    Insert(path);
    EXPECT_EQ(Children(store_.top()).size(), ++siblings) << change.name;
  }
}

TEST_F(TraceStoreTest, FreeScalarThatVariesBecomesARunTimeArgument) {
  Trace* trace = Insert(OneStep());
  const StepRecord& step = store_.PathOf(trace)[0]->step;
  Insert(OneStep());
  EXPECT_FALSE(step.scalars[1].IsRuntime());
  PathBuilder other = OneStep();
  other.last().scalars[1] = FreeScalar(0.25);
  EXPECT_EQ(Insert(other), trace);
  EXPECT_EQ(store_.node_count(), 1u);
  EXPECT_TRUE(step.scalars[1].IsRuntime());
  EXPECT_FALSE(step.scalars[0].IsRuntime());
}

TEST_F(TraceStoreTest, OtherSizesAreAnotherPathOfTheSameTrace) {
  Trace* trace = Insert(Chain({"aten::relu", "aten::tanh"}, 8));
  EXPECT_EQ(Insert(Chain({"aten::relu", "aten::tanh"}, 5)), trace);
  EXPECT_EQ(store_.node_count(), 4u);
  EXPECT_EQ(store_.traces().size(), 1u);
  EXPECT_EQ(store_.PathOf(trace)[0]->step.args[0].geometry->sizes[0], 8);
}

TEST_F(TraceStoreTest, MorePathsAreWorthItWhereTheOthersStayed) {
  Trace* trace = nullptr;
  for (int n = 1; n <= 8; ++n) {
    trace = Insert(Chain({"aten::relu", "aten::tanh"}, n));
    EXPECT_TRUE(trace->IsWorthMorePaths()) << n;
  }
  EXPECT_EQ(trace->first_end, store_.PathOf(trace).back());
  Insert(Chain({"aten::relu", "aten::tanh"}, 8));  // it is there
  EXPECT_EQ(trace->more_paths, 7);
  Insert(Chain({"aten::relu", "aten::tanh"}, 9));
  EXPECT_EQ(trace->more_paths, 8);
  EXPECT_FALSE(trace->IsWorthMorePaths());
  trace->runs_of_more = 8 * 16 - 1;
  EXPECT_FALSE(trace->IsWorthMorePaths());
  trace->runs_of_more = 8 * 16;
  EXPECT_TRUE(trace->IsWorthMorePaths());
}

// One size that stayed for long does not pay for any number of others.
TEST_F(TraceStoreTest, WhatStayedLongAgoCountsLess) {
  Trace* trace = Insert(Chain({"aten::relu", "aten::tanh"}, 1));
  Insert(Chain({"aten::relu", "aten::tanh"}, 2));
  trace->runs_of_more = 100'000;
  int paths = 0;
  while (trace->IsWorthMorePaths() && paths < 1000) {
    Insert(Chain({"aten::relu", "aten::tanh"}, 3 + paths++));
  }
  EXPECT_LT(paths, 100);
}

TEST_F(TraceStoreTest, SightingsMakeAllPathsHot) {
  Trace* trace = Insert(Chain({"aten::relu", "aten::tanh"}, 8));
  Insert(Chain({"aten::relu", "aten::tanh"}, 5));
  Trace* other = Insert(Chain({"aten::relu", "aten::neg"}, 8));
  EXPECT_FALSE(store_.CountSighting(trace, 3));
  EXPECT_FALSE(store_.CountSighting(trace, 3));
  EXPECT_FALSE(trace->hot);
  EXPECT_TRUE(store_.CountSighting(trace, 3));
  EXPECT_FALSE(store_.CountSighting(trace, 3));  // only once
  EXPECT_EQ(trace->sightings, 4);
  EXPECT_TRUE(trace->hot);
  EXPECT_FALSE(other->hot);
  for (TraceNode* first : Children(store_.top())) {
    EXPECT_TRUE(first->hot);
    for (TraceNode* second : Children(first)) {
      EXPECT_EQ(second->hot, second->ends == trace);
    }
  }
}

TEST_F(TraceStoreTest, ALongTraceNeedsFewerSightings) {
  EXPECT_EQ(SightingsNeeded(2, 10), 10);
  EXPECT_EQ(SightingsNeeded(1024, 10), 10);
  EXPECT_EQ(SightingsNeeded(1025, 10), 10);
  EXPECT_EQ(SightingsNeeded(2048, 10), 5);
  EXPECT_EQ(SightingsNeeded(32768, 10), 4);
  EXPECT_EQ(SightingsNeeded(32768, 2), 2);
  EXPECT_EQ(SightingsNeeded(32768, 1000000), 31250);
  Trace* trace = Insert(Chain(std::vector<const char*>(2048, "aten::relu"), 8));
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(store_.CountSighting(trace, 10));
  EXPECT_TRUE(store_.CountSighting(trace, 10));
}

TEST_F(TraceStoreTest, RareSightingsDoNotAddUp) {
  Trace* common = Insert(Chain({"aten::relu", "aten::tanh"}, 8));
  Trace* rare = Insert(Chain({"aten::relu", "aten::neg"}, 8));
  ASSERT_TRUE(store_.CountSighting(common, 1));
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(store_.CountSighting(rare, 3)) << i;
    for (std::uint64_t n = 0; n < 2 * TraceStore::kHalfLife; ++n) {
      store_.CountSighting(common, 1);
    }
  }
  // As often as once in a thousand, an evaluation per epoch, it does.
  int sightings = 0;
  for (bool hot = false; !hot && sightings < 20; ++sightings) {
    hot = store_.CountSighting(rare, 3);
    for (int n = 0; n < 1000; ++n) store_.CountSighting(common, 1);
  }
  EXPECT_LE(sightings, 3);
}

TEST_F(TraceStoreTest, NewPathOfAHotTraceIsHot) {
  Trace* trace = Insert(Chain({"aten::relu", "aten::tanh"}, 8));
  store_.CountSighting(trace, 1);
  Insert(Chain({"aten::relu", "aten::tanh"}, 5));
  ASSERT_EQ(Children(store_.top()).size(), 2u);
  for (TraceNode* first : Children(store_.top())) {
    EXPECT_TRUE(first->hot);
    EXPECT_TRUE(Children(first)[0]->hot);
  }
}

TEST_F(TraceStoreTest, PayloadOfTheFirstInsertStays) {
  auto payload = std::make_shared<int>(1);
  PathBuilder path = Chain({"aten::relu"});
  path.steps()[0].payload = payload;
  Trace* trace = Insert(std::move(path));
  PathBuilder again = Chain({"aten::relu"});
  again.steps()[0].payload = std::make_shared<int>(2);
  Insert(std::move(again));
  EXPECT_EQ(store_.PathOf(trace)[0]->payload, payload);
}

TEST_F(TraceStoreTest, FullStoreTakesNothing) {
  TraceStore small({.nodes = 3});
  BailReason why = BailReason::kCount;
  EXPECT_NE(small.Insert(small.top(),
                         std::move(Chain({"aten::relu", "aten::tanh"}).steps()),
                         false, &why),
            nullptr);
  PathBuilder second = Chain({"aten::relu", "aten::exp", "aten::neg"});
  EXPECT_EQ(small.Insert(small.top(), std::move(second.steps()), false, &why),
            nullptr);
  EXPECT_EQ(why, BailReason::kStoreFull);
  EXPECT_EQ(small.node_count(), 2u);
  EXPECT_EQ(small.traces().size(), 1u);
  PathBuilder third = Chain({"aten::relu", "aten::exp"});
  EXPECT_NE(small.Insert(small.top(), std::move(third.steps()), false, &why),
            nullptr);
}

#ifndef NDEBUG
TEST_F(TraceStoreTest, DebugBuildsVerifyPaths) {
  PathBuilder path = Chain({"aten::relu", "aten::tanh"});
  path.last().args[0].slot = 7;
  EXPECT_DEATH(Insert(std::move(path)), "a recorded path is broken: %1 arg 0");
}
#endif

TEST_F(TraceStoreTest, TooLongAndEmptyPathsAreRefused) {
  BailReason why = BailReason::kCount;
  EXPECT_EQ(store_.Insert(store_.top(), {}, false, &why), nullptr);
  EXPECT_EQ(why, BailReason::kNotRepeated);
  std::vector<NewStep> steps(kMaxTraceSteps + 1);
  EXPECT_EQ(store_.Insert(store_.top(), std::move(steps), false, &why),
            nullptr);
  EXPECT_EQ(why, BailReason::kTraceTooLong);
  EXPECT_EQ(store_.node_count(), 0u);
}

TEST_F(TraceStoreTest, BoundaryOfTheFirstRecordingIsKept) {
  BailReason why;
  Trace* trace = store_.Insert(
      store_.top(), std::move(Chain({"aten::relu"}).steps()), true, &why);
  EXPECT_TRUE(trace->starts_at_boundary);
}

class PenaltyTest : public TraceStoreTest {
 protected:
  void SetUp() override { trace_ = Insert(Chain({"aten::relu"})); }
  // Enters until one entry is not skipped. Returns how many were.
  std::int64_t Skipped() {
    std::int64_t skipped = 0;
    while (store_.ShouldSkip(trace_)) ++skipped;
    return skipped;
  }
  void Exit() { store_.Penalize(trace_, BailReason::kOpDiffers); }
  void Complete() {
    ++trace_->completions;
    store_.Reward(trace_);
  }
  Trace* trace_;
};

TEST_F(PenaltyTest, FewExitsAmongManyCompletionsNeverHurt) {
  for (int epoch = 0; epoch < 50; ++epoch) {
    for (int step = 0; step < 20; ++step) {
      ASSERT_FALSE(store_.ShouldSkip(trace_));
      Complete();
    }
    ASSERT_FALSE(store_.ShouldSkip(trace_));
    Exit();  // the last short batch
    ASSERT_FALSE(store_.ShouldSkip(trace_));
    Exit();  // the evaluation
  }
  EXPECT_FALSE(trace_->blacklisted);
  EXPECT_EQ(trace_->exits, 100);
  EXPECT_EQ(trace_->last_exit, static_cast<int>(BailReason::kOpDiffers));
}

TEST_F(PenaltyTest, ExitsBackOffExponentiallyWithJitter) {
  std::vector<std::int64_t> skipped;
  for (int i = 0; i < 10; ++i) {
    Exit();
    skipped.push_back(Skipped());
  }
  EXPECT_EQ(skipped[0], 0);
  EXPECT_EQ(skipped[1], 0);
  bool has_jitter = false;
  for (int i = 2; i < 10; ++i) {
    const std::int64_t base = std::int64_t{1} << (i + 1);
    EXPECT_GE(skipped[static_cast<std::size_t>(i)], base);
    EXPECT_LE(skipped[static_cast<std::size_t>(i)], base + base / 4);
    has_jitter |= skipped[static_cast<std::size_t>(i)] != base;
  }
  EXPECT_TRUE(has_jitter);
}

TEST_F(PenaltyTest, BackOffIsTheSameInEachRun) {
  TraceStore other;
  BailReason why;
  Trace* other_trace = other.Insert(
      other.top(), std::move(Chain({"aten::relu"}).steps()), false, &why);
  for (int i = 0; i < 12; ++i) {
    Exit();
    other.Penalize(other_trace, BailReason::kOpDiffers);
    EXPECT_EQ(trace_->skip, other_trace->skip);
    trace_->skip = other_trace->skip = 0;
  }
}

TEST_F(PenaltyTest, TraceThatNeverCompletesIsBlacklistedAndTriedAgain) {
  int exits = 0;
  while (!trace_->blacklisted) {
    Skipped();
    Exit();
    ASSERT_LE(++exits, 20);
  }
  EXPECT_GT(exits, 10);
  const std::int64_t first = Skipped();
  EXPECT_GE(first, 1 << 20);
  EXPECT_FALSE(trace_->blacklisted);
  // Back on probation: sooner on the list again than the first time.
  int again = 0;
  while (!trace_->blacklisted) {
    Skipped();
    Exit();
    ++again;
  }
  EXPECT_LT(again, exits);
}

TEST_F(PenaltyTest, TraceThatCompletesMoreOftenIsNotBlacklisted) {
  for (int i = 0; i < 1000; ++i) Complete();
  for (int i = 0; i < 100; ++i) {
    Exit();
    trace_->skip = 0;
    EXPECT_FALSE(trace_->blacklisted);
  }
}

TEST_F(PenaltyTest, CompletionsPayBack) {
  for (int i = 0; i < 8; ++i) Exit();
  Skipped();
  EXPECT_EQ(trace_->penalty, 8);
  for (int i = 0; i < 4; ++i) Complete();
  EXPECT_EQ(trace_->penalty, 0);
  Exit();
  EXPECT_EQ(Skipped(), 0);
}

// Not inlined: gcc 12 then takes the sort in Median() for one of more elements
// than there are.
[[gnu::noinline]] std::int64_t RunsToWinBack(const Trace& trace) {
  return trace.RunsToWinBack();
}
[[gnu::noinline]] std::uint64_t NsSavedByRun(const Trace& trace) {
  return trace.NsSavedByRun();
}
std::int64_t Take(Trace* trace, std::uint64_t eager, std::uint64_t replay) {
  for (int i = 0; i < 20; ++i) {
    trace->eager_times.Add(eager);
    trace->late_times.Add(replay);
  }
  return RunsToWinBack(*trace);
}

// What a path takes to be won back goes by what a run saves.
TEST(TraceRunsTest, PathsThatSaveMoreNeedFewerRuns) {
  Trace trace;
  trace.length = 20;  // takes as long as 300 us
  EXPECT_EQ(RunsToWinBack(trace), policy::kRunsOfEachPath);
  EXPECT_EQ(Take(&trace, 400'000, 380'000), policy::kRunsOfEachPath);
  EXPECT_EQ(Take(&trace, 400'000, 410'000), policy::kRunsOfEachPath);
  EXPECT_EQ(Take(&trace, 400'000, 200'000), 6);
  EXPECT_EQ(Take(&trace, 400'000, 40'000), 4);
  EXPECT_EQ(Take(&trace, 20'000, 5'000), 16);  // short ops
  EXPECT_EQ(NsSavedByRun(trace), 15'000u);
  // Once: those before the code say nothing.
  trace.more_paths.store(9);
  trace.ForgetRunsWithoutCode();
  EXPECT_EQ(NsSavedByRun(trace), 0u);
  EXPECT_TRUE(trace.IsWorthMorePaths());
  trace.more_paths.store(9);
  trace.ForgetRunsWithoutCode();
  EXPECT_FALSE(trace.IsWorthMorePaths());
}

}  // namespace
}  // namespace tjit
