// Prepared segments: the executable form of a contiguous part of a path, one
// per (path, begin), with one memory plan per observed live-out mask. A variant
// that runs often is compiled in the background (tier2.h): its program is
// replaced by one in which groups of steps are one compiled kernel each.
//
// Thread: one cache per ThreadState; used under its mutex.
// Tested by: tests/runtime/walkthrough_test.cpp, tests/differential/,
// tests/runtime/tier2/tier2_test.cpp
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/program/executable.h"
#include "recorder/code_of_sizes.h"
#include "recorder/trace.h"
#include "runtime/call/kernel_state.h"
#include "runtime/call/trace_run.h"
#include "runtime/segment/shared_step.h"
#include "support/counters.h"

namespace tjit {
class Engine;
}

namespace tjit::runtime {

class HotProfile;
class Tier2;
struct Tier2Variant;

// Who compiles segments, and who remembers which were.
struct SegmentCompiler {
  Tier2* tier2 = nullptr;
  HotProfile* profile = nullptr;
};

class PreparedSegment {
 public:
  // `nodes` is run.pending: deferred steps of one path, in order. `classes` and
  // `compiler` outlive this. `sizes`: shared with this part of the trace in its
  // other sizes.
  PreparedSegment(const std::vector<TraceNode*>& nodes, StepClasses* classes,
                  SegmentCompiler compiler, std::shared_ptr<CodeOfSizes> sizes);
  ~PreparedSegment();

  // Runs the segment over the storages of `run`: tier 1 or 2.
  void Execute(const Run& run, Counters* counters);
  // The same as Execute() if this is a run like the last one, and what runs is
  // compiled code alone, which calls no function of libtorch. False, and
  // nothing has run, else.
  bool ExecuteAlone(const Run& run, Counters* counters);
  // Runs every step through the eager kernel: the fallback.
  void Drain(const Run& run, Counters* counters);
  // False if the last of these threw before it ran a step: the run is as it
  // was.
  bool has_begun() const { return has_begun_; }
  // The step that ran last: the one that threw, if one of these two did.
  const TraceNode& running() const {
    return *nodes_[running_ == nullptr ? 0 : running_ - steps_.data()];
  }
  // That compiles its code; null: nothing does. It is the one of its region.
  Engine* engine() const { return engine_->load(std::memory_order_relaxed); }
  std::size_t weight() const { return slot_bytes_.size() + nodes_.size(); }
  // Goes over to a copy of the store of its nodes; false if they are not there.
  bool MoveTo(const TraceStore& store);
  // Adds the classes of its steps.
  void RecordClasses(absl::flat_hash_set<const StepClass*>* classes) const {
    for (const BoundStep& step : steps_) classes->insert(step.step_class);
  }
  // How each step runs, and the memory plans made so far.
  std::string ToText() const;

 private:
  // A step of the segment: a class, and the segment's slots for its own,
  // slot_map_[first_slot, ...).
  struct BoundStep {
    StepClass* step_class = nullptr;
    PreparedSegment* segment = nullptr;
    std::uint32_t context = 0;
    std::uint32_t first_slot = 0;
    std::uint32_t slot_count = 0;
  };
  struct Variant {
    std::vector<std::uint8_t> live;  // by slot
    bool keeps_all = false;          // for runs that keep less, too
    std::uint32_t tried_at = 0;  // runs when its steps were tried; 0: not yet
    bool has_stayed = false;     // as long again, or it takes turns with others
    std::uint32_t runs = 0;          // until scratch is not looked at again
    std::int64_t began = 0;          // entries of its trace by then
    std::vector<std::uint64_t> ways;  // planned: WaysOfSteps()
    std::unique_ptr<Executable> executable;
    std::unique_ptr<Tier2Variant> tier2;  // null until it is switched on
  };
  friend struct Tier2Variant;

