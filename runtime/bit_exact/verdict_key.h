// What decides which candidates have eager's bits, as the key text of a cache
// entry: every library and program that was loaded when tjit was switched on
// (eager's kernels and the functions they call, or what stands in for them, are
// in one of these), the processor, the kernels that eager has chosen for it,
// and the environment of those libraries.
// Thread: RecordProcess() where no other thread changes the environment.
// Tested by: tests/runtime/bit_exact/verdict_store_test.cpp
#pragma once

#include <cstddef>
#include <string>

namespace tjit::runtime {

class VerdictKey {
 public:
  // Notes what later moments would show otherwise: the environment, and how
  // much is loaded.
  void RecordProcess();

  // "" if something that is loaded cannot be told from another build of it.
  std::string Text() const;

 private:
  std::string settings_;
  std::size_t objects_ = 0;
};

}  // namespace tjit::runtime
