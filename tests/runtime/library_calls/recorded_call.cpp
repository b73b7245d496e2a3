#include "tests/runtime/library_calls/recorded_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "recorder/schema_key.h"
#include "runtime/call/call_frame.h"
#include "runtime/platform/torch_compat.h"
#include "tests/runtime/call/tensor_geometry.h"

namespace tjit::runtime::testing {
namespace {

using tjit::testing::GeometryOf;

// Calls `on_tensor` for each tensor argument (undefined for None) and
// `on_scalar` for each scalar, in schema order.
template <class T, class S>
void Visit(const c10::Type& type, const c10::IValue& value, T&& on_tensor,
           S&& on_scalar) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType: {
      const c10::Type& inner =
          *type.castRaw<c10::OptionalType>()->getElementType();
      Visit(inner, value, on_tensor, on_scalar);
      return;
    }
    case c10::TypeKind::ListType:
      if (value.isNone()) return;
      for (const c10::IValue& v : value.toListRef()) {
        Visit(*type.castRaw<c10::ListType>()->getElementType(), v, on_tensor,
              on_scalar);
      }
      return;
    case c10::TypeKind::TensorType:
      on_tensor(value.isNone() ? at::Tensor() : value.toTensor());
      return;
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      if (value.isNone()) {
        on_scalar(ScalarValue{~std::uint64_t{0}, {0, 0}});
      } else {
        ScalarValue encoded;
        EncodeScalar(value.toScalar(), &encoded);
        on_scalar(encoded);
      }
      return;
    default:
      return;
  }
}

template <class T, class S>
void VisitArguments(const OpEntry& entry, const torch::jit::Stack& stack,
                    T&& on_tensor, S&& on_scalar) {
  const auto& arguments = entry.handle.schema().arguments();
  for (std::size_t i = 0; i < stack.size(); ++i) {
    const c10::Type& type = *arguments[i].real_type();
    // float[] holds constants.
    if (type.kind() == c10::TypeKind::ListType &&
        type.castRaw<c10::ListType>()->getElementType()->kind() ==
            c10::TypeKind::FloatType) {
      continue;
    }
    Visit(type, stack[i], on_tensor, on_scalar);
  }
}

std::vector<at::Tensor> Flatten(const torch::jit::Stack& results) {
  std::vector<at::Tensor> flat;
  for (const c10::IValue& v : results) {
    if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorVector()) flat.push_back(t);
    } else {
      flat.push_back(v.toTensor());
    }
  }
  return flat;
}

std::shared_ptr<char> Garbage(std::uint64_t bytes) {
  const std::uint64_t rounded = (bytes + 127) / 64 * 64;
  std::shared_ptr<char> p(static_cast<char*>(std::aligned_alloc(64, rounded)),
                          std::free);
  std::memset(p.get(), 0xa5, rounded);
  return p;
}

std::string StorageBytes(const at::Tensor& t) {
  return std::string(static_cast<const char*>(t.storage().data()),
                     t.storage().nbytes());
}

}  // namespace

c10::OperatorHandle FindOp(const std::string& name) {
  const auto dot = name.find('.');
  const std::string overload =
      dot == std::string::npos ? "" : name.substr(dot + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      name.substr(0, dot).c_str(), overload.c_str());
}

std::string Elements(const at::Tensor& t) {
  const at::Tensor c = t.contiguous();
  return std::string(static_cast<const char*>(c.const_data_ptr()),
                     c.numel() * c.itemsize());
}

RecordedCall::RecordedCall(const std::string& name, Maker maker)
    : name_(name), maker_(std::move(maker)), entry_(FindOp(name)) {
  entry_.kernel = compat::KernelOf(
      entry_.handle.getComputedKernelForDispatchKey(c10::DispatchKey::CPU));
  entry_.name = name;
  record_.op = InternOp(name);
  torch::jit::Stack stack = maker_(0);
  RecordArguments(stack);
  kept_ = stack;
  entry_.handle.callBoxed(&stack);
  RecordResults(stack);
}

void RecordedCall::RecordArguments(const torch::jit::Stack& stack) {
  std::vector<const c10::StorageImpl*> storages;
  const auto& arguments = entry_.handle.schema().arguments();
  std::size_t argument = 0;
  for (const c10::IValue& value : stack) {
    const c10::AliasInfo* alias = arguments[argument++].alias_info();
    const bool is_written = alias != nullptr && alias->isWrite();
    const torch::jit::Stack one = {value};
    auto on_tensor = [&](const at::Tensor& t) {
      ArgRecord record;
      if (t.defined()) {
        const c10::StorageImpl* s = t.storage().unsafeGetStorageImpl();
        auto it = std::find(storages.begin(), storages.end(), s);
        if (it == storages.end()) {
          storages.push_back(s);
          slot_bytes_.push_back(s->nbytes());
          it = storages.end() - 1;
        }
        record.slot = static_cast<std::int32_t>(it - storages.begin());
        record.written = is_written;
        record.geometry = GeometryOf(t);
      }
      record_.args.push_back(record);
    };
    auto on_scalar = [&](const ScalarValue& v) {
      ScalarRecord record;
      record.value = v;
      record.may_vary = true;
      record_.scalars.push_back(record);
    };
    const c10::Type& type = *arguments[argument - 1].real_type();
    if (!(type.kind() == c10::TypeKind::ListType &&
          type.castRaw<c10::ListType>()->getElementType()->kind() ==
              c10::TypeKind::FloatType)) {
      Visit(type, value, on_tensor, on_scalar);
    }
  }
  call_.entry = &entry_;
  call_.key_set = c10::DispatchKeySet(c10::DispatchKey::CPU);
  call_.arguments = stack;
  // Nothing of the program's tensors may stay behind.
  const std::vector<at::Tensor> undefined(record_.args.size());
  for (std::size_t i = 0; i < stack.size(); ++i) {
    c10::IValue& v = call_.arguments[i];
    if (v.isTensor()) v = at::Tensor();
    if (v.isTensorList()) {
      v = c10::List<at::Tensor>(std::vector<at::Tensor>(v.toListRef().size()));
    }
  }
}

