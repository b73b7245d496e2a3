// Readers walk the trie without a lock while a writer adds to it. Meant to be
// run under ThreadSanitizer too.
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/step_shape.h"
#include "recorder/trace.h"
#include "recorder/trace_verifier.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

// ThreadSanitizer does not see into the mutex of an Abseil that was built
// without it: there, one writer, so that all it has to judge are the readers.
#ifdef __SANITIZE_THREAD__
constexpr int kWriters = 1;
#else
constexpr int kWriters = 2;
#endif

constexpr int kOps = 4, kLength = 6;

// The path whose steps are the digits of `number` in base kOps.
PathBuilder Path(int number, double scalar) {
  static const char* const kNames[kOps] = {"aten::relu", "aten::tanh",
                                           "aten::exp", "aten::neg"};
  PathBuilder path;
  int x = path.External(F32({8}));
  for (int i = 0; i < kLength; ++i) {
    x = path.Op(kNames[number % kOps], {x});
    path.last().scalars = {FreeScalar(scalar)};
    number /= kOps;
  }
  return path;
}

// Walks down the trie as a cursor does, and checks what it sees.
int Walk(TraceStore* store, unsigned seed) {
  int ends = 0;
  TraceNode* node = store->top();
  std::vector<const TraceNode*> path;
  while (true) {
    TraceNode* next = node->likely.load(std::memory_order_acquire);
    unsigned skip = seed % 4;
    seed = seed * 1664525u + 1013904223u;
    for (TraceNode* c = node->first_child.load(std::memory_order_acquire);
         c != nullptr; c = c->next_sibling.load(std::memory_order_acquire)) {
      next = c;
      if (skip-- == 0) break;
    }
    if (next == nullptr) break;
    EXPECT_EQ(next->parent, node);
    EXPECT_EQ(store->children().Find(node, ShapeOf(next->step),
                                     [&](TraceNode* n) { return n == next; }),
              next);
    bool is_root = false;
    store->children().ForEachRoot(next->step.op, [&](const TraceNode& root) {
      is_root |= &root == next;
    });
    EXPECT_EQ(is_root, node == store->top());
    EXPECT_NE(next->owner.load(std::memory_order_acquire), nullptr);
    next->step.scalars[0].IsRuntime();
    node->likely.store(next, std::memory_order_release);
    path.push_back(next);
    node = next;
    Trace* trace = node->ends.load(std::memory_order_acquire);
    if (trace != nullptr) {
      EXPECT_EQ(trace->length, path.size());
      trace->entries.fetch_add(1, std::memory_order_relaxed);
      ++ends;
    }
  }
  EXPECT_TRUE(VerifyPath(path).empty());
  return ends;
}

TEST(TraceThreadsTest, ReadersNeedNoLock) {
  TraceStore store;
  std::atomic<bool> is_done{false};
  std::atomic<int> ends{0};
  std::vector<std::thread> readers;
  for (unsigned id = 0; id < 3; ++id) {
    readers.emplace_back([&, id] {
      unsigned seed = id;
      while (!is_done.load(std::memory_order_acquire)) {
        ends += Walk(&store, seed++ * 2654435761u);
      }
    });
  }
  std::vector<std::thread> writers;
  for (int id = 0; id < kWriters; ++id) {
    writers.emplace_back([&, id] {
      for (int i = 0; i < 1500; ++i) {
        BailReason why;
        PathBuilder path = Path((i * 37 + id * 1000) % 4096, i);
        Trace* trace =
            store.Insert(store.top(), std::move(path.steps()), false, &why);
        ASSERT_NE(trace, nullptr);
        store.CountSighting(trace, 2);
        store.Penalize(trace, BailReason::kOpDiffers);
        store.ShouldSkip(trace);
        store.Reward(trace);
      }
    });
  }
  for (std::thread& t : writers) t.join();
  while (ends == 0) std::this_thread::yield();
  is_done = true;
  for (std::thread& t : readers) t.join();
  EXPECT_GT(store.traces().size(), 1000u);
  for (const Trace* trace : store.traces()) {
    EXPECT_TRUE(VerifyPath(store.PathOf(trace)).empty());
  }
}

}  // namespace
}  // namespace tjit
