// Calls of functions that tjit::jit() wraps: recorded, followed, replayed.
//
// The part of a thread's state (thread_state.h) above its cursor. See Note
// [Functions] in function_plan.h.
// Thread: the owner's, outside kernels, holding the mutex of no state.
// Tested by: tests/runtime/thread/jit_*_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/thread/functions/function_plan.h"
#include "runtime/thread/functions/function_session.h"
#include "runtime/thread/trace_cursor.h"

namespace tjit::runtime {

// The arguments of one call, by the order of the plan's key.
struct FunctionInputs {
  c10::ArrayRef<const at::Tensor*> tensors;
  c10::ArrayRef<double> numbers;
  c10::ArrayRef<std::uint64_t> words;  // what must be the same
};

// One replay. REQUIRES: `plan` serves the call, and so does what `find_other`
// returns.
struct FunctionReplay {
  // Another plan that goes the way of `plan` up to its read number `read`, and
  // reads `bits` there; null: none is known.
  using FindOther = absl::FunctionRef<const FunctionPlan*(
      const FunctionPlan& plan, std::size_t read, std::uint64_t bits)>;

  const FunctionPlan* plan;  // in the end: by which the call was replayed
  FindOther find_other;
  bool runs_at_once =
      false;  // its steps run when the call ends, whatever it is
  // The tensors of plan->fresh, of plan->record->drawn, then what parts have
  // returned so far.
  c10::SmallVector<at::Tensor, 4> made{};
  // What was read where no plan goes on, of kOtherValue, or another one does.
  std::size_t read = 0;
  std::uint64_t bits = 0;
  bool has_begun = false;  // a part of it: ops may be pending
  // What is put back where it ends behind step `step`: Note [Parts].
  struct Saved {
    std::uint32_t step;
    Block* block;
    char* data;
    std::string bytes;
  };
  std::vector<Saved> saved{};
  GeneratorMoves moves{};  // where results have a graph, or it reads
  std::size_t steps_run = 0;
  // What lies outside and is used by plans with parts.
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> held{};
};

class FunctionCalls : public TraceCursor {
 public:
  // Not kYes: nothing has changed, and the function is to be run.
  enum class Replayed : std::uint8_t {
    kYes,
    kNo,          // the storages lie otherwise than the plan says
    kBusy,        // other threads use them
    kOtherValue,  // it would read a number that no plan has read there
  };

  // A call threw before it was decided: it counts as an eager one.
  void CountThrow();
  // A mutable pointer into `block` was handed out.
  void CountHook(bool exposed);
  // It was let go of.
  void UncountExposure() { counters_.blocks_exposed.Add(-1); }
  // A backward pass begins: without libtorch's engine, or why with it.
  void CountBackward(std::optional<BackwardReason> left);
  // Random numbers were drawn by own code.
  void CountOwnDraw() { counters_.draws_own.Add(); }

  // A function runs from here on, and `session`, which is kept until
  // CloseFunction(), says how. THROWS: what the pending ops throw that run
  // first.
  void OpenFunction(FunctionSession* session);
  // The function has returned.
  void CloseFunction();
  FunctionSession* open_function() const { return function_; }
  // A backward pass inside has accumulated the gradient of `leaf`, or an
  // optimizer that was passed has it.
  void AddLeaf(const at::Tensor& leaf);
  // True if what was recorded into `store` is the thread's still.
  bool HasStore(const std::weak_ptr<TraceStore>& store) const {
    return !store.owner_before(store_) && !store_.owner_before(store);
  }

  // After the function has returned, before CloseFunction(). Null, and
  // session->why, if it cannot be replayed.
  std::unique_ptr<FunctionRecord> EndRecording();
  // The same of a call that followed. `results`: what it returned.
  std::unique_ptr<FunctionPlan> EndFollowing(
      const std::vector<at::Tensor>& results);

  // Defers the whole function, or what is behind its last host read. THROWS:
  // what the pending ops throw that run first.
  Replayed ReplayFunction(FunctionReplay* replay, const FunctionInputs& inputs);

 protected:
  using TraceCursor::TraceCursor;

  Decision DecideInFunction(CallFrame& frame);
  // The eager kernel of an op has run.
  void RecordInside(const ResultList& results);
  // `boxed`: its arguments, where the frame wanted them.
  void LookAtLastCall(const CallFrame& frame, const ResultList& results,
                      const torch::jit::Stack* boxed);
  FunctionSession* function_ = nullptr;  // that runs

 private:
  friend class AtOnceCall;
  friend class PartCalls;

  // kAnew: the replay has another plan, which has to begin anew.
  enum class Bound : std::uint8_t {
    kYes,
    kNo,
    kOwnedByOthers,
    kOtherValue,
    kAnew
  };

  bool FollowFunction(CallFrame& frame, Decision* decision);
  void LeaveForFunction();
  void NoteBefore(FunctionSession* session);
  void NoteBorn(const CallFrame& frame, const TraceNode& node);
  void TakeRead(const CallFrame& frame);
  void FollowOther(std::shared_ptr<const FunctionRecord> other);
  void TakeChecks(std::size_t step);
  void RunToRead(std::size_t step, FlushReason reason);
  void KeepConstants();
  Bound BindFunction(const FunctionPlan& plan, const FunctionInputs& inputs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bound BindStorage(const FunctionSlot& from, c10::StorageImpl* storage,
                    std::int64_t shift) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bound BindBlock(std::uint32_t s, bool written, c10::StorageImpl* storage,
                  Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ClaimBound(std::uint32_t s, bool written)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BindDrawn(const FunctionPlan& plan, const at::Tensor* drawn,
                 std::size_t from_slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Block* MakeFresh(const FreshTensor& fresh, at::Tensor* tensor)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OwnFresh(std::uint32_t s, Block* block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bound DeferFunction(FunctionReplay* replay, const FunctionInputs& inputs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bound RunToLastRead(FunctionReplay* replay, const FunctionInputs& inputs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bound BeginPart(FunctionReplay* replay, std::size_t first)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bound GoOnBy(const FunctionPlan& to, std::size_t step,
               const FunctionInputs& inputs, FunctionReplay* replay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AppendSteps(const FunctionPlan& plan, std::size_t first, std::size_t end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepNumbers(const FunctionPlan& plan, c10::ArrayRef<double> numbers);
  void UnbindFunction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FlushOwnersOf(const FunctionPlan& plan, const FunctionInputs& inputs);

  std::int64_t at_once_until_ = -1;  // ops seen, when one had run at once
};

}  // namespace tjit::runtime
