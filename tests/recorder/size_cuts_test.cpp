// Where a sequence is cut whose sizes are several numbers, and what its parts
// are (recorder/size_cuts.h).
#include "recorder/size_cuts.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/trace_text.h"
#include "recorder/trace_verifier.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

using Numbers = std::vector<std::int64_t>;
using Cuts = std::vector<std::size_t>;

// Numbers of four runs that are functions of one another in no way.
const std::vector<Numbers> kRuns = {
    {35, 23, 31}, {28, 30, 40}, {22, 41, 29}, {37, 33, 26}};

// `ops` steps, each over a tensor of the last one's sizes and a parameter.
int AddChain(PathBuilder* path, std::int64_t size, int ops) {
  int x = path->External(F32({size, 8}));
  for (int i = 0; i < ops; ++i) x = path->Op("aten::sin", {x});
  return x;
}

class Recorded {
 public:
  // One path for each of kRuns.
  explicit Recorded(
      const std::function<void(PathBuilder*, const Numbers&)>& build) {
    for (const Numbers& run : kRuns) {
      PathBuilder path;
      build(&path, run);
      BailReason why = BailReason::kCount;
      trace_ =
          store_.Insert(store_.top(), std::move(path.steps()), false, &why);
      EXPECT_NE(trace_, nullptr) << BailName(why);
    }
    EXPECT_EQ(store_.traces().size(), 1u);
    EXPECT_EQ(paths().size(), kRuns.size());
  }
  std::vector<std::vector<const TraceNode*>> paths() const {
    return store_.PathsOf(trace_);
  }
  Cuts cuts() const { return CutsBySizes(paths()); }

 private:
  TraceStore store_;
  Trace* trace_ = nullptr;
};

TEST(SizeCutsTest, NumbersOfTheirOwnArePartsOfTheirOwn) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    AddChain(path, n[0], 10);
    AddChain(path, n[1], 12);
    AddChain(path, n[2], 9);
    AddChain(path, 64, 20);
  });
  EXPECT_EQ(recorded.cuts(), (Cuts{10, 22, 31}));
}

TEST(SizeCutsTest, ManyStepsInFrontWhoseSizesStayAreAPart) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    AddChain(path, 64, 20);
    AddChain(path, n[0], 10);
    AddChain(path, 64, 3);  // goes with what it lies in
    AddChain(path, n[0], 5);
    AddChain(path, n[1], 10);
  });
  EXPECT_EQ(recorded.cuts(), (Cuts{20, 38}));
}

TEST(SizeCutsTest, ASequenceOfOneNumberIsOnePart) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    AddChain(path, 64, 20);
    AddChain(path, n[0], 10);
    AddChain(path, 3 * n[0], 10);     // edges
    AddChain(path, n[0] + 1, 10);     // and a token
    AddChain(path, n[0] * n[0], 10);  // pairs
    AddChain(path, 64, 20);
  });
  EXPECT_EQ(recorded.cuts(), Cuts{});
}

// Windows, strides and lengths that are padded.
TEST(SizeCutsTest, PartsOfANumberFollow) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    AddChain(path, n[0], 10);
    AddChain(path, n[0] / 2, 10);
    AddChain(path, (n[0] + 7) / 8, 10);
    AddChain(path, (n[0] - 3) / 3 + 1, 10);
    AddChain(path, n[1], 10);
    AddChain(path, n[1] / 2, 10);
  });
  EXPECT_EQ(recorded.cuts(), Cuts{40});
}

// Products of three large sizes are more than 64 bits have.
TEST(SizeCutsTest, LargeNumbersAreCompared) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    const std::int64_t points = n[0] * 3'000'017, edges = n[1] * 2'999'999;
    AddChain(path, points, 10);
    AddChain(path, edges, 10);
    AddChain(path, points + edges, 10);
  });
  EXPECT_EQ(recorded.cuts(), (Cuts{10, 20}));
}

TEST(SizeCutsTest, APartBeginsWithAStepThatIsDeferred) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    AddChain(path, n[0], 10);
    for (int i = 0; i < 20; ++i) {
      path->Op("aten::rand", {}, F32({8}));
      if (i < 2) path->last().kind = StepKind::kAtCall;
    }
    AddChain(path, n[1], 10);
  });
  EXPECT_EQ(recorded.cuts(), (Cuts{12, 30}));
}

TEST(SizeCutsTest, SumsAndProductsFollowFromTheirParts) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    AddChain(path, n[0], 10);
    AddChain(path, n[1], 10);
    AddChain(path, n[0] + n[1], 10);
    AddChain(path, n[1] * n[0], 10);
    AddChain(path, 8 * n[1] * n[0], 10);
  });
  // The second part is of n[1]; what needs both is the third.
  EXPECT_EQ(recorded.cuts(), (Cuts{10, 20}));
}

TEST(SizeCutsTest, ShortPartsGoTogether) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    for (int i = 0; i < 6; ++i) {
      AddChain(path, n[0], 3);
      AddChain(path, n[1], 3);
    }
  });
  EXPECT_EQ(recorded.cuts(), Cuts{});
}

TEST(SizeCutsTest, AShortLastPartIsNone) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    AddChain(path, n[0], 10);
    AddChain(path, n[1], 7);
  });
  EXPECT_EQ(recorded.cuts(), Cuts{});
}

