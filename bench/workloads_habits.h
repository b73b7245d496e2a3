// Rows W: programs after the habits of ordinary users of libtorch.
//
// Each program is written as its user would write it and not tuned for tjit.
// The other rows leave these habits out: raw pointers, batches of random rows,
// constants from the host, lengths and places that change, indices.
// How: a program is a class. Its constructor makes what a main() makes before
// its loop, Step() is the body of the loop, Result() is what the loop changes.
// Invariant: peers do the same steps in each repetition (Row::fixed_steps), as
// some steps take longer than others.
// Thread: one.
// Tested by: tests/acceptance/habits_smoke_test.py
#pragma once

#include <ATen/Context.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/workloads.h"

namespace tjit::bench {

// Row "rowW/<name>" of class Program: `warm_up_steps` take one to two seconds,
// so that what is compiled in the background is there. A repetition takes
// `fixed_steps`.
template <class Program>
Row HabitRow(const std::string& name, std::int64_t warm_up_steps,
             std::int64_t fixed_steps) {
  Row row;
  row.name = "rowW/" + name;
  row.make = [] {
    at::manual_seed(1);
    auto program = std::make_shared<Program>();
    return Workload{[program] { program->Step(); },
                    [program] { return program->Result(); }};
  };
  row.warm_up_steps = warm_up_steps;
  row.fixed_steps = fixed_steps;
  row.settles = false;
  return row;
}

// Numbers for the host's part of a program.
class Dice {
 public:
  explicit Dice(std::uint32_t seed) : generator_(seed) {}
  // An integer in [low, high].
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(generator_()) % (high - low + 1);
  }
  // A number in [-1, 1).
  float Signed() { return static_cast<float>(generator_()) * 0x1p-31f - 1.0f; }

 private:
  std::mt19937 generator_;
};

// All rows W are these together.
std::vector<Row> HabitDataRows();
std::vector<Row> HabitGraphRows();
std::vector<Row> HabitModelRows();
std::vector<Row> HabitSequenceRows();

}  // namespace tjit::bench
