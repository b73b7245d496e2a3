// What an eager kernel calls, kept so that observers of ops can be shown it
// where the kernel does not run (Note [Observers] in thread/observers.h).
//
// Thread: Begin() and End() on one; Show() on any, once that is over.
// Tested by: tests/runtime/thread/observers_test.cpp
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tjit::runtime {

// What an eager kernel calls, in order, as observers see it: with the shapes of
// the tensors that each call gets.
class InnerCalls {
 public:
  void Begin(const at::RecordFunction& call);
  void End() { --depth_; }
  // Shows them to the observers of this thread, and the shapes to those who ask
  // for inputs.
  void Show() const;

 private:
  struct Call {
    std::optional<c10::OperatorHandle> op;
    std::string name;  // of what is no op
    std::vector<c10::IValue> inputs;  // ShapesOf() each
    int depth = 0;
  };
  std::size_t Show(std::size_t at) const;

  std::vector<Call> calls_;
  int depth_ = 0;
};

}  // namespace tjit::runtime
