// Thread-local and process-global state that kernels read.
//
// Thread-local state (dispatch key sets, grad and inference mode), and the
// default dtype with it, is interned: a step carries a small id, equal ids
// mean equal state, and the executor sets it before the step. A
// kernel may read it: mkldnn_rnn_layer asks for the grad mode, and its bits
// depend on the answer.
// The named region (tjit::Region) that a thread is in belongs to it, so that
// steps of two regions never match. No kernel reads it, and no executor sets
// it. Process-global state (thread count, MXCSR, float32 precisions, ...) is
// one word per segment. The exported setters flush before they change it, and
// the word is the check behind them. Tested by:
// tests/runtime/call/global_state_test.cpp
#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <bit>
#include <cstdint>
#include <optional>

#include "recorder/region_id.h"
#include "runtime/call/interpose.h"

namespace tjit::runtime {

// raw_repr(), which is no constant.
constexpr std::uint64_t BitsOf(c10::DispatchKeySet keys) {
  return std::bit_cast<std::uint64_t>(keys);
}

// Where this thread's state lies (libtorch's thread-local objects stay where
// they are, and finding them costs a call each), and what was found there last.
struct ContextView {
  const c10::impl::PODLocalDispatchKeySet* keys = nullptr;
  const c10::AutogradState* autograd = nullptr;
  std::uint32_t last = 0;  // the id
  RegionId region = kNoRegion;  // of the thread: t_context_view alone has it
  // What it stands for, as it lies in libtorch.
  std::uint64_t included = 0, excluded = 0, flags = 0;
  std::uint8_t autograd_bits = 0;
  std::uint8_t default_dtype = 0;

  [[gnu::always_inline]] bool IsAsBefore() const {
    return last != 0 && keys->included().raw_repr() == included &&
           keys->excluded().raw_repr() == excluded &&
           AutogradBits(*autograd) == autograd_bits &&
           g_default_dtype.load(std::memory_order_relaxed) == default_dtype &&
           g_global_flags.load(std::memory_order_relaxed) == flags;
  }
  static std::uint8_t AutogradBits(const c10::AutogradState& s) {
    return static_cast<std::uint8_t>(
        s.get_grad_mode() | s.get_inference_mode() << 1 |
        s.get_fw_grad_mode() << 2 | s.get_multithreading_enabled() << 3 |
        s.get_view_replay_enabled() << 4);
  }
};
extern constinit thread_local ContextView t_context_view
    __attribute__((tls_model("initial-exec")));

// The id of what is set now, kept for the next call.
std::uint32_t ChangedContext();

// The id of this thread's present state; 0 if it cannot be interned (more
// than kMaxContexts different ones), which means: do not record.
[[gnu::always_inline]] inline std::uint32_t CurrentContext() {
  const ContextView& v = t_context_view;
  return v.IsAsBefore() ? v.last : ChangedContext();
}
inline constexpr std::uint32_t kMaxContexts = 4096;
// Of these, for states outside of regions. Where there is no room for a state
// in a region, it has the id that it has outside.
inline constexpr std::uint32_t kMaxContextsOutside = 1024;

// The region that this thread is in.
inline RegionId CurrentRegion() { return t_context_view.region; }
// This thread is in another region from now on: its state has another id.
void SetCurrentRegion(RegionId region);
// The region of a state.
RegionId RegionOfContext(std::uint32_t context);

// The same for calls that go around libtorch's dispatcher (direct_calls.h),
// which come from another state than those that it passes on: its kernels for
// autograd exclude keys.
struct DirectContext : ContextView {
  // For CPU tensors without gradients it would do nothing, but for such keys.
  bool is_plain = false;
  bool grad_mode = false;
  // The id of this state with what those kernels exclude; 0 if it is not plain,
  // or there is no room for another.
  std::uint32_t below = 0;
};
extern constinit thread_local DirectContext t_direct_context
    __attribute__((tls_model("initial-exec")));
void RefreshDirectContext();

// The ids that a thread's state had last in one region, of calls, of direct
// calls, and what these are below; and what they are outside of regions.
struct RegionIds {
  std::uint32_t called_outside = 0, called = 0;
  std::uint32_t direct_outside = 0, direct = 0, below = 0;
};
// Of what a thread found last, in whatever region: its ids outside of regions.
struct OutsideIds {
  std::uint32_t called = 0, direct = 0;
};
// This thread goes from one region to another: keeps its ids in `from`, where
// that is not null, and takes those of `to` if they are of the state that it
// found last, which is compared with what is set as ever.
void GoToRegion(RegionId region, RegionIds* from, const RegionIds& to,
                OutsideIds* found);

inline void SetCurrentRegion(RegionId region) {
  t_context_view.region = region;
  t_context_view.last = 0;
  t_direct_context.last = 0;
}

// Switch() sets the state behind `id` on this thread until the scope dies. It
// does nothing where that is set: most ops run in the state they were called
// in, and setting it takes longer than a small segment.
class ContextScope {
 public:
  ContextScope() = default;
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  void Switch(std::uint32_t id);

 private:
  struct Saved {
    c10::impl::LocalDispatchKeySet keys;
    c10::AutogradState autograd;
  };
  std::optional<Saved> saved_;  // once something else was set
  std::uint32_t current_ = 0;
};

// Process-global state that kernels read, one word: MXCSR, thread count,
// deterministic and oneDNN switches, float32 precisions. Equal words mean that
// a kernel takes the same way; prepared steps belong to one word.
struct GlobalContext {
  std::uint64_t word = 0;
  bool operator==(const GlobalContext&) const = default;
  static GlobalContext Now();
  // True if the thread's arithmetic (MXCSR) is that of this word.
  bool HasArithmeticOfNow() const;
  // Makes the process equal to this.
  void Apply() const;
};

}  // namespace tjit::runtime
