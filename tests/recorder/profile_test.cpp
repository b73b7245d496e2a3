// Hot profiles: what resembles what, the trie, the text and what is wrong with
// one.
#include "recorder/profile.h"

#include <atomic>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recorder/profile_text.h"
#include "recorder/split_places.h"
#include "recorder/step_shape.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;

KnownPath PathOf(PathBuilder builder, bool at_boundary = false) {
  KnownPath path;
  path.at_boundary = at_boundary;
  path.slots = builder.slots();
  for (const NewStep& step : builder.steps()) path.steps.push_back(step.step);
  path.segments.resize(path.steps.size());
  return path;
}

// mul, then add_ of what it gives, `more` relus.
PathBuilder Chain(int more = 0, std::int64_t offset = 0) {
  PathBuilder path;
  const TensorGeometry g = WithStrides(F32({4}), {1}, offset);
  const int x = path.External(g, 1024);
  int y = path.Op("aten::mul.Tensor", {x, x}, F32({4}));
  path.last().context = 1;
  path.InPlace("aten::add_.Tensor", {x, y});
  path.last().context = 1;
  path.last().scalars = {FreeScalar(1)};
  for (int i = 0; i < more; ++i) {
    y = path.Op("aten::relu", {y});
    path.last().context = 2;
  }
  return path;
}

std::string Text(const Profile& profile) {
  return ToText(profile, [](std::uint32_t context) {
    return ContextWords{context, 0xff};
  });
}

std::string Parse(const std::string& text, Profile* profile) {
  return ParseProfile(
      text,
      [](const ContextWords& words) {
        return words.size() == 2 && words[1] == 0xff
                   ? static_cast<std::uint32_t>(words[0]) + 10
                   : 0;
      },
      profile);
}

const KnownNode* Find(const Profile& profile, const PathBuilder& path) {
  return profile.Find(path.records());
}

TEST(ProfileTest, WhereATensorBeginsAndFreeScalarsDoNotMatter) {
  PathBuilder a = Chain(), b = Chain(0, 128);
  b.last().scalars = {FreeScalar(2)};
  EXPECT_TRUE(Resembles(a.steps()[0].step, b.steps()[0].step));
  EXPECT_TRUE(Resembles(a.steps()[1].step, b.steps()[1].step));
}

TEST(ProfileTest, EverythingElseMatters) {
  const PathBuilder a = Chain();
  const StepRecord step = *a.records()[1];
  StepRecord other = step;
  other.op = InternOp("aten::sub_.Tensor");
  EXPECT_FALSE(Resembles(other, step));
  other = step;
  other.context = 3;
  EXPECT_FALSE(Resembles(other, step));
  other = step;
  other.kind = StepKind::kAtCall;
  EXPECT_FALSE(Resembles(other, step));
  other = step;
  other.statics = {1};
  EXPECT_FALSE(Resembles(other, step));
  other = step;
  other.args[1].slot = 0;
  EXPECT_FALSE(Resembles(other, step));
  other = step;
  other.args[1].geometry.Own().sizes[0] = 5;
  EXPECT_FALSE(Resembles(other, step));
  other = step;
  other.scalars = {BakedScalar(1)};
  EXPECT_FALSE(Resembles(other, step));
  other = step;
  other.scalars[0].value_class = 1;
  EXPECT_FALSE(Resembles(other, step));
  other = step;
  other.results[0].alias_arg = 1;
  EXPECT_FALSE(Resembles(other, step));
}

TEST(ProfileTest, PathsShareSteps) {
  Profile profile;
  EXPECT_EQ(profile.Add(PathOf(Chain(2))), "");
  EXPECT_EQ(profile.Add(PathOf(Chain(0, 64), /*at_boundary=*/true)), "");
  EXPECT_EQ(profile.Add(PathOf(Chain(2, 32))), "");  // known
  ASSERT_EQ(profile.ends().size(), 2u);
  const KnownNode* shorter = Find(profile, Chain());
  ASSERT_NE(shorter, nullptr);
  EXPECT_TRUE(shorter->ends && shorter->at_boundary);
  EXPECT_EQ(shorter->depth, 1u);
  ASSERT_EQ(shorter->children.size(), 1u);
  EXPECT_FALSE(shorter->children[0]->ends);
  const auto* roots = profile.RootsOf(ShapeOf(Chain().steps()[0].step));
  ASSERT_TRUE(roots != nullptr && roots->size() == 1);
  EXPECT_TRUE(roots->front()->anywhere);
  EXPECT_EQ(roots->front()->longest, 4u);
  EXPECT_TRUE(profile.IsRootOp(InternOp("aten::mul.Tensor")));
  EXPECT_FALSE(profile.IsRootOp(InternOp("aten::relu")));
}

