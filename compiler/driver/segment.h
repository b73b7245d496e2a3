// The steps of a segment, and the groups with a kernel that they become: plain
// data.
// Tested by: tests/compiler/driver/segment_code_test.cpp
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/driver/kernel.h"
#include "recorder/op_record.h"

namespace tjit {

// One step that is to run.
struct SegmentStep {
  StepRecord record;
  std::string_view op;             // lives as long as the process
  std::shared_ptr<void> call;      // the runtime's captured call
  std::uint32_t index = 0;         // in the segment
  std::uint32_t scalar_begin = 0;  // into the scalars of the run
};

struct SegmentSlot {
  std::uint64_t bytes = 0;
  bool live_out = true;
  std::string name{};  // of the tensor it was recorded with; "": none
};

struct SegmentInput {
  std::vector<SegmentStep> steps;
  std::vector<SegmentSlot> slots;  // by slot
  int threads = 0;                 // that eager has here; 0: any number
  // Results are rounded to the nearest, and nothing is flushed to zero.
  bool has_usual_arithmetic = true;
  std::string sequence{};  // the name of that it is a part of
};

// A scalar that was compiled in although the op allows others: the kernel
// serves runs with this value.
struct BakedScalar {
  std::uint32_t index = 0;  // into the scalars of the run
  ScalarValue value;
};

struct CompiledGroup {
  std::vector<std::uint32_t> steps;  // of the segment
  std::shared_ptr<const Kernel> kernel;
  std::vector<std::int32_t> memory;    // slots: externals, returned values
  std::vector<std::uint32_t> scalars;  // into the scalars of the run
  KernelShape shape;
  std::vector<BakedScalar> baked;
  std::vector<std::int32_t> reads, writes;  // slots
  // (returned slot, slot that is read): Note [Results over operands] in
  // compiler/program/memory_plan.h.
  std::vector<std::pair<std::int32_t, std::int32_t>> in_place;
  int dump_number = 0;  // of the group in TJIT_DUMP
};

// A place in the new order: a group, or a step of the segment (group < 0).
struct CodeItem {
  std::int32_t group = -1;
  std::uint32_t step = 0;
};

struct SegmentCode {
  std::vector<CodeItem> order;
  std::vector<CompiledGroup> groups;
  int dump_number = 0;  // of the segment in TJIT_DUMP
  std::int64_t steps_fused = 0;
  std::int64_t compiled = 0, reused = 0, failed = 0;
  std::vector<std::string> reasons;  // of the groups that failed
};

// What a compilation must keep to.
struct CompileLimits {
  std::chrono::steady_clock::time_point deadline =
      std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* stop = nullptr;  // set: give up
};

}  // namespace tjit
