// The thread-local words that every wrapper looks at, and the global switch.
//
// Model "initial-exec": one load, no call. libtjit is loaded at program start
// (linked or preloaded), where static TLS is there to be had.
#pragma once

#include <atomic>

namespace tjit::runtime {

class PendingQueue;
class ThreadState;

struct ThreadContext {
  ThreadState* state = nullptr;
  PendingQueue* held = nullptr;  // the state whose mutex this thread holds
  // Of the wrapper that is just being entered, where it is not `state`.
  ThreadState* instead = nullptr;
  int inside = 0;               // kernels running on this thread
  int reader = 0;               // known readers running on this thread
  bool off = false;             // this thread is left alone
  bool had_region = false;      // a loop of several threads has begun here
  bool in_function = false;     // one of tjit::jit() runs and is looked at
  bool lends = false;           // a LendingScope is open
  // Under AutoCompile(kThread): on although the process is not.
  int scoped_on = 0;
};

extern constinit thread_local ThreadContext t_context
    __attribute__((tls_model("initial-exec")));

// While it lives on this thread, the materialiser hook flushes but does not
// mark blocks as exposed: a known reader that lets go of the pointer.
class ReaderScope {
 public:
  ReaderScope() { ++t_context.reader; }
  ~ReaderScope() { --t_context.reader; }
  ReaderScope(const ReaderScope&) = delete;
  ReaderScope& operator=(const ReaderScope&) = delete;
};

// Arms what kernels have asked pointers to in a LendingScope.
void ArmLent() noexcept;

// While it lives, the kernel of an op runs on a thread that takes no part: it
// lets go of its pointers, so the hook flushes but does not mark blocks as
// exposed, and is armed again when the kernel is over. Ops that the kernel
// calls are part of it, also where tjit is switched on meanwhile.
class LendingScope {
 public:
  LendingScope()
      : lends_(!t_context.lends && t_context.inside == 0),
        was_off_(t_context.off) {
    if (!lends_) return;
    ++t_context.reader;
    t_context.lends = true;
    t_context.off = true;
  }
  ~LendingScope() {
    if (!lends_) return;
    --t_context.reader;
    t_context.lends = false;
    t_context.off = was_off_;
    ArmLent();
  }
  LendingScope(const LendingScope&) = delete;
  LendingScope& operator=(const LendingScope&) = delete;

 private:
  const bool lends_, was_off_;
};

// While it lives, this thread is inside a kernel: wrappers pass through, hooks
// only count.
class KernelScope {
 public:
  KernelScope() { ++t_context.inside; }
  ~KernelScope() { --t_context.inside; }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;
};

// True while any thread may record. Off: wrappers do nothing else.
extern std::atomic<bool> g_enabled;
// True if threads take part by default (not only scoped ones).
extern std::atomic<bool> g_process_enabled;

// The rest of ActiveState(): for a thread's first op, and scoped ones.
ThreadState* AcquireThreadState();

// True if this thread takes part, has a state, and no kernel runs. False says
// nothing.
[[gnu::always_inline]] inline bool IsFastActive() {
  const ThreadContext& c = t_context;
  return g_enabled.load(std::memory_order_relaxed) &&
         (c.inside | static_cast<int>(c.off)) == 0 && c.state != nullptr &&
         g_process_enabled.load(std::memory_order_relaxed);
}

// The state of this thread if it takes part and no kernel runs, else null.
[[gnu::always_inline]] inline ThreadState* ActiveState() {
  if (!g_enabled.load(std::memory_order_relaxed)) return nullptr;
  ThreadContext& c = t_context;
  if (c.inside != 0 || c.off) return nullptr;
  if (c.state != nullptr && g_process_enabled.load(std::memory_order_relaxed))
      [[likely]] {
    return c.state;
  }
  return AcquireThreadState();
}

// What the way into a wrapper found: `state`, or `instead`.
[[gnu::always_inline]] inline ThreadState* AcquireFoundState() {
  ThreadContext& c = t_context;
  if (c.instead == nullptr) [[likely]]
    return c.state;
  ThreadState* const state = c.instead;
  c.instead = nullptr;
  return state;
}

}  // namespace tjit::runtime
