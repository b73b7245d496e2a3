// The writer and the reader of profiles against each other: what random
// profiles write is read back, and writes the same again; a text that was
// changed anywhere is read or refused, and what was read of it is written and
// read as well.
//
// Paths are drawn from few ops, tensors and storages, so that many of them
// share their first steps and differ in what Resembles() leaves out: where a
// tensor begins in its storage, how long that is, scalars that may vary.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/profile.h"
#include "recorder/profile_text.h"
#include "recorder/trace_verifier.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

constexpr int kProfiles = 300;
constexpr int kMutations = 4000;

using Random = std::mt19937;

int Draw(Random* random, int below) {
  return static_cast<int>((*random)() % static_cast<unsigned>(below));
}

TensorGeometry DrawGeometry(Random* random) {
  switch (Draw(random, 6)) {
    case 0: return F32({});
    case 1: return F32({4});
    case 2: return WithStrides(F32({2, 2}), {1, 2});
    case 3: return WithStrides(F32({4}), {0});
    case 4: return WithStrides(F32({3}), {2});
    default: {
      TensorGeometry g = F32({4});
      g.dtype = 7;
      g.itemsize = 8;
      return g;
    }
  }
}

std::uint64_t EndOf(const TensorGeometry& g) {
  return static_cast<std::uint64_t>(g.last_element() + 1) * g.itemsize;
}

// A storage that is as long as it need be, or a slice of a longer one.
int DrawExternal(Random* random, PathBuilder* path, TensorGeometry g) {
  if (Draw(random, 2) == 0) g.offset = Draw(random, 3) * 40;
  return path->External(g, EndOf(g) + static_cast<std::uint64_t>(
                                          Draw(random, 3) * 160));
}

ScalarRecord DrawScalar(Random* random) {
  static constexpr double kValues[] = {0, -0.0, 1, 0.1, 1e300, -2.5};
  const double value = kValues[Draw(random, 6)];
  ScalarRecord s = Draw(random, 2) == 0 ? FreeScalar(value)
                                        : BakedScalar(value);
  if (s.may_vary && Draw(random, 2) == 0) s.MarkRuntime();
  if (Draw(random, 4) == 0) s.value = {4, {std::uint64_t(Draw(random, 3)), 0}};
  return s;
}

void AddStep(Random* random, PathBuilder* path, std::vector<int>* tensors) {
  static constexpr const char* kOps[] = {"aten::add.Tensor", "aten::relu"};
  const auto any = [&] {
    const int n = static_cast<int>(tensors->size());
    if (n == 0 || Draw(random, 3) == 0) {
      tensors->push_back(DrawExternal(random, path, DrawGeometry(random)));
      return tensors->back();
    }
    return (*tensors)[static_cast<std::size_t>(Draw(random, n))];
  };
  switch (Draw(random, 5)) {
    case 0:  // one that runs at the call: over a tensor that has its slot
      path->InPlace("aten::item", {any()});
      if (!path->steps().back().new_slots.empty()) break;
      path->last().kind = StepKind::kAtCall;
      path->last().args.clear();
      path->last().results.clear();
      break;
    case 1:
      path->InPlace("aten::add_.Tensor", {any(), any()});
      path->last().scalars = {DrawScalar(random)};
      break;
    default: {
      const TensorGeometry g = DrawGeometry(random);
      TensorGeometry result = g;
      result.offset = 0;
      tensors->push_back(
          path->Op(kOps[Draw(random, 2)], {any(), any()}, result));
    }
  }
  path->last().context = static_cast<std::uint32_t>(1 + Draw(random, 2));
  if (Draw(random, 8) == 0) path->last().statics = {7};
}

// One whose slots have the bytes that its tensors need.
KnownPath DrawPath(Random* random) {
  PathBuilder path;
  std::vector<int> tensors;
  const int steps = 1 + Draw(random, 6);
  for (int i = 0; i < steps; ++i) AddStep(random, &path, &tensors);
  KnownPath known;
  known.at_boundary = Draw(random, 2) == 0;
  known.slots = path.slots();
  for (const NewStep& step : path.steps()) known.steps.push_back(step.step);
  known.segments.resize(known.steps.size());
  if (Draw(random, 3) == 0 && !known.slots.empty()) {
    known.segments.back() = {{0, {0}, {}}};
  }
  return known;
}

