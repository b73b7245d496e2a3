// A call that is replayed: the function does not run.
#include <cstdint>
#include <utility>

#include "runtime/library_calls/recorded_tensors.h"
#include "runtime/thread/functions/function_calls.h"
#include "runtime/thread/functions/jit_core.h"
#include "runtime/thread/functions/jit_match.h"
#include "runtime/thread/functions/jit_node.h"
#include "runtime/thread/thread_state.h"

namespace tjit::internal {

using runtime::FunctionPlan;
using runtime::FunctionResult;
using runtime::ThreadState;

namespace {

// `base`, or where the result has another dtype what it has of the parts of its
// complex numbers: all of the storage, which `base` covers.
at::Tensor WithDtype(const at::Tensor& base, c10::ScalarType dtype) {
  if (base.scalar_type() == dtype) return base;
  if (base.is_complex()) return at::view_as_real(base);
  return at::view_as_complex(base.as_strided({base.numel() / 2, 2}, {2, 1}, 0));
}

// The view of `base` that a result is. Where autograd does not know it as one
// (inference tensors, gradients) it is a tensor over the same storage.
at::Tensor OverView(const at::Tensor& base, const FunctionResult& result,
                    std::int64_t shift) {
  const TensorGeometry& g = result.geometry;
  const c10::IntArrayRef sizes(g.sizes, g.ndim), strides(g.strides, g.ndim);
  const auto dtype = static_cast<c10::ScalarType>(g.dtype);
  if (result.is_tracked) {
    const at::AutoGradMode mode(c10::GradMode::is_enabled() &&
                                !base.requires_grad());
    return WithDtype(base, dtype).as_strided(sizes, strides, g.offset + shift);
  }
  at::Tensor view = runtime::AliasOf(base);
  if (dtype != base.scalar_type()) {
    view.unsafeGetTensorImpl()->set_storage_and_dtype(
        base.storage(), c10::scalarTypeToTypeMeta(dtype));
  }
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides,
                                                    g.offset + shift);
  return view;
}

// Copies of a version share its counter.
void Raise(c10::VariableVersion version, std::uint32_t target) {
  while (version.current_version() < target) version.bump();
}

// Raises the version counters of what was written. Two arguments may have one
// counter: so each is raised to a number, not by one.
class Bumps {
 public:
  Bumps(const FunctionPlan& plan, const at::Tensor* const* arguments) {
    for (std::size_t a = 0; a < plan.bumps.size(); ++a) {
      if (plan.bumps[a] == 0) continue;
      Add(arguments[a]->unsafeGetTensorImpl()->version_counter(),
          plan.bumps[a]);
    }
    for (const runtime::CapturedStorage& captured : plan.captured) {
      if (captured.bumps != 0) Add(captured.version, captured.bumps);
    }
  }
  void Apply() {
    for (const auto& [version, target] : targets_) Raise(version, target);
  }

 private:
  void Add(const c10::VariableVersion& version, std::uint32_t bumps) {
    targets_.emplace_back(version, version.current_version() + bumps);
  }
  c10::SmallVector<std::pair<c10::VariableVersion, std::uint32_t>, 4> targets_;
};

}  // namespace

bool JitCall::Replay(ThreadState* state, Found* found) {
  using Replayed = ThreadState::Replayed;
  const auto find_other = [this](const FunctionPlan& plan, std::size_t read,
                                 std::uint64_t bits) {
    return FindOther(plan, read, bits);
  };
  runtime::FunctionReplay replay{found->plan, find_other, is_scoped_};
  const Replayed replayed = state->ReplayFunction(&replay, Inputs());
  const FunctionPlan& plan = *replay.plan;
  if (replayed == Replayed::kOtherValue) {
    found->left = &plan;
    found->read = replay.read;
    found->bits = replay.bits;
  }
  if (replayed == Replayed::kNo) runtime::CountMiss(plan);
  if (replayed != Replayed::kYes) return false;
  if (core_->last.load(std::memory_order_relaxed) != &plan) {
    core_->last.store(&plan, std::memory_order_release);
  }
  core_->replays.fetch_add(1, std::memory_order_relaxed);
  state->counters().jit_replays.Add();
  if (plan.misses.load(std::memory_order_relaxed) != 0) plan.misses.store(0);
  if (plan.writes) Bumps(plan, tensors_.data()).Apply();
  MakeResults(plan, replay.made);
  SetGradients(plan);
  graph_.replayed = &plan;
  if (plan.gradients != nullptr) {
    GraphCalls(this).Keep(plan, replay.made, std::move(replay.moves));
  }
  returned_ = plan.returned.get();
  return true;
}

// Results of a replay: `made` are the fresh and the drawn tensors, and what
// parts have returned.
void JitCall::MakeResults(const runtime::FunctionPlan& plan,
                          c10::ArrayRef<at::Tensor> made) {
  for (const FunctionResult& result : plan.results) {
    if (result.same_as >= 0) {
      const at::Tensor same =
          results_[static_cast<std::size_t>(result.same_as)];
      results_.push_back(same);
      continue;
    }
    at::Tensor base;
    std::int64_t shift = 0;
    switch (result.kind) {
      case FunctionResult::Kind::kUndefined:
        break;
      case FunctionResult::Kind::kArgument:
        base = *tensors_[result.index];
        shift = base.storage_offset() -
                plan.key.arguments[result.index].geometry.offset;
        break;
      case FunctionResult::Kind::kCaptured:
        base = runtime::Locked(*plan.captured[result.index].tensor);
        break;
      case FunctionResult::Kind::kSlot:
        base = made[result.index];
        break;
      case FunctionResult::Kind::kDrawn:
        base = made[plan.fresh.size() + result.index];
        if (!base.is_inference()) {
          Raise(base.unsafeGetTensorImpl()->version_counter(),
                plan.drawn_versions[result.index]);
        }
        break;
      case FunctionResult::Kind::kCalled:
        base =
            made[plan.fresh.size() + plan.record->drawn.size() + result.index];
        if (!base.is_inference()) {
          Raise(base.unsafeGetTensorImpl()->version_counter(),
                plan.called_versions[result.index]);
        }
        break;
    }
    results_.push_back(result.is_view ? OverView(base, result, shift)
                                      : std::move(base));
  }
}

void JitCall::SetGradients(const runtime::FunctionPlan& plan) {
  using After = runtime::FunctionLeaf::After;
  for (const runtime::FunctionLeaf& leaf : plan.leaves) {
    if (leaf.after == After::kSame) continue;
    at::Tensor& gradient = leaf.tensor._unsafe_get_target()->mutable_grad();
    if (leaf.after == After::kNone) {
      gradient.reset();
    } else {
      gradient = results_[leaf.result];
    }
  }
}

}  // namespace tjit::internal
