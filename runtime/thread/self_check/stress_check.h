// TJIT_STRESS=check: does an op change what its schema says it only reads?
//
// Around each wrapped kernel the storages of arguments that are not written
// are summed up, and the state of the CPU generator is compared unless the op
// may draw. Pending ops read their inputs late and random ops draw at the
// call, so a schema that lies gives wrong results; op_classes.def has what is
// known (native_batch_norm's running statistics). Storages that are written
// through another argument are left out.
//
// Thread: one per ThreadState. Another thread that draws from the same
// generator meanwhile is mistaken for the op.
// Tested by: tests/runtime/thread/self_check/modes_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/call/call_frame.h"

namespace tjit::runtime {

// Whether the call writes into `storage`, through any argument.
bool IsWritten(const CallFrame& frame, const c10::StorageImpl* storage);

class InputCheck {
 public:
  void Before(const CallFrame& frame);
  // What the call changed although nothing says so; empty if nothing.
  std::string After(const CallFrame& frame);

 private:
  struct Sum {
    std::uint32_t tensor = 0;  // index into frame.tensors
    const void* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t sum = 0;
  };
  std::vector<Sum> sums_;
  std::uint64_t generator_ = 0;
};

}  // namespace tjit::runtime
