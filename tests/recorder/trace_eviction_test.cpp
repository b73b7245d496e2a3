// What a store that is nearly full keeps (recorder/trace_eviction.cpp).
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/trace.h"
#include "recorder/trace_verifier.h"
#include "support/policy.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

const std::atomic<bool> kGoOn{false};

// `ops` applied one after the other to one external.
PathBuilder Chain(std::initializer_list<const char*> ops, std::int64_t size) {
  PathBuilder path;
  int x = path.External(F32({size}));
  for (const char* op : ops) x = path.Op(op, {x}, F32({size}));
  return path;
}

TraceNode* Add(TraceStore* store, PathBuilder path) {
  BailReason why = BailReason::kCount;
  Trace* trace =
      store->Insert(store->top(), std::move(path.steps()), false, &why);
  EXPECT_NE(trace, nullptr) << BailName(why);
  const auto paths = store->PathsOf(trace);
  return const_cast<TraceNode*>(paths.back().back());
}

// As soon as the store takes something again.
TraceNode* AddInTime(TraceStore* store, int size) {
  BailReason why = BailReason::kCount;
  TraceNode* end = nullptr;
  for (;;) {
    PathBuilder path = Chain({"aten::relu", "aten::tanh"}, size);
    if (store->Insert(store->top(), std::move(path.steps()), false, &why,
                      nullptr, &end) != nullptr) {
      return end;
    }
    std::this_thread::yield();
  }
}

void Use(TraceStore* store, TraceNode* node, int times) {
  for (int i = 0; i < times; ++i) {
    store->RecordUse(node);
    store->CountSighting(node->ends.load(), /*threshold=*/3);
  }
}

// What was recorded whole before the first cut (size_cuts.h) goes, though there
// is room; what is replayed, a part, or seen again stays.
TEST(LeftoversTest, GoSoonBehindTheFirstCut) {
  TraceStore store;
  TraceNode* const hot = Add(&store, Chain({"aten::relu", "aten::tanh"}, 8));
  Use(&store, hot, 3);
  TraceNode* const part = Add(&store, Chain({"aten::sin", "aten::cos"}, 8));
  std::vector<TraceNode*> whole;
  for (std::uint32_t n = 2; n < policy::kLeftoverSteps; n += 2) {
    whole.push_back(Add(&store, Chain({"aten::exp", "aten::log"}, 8 + n)));
  }
  whole.front()->ends.load()->is_cut = true;
  EXPECT_FALSE(store.WantsEviction(false));
  store.MarkPart(part->ends.load(), /*is_last=*/false);
  EXPECT_FALSE(store.WantsEviction(false));
  Use(&store, hot, static_cast<int>(policy::kLeftoverSightings));
  ASSERT_TRUE(store.WantsEviction(false));
  const auto copy = store.CopyMostUsed(kGoOn);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->node_count(), 4u);
  EXPECT_NE(copy->NodeOf(hot->id), nullptr);
  ASSERT_NE(copy->NodeOf(part->id), nullptr);
  EXPECT_TRUE(copy->NodeOf(part->id)->ends.load()->ends_at_cut);
  std::vector<NewStep> again =
      std::move(Chain({"aten::sin", "aten::cos"}, 9).steps());
  EXPECT_NE(copy->FindPart(again), nullptr);
  again.pop_back();
  EXPECT_EQ(copy->FindPart(again), nullptr);
  EXPECT_FALSE(copy->WantsEviction(false));
}

TEST(LeftoversTest, ACutTraceThatIsReplayedKeepsItsCuts) {
  TraceStore store;
  TraceNode* const hot = Add(&store, Chain({"aten::relu", "aten::tanh"}, 8));
  Use(&store, hot, 3);
  Trace* const trace = hot->ends.load();
  trace->cuts = {1};
  EXPECT_FALSE(trace->IsCutBehind(1));  // not yet
  trace->is_cut = true;
  const auto copy = store.CopyMostUsed(kGoOn);
  ASSERT_NE(copy, nullptr);
  const Trace& copied = *copy->NodeOf(hot->id)->ends.load();
  EXPECT_TRUE(copied.IsCutBehind(1));
  EXPECT_FALSE(copied.IsCutBehind(2));
}

