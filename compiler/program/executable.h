// A segment as a flat program: steps over raw pointers, and a memory plan.
//
// A step is a function pointer with its prepared state; it reads and writes
// memory through the slot table of the run. The executable knows nothing of
// tensors: library calls come from runtime/library_calls, generated kernels
// later from the code generator, both in this form.
//
// Invariants: (1) Run() itself allocates nothing; library calls may. (2) A slot
// that dies inside the segment gets its address from the arena, or within a
// slot that is born later, every other from the caller.
// Thread: one run at a time per Executable (steps hold prepared state).
// Tested by: tests/compiler/program/executable_test.cpp
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/program/memory_plan.h"
#include "recorder/tensor_meta.h"

namespace tjit {

// Runs one step. `slots[s]` is the first byte of the storage of slot s;
// `scalars` are this step's own. May throw what the library call throws.
using StepFn = void (*)(void* state, char* const* slots,
                        const ScalarValue* scalars);

// Lends the step that runs next `data[0, bytes)`, a piece of its scratch. With
// null, what was lent is taken back: the step has run, or thrown.
using LendFn = void (*)(void* state, char* data, std::uint64_t bytes);

struct ProgramStep {
  StepFn fn = nullptr;
  void* state = nullptr;           // not owned
  std::uint32_t scalar_begin = 0;  // into the scalars of the run
  LendFn lend = nullptr;           // null: the plan has no scratch for it
};

class Executable {
 public:
  // `steps[i]` belongs to step i that `plan` was made for; steps that the plan
  // does not need are left out.
  Executable(const std::vector<ProgramStep>& steps, MemoryPlan plan);

  // Runs all steps in order. `slots` has the addresses of the slots that the
  // plan does not place (those that it places are overwritten); `arena` has
  // at least arena_bytes(), aligned to 64.
  void Run(char** slots, const ScalarValue* scalars, char* arena) const;

  std::uint64_t arena_bytes() const { return plan_.arena_bytes; }
  std::uint32_t step_count() const {
    return static_cast<std::uint32_t>(steps_.size());
  }
  const MemoryPlan& plan() const { return plan_; }

 private:
  std::vector<ProgramStep> steps_;
  MemoryPlan plan_;
};

}  // namespace tjit
