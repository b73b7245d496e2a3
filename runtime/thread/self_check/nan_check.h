// TJIT_NAN: which op makes NaN or infinity out of numbers?
//
// The results of each wrapped call, what it writes in place among them, are
// looked through. A call makes NaN if a result has one and no input does, and
// infinity if a result has one and no input has that or NaN. An infinite
// number among the arguments is an input too (a mask that is filled with
// -inf). Not inputs: what the call only writes (out=, copy_, fill_ and the
// like), whose old contents may be anything.
//
// Left out: tensors that are not plain dense CPU tensors, calls that give a
// tensor other sizes or memory and compute nothing, the logarithms inside
// `_ctc_loss`, which are -inf by definition, ops in a tjit::Pause and in a
// parallel region.
//
// Thread: one per ThreadState.
// Tested by: tests/runtime/thread/self_check/nan_check_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/call/call_frame.h"
#include "runtime/call/eager_call.h"

namespace tjit::runtime {

// What a tensor of floating or complex numbers holds; real and imaginary parts
// are numbers of their own. Of other tensors all is 0.
struct ValueSummary {
  std::int64_t nans = 0;
  std::int64_t infinities = 0;
  std::int64_t zeros = 0;
  std::int64_t finite = 0;
  double least = 0;  // of the finite ones
  double greatest = 0;
};

class NanCheck {
 public:
  // mark_step() begins a step.
  void CountStep() {
    ++steps_;
    ops_ = 0;
  }
  void Before(const CallFrame& frame);
  // What the call made, in a sentence without the op's place; empty if nothing.
  std::string After(const CallFrame& frame, const ResultList& results);
  // "op 3 of step 5", the last one of Before(); "op 3" without mark_step().
  std::string Place() const;

  // Whether nobody in this process was told yet that `op` makes such a thing.
  // After() is not empty. `region`: where it was called.
  bool IsNew(const CallFrame& frame, const std::string& region) const;

 private:
  struct Input {
    std::uint32_t tensor = 0;  // index into frame.tensors
    ValueSummary values;
  };
  std::string InputsText(const CallFrame& frame) const;

  std::int64_t steps_ = 0;
  std::int64_t ops_ = 0;
  // Inputs that the call writes into, or that share memory with those.
  std::vector<Input> overwritten_;
  std::vector<Input> inputs_;  // of the call that After() looks at
  std::string made_;           // "NaN" or "infinity"
};

}  // namespace tjit::runtime
