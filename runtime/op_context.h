// Thread-local and process-global state that kernels read.
//
// Thread-local state (dispatch key sets, grad and inference mode), and the
// default dtype with it, is interned: a step carries a small id, equal ids
// mean equal state, and the executor sets it before the step (hazard Z5).
// Process-global state (thread count, MXCSR, float32 precisions, ...) is one
// word per segment (hazard Z6); the exported setters flush before they change
// it, the word is the check behind them.
// Tested by: tests/runtime/global_state_test.cpp
#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <optional>

namespace tjit::runtime {

// The id of this thread's present state; 0 if it cannot be interned (more
// than kMaxContexts different ones), which means: do not record.
std::uint32_t CurrentContext();
inline constexpr std::uint32_t kMaxContexts = 1024;

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
  // Makes the process equal to this.
  void Apply() const;
};

}  // namespace tjit::runtime
