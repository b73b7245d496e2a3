#include "recorder/child_index.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/step_shape.h"
#include "recorder/trace.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

class ChildIndexTest : public ::testing::Test {
 protected:
  Trace* Insert(PathBuilder path) {
    BailReason why = BailReason::kCount;
    Trace* trace =
        store_.Insert(store_.top(), std::move(path.steps()), false, &why);
    EXPECT_NE(trace, nullptr) << BailName(why);
    return trace;
  }
  static PathBuilder OneOp(const std::string& op, std::int64_t size) {
    PathBuilder path;
    path.Op(op, {path.External(F32({size}))});
    return path;
  }
  static int CountChildren(const TraceNode& node) {
    int count = 0;
    for (const TraceNode* n = node.first_child; n != nullptr;
         n = n->next_sibling) {
      ++count;
    }
    return count;
  }
  TraceStore store_;
};

// A step behind which sizes part may have hundreds of children.
TEST_F(ChildIndexTest, ChildIsFoundByItsShape) {
  constexpr std::int64_t kSizes = 200;
  const auto path_of = [](std::int64_t size) {
    PathBuilder path;
    path.Op("aten::relu", {path.External(F32({8}))});
    path.Op("aten::tanh", {path.External(F32({size}))});
    return path;
  };
  const auto all = [](TraceNode*) { return true; };
  PathBuilder first = path_of(1);
  const std::uint64_t any = ShapeOf(first.steps()[0].step);
  const TraceNode* const parent = store_.PathOf(Insert(first))[0];
  const TraceNode* const only = store_.PathOf(Insert(first))[1];
  EXPECT_EQ(store_.children().Find(parent, any, all), only);
  EXPECT_EQ(store_.children().Find(only, any, all), nullptr);
  for (std::int64_t size = 2; size <= kSizes; ++size) Insert(path_of(size));

  const auto copy = store_.CopyMostUsed(std::atomic<bool>(false));
  ASSERT_NE(copy, nullptr);
  for (TraceStore* const store : {&store_, copy.get()}) {
    const TraceNode* const from = store->NodeOf(parent->id);
    int asked = 0;
    for (std::int64_t size = 1; size <= kSizes; ++size) {
      const std::uint64_t shape = ShapeOf(path_of(size).steps()[1].step);
      const TraceNode* const found =
          store->children().Find(from, shape, [&](TraceNode* n) {
            ++asked;
            return n->step.args[0].geometry->sizes[0] == size;
          });
      ASSERT_NE(found, nullptr) << size;
      EXPECT_EQ(found->parent, from);
    }
    EXPECT_LT(asked, 2 * kSizes);
  }
}

TEST_F(ChildIndexTest, OfOneShapeTheNewestIsFirst) {
  const TraceNode* parent = nullptr;
  std::uint64_t shape = 0;
  for (const std::int64_t word : {1, 2, 3}) {
    PathBuilder path;
    path.Op("aten::relu", {path.External(F32({8}))});
    path.Op("aten::tanh", {path.External(F32({8}))});
    path.last().statics = {static_cast<std::uint64_t>(word)};
    shape = ShapeOf(path.last());
    parent = store_.PathOf(Insert(path))[0];
  }
  std::vector<std::uint64_t> seen;
  EXPECT_EQ(store_.children().Find(parent, shape,
                                   [&](const TraceNode* n) {
                                     seen.push_back(n->step.statics[0]);
                                     return false;
                                   }),
            nullptr);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{3, 2, 1}));
}

TEST_F(ChildIndexTest, FirstStepsAreFoundByTheirOp) {
  // More ops than there are buckets of them.
  constexpr int kOps = 600, kSizes = 3;
  const auto name = [](int op) { return "test::op" + std::to_string(op); };
  for (std::int64_t size = 1; size <= kSizes; ++size) {
    for (int op = 0; op < kOps; ++op) {
      const std::string text = name(op);
      Insert(OneOp(text, size));
    }
  }
  for (int op = 0; op < kOps; ++op) {
    const std::string text = name(op);
    const OpId id = OneOp(text, 1).steps()[0].step.op;
    int count = 0;
    store_.children().ForEachRoot(id, [&](const TraceNode& root) {
      EXPECT_EQ(root.step.op, id);
      ++count;
    });
    EXPECT_EQ(count, kSizes) << text;
  }
  EXPECT_EQ(CountChildren(*store_.top()), kOps * kSizes);
}

}  // namespace
}  // namespace tjit