  static void RunDirect(void* state, char* const* slots,
                        const ScalarValue* scalars);
  static void RunOverTensors(void* state, char* const* slots,
                             const ScalarValue* scalars);
  static void Lend(void* state, char* data, std::uint64_t bytes);
  void PrepareAll(Counters* counters);
  char* const* SlotsOf(const BoundStep& step, char* const* slots);
  void RecordSurvivors() const;
  // Fills the pointers, too.
  Variant& VariantFor(const Run& run, Counters* counters);
  // True if `variant` is the one of this run: its pointers are filled then.
  bool IsFor(const Run& run, const Variant& variant);
  void Plan(Variant* variant, Counters* counters);
  // Counts a run; now and then plans again, where steps need other scratch than
  // planned or, if they `may_try`, have found a better way.
  void MaybePlanAgain(Variant* variant, bool may_try, Counters* counters);
  // At a look: tries those steps whose time has come.
  void MaybeTrySteps(Variant* variant, Counters* counters);
  // True if the time of its first trials has come; counts the size as tried.
  bool BeginsTrials(Variant* variant) const;
  // Lets steps try which way is theirs. False if some are left for later.
  bool TrySteps(Counters* counters);
  ProgramStep StepOf(std::size_t i);
  std::vector<PlanStep> PlanSteps() const;
  // How library calls run by now, and their scratch, of all steps in order.
  std::vector<std::uint64_t> WaysOfSteps() const;
  std::vector<PlanSlot> PlanSlots(const std::vector<std::uint8_t>& live) const;
  void CountKept();
  // First bytes of all slots; those without a block stay null.
  void FillPointers(const Run& run);

  std::vector<TraceNode*> nodes_;
  std::vector<std::uint64_t> slot_bytes_;  // by slot of the path
  std::vector<std::int32_t> born_;         // by slot: index into nodes_, or -1
  // Slots that these steps read or write. Others may be gone: what an earlier
  // segment of the run has finished is the program's alone.
  struct UsedSlot {
    std::int32_t slot;
    std::uint8_t fate_without_block;  // a SlotFate
  };
  std::vector<UsedSlot> used_;
  StepClasses* const classes_;
  const SegmentCompiler compiler_;
  const std::shared_ptr<CodeOfSizes> sizes_;
  const std::atomic<Engine*>* const engine_;
  std::vector<BoundStep> steps_;
  std::vector<std::int32_t> slot_map_;
  std::vector<char*> step_slots_;  // of the step that runs
  std::vector<Variant> variants_;
  std::size_t last_variant_ = 0;  // that ran
  std::vector<char*> pointers_;
  std::vector<std::uint8_t> live_;
  ContextScope* scope_ = nullptr;  // of the run in progress
  bool has_begun_ = false;
  const BoundStep* running_ = nullptr;
  KeptShare kept_{Kept::kPlans};
};

// Steps are prepared for the way that kernels take now (a product that rounds
// to bfloat16 is another call), so a segment belongs to one GlobalContext too.
class SegmentCache {
 public:
  // Both outlive the cache.
  SegmentCache(Tier2* tier2, HotProfile* profile)
      : compiler_{tier2, profile} {}

  const SegmentCompiler& compiler() const { return compiler_; }
  // The segment of run.pending under `global`, which is in force; made at
  // first use.
  PreparedSegment& For(const Run& run, const GlobalContext& global);
  // That of these steps under `global`, which need not be in force; or null.
  PreparedSegment* Find(const std::vector<TraceNode*>& nodes,
                        const GlobalContext& global);
  // All segments; the same at every run.
  std::string ToText() const;
  // Goes over to a copy of the store of the nodes, with what is there.
  void MoveTo(const TraceStore& store);
  void Clear() {
    segments_.clear();
    sizes_.clear();
    classes_.Clear();  // of these
    weight_ = 0;
    last_ = nullptr;
  }

 private:
  // Id of the last node, depth of the first; the word of the context.
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  static Key KeyOf(const std::vector<TraceNode*>& nodes,
                   const GlobalContext& global) {
    return {std::uint64_t{nodes.back()->id} << 32 | nodes.front()->depth,
            global.word};
  }
  // Defect::kWrongTripCount: the one of the first of the pending ops, up to where
  // a trace ended; null if there is none.
  PreparedSegment* FindShorter(const Run& run, const GlobalContext& global);
  // Of the trace that the first step is of and of that of the last one, and
  // their depths.
  using SizesKey = std::array<std::uint32_t, 4>;
  static SizesKey SizesKeyOf(const std::vector<TraceNode*>& nodes);
  // Of these steps in all sizes.
  std::shared_ptr<CodeOfSizes> SizesOf(const std::vector<TraceNode*>& nodes);

  const SegmentCompiler compiler_;
  absl::flat_hash_map<Key, std::unique_ptr<PreparedSegment>> segments_;
  absl::flat_hash_map<SizesKey, std::shared_ptr<CodeOfSizes>> sizes_;
  std::size_t weight_ = 0;  // slots and steps of all segments
  PreparedSegment* last_ = nullptr;  // that was found
  Key last_key_;
  StepClasses classes_;
};

}  // namespace tjit::runtime