void RecordedCall::RecordResults(const torch::jit::Stack& results) {
  std::vector<at::Tensor> args;
  VisitArguments(
      entry_, kept_, [&](const at::Tensor& t) { args.push_back(t); },
      [](const ScalarValue&) {});
  for (const at::Tensor& t : Flatten(results)) {
    ResultRecord record;
    const auto same = std::find_if(
        args.begin(), args.end(),
        [&](const at::Tensor& a) { return t.defined() && a.is_same(t); });
    if (!t.defined()) {
      record.kind = ResultRecord::Kind::kUndefined;
    } else if (same != args.end()) {
      record.kind = ResultRecord::Kind::kAlias;
      record.alias_arg = static_cast<std::int32_t>(same - args.begin());
    } else {
      record.slot = static_cast<std::int32_t>(slot_bytes_.size());
      record.geometry = GeometryOf(t);
      slot_bytes_.push_back(t.storage().nbytes());
    }
    record_.results.push_back(record);
  }
}

PreparedStep& RecordedCall::step() {
  if (!step_) {
    step_ = PrepareStep(record_, call_, slot_bytes_, &tensors_, &trials_);
  }
  return *step_;
}

PreparedStep& RecordedCall::boxed() {
  if (!boxed_) boxed_ = PrepareBoxed(record_, call_, slot_bytes_, &tensors_);
  return *boxed_;
}

std::vector<char*> RecordedCall::SlotsOf(const torch::jit::Stack& stack) const {
  std::vector<char*> slots(slot_bytes_.size(), nullptr);
  std::size_t i = 0;
  VisitArguments(
      entry_, stack,
      [&](const at::Tensor& t) {
        const std::int32_t slot = record_.args[i++].slot;
        if (slot == kNoSlot) return;
        slots[slot] = static_cast<char*>(t.storage().mutable_data());
      },
      [](const ScalarValue&) {});
  return slots;
}

std::string RecordedCall::Compare(PreparedStep* step, int seed) {
  return CompareOver(step, seed, kNoSlot, kNoSlot);
}

std::string RecordedCall::CompareOver(PreparedStep* step, int seed,
                                      std::int32_t result,
                                      std::int32_t operand) {
  torch::jit::Stack eager = maker_(seed);
  const torch::jit::Stack eager_args = eager;
  entry_.handle.callBoxed(&eager);
  const std::vector<at::Tensor> expected = Flatten(eager);

  kept_ = maker_(seed);
  slots_ = SlotsOf(kept_);
  memory_.clear();
  for (const ResultRecord& r : record_.results) {
    if (r.kind != ResultRecord::Kind::kFresh) continue;
    memory_.push_back(Garbage(slot_bytes_[r.slot]));
    slots_[r.slot] = memory_.back().get();
  }
  if (result != kNoSlot) slots_[result] = slots_[operand];
  scalars_.clear();
  VisitArguments(
      entry_, kept_, [](const at::Tensor&) {},
      [&](const ScalarValue& v) { scalars_.push_back(v); });
  // A step that claims not to use tensors gets none.
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    tensors_.Bind(static_cast<std::int32_t>(s),
                  step->uses_tensors() ? slots_[s] : nullptr);
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    step->Run(slots_.data(), scalars_.data());
  }

  std::vector<at::Tensor> args, eager_tensors;
  VisitArguments(
      entry_, kept_, [&](const at::Tensor& t) { args.push_back(t); },
      [](const ScalarValue&) {});
  VisitArguments(
      entry_, eager_args,
      [&](const at::Tensor& t) { eager_tensors.push_back(t); },
      [](const ScalarValue&) {});
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].defined() &&
        (operand == kNoSlot || record_.args[i].slot != operand) &&
        StorageBytes(args[i]) != StorageBytes(eager_tensors[i])) {
      return "argument " + std::to_string(i) + " differs afterwards";
    }
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ResultRecord& r = record_.results[i];
    if (r.kind != ResultRecord::Kind::kFresh) continue;
    const TensorGeometry& g = r.geometry;
    const at::Tensor got = at::from_blob(slots_[r.slot] + g.offset * g.itemsize,
                                         at::IntArrayRef(g.sizes, g.ndim),
                                         at::IntArrayRef(g.strides, g.ndim),
                                         expected[i].options());
    if (Elements(got) != Elements(expected[i])) {
      return "result " + std::to_string(i) + " differs";
    }
  }
  return "";
}

std::string RecordedCall::RunBoxed(const StepRecord& record) {
  Compare(&boxed(), 1);  // binds the slots
  const std::unique_ptr<PreparedStep> step =
      PrepareBoxed(record, call_, slot_bytes_, &tensors_);
  const at::AutoDispatchBelowADInplaceOrView below;
  try {
    step->Run(slots_.data(), scalars_.data());
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
  return "";
}

}  // namespace tjit::runtime::testing
