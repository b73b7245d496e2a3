// GroupCache: equal groups have equal keys whatever their slots are called, and
// any difference that lowering may read makes another key.
#include "compiler/driver/group_cache.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

// out = op(a, b), 2 by 3.
StepRecord Step(int a, int b, int out) {
  StepRecord step;
  step.args = {{a, false, F32({2, 3})}, {b, false, F32({2, 3})}};
  ScalarRecord scalar;
  scalar.value.type = 7;
  scalar.value.bits[0] = 5;
  step.scalars = {scalar};
  step.statics = {1, 2};
  step.results = {
      {ResultRecord::Kind::kFresh, out, -1, F32({2, 3}), /*version=*/0}};
  return step;
}

struct Group {
  std::vector<StepRecord> records;
  std::vector<std::string> ops;
  std::vector<GroupSlot> slots;  // sorted
  int threads = 0;

  GroupKey Key(const std::string& engine = "engine",
               GroupKey::Sizes sizes = GroupKey::Sizes::kInText) const {
    std::vector<GroupStep> steps;
    for (std::size_t i = 0; i < records.size(); ++i) {
      steps.push_back({&records[i], ops[i], threads});
    }
    return GroupKey(engine, steps, slots, sizes);
  }
};

// c = op(a, b); d = op(a, c)
Group TwoSteps(int a, int b, int c, int d) {
  Group group{{Step(a, b, c), Step(a, c, d)}, {"aten::add", "aten::mul"}, {}};
  std::set<int> sorted = {a, b, c, d};
  for (const int slot : sorted) {
    group.slots.push_back({slot, 24, slot == c || slot == d, slot != c});
  }
  return group;
}

TEST(GroupCacheTest, NamesOfSlotsAreNoMatter) {
  const GroupKey key = TwoSteps(0, 1, 2, 3).Key();
  const GroupKey other = TwoSteps(17, 4, 90, 5).Key();
  EXPECT_EQ(key.text, other.text);
  const std::vector<std::int32_t> slots = {17, 4, 90, 5};
  EXPECT_EQ(other.slots, slots);
  EXPECT_EQ(other.ToSlots(key.ToNumbers({2, 0})),
            (std::vector<std::int32_t>{90, 17}));
}

TEST(GroupCacheTest, SizesMayBeLeftOut) {
  const auto text = [](const Group& group) {
    return group.Key("engine", GroupKey::Sizes::kLeftOut).text;
  };
  const Group group = TwoSteps(0, 1, 2, 3);
  Group larger = group;
  for (StepRecord& record : larger.records) {
    for (ArgRecord& arg : record.args) arg.geometry = F32({50, 60});
    record.results[0].geometry = F32({50, 60});
  }
  for (GroupSlot& slot : larger.slots) slot.bytes = 12000;
  EXPECT_EQ(text(group), text(larger));
  EXPECT_NE(group.Key().text, larger.Key().text);
  Group other_type = larger;
  other_type.records[1].args[0].geometry.Own().dtype = 7;
  EXPECT_NE(text(group), text(other_type));
  Group other_number = larger;
  other_number.records[1].scalars[0].value.bits[0] = 6;
  EXPECT_NE(text(group), text(other_number));
  Group other_fate = larger;
  other_fate.slots[2].needed_after = true;
  EXPECT_NE(text(group), text(other_fate));
}

TEST(GroupCacheTest, TheSameStorageTwiceIsAnotherGroup) {
  EXPECT_NE(TwoSteps(0, 1, 2, 3).Key().text, TwoSteps(0, 0, 2, 3).Key().text);
}

