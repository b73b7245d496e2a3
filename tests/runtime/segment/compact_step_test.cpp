#include "runtime/segment/compact_step.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "recorder/schema_key.h"

namespace tjit::runtime {
namespace {

TensorGeometry Vector(std::int64_t n) {
  TensorGeometry g;
  g.key_set = 1;
  g.dtype = 6;
  g.itemsize = 4;
  g.ndim = 1;
  g.sizes[0] = n;
  g.strides[0] = 1;
  return g;
}

void Fill(TraceNode* node) {
  node->slot_begin = 2;
  node->step.op = OpId{7};
  node->step.context = 3;
  node->step.args = {{0, true, Vector(4)}, {}, {1, false, Vector(5)}};
  node->step.statics = {11, 12, 13};
  node->step.scalars.resize(2);
  node->step.scalars[0].value = {7, {1, 2}};
  node->step.scalars[1].value = {7, {3, 4}};
  ResultRecord fresh;
  fresh.slot = 2;
  fresh.geometry = Vector(4);
  fresh.version = 1;
  ResultRecord alias;
  alias.kind = ResultRecord::Kind::kAlias;
  alias.alias_arg = 0;
  ResultRecord undefined;
  undefined.kind = ResultRecord::Kind::kUndefined;
  ResultRecord empty;
  empty.kind = ResultRecord::Kind::kEmpty;
  empty.geometry = Vector(0);
  node->step.results = {fresh, alias, undefined, empty};
  node->new_slots = {{16, 0}};
}

TEST(CompactStepTest, FormsGoWithIt) {
  auto node = std::make_unique<TraceNode>();
  Fill(node.get());
  const std::weak_ptr<const TensorTemplate> form = TemplateOf(Vector(5));
  EXPECT_TRUE(form.expired());
  CompactStep::Make(node.get(), true);
  const std::weak_ptr<const TensorTemplate> held = TemplateOf(Vector(5));
  EXPECT_FALSE(held.expired());
  node.reset();
  EXPECT_TRUE(held.expired());
}

TEST(CompactStepTest, HoldsWhatWasRecorded) {
  TraceNode node;
  Fill(&node);
  EXPECT_EQ(CompactStep::Of(node), nullptr);
  const CompactStep& step = *CompactStep::Make(&node, true);
  EXPECT_EQ(CompactStep::Of(node), &step);
  EXPECT_EQ(CompactStep::Make(&node, true), &step);
  EXPECT_EQ(step.op(), node.step.op);
  EXPECT_EQ(step.context(), 3u);
  EXPECT_TRUE(step.follows_usually());
  ASSERT_EQ(step.arg_count(), 3u);
  EXPECT_EQ(step.args()[0].form->geometry, Vector(4));
  EXPECT_EQ(step.args()[0].slot, 0);
  EXPECT_TRUE(step.args()[0].written);
  EXPECT_EQ(step.args()[1].form, nullptr);
  EXPECT_EQ(step.args()[1].slot, kNoSlot);
  EXPECT_EQ(step.args()[2].form->geometry, Vector(5));
  EXPECT_FALSE(step.args()[2].written);
  ASSERT_EQ(step.result_count(), 4u);
  EXPECT_EQ(step.results()[0].kind, ResultRecord::Kind::kFresh);
  EXPECT_EQ(step.results()[0].form, step.args()[0].form);
  EXPECT_EQ(step.results()[0].bytes, 16u);
  EXPECT_EQ(step.results()[0].version, 1u);
  EXPECT_EQ(step.results()[1].kind, ResultRecord::Kind::kAlias);
  EXPECT_EQ(step.results()[2].kind, ResultRecord::Kind::kUndefined);
  EXPECT_EQ(step.results()[3].kind, ResultRecord::Kind::kEmpty);
  EXPECT_EQ(step.results()[3].form->geometry, Vector(0));
  EXPECT_EQ(step.results()[3].bytes, 0u);
  ASSERT_EQ(step.scalar_count(), 2u);
  EXPECT_TRUE(step.scalars()[0].SameBits({7, {1, 2}}));
  EXPECT_TRUE(step.scalars()[1].SameBits({7, {3, 4}}));
  ASSERT_EQ(step.static_count(), 3u);
  EXPECT_EQ(step.statics()[0], 11u);
  EXPECT_EQ(step.statics()[2], 13u);
}

TEST(CompactStepTest, ChecksOfValuesAreUnusual) {
  TraceNode node;
  Fill(&node);
  EXPECT_FALSE(CompactStep::Make(&node, false)->follows_usually());
}

TEST(CompactStepTest, LeanSteps) {
  const auto is_fast = [](auto change) {
    TraceNode node;
    Fill(&node);
    node.step.args = {{0, false, Vector(4)}, {1, false, Vector(5)}};
    node.step.results.resize(1);
    change(&node);
    return CompactStep::Make(&node, true)->is_fast();
  };
  // Under sanitizers nothing is recycled.
  EXPECT_EQ(is_fast([](TraceNode*) {}), kPoolsObjects);
  EXPECT_FALSE(is_fast([](TraceNode* n) { n->step.args.clear(); }));
  EXPECT_FALSE(is_fast([](TraceNode* n) { n->step.args[1].written = true; }));
  EXPECT_FALSE(is_fast([](TraceNode* n) { n->step.args[1] = {}; }));
  EXPECT_FALSE(is_fast([](TraceNode* n) {
    n->step.args[1].slot = 2;  // its first use
    n->new_slots.push_back(n->new_slots[0]);
    n->step.results[0].slot = 3;
  }));
  EXPECT_FALSE(is_fast([](TraceNode* n) { n->step.results.clear(); }));
  EXPECT_FALSE(is_fast(
      [](TraceNode* n) { n->step.results.push_back(n->step.results[0]); }));
  EXPECT_FALSE(is_fast([](TraceNode* n) {
    n->step.results[0].kind = ResultRecord::Kind::kEmpty;
  }));
  EXPECT_FALSE(is_fast([](TraceNode* n) {
    n->new_slots[0].bytes = std::uint64_t{1} << 40;  // none is recycled
  }));
}

TEST(CompactStepTest, StepsThatFillAStorage) {
  TraceNode fill;
  Fill(&fill);
  fill.step.op = InternOp("aten::fill_.Scalar");
  EXPECT_EQ(CompactStep::Make(&fill, true)->filled_bytes(), 16u);
  TraceNode other;
  Fill(&other);
  other.step.op = InternOp("aten::mul_.Scalar");
  EXPECT_EQ(CompactStep::Make(&other, true)->filled_bytes(), 0u);
  TraceNode copies_itself;
  Fill(&copies_itself);
  copies_itself.step.op = InternOp("aten::copy_");
  copies_itself.step.args[2].slot = 0;
  EXPECT_EQ(CompactStep::Make(&copies_itself, true)->filled_bytes(), 0u);
  TraceNode none;
  none.step.op = InternOp("aten::rand");
  EXPECT_EQ(CompactStep::Make(&none, true)->filled_bytes(), 0u);
}

TEST(CompactStepTest, ThreadsMakeOne) {
  for (int round = 0; round < 50; ++round) {
    TraceNode node;
    Fill(&node);
    std::vector<const CompactStep*> made(4);
    std::vector<std::thread> threads;
    for (const CompactStep*& m : made) {
      threads.emplace_back([&] { m = CompactStep::Make(&node, true); });
    }
    for (std::thread& t : threads) t.join();
    for (const CompactStep* m : made) EXPECT_EQ(m, CompactStep::Of(node));
  }
}

}  // namespace
}  // namespace tjit::runtime