// Two sequences that begin alike, over storages of other sizes: a number of its
// own, and one of a longer list. Both are written with the steps they share.
TEST(ProfileTest, PathsThatShareStepsShareNoStorage) {
  const auto path_over = [](std::int64_t numbers, std::int64_t offset,
                            const char* last) {
    PathBuilder path;
    TensorGeometry g = F32({});
    g.offset = offset;
    const int t = path.External(g, static_cast<std::uint64_t>(numbers) * 4);
    const int y = path.Op("aten::mul.Tensor", {t, t}, F32({}));
    path.Op(last, {y, t}, F32({}));
    for (NewStep& step : path.steps()) step.step.context = 1;
    return path;
  };
  for (const bool longer_first : {false, true}) {
    PathBuilder paths[] = {path_over(1, 0, "aten::add.Tensor"),
                           path_over(41, 40, "aten::sub.Tensor")};
    if (longer_first) std::swap(paths[0], paths[1]);
    Profile profile, back;
    for (const PathBuilder& path : paths) {
      ASSERT_EQ(profile.Add(PathOf(path)), "");
    }
    ASSERT_EQ(profile.ends().size(), 2u);
    EXPECT_EQ(Parse(Text(profile), &back), "");
    EXPECT_EQ(back.ends().size(), 2u);
  }
}

// Paths that share their steps are written out one by one.
// Two rows of one storage, which are recorded over one slot, and known over
// two.
TEST(ProfileTest, PlacesAreFollowedAsTheyAreRecorded) {
  const auto row = [](std::int64_t i) {
    return WithStrides(F32({8}), {1}, 8 * i);
  };
  PathBuilder recorded;
  const int all = recorded.External(F32({10, 8}));
  recorded.Op("aten::relu", {recorded.View(all, row(2))}, F32({8}));
  const int y = recorded.Op(
      "aten::mul.Tensor",
      {recorded.View(all, row(1)), recorded.View(all, row(7))}, F32({8}));
  recorded.Op("aten::tanh", {y});
  for (NewStep& step : recorded.steps()) step.step.context = 1;
  PathBuilder split = recorded;
  SplitPlaces(0, &split.steps());
  ASSERT_EQ(split.slots().size(), recorded.slots().size() + 2);

  Profile written;
  ASSERT_EQ(written.Add(PathOf(split)), "");
  Profile profile;
  ASSERT_EQ(Parse(Text(written), &profile), "");
  ASSERT_EQ(profile.ends().size(), 1u);
  for (const PathBuilder& path : {recorded, split}) {
    const KnownNode* node = nullptr;
    for (const StepRecord* step : path.records()) {
      StepRecord at_home = CopyOf(*step);
      at_home.context = 11;
      node = profile.NextRecorded(node, at_home);
      ASSERT_NE(node, nullptr);
    }
    EXPECT_TRUE(node->ends);
  }
  const KnownPath again = Profile::PathTo(profile.ends()[0]);
  EXPECT_EQ(again.slots[1].place_of, split.slots()[1].place_of);
}

TEST(ProfileTest, StepsOfAllPathsAreBounded) {
  Profile profile;
  std::size_t steps = 0, longest = 0;
  std::string why;
  for (int more = 0; why.empty() && more < 1000; ++more) {
    const KnownPath path = PathOf(Chain(more));
    longest = path.steps.size();
    why = profile.Add(path);
    if (why.empty()) steps += longest;
  }
  EXPECT_EQ(why, "there is no room");
  EXPECT_LE(steps, Profile::kMaxSteps);
  EXPECT_GT(steps + longest, Profile::kMaxSteps);
}

