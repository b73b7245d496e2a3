#include "runtime/intercept/boxed_wrapper.h"

#include <ATen/core/stack.h>
#include <c10/core/impl/COW.h>

#include <bit>

#include "runtime/call/eager_call.h"
#include "runtime/thread/materialize.h"

namespace tjit::runtime {
namespace {

using torch::jit::Stack;

// Packs an argument whose type says little: lists by value, anything that
// cannot be compared makes the call unrecordable.
void PackOther(CallFrame& f, std::uint32_t i, const c10::IValue& v) {
  if (v.isNone()) {
    f.AddStatic(0x6e6f6e65);
  } else if (v.isTensorList()) {
    const c10::List<at::Tensor> list = v.toTensorList();
    f.AddStatic(list.size());
    for (const at::Tensor& t : list) f.AddTensor(t, i);
  } else if (v.isInt() || v.isBool()) {
    f.AddStatic(static_cast<std::uint64_t>(v.isInt() ? v.toInt() : v.toBool()));
  } else if (v.isString()) {
    f.AddString(v.toStringRef());
  } else if (v.isDevice()) {
    f.AddStatic(static_cast<std::uint64_t>(v.toDevice().type()) << 8 |
                static_cast<std::uint8_t>(v.toDevice().index()));
  } else if (v.isIntList()) {
    const c10::List<std::int64_t> list = v.toIntList();
    f.AddStatic(list.size());
    for (std::int64_t x : list) f.AddStatic(static_cast<std::uint64_t>(x));
  } else if (v.isDoubleList()) {
    const std::vector<double> list = v.toDoubleVector();
    f.AddStatic(list.size());
    for (double x : list) f.AddStatic(std::bit_cast<std::uint64_t>(x));
  } else if (v.isBoolList()) {
    const c10::List<bool> list = v.toBoolList();
    f.AddStatic(list.size());
    for (std::size_t k = 0; k < list.size(); ++k) f.AddStatic(list.get(k));
  } else if (v.isList()) {
    f.AddStatic(v.toListRef().size());
    for (const c10::IValue& e : v.toListRef()) {
      if (e.isTensor()) {
        f.AddTensor(e.toTensor(), i);
      } else if (e.isNone()) {
        f.AddUndefined(i);
      } else if (e.isScalar()) {
        f.AddScalar(e.toScalar());
      } else {
        f.recordable = false;
      }
    }
  } else {
    f.recordable = false;
  }
}

// Packs one boxed argument.
void PackValue(CallFrame& f, std::uint32_t i, const c10::IValue& v) {
  switch (f.entry.argument_kinds[i]) {
    case ArgumentKind::kTensor:
      if (v.isTensor()) {
        f.AddTensor(v.toTensor(), i);
      } else {
        f.AddUndefined(i);
      }
      return;
    case ArgumentKind::kScalar:
      if (v.isNone()) {
        f.AddNoScalar();
      } else if (v.isSymInt() || v.isSymFloat()) {
        f.recordable = false;
      } else {
        f.AddScalar(v.toScalar());
      }
      return;
    case ArgumentKind::kOther:
      PackOther(f, i, v);
      return;
  }
}

// Flattens the fresh results on the stack; false if one is no tensor.
void CollectResults(const OpEntry& entry, const Stack& stack,
                    std::size_t base, CallFrame& frame, ResultList& out) {
  for (std::size_t j = base; j < stack.size(); ++j) {
    const std::size_t r = j - base;
    if (r < entry.returns.size() && entry.returns[r].alias_arg >= 0) continue;
    const c10::IValue& v = stack[j];
    if (v.isTensor()) {
      out.Add(v.toTensor());
    } else if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorList()) out.Add(t);
    } else {
      frame.recordable = false;
    }
  }
}

// Replaces the arguments on the stack by the results of a deferred call.
void PushResults(const OpEntry& entry, CallFrame& frame, Stack* stack,
                 std::size_t base) {
  Stack results;
  std::uint32_t next = 0;
  for (const ReturnInfo& info : entry.returns) {
    if (info.alias_arg >= 0) {
      results.push_back((*stack)[base + info.alias_arg]);
    } else if (info.is_list) {
      c10::List<at::Tensor> list;
      while (next < frame.results.size()) {
        list.push_back(frame.results.Release(next++));
      }
      results.emplace_back(std::move(list));
    } else {
      results.emplace_back(frame.results.Release(next++));
    }
  }
  stack->resize(base);
  for (c10::IValue& v : results) stack->push_back(std::move(v));
}

// Holds the tensors of a frame.
class KeptTensors {
 public:
  explicit KeptTensors(const CallFrame& frame) {
    for (const TensorRef& ref : frame.tensors) {
      if (ref.impl == nullptr) continue;
      kept_.push_back(
          c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(ref.impl));
    }
  }

 private:
  c10::SmallVector<c10::intrusive_ptr<c10::TensorImpl>, 12> kept_;
};

class BoxedWrapper : public c10::OperatorKernel {
 public:
  explicit BoxedWrapper(OpEntry* entry) : entry_(entry) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet ks,
                  Stack* stack) {
    ThreadState* state = ActiveState();
    if (state == nullptr) {
      const LendingScope lends;
      entry_->kernel.callBoxed(entry_->handle, ks, stack);
      return;
    }
    const std::size_t count = entry_->argument_kinds.size();
    const std::size_t base = stack->size() - count;
    CallFrame frame(*entry_, ks);
    for (std::size_t i = 0; i < count; ++i) {
      PackValue(frame, static_cast<std::uint32_t>(i), (*stack)[base + i]);
    }
    if (OnCall(state, frame) == Decision::kDeferred) {
      PushResults(*entry_, frame, stack, base);
      return;
    }
    RunEagerly(state, frame, ks, stack, base);
  }

 private:
  void RunEagerly(ThreadState* state, CallFrame& frame, c10::DispatchKeySet ks,
                  Stack* stack, std::size_t base) {
    // `frame` points to the arguments, which the kernel drops from the stack.
    const KeptTensors kept(frame);
    Stack arguments;
    if (frame.wants_capture) {
      arguments.assign(stack->begin() + static_cast<std::ptrdiff_t>(base),
                       stack->end());
    }
    EagerScope scope(state, frame);
    entry_->kernel.callBoxed(entry_->handle, ks, stack);
    CollectResults(*entry_, *stack, base, frame, scope.results());
    scope.Finish(std::move(arguments));
  }

  OpEntry* const entry_;
};

// A storage has room for one hook, and copy-on-write wants it: ours goes, also
// while tjit is off. What comes out is not ours to arm.
class LazyCloneWrapper : public BoxedWrapper {
 public:
  using BoxedWrapper::BoxedWrapper;

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet ks,
                  Stack* stack) {
    const at::Tensor& t = stack->back().toTensor();
    c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
    MaterializeForWrite(storage, FlushReason::kOpAtCall);
    if (!c10::impl::cow::is_cow_data_ptr(storage->data_ptr())) {
      storage->clear_materializer();
    }
    BoxedWrapper::operator()(op, ks, stack);
  }
};

}  // namespace

NewKernel MakeBoxedWrapper(OpEntry* entry) {
  entry->typed = false;
  if (entry->name == "aten::_lazy_clone") {
    return {c10::KernelFunction::makeFromBoxedFunctor(
                std::make_unique<LazyCloneWrapper>(entry)),
            std::nullopt};
  }
  return {c10::KernelFunction::makeFromBoxedFunctor(
              std::make_unique<BoxedWrapper>(entry)),
          std::nullopt};
}

}  // namespace tjit::runtime