// Ten sizes of a chain of two ops; size i is run 10 * i times.
class TenSizes : public ::testing::Test {
 protected:
  TenSizes() : store_({.nodes = 20}) {
    for (int i = 0; i < 10; ++i) {
      ends_.push_back(Add(&store_, Chain({"aten::relu", "aten::tanh"}, 8 + i)));
      Use(&store_, ends_.back(), 10 * i);
    }
  }
  TraceStore store_;
  std::vector<TraceNode*> ends_;
};

TEST_F(TenSizes, TheHalfThatIsRunMostIsKept) {
  EXPECT_TRUE(store_.WantsEviction(false));
  const auto copy = store_.CopyMostUsed(kGoOn);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->node_count(), 10u);
  EXPECT_EQ(copy->lineage(), store_.lineage());
  for (int i = 0; i < 10; ++i) {
    const TraceNode* there = copy->NodeOf(ends_[i]->id);
    EXPECT_EQ(there != nullptr, i >= 5) << i;
    if (there == nullptr) continue;
    EXPECT_NE(there, ends_[i]);
    EXPECT_EQ(there->step.results[0].geometry,
              ends_[i]->step.results[0].geometry);
    EXPECT_EQ(there->slot_begin, ends_[i]->slot_begin);
    EXPECT_EQ(there->depth, 1u);
    EXPECT_TRUE(there->hot);
  }
  // One trace of five paths, and what was counted.
  ASSERT_EQ(copy->traces().size(), 1u);
  const Trace& trace = *copy->traces()[0];
  const Trace& before = *store_.traces()[0];
  EXPECT_NE(&trace, &before);
  EXPECT_EQ(trace.key, before.key);
  EXPECT_EQ(trace.id, before.id);
  EXPECT_EQ(trace.length, 2u);
  EXPECT_TRUE(trace.hot);
  EXPECT_EQ(trace.sightings, before.sightings);
  const auto paths = copy->PathsOf(&trace);
  ASSERT_EQ(paths.size(), 5u);
  for (const auto& path : paths) {
    EXPECT_EQ(VerifyPath(path), std::vector<std::string>());
    EXPECT_EQ(path[0]->owner, &trace);
    EXPECT_EQ(path[1]->ends, &trace);
  }
  EXPECT_EQ(trace.first_end, paths[0].back());
}

// The ways down lead to what is there, and to all of it.
TEST_F(TenSizes, TheCopyIsFollowedAsTheStoreWas) {
  for (TraceNode* end : ends_) end->parent->likely = end;
  store_.top()->likely = ends_[0]->parent;
  const auto copy = store_.CopyMostUsed(kGoOn);
  int roots = 0;
  for (TraceNode* n = copy->top()->first_child; n != nullptr;
       n = n->next_sibling) {
    EXPECT_EQ(copy->NodeOf(n->id), n);
    EXPECT_EQ(n->parent, copy->top());
    EXPECT_EQ(n->likely, n->first_child);
    // Newest first, as before.
    EXPECT_EQ(n->id, ends_[9 - roots]->parent->id);
    ++roots;
  }
  EXPECT_EQ(roots, 5);
  EXPECT_EQ(copy->top()->likely, nullptr);
  BailReason why = BailReason::kCount;
  bool is_new = true;
  PathBuilder again = Chain({"aten::relu", "aten::tanh"}, 8 + 9);
  copy->Insert(copy->top(), std::move(again.steps()), false, &why, &is_new);
  EXPECT_FALSE(is_new);
  EXPECT_EQ(copy->node_count(), 10u);
  // New ids are no old ones.
  const TraceNode* added =
      Add(copy.get(), Chain({"aten::relu", "aten::tanh"}, 8));
  for (const TraceNode* end : ends_) EXPECT_LT(end->id, added->parent->id);
  EXPECT_EQ(copy->NodeOf(added->id), added);
}

// It would be lost, and a trace of the copy get its number.
TEST_F(TenSizes, NothingIsAddedToWhatWasCopied) {
  const auto copy = store_.CopyMostUsed(kGoOn);
  ASSERT_NE(copy, nullptr);
  BailReason why = BailReason::kCount;
  PathBuilder added = Chain({"aten::exp", "aten::tanh"}, 8);
  EXPECT_EQ(store_.Insert(store_.top(), std::move(added.steps()), false, &why),
            nullptr);
  EXPECT_EQ(why, BailReason::kStoreFull);
  // What is there may be sighted again.
  PathBuilder again = Chain({"aten::relu", "aten::tanh"}, 8);
  EXPECT_EQ(store_.Find(store_.top(), again.steps()), store_.traces()[0]);
  const Trace* made =
      Add(copy.get(), Chain({"aten::exp", "aten::tanh"}, 8))->ends.load();
  EXPECT_EQ(made->id, store_.traces().size() + 1);
}

