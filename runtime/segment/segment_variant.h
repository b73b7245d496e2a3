// What a variant of a prepared segment has for tier 2: counts its runs, asks
// for code, picks it up, looks before each run whether the code may serve it,
// measures whether it pays (code_trial.h).
//
//   counting --often enough--> asked --done--> compiled --does not pay--> off
//                                 ^               |
//                                 +--a compiled-in scalar varies
//
// Invariants: (1) Code runs only where every scalar that was compiled in has
// that value, what a group writes lies where it was recorded, and eager has no
// team here that computes otherwise (Note [Arithmetic of teams], parallel.h).
// Else the run is one of tier 1. (2) At most kMaxRecompiles per variant.
// Thread: the segment's. Tested by: tests/runtime/tier2/tier2_test.cpp
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/executable.h"
#include "recorder/code_trial.h"
#include "runtime/segment/prepared_segment.h"
#include "runtime/tier2/tier2.h"

namespace tjit::runtime {

// What becomes of a slot of a segment. kFilledHere: it dies, and its memory has
// gone already (recorder/overwrite.h): a temporary, though no step gives birth
// to it. kGivenUp: it was there before, and is ours to free: its memory serves
// for temporaries behind its last use.
enum SlotFate : std::uint8_t { kDies, kSurvives, kFilledHere, kGivenUp };

// What it takes on the heap, with all of its parts.
std::size_t KeptBytesOf(const Executable& executable);

struct Tier2Variant {
  // One run of a variant, at tier 2 if it may be.
  class Running {
   public:
    Running(PreparedSegment* segment, PreparedSegment::Variant* variant,
            const Run& run, Counters* counters);
    // The same where the variant is settled. `is_compiled`: at tier 2.
    Running(PreparedSegment* segment, PreparedSegment::Variant* variant,
            bool is_compiled, Counters* counters);
    std::uint64_t arena_bytes() const;
    void Run(char** slots, const ScalarValue* scalars, char* arena);

   private:
    void Count() const;

    PreparedSegment* const segment_;
    PreparedSegment::Variant* const variant_;
    Counters* const counters_;
    Tier2Variant* tier2_ = nullptr;  // null: switched off
    bool is_compiled_ = false;       // this run
  };

  // True if this run is one of code alone, and nothing is left to be decided.
  bool RunsAlone(const PreparedSegment& segment,
                 const tjit::runtime::Run& run) const {
    return is_alone_ && IsSettled(segment) && RunsCode() &&
           !run.has_other_scalars && !IsShifted(run);
  }
  // REQUIRES: the variant is settled, and the pointers of `segment` are those
  // of the run.
  static void RunSettled(PreparedSegment* segment,
                         PreparedSegment::Variant* variant, bool is_compiled,
                         const ScalarValue* scalars, Counters* counters);

  // A run without a Run: no step is pending, what was there before is where
  // SetPlace() says, and all scalars are the recorded ones. REQUIRES: what is
  // written of it is not shifted.
  class Unbound {
   public:
    // `outside`: the slots that were there before; `made`: those that are made
    // anew; all others die. `user`: stands for the two, in this process, and is
    // not 0. `segment` may be null.
    Unbound(PreparedSegment* segment, std::uint64_t user,
            c10::ArrayRef<std::uint32_t> outside,
            c10::ArrayRef<std::uint32_t> made);
    // False: the run is to be one of another kind.
    bool is_ready() const { return variant_ != nullptr; }
    // True if what runs is code alone, which calls no function of libtorch.
    bool is_alone() const { return is_alone_; }
    // The first byte of a slot's storage, moved by its shift.
    void SetPlace(std::uint32_t slot, char* data) {
      segment_->pointers_[slot] = data;
    }
    void Run(const ScalarValue* scalars, Counters* counters) {
      RunSettled(segment_, variant_, is_compiled_, scalars, counters);
    }
    PreparedSegment* segment() const { return segment_; }

   private:
    static bool IsFor(const PreparedSegment& segment,
                      const PreparedSegment::Variant& variant,
                      c10::ArrayRef<std::uint32_t> outside,
                      c10::ArrayRef<std::uint32_t> made);

    PreparedSegment* const segment_;
    PreparedSegment::Variant* variant_ = nullptr;
    bool is_compiled_ = false;
    bool is_alone_ = false;
  };

  // The code's program, if there is one, with what its steps need by now, if
  // that is something else than it was planned with.
  void PlanAgain(PreparedSegment* segment, PreparedSegment::Variant* variant);
  // About, but for kernels (Kept::kCode).
  std::size_t KeptBytes() const;

 private:
  enum class State : std::uint8_t { kCounting, kAsked, kCompiled, kOff };
  struct BoundGroup {
    PreparedSegment* segment = nullptr;
    const PreparedSegment::BoundStep* first = nullptr;
    const CompiledGroup* code = nullptr;
    std::vector<char*> memory;
    std::vector<ScalarValue> scalars;
    bool has_run = false;
    char* scratch = nullptr;  // of the run in progress
  };

