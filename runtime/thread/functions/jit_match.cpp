#include "runtime/thread/functions/jit_match.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/hash/hash.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/platform/thread_context.h"
#include "runtime/thread/match.h"

namespace tjit::runtime {
namespace {

bool RequiresGrad(const c10::TensorImpl* impl) {
  if (Planted(Defect::kSkippedGradGuard)) return false;
  return impl->autograd_meta() != nullptr && impl->requires_grad();
}

// True if forward-mode differentiation has given it a tangent.
bool IsDual(const c10::TensorImpl* impl) {
  const auto* const meta =
      static_cast<const torch::autograd::AutogradMeta*>(impl->autograd_meta());
  return meta != nullptr && meta->fw_grad_ != nullptr &&
         !meta->fw_grad_->empty();
}

// The first of `tensors` before number `end` that is over `storage`; else
// `end`.
std::size_t FirstOver(const c10::StorageImpl* storage,
                      c10::ArrayRef<const at::Tensor*> tensors,
                      std::size_t end) {
  for (std::size_t i = 0; i < end; ++i) {
    if (tensors[i]->defined() &&
        StorageOf(tensors[i]->unsafeGetTensorImpl()) == storage) {
      return i;
    }
  }
  return end;
}

// The first of `tensors` that is the same one as number `i`; -1: none before
// it.
std::int32_t FirstOfSame(c10::ArrayRef<const at::Tensor*> tensors,
                         std::size_t i) {
  for (std::size_t j = 0; j < i; ++j) {
    if (tensors[j]->is_same(*tensors[i])) return static_cast<std::int32_t>(j);
  }
  return -1;
}

Likeness CompareArgument(const FunctionKey& key,
                         c10::ArrayRef<const at::Tensor*> all, std::size_t i) {
  // Of many arguments nobody looks: binding them finds it.
  constexpr std::size_t kMany = 16;
  const FunctionArgument& known = key.arguments[i];
  const at::Tensor& now = *all[i];
  if (!now.defined()) {
    return known.defined ? Likeness::kOther : Likeness::kSame;
  }
  const c10::TensorImpl* const impl = now.unsafeGetTensorImpl();
  const bool has_autograd = impl->autograd_meta() != nullptr;
  if (!known.defined || !SameGeometry(impl, known.geometry) ||
      (has_autograd && RequiresGrad(impl)) != known.requires_grad ||
      (has_autograd && IsDual(impl))) {
    return Likeness::kOther;
  }
  const c10::StorageImpl* const storage = StorageOf(impl);
  const std::int64_t shift = ShiftOf(impl, known.geometry);
  if (known.shares >= 0) {
    // One slot stands for both, with one shift.
    const auto first = static_cast<std::size_t>(known.shares);
    const c10::TensorImpl* const other = all[first]->unsafeGetTensorImpl();
    if (StorageOf(other) != storage || FirstOfSame(all, i) != known.same_as ||
        ShiftOf(other, key.arguments[first].geometry) != shift) {
      return Likeness::kOther;
    }
  } else if (i < kMany && FirstOver(storage, all, i) < i) {
    return Likeness::kOther;
  }
  if (static_cast<std::int64_t>(storage->nbytes()) <
      known.least_bytes + shift) {
    return Likeness::kOther;
  }
  const bool is_wider =
      (known.is_pinned && known.storage._unsafe_get_target() != storage) ||
      (!known.moves && shift != 0);
  return is_wider ? Likeness::kOtherStorages : Likeness::kSame;
}

}  // namespace

bool SameBits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool IsViewOf(const TensorGeometry& base, const TensorGeometry& view) {
  return base.dtype == view.dtype && base.key_set == view.key_set;
}

bool IsPartOf(const TensorGeometry& base, const TensorGeometry& view) {
  const auto part = [](const TensorGeometry& g) {
    return c10::toRealValueType(static_cast<c10::ScalarType>(g.dtype));
  };
  return part(base) == part(view) && base.key_set == view.key_set;
}

FunctionKey MakeKey(std::uint32_t context, const FunctionInputs& inputs) {
  FunctionKey key;
  key.context = context;
  key.global = GlobalContext::Now().word;
  key.words.assign(inputs.words.begin(), inputs.words.end());
  for (const double number : inputs.numbers) key.numbers.push_back({number});
  for (std::size_t i = 0; i < inputs.tensors.size(); ++i) {
    const at::Tensor& t = *inputs.tensors[i];
    FunctionArgument argument;
    argument.defined = t.defined();
    if (t.defined()) {
      const c10::TensorImpl* const impl = t.unsafeGetTensorImpl();
      argument.geometry = GeometryOf(impl);
      argument.requires_grad = RequiresGrad(impl);
      argument.storage = impl->storage().getWeakStorageImpl();
      const std::size_t first = FirstOver(StorageOf(impl), inputs.tensors, i);
      if (first < i) argument.shares = static_cast<std::int32_t>(first);
      argument.same_as = FirstOfSame(inputs.tensors, i);
    }
    key.arguments.push_back(std::move(argument));
  }
  return key;
}

Likeness Compare(const FunctionKey& known, std::uint32_t context,
                 std::uint64_t global, const FunctionInputs& inputs) {
  if (known.context != context || known.global != global ||
      known.arguments.size() != inputs.tensors.size() ||
      known.numbers.size() != inputs.numbers.size() + known.refs.size() ||
      !std::equal(known.words.begin(), known.words.end(), inputs.words.begin(),
                  inputs.words.end())) {
    return Likeness::kOther;
  }
  Likeness likeness = Likeness::kSame;
  for (std::size_t i = 0; i < inputs.tensors.size(); ++i) {
    const Likeness one = CompareArgument(known, inputs.tensors, i);
    if (one == Likeness::kOther) return one;
    likeness = std::max(likeness, one);
  }
  for (std::size_t i = 0; i < known.numbers.size(); ++i) {
    if (!known.numbers[i].is_free &&
        !SameBits(known.numbers[i].value, known.NumberAt(i, inputs.numbers))) {
      likeness = Likeness::kOtherNumbers;
    }
  }
  return likeness;
}

bool NumbersFit(const FunctionPlan& plan, c10::ArrayRef<double> numbers) {
  for (const NumberUse& use : plan.uses) {
    if (use.where == NumberUse::Where::kConstant ||
        use.policy == ScalarPolicy::kFree)
      continue;
    ScalarValue value;
    value.type = static_cast<std::uint64_t>(c10::ScalarType::Double);
    value.bits[0] =
        std::bit_cast<std::uint64_t>(plan.key.NumberAt(use.number, numbers));
    if (ValueClass(use.policy, value) != use.value_class) return false;
  }
  return true;
}

bool HoldsCaptured(const FunctionPlan& plan, bool is_backward) {
  for (const CapturedStorage& captured : plan.captured) {
    if (captured.storage.use_count() == 0) return false;
    if (!captured.tensor) continue;
    if (captured.tensor->use_count() == 0) return false;
    const c10::TensorImpl* const impl = captured.tensor->_unsafe_get_target();
    if (StorageOf(impl) != captured.storage._unsafe_get_target() ||
        !SameGeometry(impl, captured.geometry) ||
        impl->storage_offset() != captured.geometry.offset ||
        (!is_backward && RequiresGrad(impl) != captured.requires_grad)) {
      return false;
    }
  }
  return plan.gradients == nullptr || HoldsUses(*plan.gradients);
}

bool AskForGradientsAsBefore(const FunctionPlan& plan,
                             const std::vector<at::Tensor>& arguments) {
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    if (arguments[a].defined() &&
        RequiresGrad(arguments[a].unsafeGetTensorImpl()) !=
            plan.key.arguments[a].requires_grad) {
      return false;
    }
  }
  return std::all_of(
      plan.captured.begin(), plan.captured.end(),
      [](const CapturedStorage& captured) {
        return !captured.tensor || captured.tensor->use_count() == 0 ||
               RequiresGrad(captured.tensor->_unsafe_get_target()) ==
                   captured.requires_grad;
      });
}