// The same steps up to somewhere, over other storages.
KnownPath Moved(Random* random, KnownPath path) {
  std::vector<std::uint64_t> more(path.slots.size());
  for (std::size_t s = 0; s < path.slots.size(); ++s) {
    if (path.slots[s].born_step >= 0 || Draw(random, 2) == 0) continue;
    more[s] = static_cast<std::uint64_t>(Draw(random, 5)) * 16;
    path.slots[s].bytes += more[s] * 8;
  }
  for (StepRecord& step : path.steps) {
    for (ArgRecord& arg : step.args) {
      if (arg.slot == kNoSlot) continue;
      arg.geometry.Own().offset +=
          static_cast<std::int64_t>(more[static_cast<std::size_t>(arg.slot)]);
    }
  }
  if (path.steps.size() > 1 && Draw(random, 2) == 0) {
    path.steps.back().statics.push_back(9);  // it goes on otherwise
  }
  return path;
}

bool IsSound(const KnownPath& path) {
  std::vector<const StepRecord*> records;
  for (const StepRecord& step : path.steps) records.push_back(&step);
  return VerifyPath(records, path.slots).empty();
}

std::string Text(const Profile& profile) {
  return ToText(profile, [](std::uint32_t context) {
    return ContextWords{context, 0xabc};
  });
}

std::string Parse(const std::string& text, Profile* profile) {
  return ParseProfile(
      text,
      [](const ContextWords& words) {
        return static_cast<std::uint32_t>(words[0]);
      },
      profile);
}

int Fill(Random* random, Profile* profile) {
  int added = 0;
  const int paths = 1 + Draw(random, 12);
  for (int i = 0; i < paths; ++i) {
    KnownPath path = DrawPath(random);
    const KnownPath moved = Moved(random, path);
    for (const KnownPath& p : {path, moved}) {
      if (IsSound(p) && ParsesBack(p) && profile->Add(p).empty()) ++added;
    }
  }
  return added;
}

TEST(ProfileRandomTest, WhatIsWrittenIsReadAndWritesTheSame) {
  int added = 0;
  std::size_t shared = 0;
  for (int seed = 0; seed < kProfiles; ++seed) {
    Random random(static_cast<unsigned>(seed));
    Profile profile, back;
    added += Fill(&random, &profile);
    const std::string text = Text(profile);
    ASSERT_EQ(Parse(text, &back), "") << "seed " << seed << "\n" << text;
    ASSERT_EQ(back.ends().size(), profile.ends().size()) << "seed " << seed;
    ASSERT_EQ(Text(back), text) << "seed " << seed;
    for (const KnownNode* end : profile.ends()) {
      ASSERT_TRUE(IsSound(Profile::PathTo(end))) << "seed " << seed;
      if (end->parent != nullptr && end->parent->children.size() > 1) ++shared;
    }
  }
  // The generator makes what it is for.
  EXPECT_GT(added, 4 * kProfiles);
  EXPECT_GT(shared, static_cast<std::size_t>(kProfiles / 4));
}

std::string Mutated(Random* random, std::string text) {
  static constexpr char kBytes[] = "0123456789abcdfisu%@#*~<>{}[]()+-,:!.' \n";
  for (int n = 1 + Draw(random, 3); n > 0 && !text.empty(); --n) {
    const auto at = static_cast<std::size_t>(
        Draw(random, static_cast<int>(text.size())));
    const int kinds = static_cast<int>(sizeof(kBytes)) - 1;
    const char byte = kBytes[Draw(random, kinds)];
    switch (Draw(random, 5)) {
      case 0: text[at] = byte; break;
      case 1: text.insert(at, 1, byte); break;
      case 2: text.erase(at, 1); break;
      case 3: {  // a piece from elsewhere
        const auto from = static_cast<std::size_t>(
            Draw(random, static_cast<int>(text.size())));
        text.insert(at, text.substr(from, 1 + (*random)() % 40));
        break;
      }
      default: text.resize(at);
    }
  }
  return text;
}

TEST(ProfileRandomTest, WhatWasChangedIsRefusedOrSound) {
  int refused = 0, read = 0;
  for (int i = 0; i < kMutations; ++i) {
    Random random(static_cast<unsigned>(i));
    Profile profile, some, again;
    Fill(&random, &profile);
    const std::string text = Mutated(&random, Text(profile));
    const std::string why = Parse(text, &some);
    ++(why.empty() ? read : refused);
    // What there was before the error was added.
    const std::string written = Text(some);
    ASSERT_EQ(Parse(written, &again), "") << "mutation " << i << "\n" << text;
    ASSERT_EQ(Text(again), written) << "mutation " << i;
  }
  EXPECT_GT(refused, kMutations / 4);
  EXPECT_GT(read, kMutations / 100);
}

}  // namespace
}  // namespace tjit
