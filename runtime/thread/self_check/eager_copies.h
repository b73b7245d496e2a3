// Eager's bits of pending values, for TJIT_SHADOW and TJIT_STRESS=late.
//
// In these modes an op that will be pending runs eagerly at its call as well.
// A storage that a pending op writes has two contents then: the block's, as
// the pending ops will find it (poison where nothing has been written yet),
// and its eager copy's, as eager has it. Around an eager kernel the two change
// places, so that the program never sees a byte that is not there:
//
//   y = a + b      block y: poison        eager copy y: a + b
//   y *= 2         swap, eager kernel, swap: the eager copy has 2 * (a + b)
//   flush          the pending ops run on the blocks; compared with the eager
//   copies
//
// Compared are elements that pending ops wrote and that the program still
// owns; where they differ the block gets eager's bits.
//
// Invariants: a slot has an eager copy exactly while a pending op writes it.
// Threads: under the mutex of the state. Tested by:
// tests/runtime/thread/self_check/modes_test.cpp
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recorder/op_record.h"
#include "recorder/trace.h"
#include "runtime/call/trace_run.h"

namespace tjit::runtime {

// A value that differs from eager's.
struct Difference {
  const TraceNode* node = nullptr;  // its last writer
  std::string text;                 // which output and element, both values
};

class EagerCopies {
 public:
  // Bytes that an op wrote although it does not become pending.
  struct Written {
    Block* block = nullptr;
    std::unique_ptr<char[]> bytes;
  };

  // Before the eager kernel of `step`, whose arguments are bound in `run`:
  // eager's bits go into the blocks. Returns the bytes of new eager copies.
  std::uint64_t SwapIn(const StepRecord& step, const Run& run);
  // After it, if the op is pending now.
  void SwapOut(const Run& run);
  // After it, if it is not: blocks and eager copies are as before the op. What
  // it wrote is the caller's, to be put into the blocks behind the next flush.
  std::vector<Written> TakeBack(const Run& run);
  // The block of a fresh result of the kernel: its bits become the eager
  // copy's. Returns the bytes of the eager copy.
  std::uint64_t AddResult(std::uint32_t slot, Block* block);

  // Compares what the pending ops of `run` have written, see above, and
  // forgets all eager copies. Returns how many values were compared. `any_nan`:
  // a NaN is as good as another one, as machine code may have run.
  std::int64_t Compare(const Run& run, bool any_nan,
                       std::vector<Difference>* differences);

 private:
  struct EagerCopy {
    std::unique_ptr<char[]> bits;
    std::uint64_t bytes = 0;
  };
  struct Swapped {
    std::uint32_t slot = 0;
    Block* block = nullptr;
    bool written = false;
    bool fresh = false;              // the eager copy was made for this op
    std::unique_ptr<char[]> before;  // the eager copy before the op, if written
  };

  EagerCopy& At(std::uint32_t slot);
  // False if the kernel gave the block of a pending result back.
  static bool IsAlive(const Swapped& s, const Run& run);

  std::vector<EagerCopy> copies_;  // by slot
  std::vector<Swapped> swapped_;  // by the op that runs
};

}  // namespace tjit::runtime
