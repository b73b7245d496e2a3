// Which storages of a recorded sequence become several slots, and how the slots
// are numbered then.
#include "recorder/split_places.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/trace_text.h"
#include "recorder/trace_verifier.h"
#include "support/policy.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

TensorGeometry Row(std::int64_t i) {
  return WithStrides(F32({8}), {1}, 8 * i);
}

// The slots of the arguments of each step, "0,1;2".
std::string Slots(const std::vector<NewStep>& steps) {
  std::string text;
  for (const NewStep& step : steps) {
    for (const ArgRecord& arg : step.step.args) {
      text += std::to_string(arg.slot) + ",";
    }
    text.back() = ';';
  }
  return text;
}

std::vector<int> PlaceOf(const std::vector<NewStep>& steps) {
  std::vector<int> places;
  for (const NewStep& step : steps) {
    for (const SlotRecord& slot : step.new_slots) {
      places.push_back(slot.place_of);
    }
  }
  return places;
}

void ExpectSound(const std::vector<NewStep>& steps) {
  std::vector<const StepRecord*> records;
  std::vector<SlotRecord> slots;
  for (const NewStep& s : steps) {
    records.push_back(&s.step);
    slots.insert(slots.end(), s.new_slots.begin(), s.new_slots.end());
  }
  EXPECT_EQ(VerifyPath(records, slots), std::vector<std::string>());
}

TEST(SplitPlacesTest, RowsOfOneStorageAreSlots) {
  PathBuilder path;
  const int all = path.External(F32({10, 8}));
  const int w = path.External(F32({8}));
  const int x = path.Op("aten::add.Tensor",
                        {path.View(all, Row(3)), path.View(all, Row(7))},
                        F32({8}));
  const int y = path.Op("aten::mul.Tensor", {x, w});
  path.Op("aten::sub.Tensor", {y, path.View(all, Row(3))});
  std::vector<NewStep> steps = path.steps();
  SplitPlaces(0, &steps);
  EXPECT_EQ(Slots(steps), "0,1;2,3;4,0;");
  EXPECT_EQ(PlaceOf(steps), (std::vector<int>{0, 0, -1, -1, -1, -1}));
  ExpectSound(steps);
}

TEST(SplitPlacesTest, OnePlaceIsAStorage) {
  PathBuilder path;
  const int all = path.External(F32({10, 8}));
  path.Op("aten::add.Tensor",
          {path.View(all, Row(3)), path.View(all, Row(3))}, F32({8}));
  std::vector<NewStep> steps = path.steps();
  SplitPlaces(0, &steps);
  EXPECT_EQ(Slots(steps), Slots(path.steps()));
  EXPECT_EQ(PlaceOf(steps), (std::vector<int>{-1, -1}));
}

TEST(SplitPlacesTest, AWrittenStorageStaysOneSlot) {
  PathBuilder path;
  const int all = path.External(F32({10, 8}));
  const int x = path.Op("aten::add.Tensor",
                        {path.View(all, Row(3)), path.View(all, Row(7))},
                        F32({8}));
  path.InPlace("aten::copy_", {path.View(all, Row(1)), x});
  std::vector<NewStep> steps = path.steps();
  SplitPlaces(0, &steps);
  EXPECT_EQ(Slots(steps), Slots(path.steps()));
  EXPECT_EQ(PlaceOf(steps), PlaceOf(path.steps()));
}

TEST(SplitPlacesTest, AStorageThatIsBornInTheSequenceStaysOneSlot) {
  PathBuilder path;
  const int x = path.External(F32({10, 8}));
  const int all = path.Op("aten::tanh", {x});
  path.Op("aten::add.Tensor",
          {path.View(all, Row(3)), path.View(all, Row(7))}, F32({8}));
  std::vector<NewStep> steps = path.steps();
  SplitPlaces(0, &steps);
  EXPECT_EQ(Slots(steps), Slots(path.steps()));
}

TEST(SplitPlacesTest, EqualPlacesOfALongListAreSlotsOfTheirOwn) {
  PathBuilder path;
  const int all = path.External(F32({10, 8}));
  std::vector<int> rows;
  for (std::size_t i = 0; i <= policy::kMergedPlaces; ++i) {
    rows.push_back(path.View(all, Row(i == 0 ? 2 : 5)));
  }
  path.Op("aten::stack", rows, F32({5, 8}));
  path.Op("aten::relu", {path.View(all, Row(5))}, F32({8}));
  std::vector<NewStep> steps = path.steps();
  SplitPlaces(0, &steps);
  EXPECT_EQ(Slots(steps), "0,1,2,3,4;4;");
  ExpectSound(steps);
}

// Behind a path: its slots keep their numbers, and a place of one of them says
// so.
TEST(SplitPlacesTest, BehindAPath) {
  PathBuilder path;
  const int all = path.External(F32({10, 8}));
  const int cache = path.External(F32({10, 8}));
  path.Op("aten::add.Tensor", {path.View(all, Row(0)), cache}, F32({8}));
  path.Op("aten::add.Tensor",
          {path.View(all, Row(1)), path.View(all, Row(2))}, F32({8}));
  std::vector<NewStep> steps = path.steps();
  steps.erase(steps.begin());
  SplitPlaces(3, &steps);
  EXPECT_EQ(Slots(steps), "0,0;");

  steps[0].step.args[0].slot = steps[0].step.args[1].slot = 3;
  steps[0].new_slots.insert(steps[0].new_slots.begin(), {320, -1, 1});
  steps[0].step.results[0].slot = 4;
  SplitPlaces(3, &steps);
  EXPECT_EQ(Slots(steps), "3,4;");
  EXPECT_EQ(PlaceOf(steps), (std::vector<int>{1, 1, -1}));
  EXPECT_EQ(steps[0].step.results[0].slot, 5);
}

}  // namespace
}  // namespace tjit
