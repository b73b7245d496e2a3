// Pointers that are only read, and let go of at once.
//
//   {
//     tjit::Reading reading;
//     MPI_Send(t.data_ptr<float>(), count, MPI_FLOAT, 1, 0, comm);
//   }
//
// Whoever takes a pointer with data_ptr() may keep it, and write through it
// whenever it likes. So tjit copies what ops read of such a tensor from then
// on, and runs ops that write it at the call (docs/limits.md). This says that
// the program does neither.
#pragma once

#include "tjit/export.h"

namespace tjit {

// While it lives, pointers that this thread takes to the memory of tensors are
// read, at once, and not kept: what is pending on the memory runs, and the
// tensor is no other one by that. A pointer that was kept, or through which the
// program writes, is not noticed: ops may then read what was there before, or
// write late. An op that writes the tensor makes a pointer that was taken
// before it stale; take it again behind the op. Objects nest, and each has to
// end on the thread on which it began. Other threads are as ever.
class TJIT_API Reading {
 public:
  Reading() noexcept;
  ~Reading();
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
};

}  // namespace tjit