TEST(GroupCacheTest, EachDifferenceMakesAnotherKey) {
  using Change = std::function<void(Group*)>;
  const auto first = [](Group* g) -> StepRecord& { return g->records[0]; };
  const std::vector<Change> changes = {
      [&](Group* g) { first(g).kind = StepKind::kAtCall; },
      [&](Group* g) { first(g).args[0].written = true; },
      [&](Group* g) { first(g).args[0].geometry.Own().key_set = 1; },
      [&](Group* g) { first(g).args[0].geometry.Own().offset = 1; },
      [&](Group* g) { first(g).args[0].geometry.Own().dtype = 7; },
      [&](Group* g) { first(g).args[0].geometry.Own().itemsize = 8; },
      [&](Group* g) { first(g).args[0].geometry.Own().wrapped_number = true; },
      [&](Group* g) { first(g).args[0].geometry.Own().ndim = 1; },
      [&](Group* g) { first(g).args[0].geometry.Own().sizes[1] = 2; },
      [&](Group* g) { first(g).args[0].geometry.Own().strides[0] = 4; },
      [&](Group* g) { first(g).args[0].slot = kNoSlot; },
      [&](Group* g) { first(g).args.pop_back(); },
      [&](Group* g) { first(g).statics[1] = 3; },
      [&](Group* g) { first(g).statics.pop_back(); },
      [&](Group* g) { first(g).scalars[0].value.type = 4; },
      [&](Group* g) { first(g).scalars[0].value.bits[0] = 6; },
      [&](Group* g) { first(g).scalars[0].value.bits[1] = 6; },
      [&](Group* g) { first(g).scalars[0].value_class = 1; },
      [&](Group* g) { first(g).scalars[0].may_vary = true; },
      [&](Group* g) { first(g).scalars[0].runtime = true; },
      [&](Group* g) { first(g).scalars.clear(); },
      [&](Group* g) { first(g).results[0].kind = ResultRecord::Kind::kAlias; },
      [&](Group* g) { first(g).results[0].alias_arg = 1; },
      [&](Group* g) { first(g).results[0].geometry.Own().sizes[0] = 4; },
      [&](Group* g) { first(g).results.clear(); },
      [&](Group* g) { g->records[1].args[1].slot = 0; },
      [&](Group* g) { g->ops[0] = "aten::sub"; },
      [&](Group* g) { g->threads = 1; },
      [&](Group* g) { g->slots[1].bytes = 48; },
      [&](Group* g) { g->slots[1].born_here = true; },
      [&](Group* g) { g->slots[1].needed_after = false; },
      [&](Group* g) { g->slots.erase(g->slots.begin()); },
      [&](Group* g) {
        g->records.pop_back();
        g->ops.pop_back();
      },
  };
  const Group group = TwoSteps(0, 1, 2, 3);
  std::set<std::string> texts = {group.Key().text, group.Key("other").text};
  EXPECT_EQ(texts.size(), 2u);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Group changed = group;
    changes[i](&changed);
    EXPECT_TRUE(texts.insert(changed.Key().text).second) << "change " << i;
  }
}

// A kernel serves all values of a scalar that is an argument.
TEST(GroupCacheTest, ValuesOfArgumentsAreNoMatter) {
  Group group = TwoSteps(0, 1, 2, 3);
  group.records[0].scalars[0].runtime = true;
  const std::string text = group.Key().text;
  group.records[0].scalars[0].value.bits[0] = 77;
  EXPECT_EQ(group.Key().text, text);
}

TEST(GroupCacheTest, FindsWhatWasAdded) {
  GroupCache cache;
  const GroupKey key = TwoSteps(0, 1, 2, 3).Key();
  EXPECT_EQ(cache.Find(key), nullptr);
  CachedGroup group;
  group.why_not = "because";
  cache.Add(key, group);
  ASSERT_NE(cache.Find(TwoSteps(7, 6, 5, 4).Key()), nullptr);
  EXPECT_EQ(cache.Find(key)->why_not, "because");
  cache.Clear();
  EXPECT_EQ(cache.Find(key), nullptr);
}

TEST(GroupCacheTest, AsksOnceWhetherAStepCanBeCompiled) {
  GroupCache cache;
  int asked = 0;
  for (int i = 0; i < 3; ++i) {
    const auto find = [&] {
      ++asked;
      return true;
    };
    EXPECT_TRUE(cache.CanCompile(TwoSteps(i, 10, 20, 30).Key(), find));
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(cache.hits(), 2);
}

TEST(GroupCacheTest, DoesNotGrowWithoutEnd) {
  GroupCache cache;
  Group group = TwoSteps(0, 1, 2, 3);
  const GroupKey first = group.Key();
  cache.Add(first, {});
  for (std::int64_t i = 0; cache.Find(first) != nullptr; ++i) {
    ASSERT_LT(i, 100'000);
    group.records[0].args[0].geometry.Own().offset = i + 1;
    cache.Add(group.Key(), {});
  }
  EXPECT_NE(cache.Find(group.Key()), nullptr);
}

}  // namespace
}  // namespace tjit