// What was run long ago counts less: half for each kHalfLife runs since.
TEST_F(TenSizes, LatelyCountsMore) {
  Use(&store_, ends_[0], 8);
  TraceNode* clock = ends_[9];
  for (std::uint64_t i = 0; i < 4 * TraceStore::kHalfLife; ++i) {
    store_.CountSighting(clock->ends.load(), 3);
  }
  Use(&store_, ends_[1], 6);  // 90 runs are worth as much as 5.6 now
  const auto copy = store_.CopyMostUsed(kGoOn);
  EXPECT_EQ(copy->NodeOf(ends_[0]->id), nullptr);
  EXPECT_NE(copy->NodeOf(ends_[1]->id), nullptr);
}

// A path that has just come has not had the time to be run.
TEST_F(TenSizes, WhatIsNewIsBetterThanWhatIsNeverRun) {
  TraceStore store({.nodes = 20});
  std::vector<TraceNode*> ends;
  for (int i = 0; i < 10; ++i) {
    ends.push_back(Add(&store, Chain({"aten::relu", "aten::tanh"}, 8 + i)));
    if (i == 4) Use(&store, ends[4], 1);
  }
  const auto copy = store.CopyMostUsed(kGoOn);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(copy->NodeOf(ends[i]->id), nullptr);
  EXPECT_NE(copy->NodeOf(ends[9]->id), nullptr);
}

TEST_F(TenSizes, NothingGoesBeforeWhatCameWasRun) {
  TraceStore store({.nodes = 20});
  std::vector<TraceNode*> ends;
  for (int i = 0; i < 9; ++i) {
    ends.push_back(Add(&store, Chain({"aten::relu", "aten::tanh"}, 8 + i)));
    EXPECT_FALSE(store.WantsEviction(false)) << i;
  }
  Use(&store, ends[0], 9 * 10 - 1);
  EXPECT_FALSE(store.WantsEviction(true));
  Use(&store, ends[0], 1);
  EXPECT_TRUE(store.WantsEviction(true));
  // In the copy it is what came since that is to have been run.
  const auto copy = store.CopyMostUsed(kGoOn);
  EXPECT_EQ(copy->node_count(), 10u);
  TraceNode* added = nullptr;
  for (int i = 0; i < 5; ++i) {
    added = Add(copy.get(), Chain({"aten::exp", "aten::tanh"}, 8 + i));
  }
  Use(copy.get(), copy->NodeOf(ends[0]->id), 1000);
  EXPECT_FALSE(copy->WantsEviction(false));
  EXPECT_FALSE(copy->WantsEviction(true));
  Use(copy.get(), added, 50);
  EXPECT_TRUE(copy->WantsEviction(false));
}

TEST_F(TenSizes, BytesAreALimitToo) {
  const std::uint64_t bytes = store_.bytes();
  EXPECT_GT(bytes, 20 * (sizeof(TraceNode) + sizeof(ArgRecord)));
  store_.SetLimits({.nodes = 1000, .bytes = 2 * bytes});
  EXPECT_FALSE(store_.WantsEviction(false));
  store_.SetLimits({.nodes = 1000, .bytes = bytes});
  EXPECT_TRUE(store_.WantsEviction(false));
  BailReason why = BailReason::kCount;
  PathBuilder more = Chain({"aten::exp"}, 8);
  EXPECT_EQ(store_.Insert(store_.top(), std::move(more.steps()), false, &why),
            nullptr);
  EXPECT_EQ(why, BailReason::kStoreFull);
  const auto copy = store_.CopyMostUsed(kGoOn);
  EXPECT_LE(copy->bytes(), bytes / 2);
  EXPECT_EQ(copy->node_count(), 10u);
}

// What a store takes of a pointwise op: 45,000 of them fit the default limits.
TEST(StepSizeTest, AStepIsSmall) {
  constexpr int kSteps = 1000;
  PathBuilder path;
  int x = path.External(F32({8, 8}));
  for (int i = 0; i < kSteps; ++i) {
    x = path.Op("aten::mul", {x, x}, F32({8, 8}));
  }
  TraceStore store;
  Add(&store, std::move(path));
  EXPECT_EQ(store.limits().bytes, 32u << 20);
  EXPECT_LE(store.bytes(), store.limits().bytes / 45000 * kSteps);
}