  class OldContent;

  static void LendScratch(void* state, char* data, std::uint64_t bytes);
  static void RunGroup(void* state, char* const* slots,
                       const ScalarValue* scalars);
  // True if this run is one of tier 2.
  bool Prepare(PreparedSegment* segment, PreparedSegment::Variant* variant,
               const tjit::runtime::Run& run, Counters* counters);
  bool IsTimeToAsk(const PreparedSegment& segment, std::size_t steps) const;
  // May be null.
  static Trace* TraceOf(const PreparedSegment& segment) {
    return segment.nodes_[0]->owner.load(std::memory_order_acquire);
  }
  // True if code of this trace, for some sizes, was found to pay.
  static bool HasCodeOfOtherSizes(const PreparedSegment& segment);
  bool IsNearlyTimeToAsk(std::size_t steps) const;
  // What a run takes at least: its memory is read and written.
  static std::uint64_t LeastNs(const PreparedSegment& segment,
                               const PreparedSegment::Variant& variant);
  static SegmentInput InputOf(const PreparedSegment& segment,
                              const PreparedSegment::Variant& variant);
  void Ask(PreparedSegment* segment, PreparedSegment::Variant* variant,
           bool is_again, Counters* counters);
  // Where other sizes have code, this one's is a matter of numbers: waits for
  // it as long as a few runs without it would lose. True if it has come.
  bool AwaitCodeOfOtherSizes(const PreparedSegment& segment) const;
  static void RecordCode(const PreparedSegment& segment,
                         const PreparedSegment::Variant& variant);
  void PickUp(PreparedSegment* segment, PreparedSegment::Variant* variant);
  void Build(PreparedSegment* segment, PreparedSegment::Variant* variant);
  void Plan(PreparedSegment* segment, PreparedSegment::Variant* variant);
  struct Ordered {
    std::vector<CodeItem> items;  // as the program runs them
    MemoryPlan memory;
  };
  // learned: with what library calls need, which is known when they have run.
  Ordered Order(const PreparedSegment& segment,
                const PreparedSegment::Variant& variant, bool learned) const;
  // What is the same in each process.
  void Dump(const PreparedSegment& segment,
            const PreparedSegment::Variant& variant, DumpFile* file) const;
  // An op whose scalar is not the one that was compiled in, "" if there is
  // none. Marks these scalars, so that they are arguments of the next kernel.
  std::string_view StaleScalar(const PreparedSegment& segment,
                               const tjit::runtime::Run& run) const;
  // True if every scalar that was compiled in is the one that was recorded.
  bool BakesRecorded(const PreparedSegment& segment) const;
  bool IsShifted(const tjit::runtime::Run& run) const;
  // REQUIRES: there is code, whose scalars are this run's. True if it may serve
  // the run, and is to.
  bool MayServe(const tjit::runtime::Run& run) const {
    return WantsCode() && !IsShifted(run);
  }
  // The same of all runs.
  bool WantsCode() const;
  // True if nothing is left to be asked for, picked up or given up, whatever
  // the run, as long as its scalars are the recorded ones.
  bool IsSettled(const PreparedSegment& segment) const;
  // REQUIRES: IsSettled().
  bool RunsCode() const { return state_ == State::kCompiled && WantsCode(); }
  void RecordTime(const PreparedSegment& segment, bool compiled,
                  std::uint64_t ns, Counters* counters);
  static void StopAwaiting(const PreparedSegment& segment);
  void RecordVerdict(const PreparedSegment& segment, bool pays) const;
  void PrintMeasured(const PreparedSegment& segment, bool pays) const;
  void StartTrial();
  void SwitchOff();

  State state_ = State::kCounting;
  Engine* engine_ = nullptr;  // that all of this is about
  std::shared_ptr<CompileTask> task_;
  std::unique_ptr<Executable> executable_;
  std::vector<std::uint64_t> ways_;  // that it was planned with
  std::vector<BoundGroup> groups_;
  std::vector<std::int32_t> written_;  // external slots that groups write
  std::int64_t runs_ = 0;
  std::uint64_t tier1_ns_ = 0;
  std::uint64_t least_ns_ = 0;      // that the next run takes
  std::optional<CodeTrial> trial_;  // of engine_
  int recompiles_ = 0;
  std::int64_t compile_ns_ = 0;  // of all times that it was compiled
  bool is_precompiled_ = false;
  bool bakes_recorded_ = false;
  bool is_alone_ = false;  // no library calls, not in the groups either
  std::uint64_t user_ = 0;  // that the variant is known to be for: Unbound
};

}  // namespace tjit::runtime
