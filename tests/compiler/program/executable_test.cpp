// Executable: needed steps only, in order, each with its own scalars, over
// addresses from the caller and from the arena.
#include "compiler/program/executable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace tjit {
namespace {

// out[0] = in[0] + scalar, in doubles.
struct AddStep {
  int in = 0;
  int out = 0;
  int runs = 0;

  static void Run(void* state, char* const* slots, const ScalarValue* scalars) {
    auto* self = static_cast<AddStep*>(state);
    double addend = 0;
    std::memcpy(&addend, &scalars[0].bits[0], sizeof(addend));
    *reinterpret_cast<double*>(slots[self->out]) =
        *reinterpret_cast<const double*>(slots[self->in]) + addend;
    ++self->runs;
  }
};

ScalarValue Scalar(double value) {
  ScalarValue s;
  std::memcpy(&s.bits[0], &value, sizeof(value));
  return s;
}

class ExecutableTest : public ::testing::Test {
 protected:
  ExecutableTest() {
    // s1 = s0 + a; s2 = s0 + b (nobody wants it); s3 = s1 + c
    for (int i = 0; i < 3; ++i) {
      program_.push_back(
          {&AddStep::Run, &states_[i], static_cast<std::uint32_t>(i)});
    }
    plan_ =
        PlanMemory({{{0}, {1}}, {{0}, {2}}, {{1}, {3}}},
                   {{8, -1, true}, {8, 0, false}, {8, 1, false}, {8, 2, true}});
  }

  AddStep states_[3] = {{0, 1}, {0, 2}, {1, 3}};
  std::vector<ProgramStep> program_;
  MemoryPlan plan_;
};

struct Lent {
  char* data = nullptr;
  std::uint64_t bytes = 0;
  int taken_back = 0;
  bool throws = false;

  static void Run(void* state, char* const*, const ScalarValue*) {
    if (static_cast<Lent*>(state)->throws) throw std::runtime_error("a step");
  }
  static void Lend(void* state, char* data, std::uint64_t bytes) {
    auto* self = static_cast<Lent*>(state);
    if (data == nullptr) {
      ++self->taken_back;
      return;
    }
    self->data = data;
    self->bytes = bytes;
  }
};

// s0 -> s1 -> s2 -> s3; the first step's scratch lies in s3, which is not born
// yet, the second's in the arena.
TEST(ExecutableLendsTest, PlannedScratch) {
  constexpr std::uint64_t kBytes = kMinHostedBytes;
  std::vector<PlanStep> steps = {{{0}, {1}}, {{1}, {2}}, {{2}, {3}}};
  steps[0].scratch = {kBytes};
  steps[1].scratch = {8};
  const MemoryPlan plan = PlanMemory(
      steps, {{8, -1, true}, {8, 0, false}, {8, 1, false}, {kBytes, 2, true}});
  Lent lent[3];
  std::vector<ProgramStep> program;
  for (Lent& l : lent) {
    program.push_back({&Lent::Run, &l, 0, &Lent::Lend});
  }
  const Executable executable(program, plan);
  std::vector<char> arena(executable.arena_bytes());
  std::vector<char> result(kBytes);
  char* slots[4] = {nullptr, nullptr, nullptr, result.data()};
  executable.Run(slots, nullptr, arena.data());
  EXPECT_EQ(lent[0].data, result.data());
  EXPECT_EQ(lent[0].bytes, kBytes);
  EXPECT_EQ(lent[1].data, arena.data() + plan.scratch[1].offset);
  EXPECT_EQ(lent[1].bytes, 8u);
  EXPECT_EQ(lent[2].data, nullptr) << "needs none";
  EXPECT_EQ(lent[0].taken_back, 1);
  EXPECT_EQ(lent[1].taken_back, 1);
  EXPECT_EQ(lent[2].taken_back, 0);
  lent[1].throws = true;
  EXPECT_THROW(executable.Run(slots, nullptr, arena.data()),
               std::runtime_error);
  EXPECT_EQ(lent[1].taken_back, 2);
}

TEST_F(ExecutableTest, RunsNeededStepsWithTheirScalars) {
  const Executable executable(program_, plan_);
  EXPECT_EQ(executable.step_count(), 2u);
  EXPECT_EQ(executable.arena_bytes(), 64u);
  alignas(64) char arena[64];
  const ScalarValue scalars[] = {Scalar(1), Scalar(10), Scalar(100)};
  double in = 5, out = 0;
  char* slots[] = {reinterpret_cast<char*>(&in), nullptr, nullptr,
                   reinterpret_cast<char*>(&out)};
  executable.Run(slots, scalars, arena);
  EXPECT_EQ(out, 106);
  EXPECT_EQ(states_[1].runs, 0);
  EXPECT_EQ(slots[1], arena);
  EXPECT_EQ(slots[2], nullptr) << "a slot that nobody needs has no address";
}

TEST_F(ExecutableTest, ATemporaryMayLieInALaterResult) {
  const MemoryPlan plan =
      PlanMemory({{{0}, {1}}, {{1}, {2}}, {{2}, {3}}},
                 {{8, -1, true}, {8, 0, false}, {8, 1, false}, {8, 2, true}},
                 /*min_hosted_bytes=*/0);
  AddStep states[3] = {{0, 1}, {1, 2}, {2, 3}};
  std::vector<ProgramStep> program;
  for (AddStep& state : states) program.push_back({&AddStep::Run, &state, 0});
  const Executable executable(program, plan);
  EXPECT_EQ(executable.arena_bytes(), 64u);
  alignas(64) char arena[64];
  const ScalarValue scalars[] = {Scalar(1)};
  double in = 5, out = 0;
  char* slots[] = {reinterpret_cast<char*>(&in), nullptr, nullptr,
                   reinterpret_cast<char*>(&out)};
  executable.Run(slots, scalars, arena);
  EXPECT_EQ(out, 8);
  EXPECT_EQ(slots[1], reinterpret_cast<char*>(&out));
  EXPECT_EQ(slots[2], arena);
}

TEST_F(ExecutableTest, AddressesAndScalarsAreThoseOfTheRun) {
  const Executable executable(program_, plan_);
  for (int run = 0; run < 3; ++run) {
    alignas(64) char arena[64];
    const ScalarValue scalars[] = {Scalar(run), Scalar(0), Scalar(2 * run)};
    double in = 1, out = 0;
    char* slots[] = {reinterpret_cast<char*>(&in), nullptr, nullptr,
                     reinterpret_cast<char*>(&out)};
    executable.Run(slots, scalars, arena);
    EXPECT_EQ(out, 1 + 3 * run);
  }
}

TEST_F(ExecutableTest, PassesOnWhatAStepThrows) {
  program_[2].fn = [](void*, char* const*, const ScalarValue*) {
    throw std::runtime_error("step");
  };
  const Executable executable(program_, plan_);
  alignas(64) char arena[64];
  const ScalarValue scalars[3] = {};
  double in = 5, out = 0;
  char* slots[] = {reinterpret_cast<char*>(&in), nullptr, nullptr,
                   reinterpret_cast<char*>(&out)};
  EXPECT_THROW(executable.Run(slots, scalars, arena), std::runtime_error);
  EXPECT_EQ(states_[0].runs, 1);
}

}  // namespace
}  // namespace tjit