// A run that ends inside a path: the whole path stays, as each leaf ends a
// trace.
TEST_F(TenSizes, AnInnerNodeKeepsItsPath) {
  TraceStore store({.nodes = 12});
  const auto ops = {"aten::relu", "aten::tanh", "aten::exp"};
  std::vector<TraceNode*> ends;
  for (int i = 0; i < 4; ++i) ends.push_back(Add(&store, Chain(ops, 8 + i)));
  Use(&store, ends[2], 5);
  for (int i = 0; i < 9; ++i) store.RecordUse(ends[1]->parent);
  const auto copy = store.CopyMostUsed(kGoOn);
  EXPECT_EQ(copy->node_count(), 6u);
  EXPECT_NE(copy->NodeOf(ends[1]->id), nullptr);
  EXPECT_NE(copy->NodeOf(ends[2]->id), nullptr);
}

// The path that is run most stays, even if it takes more than half.
TEST_F(TenSizes, ALongPathStays) {
  TraceStore store({.nodes = 6});
  const auto ops = {"aten::relu", "aten::tanh", "aten::exp", "aten::neg"};
  TraceNode* end = Add(&store, Chain(ops, 8));
  Use(&store, end, 5);
  Add(&store, Chain({"aten::sin", "aten::cos"}, 8));
  const auto copy = store.CopyMostUsed(kGoOn);
  EXPECT_EQ(copy->node_count(), 4u);
  EXPECT_NE(copy->NodeOf(end->id), nullptr);
}

// Shared first steps stay as long as one path needs them; a trace none of
// whose paths stays is gone.
TEST_F(TenSizes, SharedStepsAndTraces) {
  TraceStore store({.nodes = 8});
  TraceNode* rare =
      Add(&store, Chain({"aten::relu", "aten::tanh", "aten::neg"}, 8));
  TraceNode* usual =
      Add(&store, Chain({"aten::relu", "aten::tanh", "aten::exp"}, 8));
  ASSERT_EQ(rare->parent, usual->parent);
  Use(&store, usual, 50);
  Use(&store, Add(&store, Chain({"aten::sin", "aten::cos"}, 8)), 2);
  const auto copy = store.CopyMostUsed(kGoOn);
  EXPECT_EQ(copy->node_count(), 4u);
  EXPECT_NE(copy->NodeOf(usual->id), nullptr);
  // It was not worth less than what there was room for.
  EXPECT_NE(copy->NodeOf(rare->id), nullptr);
  EXPECT_EQ(copy->traces().size(), 2u);
  EXPECT_EQ(copy->NodeOf(usual->parent->id)->owner,
            copy->NodeOf(rare->id)->ends);
}

TEST_F(TenSizes, AStoreIsFreed) {
  const std::int64_t before = TraceStore::LiveNodes();
  const StoreLimits limits = store_.limits();
  {
    const auto copy = store_.CopyMostUsed(kGoOn);
    EXPECT_EQ(TraceStore::LiveNodes(), before + 11);
  }
  store_.SetLimits(limits);  // it goes on
  EXPECT_EQ(TraceStore::LiveNodes(), before);
  const std::atomic<bool> stop{true};
  EXPECT_EQ(store_.CopyMostUsed(stop), nullptr);
  EXPECT_EQ(TraceStore::LiveNodes(), before);
}

// Others go on with the store meanwhile, and where the copy is not taken.
TEST_F(TenSizes, CopiedWhileOthersInsertAndRun) {
  constexpr StoreLimits kLimits = {.nodes = 4000};
  TraceStore store(kLimits);
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) {
        const int size = 8 + 1000 * t + i % 900;
        TraceNode* end = AddInTime(&store, size);
        Use(&store, end, 3);
        end->parent->likely = end;
      }
      ends.store(true);
    });
  }
  int copies = 0;
  while (!ends.load() || copies == 0) {
    const auto copy = store.CopyMostUsed(kGoOn);
    ASSERT_NE(copy, nullptr);
    for (const Trace* trace : copy->traces()) {
      for (const auto& path : copy->PathsOf(trace)) {
        ASSERT_EQ(VerifyPath(path), std::vector<std::string>());
      }
    }
    ++copies;
    store.SetLimits(kLimits);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tjit