bool IsDead(const FunctionPlan& plan) {
  return std::any_of(plan.captured.begin(), plan.captured.end(),
                     [](const CapturedStorage& captured) {
                       return captured.storage.use_count() == 0;
                     });
}

void CountMiss(const FunctionPlan& plan) {
  constexpr std::uint32_t kMostMisses = 2;
  if (plan.misses.fetch_add(1, std::memory_order_relaxed) >= kMostMisses) {
    plan.is_dropped.store(true, std::memory_order_relaxed);
  }
}

bool MayBeRecorded(const c10::TensorImpl* impl) {
  return IsPlain(impl) && !IsDual(impl);
}

std::uint64_t FormOf(std::uint32_t context, const FunctionInputs& inputs) {
  std::uint64_t hash = absl::HashOf(context, inputs.tensors.size());
  for (const std::uint64_t word : inputs.words) hash = absl::HashOf(hash, word);
  for (const at::Tensor* t : inputs.tensors) {
    if (!t->defined() || !IsPlain(t->unsafeGetTensorImpl())) continue;
    hash = absl::HashOf(hash, t->scalar_type(), t->requires_grad());
    for (const std::int64_t size : t->sizes()) hash = absl::HashOf(hash, size);
  }
  return hash | 1;
}

}  // namespace tjit::runtime