TEST(SizeCutsTest, NumbersOfResultsCount) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    AddChain(path, n[0], 10);
    int x = path->External(F32({64, 8}));
    for (int i = 0; i < 10; ++i) path->Op("aten::f", {x}, F32({n[1], 8}));
  });
  EXPECT_EQ(recorded.cuts(), Cuts{10});
}

TEST(SizeCutsTest, APartIsASequenceOfItsOwn) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    const int w = path->External(F32({8}));
    const int x = AddChain(path, n[0], 9);
    const int y = path->Op("aten::add.Tensor", {x, w}, F32({n[0], 8}));
    path->InPlace("aten::add_.Tensor", {y, x});
    path->Op("aten::mul.Tensor", {y, w}, F32({n[0], 8}));
  });
  const std::vector<NewStep> part = PartOf(recorded.paths()[0], 9, 12);
  std::vector<const StepRecord*> records;
  std::vector<SlotRecord> slots;
  for (const NewStep& step : part) {
    records.push_back(&step.step);
    slots.insert(slots.end(), step.new_slots.begin(), step.new_slots.end());
  }
  EXPECT_EQ(VerifyPath(records, slots), std::vector<std::string>());
  EXPECT_EQ(
      ToText(records, slots),
      "  s0: external 1120 bytes\n"
      "  s1: external 32 bytes\n"
      "  s2: born %0 1120 bytes\n"
      "  s3: born %2 1120 bytes\n"
      "  %0 aten::add.Tensor(s0 f32[35,8] ks=8001, s1 f32[8]) -> s2 f32[35,8]\n"
      "  %1 aten::add_.Tensor(s2! f32[35,8], s0 f32[35,8]) -> arg 0\n"
      "  %2 aten::mul.Tensor(s2 f32[35,8], s1 f32[8]) -> s3 f32[35,8]\n");
}

TEST(SizeCutsTest, PlacesOfAStorageStayPlaces) {
  // Slots 0 to 2 are rows of one storage, slot 3 is another one.
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    for (int row = 0; row < 4; ++row) {
      const int x = path->External(F32({n[0], 8}));
      path->Op("aten::sin", {x});
      path->steps().back().new_slots.front().place_of = row < 3 ? 0 : -1;
      path->Op("aten::cos", {x});
    }
  });
  // Slots 0, 2, 4 are the rows: each sin makes a slot, too, and so does cos.
  const auto places_of = [](const std::vector<NewStep>& part) {
    std::vector<int> places;
    for (const NewStep& step : part) {
      for (const SlotRecord& slot : step.new_slots) {
        places.push_back(slot.place_of);
      }
    }
    return places;
  };
  EXPECT_EQ(places_of(PartOf(recorded.paths()[0], 0, 8)),
            (std::vector<int>{0, -1, -1, 0, -1, -1, 0, -1, -1, -1, -1, -1}));
  EXPECT_EQ(places_of(PartOf(recorded.paths()[0], 3, 8)),
            (std::vector<int>{0, -1, 0, -1, -1, -1, -1, -1}));
}

// A new list, then as many steps with it: each is a sequence.
TEST(SizeCutsTest, IterationsOfALoopInOneSizeAreSequences) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    int list = path->External(F32({n[0], 8}));
    for (int i = 0; i < 3; ++i) list = path->Op("aten::neg", {list});
    for (int step = 0; step < 9; ++step) {
      int x = list;
      for (int i = 0; i < 8; ++i) x = path->Op("aten::sin", {x});
      path->Op("aten::exp", {x});
      path->Op("aten::cos", {list});
    }
    AddChain(path, 64, 2);
  });
  const LoopInPath loop = FindLoop(recorded.paths());
  EXPECT_EQ(loop.steps, 10u);
  EXPECT_EQ(loop.cuts, (Cuts{3, 13, 23, 33, 43, 53, 63, 73, 83, 93}));
}

TEST(SizeCutsTest, ShortAndRareLoopsAreNone) {
  const Recorded few([](PathBuilder* path, const Numbers& n) {
    for (int step = 0; step < 7; ++step) {
      AddChain(path, n[0], 12);
      path->Op("aten::exp", {path->External(F32({64, 8}))});
    }
  });
  EXPECT_EQ(FindLoop(few.paths()).steps, 0u);
  const Recorded small([](PathBuilder* path, const Numbers& n) {
    int x = path->External(F32({n[0], 8}));
    for (int step = 0; step < 20; ++step) {
      x = path->Op("aten::sin", {x});
      x = path->Op("aten::exp", {x});
    }
    for (int i = 0; i < 50; ++i) {
      x = path->Op(i % 7 == i % 5 ? "aten::cos" : "aten::neg", {x});
    }
  });
  EXPECT_EQ(FindLoop(small.paths()).steps, 0u);
}

TEST(SizeCutsTest, ALoopWhoseSizesStayIsNone) {
  const Recorded recorded([](PathBuilder* path, const Numbers& n) {
    AddChain(path, n[0], 2);
    for (int step = 0; step < 12; ++step) {
      AddChain(path, 64, 10);
      path->Op("aten::exp", {path->External(F32({64, 8}))});
    }
  });
  EXPECT_EQ(FindLoop(recorded.paths()).steps, 0u);
}

}  // namespace
}  // namespace tjit
