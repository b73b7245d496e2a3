// What all compilers of segments share: the steps sorted out, slots and their
// uses, limits, failures, scalars. Which groups there are and what they become
// is the subclass's: functions of the IR (segment_code.cpp), or steps as they
// were recorded (step_engine.cpp).
// Thread: one at a time. Tested by: tests/compiler/driver/segment_code_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/driver/segment.h"
#include "compiler/driver/varied_scalars.h"
#include "compiler/lower/group.h"
#include "compiler/lower/partition.h"

namespace tjit {

class SegmentCompiler {
 protected:
  // finds_varied: scalars that vary within the segment become arguments.
  SegmentCompiler(const SegmentInput& input, const CompileLimits& limits,
                  SegmentDump* dump, bool finds_varied);
  virtual ~SegmentCompiler() = default;

  // A group of this step alone could be compiled.
  virtual bool CanCompile(std::uint32_t s) = 0;
  // True if a slot that nobody owns afterwards begins with this step.
  virtual bool Fills(const StepRecord& record, std::int32_t slot) const = 0;

  void DescribeSteps();
  // True if the step's numbers had to be compiled in.
  bool FindLowerable(std::uint32_t s);

  // Every slot of the group, and whether something behind it needs it.
  std::vector<GroupSlot> GroupSlots(const std::vector<std::uint32_t>& steps);
  bool KeepsLimits(const std::vector<std::uint32_t>& steps);

  // The steps stay library calls.
  void AddCalls(const std::vector<std::uint32_t>& steps);
  void Append(CompiledGroup group);
  // Returns false.
  bool Fail(const std::vector<std::uint32_t>& steps, std::string reason);
  void BindScalars(const std::vector<std::uint32_t>& steps,
                   const std::vector<ScalarSource>& scalars,
                   CompiledGroup* group);

  const SegmentInput& input_;
  const CompileLimits limits_;
  SegmentDump* const dump_;  // may be null
  VariedScalars scalars_;
  std::vector<PartitionStep> steps_;
  std::vector<std::uint32_t> uses_;  // by slot: steps that use it
  SegmentCode code_;

 private:
  // Steps that use a slot, each counted once.
  void CountUses();

  // Slots from outside of which only what a step of the segment fills is used,
  // and that step.
  absl::flat_hash_map<std::int32_t, std::uint32_t> filled_by_;
};

}  // namespace tjit