TEST(ProfileTest, ReadingCanBeStopped) {
  Profile profile, back;
  ASSERT_EQ(profile.Add(PathOf(Chain())), "");
  const std::atomic<bool> stop{true};
  const auto none = [](const ContextWords&) { return 0; };
  EXPECT_THAT(ParseProfile(Text(profile), none, &back, &stop),
              HasSubstr("reading was stopped"));
  EXPECT_TRUE(back.empty());
}

TEST(ProfileTest, ABrokenPathIsNotAdded) {
  Profile profile;
  KnownPath path = PathOf(Chain());
  path.steps[1].args[1].slot = 7;
  EXPECT_THAT(profile.Add(path), HasSubstr("%1"));
  EXPECT_NE(profile.Add(KnownPath()), "");
  EXPECT_TRUE(profile.empty());
}

TEST(ProfileTest, TheTextComesBackWithOtherContexts) {
  Profile profile;
  KnownPath path = PathOf(Chain(2), /*at_boundary=*/true);
  path.steps[1].scalars[0].MarkRuntime();
  path.segments[1] = {{0, {0, 1}, {}}, {0, {}, {1}}};
  ASSERT_EQ(profile.Add(path), "");
  ASSERT_EQ(profile.Add(PathOf(Chain())), "");
  const std::string text = Text(profile);
  EXPECT_THAT(text, HasSubstr("context 1 1,ff\ncontext 2 2,ff\ntrace 0 ops=4"));
  EXPECT_THAT(text, HasSubstr("\nsegment 0 1 live 0,1 dropped\n"
                              "segment 0 1 live dropped 1\n"));
  Profile back;
  ASSERT_EQ(Parse(text, &back), "");
  ASSERT_EQ(back.ends().size(), 2u);
  const KnownPath got = Profile::PathTo(back.ends()[0]);
  EXPECT_TRUE(got.at_boundary);
  EXPECT_EQ(got.segments, path.segments);
  EXPECT_TRUE(got.steps[1].scalars[0].IsRuntime());
  EXPECT_EQ(got.steps[0].context, 11u);
  EXPECT_EQ(got.steps[3].context, 12u);
  EXPECT_TRUE(ParsesBack(path));
  Profile again;
  EXPECT_EQ(again.Add(got), "");
}

TEST(ProfileTest, SequencesOfUnknownContextsAreLeftOut) {
  Profile profile, back;
  ASSERT_EQ(profile.Add(PathOf(Chain())), "");
  ASSERT_EQ(profile.Add(PathOf(Chain(1))), "");
  std::string text = Text(profile);
  text.replace(text.find("2,ff"), 4, "2,fe");
  EXPECT_EQ(Parse(text, &back), "");
  ASSERT_EQ(back.ends().size(), 1u);
  EXPECT_EQ(back.ends()[0]->depth, 1u);
}

TEST(ProfileTest, WhatIsWrongIsNamedWithItsLine) {
  Profile profile;
  KnownPath path = PathOf(Chain());
  path.segments[1] = {{0, {1}, {}}};
  ASSERT_EQ(profile.Add(path), "");
  const std::string text = Text(profile);
  const auto error_of = [&](std::string_view from, std::string_view to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos);
    changed.replace(at, from.size(), to);
    Profile none;
    return Parse(changed, &none);
  };
  EXPECT_THAT(error_of("trace 0", "race 0"), HasSubstr("expected context"));
  EXPECT_THAT(error_of("context 1", "context 9"),
              HasSubstr("context 1 is not"));
  EXPECT_THAT(error_of("f32[4]", "f31[4]"), HasSubstr("no dtype 'f31'"));
  EXPECT_THAT(error_of("live 1", "live 9"), HasSubstr("not there"));
  EXPECT_THAT(error_of("segment 0 1", "segment 0 7"),
              HasSubstr("no steps 0 to 7"));
  EXPECT_THAT(error_of("f32[4]", "f32[4000]"), HasSubstr("%0"));
  // Cut anywhere, it is an error or a shorter profile; never a crash.
  for (std::size_t n = 0; n < text.size(); ++n) {
    Profile some;
    Parse(text.substr(0, n), &some);
  }
}

}  // namespace
}  // namespace tjit
