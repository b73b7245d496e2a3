// Memory for what a kernel allocates and frees within one call (oneDNN's
// reorders): planned, as values are, so that it lies where no value is needed
// while the step runs. From elsewhere it would come on top of the arena, which
// holds the memory of all steps.
//
// Only requests that have died within the call before, in two calls or more and
// never otherwise since Forget(), are served. A request is known by its size
// and those of all before it in the call. The first calls of a step only note
// them.
//
// Threads: one call at a time, all of it on one thread, whose requests alone
// are seen; but Release() from any: a kernel's helpers may drop what it has
// asked for, before the kernel returns. Tested by:
// tests/runtime/memory/scratch_pool_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/mutex.h"

namespace tjit::runtime {

class ScratchPool {
 public:
  // Smaller requests are neither noted nor served; those of the allocator have
  // a header in front.
  static constexpr std::size_t kMinBytes = 64 << 10;

  // A piece of memory for the next call, free while it lasts; aligned to 64.
  // Null: there is none any more. REQUIRES: nobody holds any (IsHeld()).
  void Lend(char* data, std::size_t bytes);
  // A call begins.
  void Begin();
  // The next request of the call: memory for it, aligned to 64, or null.
  char* Acquire(std::size_t bytes);
  // Memory that the last request got elsewhere, as Acquire() returned null.
  void Record(const void* data);
  // Memory is given back: that of a request, or any other. True if it lay here.
  bool Release(const void* data);
  // The kernel has returned: what it has not given back by now is not served
  // again.
  void End();
  // Somebody still holds memory from here. REQUIRES: no call runs.
  bool IsHeld();
  // The pieces that would have served all that can be, of the last call.
  // REQUIRES: no call runs.
  std::vector<std::uint64_t> Need() const;
  // What was learned is of other requests than those to come.
  void Forget();

 private:
  static constexpr std::size_t kMaxRequests = 16;
  static constexpr int kTrusted = 2;  // calls
  static constexpr std::size_t kMaxLearned = 64;

  struct Piece {
    std::size_t bytes = 0;
    char* data = nullptr;
    bool is_taken = false;
  };
  struct Request {
    const void* data = nullptr;
    int lent = -1;    // the piece that serves it
    int needed = -1;  // the piece that would, had all been lent
    bool is_dead = false;
  };
  struct Learned {
    std::vector<std::size_t> sizes;  // its own last
    int deaths = 0;  // calls that it died in; -1: it outlived one
  };
  // Of the call's request number i; null: nothing.
  Learned* Find(std::size_t i) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The smallest free piece that is large enough; -1 if there is none.
  static int Smallest(const std::vector<Piece>& pieces, std::size_t bytes);
  // The same, or the largest free piece, enlarged, or one more.
  int Need(std::size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;  // within a call, Release() may come in
  std::vector<Piece> lent_ ABSL_GUARDED_BY(mutex_);
  std::vector<Piece> needed_ ABSL_GUARDED_BY(mutex_);
  bool is_running_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the call's requests.
  std::vector<std::size_t> sizes_ ABSL_GUARDED_BY(mutex_);
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<Learned> learned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tjit::runtime
