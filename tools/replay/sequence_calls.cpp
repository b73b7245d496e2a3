#include "tools/replay/sequence_calls.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <tjit/tjit.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tjit::tools {
namespace {

c10::OperatorHandle OpOf(const std::string& name) {
  const std::size_t dot = name.find('.', name.find("::"));
  const auto op = c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot),
       dot == std::string::npos ? "" : name.substr(dot + 1)});
  TORCH_CHECK(op.has_value(), "this libtorch has no op ", name,
              ", which the sequence calls");
  return *op;
}

// Memory that libtorch has not allocated.
c10::Storage ForeignStorage(const at::Tensor& content) {
  const auto bytes = static_cast<std::size_t>(content.numel());
  void* const data = std::malloc(bytes + 1);
  std::memcpy(data, content.const_data_ptr(), bytes);
  return {c10::Storage::use_byte_size_t(), bytes,
          c10::DataPtr(data, data, &std::free, c10::kCPU),
          /*allocator=*/nullptr, /*resizable=*/false};
}

// Values of a result, those of lists too, in order.
void ForEachResult(const torch::jit::Stack& stack,
                   const std::function<void(const at::Tensor&)>& use) {
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) {
      use(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) use(t);
    } else if (value.isNone()) {
      use(at::Tensor());
    }
  }
}

bool SameForm(const SequenceTensor& a, const SequenceTensor& b) {
  return a.storage == b.storage && a.dtype == b.dtype && a.sizes == b.sizes &&
         a.strides == b.strides && a.offset == b.offset;
}

std::vector<SequenceOutput> OutputsOf(const SequenceRun& run) {
  std::vector<SequenceOutput> outputs;
  const auto add = [&](std::size_t call, const char* what, std::size_t number,
                       const SequenceTensor& form, bool is_result) {
    if (form.storage < 0 ||
        !run.storages[static_cast<std::size_t>(form.storage)].is_live) {
      return;
    }
    if (!is_result) {
      std::erase_if(outputs, [&](const SequenceOutput& o) {
        return SameForm(o.form, form);
      });
    }
    outputs.push_back({absl::StrCat("op ", call, " ", run.calls[call].op, ", ",
                                    what, " ", number),
                       form, is_result ? static_cast<std::int64_t>(call) : -1,
                       number});
  };
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    const SequenceCall& call = run.calls[c];
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      if (call.tensors[i].is_written) {
        add(c, "written argument", i, call.tensors[i], false);
      }
    }
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      add(c, "result", i, call.results[i], true);
    }
  }
  return outputs;
}

template <class T>
c10::List<T> TypedList(const c10::IValue& value) {
  c10::List<T> list;
  for (const c10::IValue& one : value.toListRef()) list.push_back(one.to<T>());
  return list;
}

// The numbers that stand for tensors are no tensors from here on: nothing has
// to be read between two calls.
c10::IValue WithNumbers(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().item<std::int64_t>();
  if (!value.isList()) return value;
  const auto& all = value.toListRef();
  const bool has_tensors =
      std::any_of(all.begin(), all.end(),
                  [](const c10::IValue& v) { return v.isTensor(); });
  if (!has_tensors) return value;
  c10::impl::GenericList list(c10::AnyType::get());
  for (const c10::IValue& v : all) list.push_back(WithNumbers(v));
  return list;
}

// `value` with the tensors of a call where it has their numbers.
c10::IValue Fill(const c10::Type& type, const c10::IValue& value,
                 const std::vector<at::Tensor>& tensors) {
  const auto tensor_of = [&](const c10::IValue& number) {
    return tensors.at(static_cast<std::size_t>(number.toInt()));
  };
  if (value.isNone()) return value;
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return Fill(*type.castRaw<c10::OptionalType>()->getElementType(), value,
                  tensors);
    case c10::TypeKind::TensorType:
      return tensor_of(value);
    case c10::TypeKind::ListType:
      break;
    default:
      return value;
  }
  const c10::TypePtr element = type.castRaw<c10::ListType>()->getElementType();
  switch (element->kind()) {
    case c10::TypeKind::TensorType: {
      c10::List<at::Tensor> list;
      for (const c10::IValue& v : value.toListRef()) {
        list.push_back(tensor_of(v));
      }
      return list;
    }
    case c10::TypeKind::OptionalType: {
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue& v : value.toListRef()) {
        list.push_back(v.isNone() ? std::nullopt
                                  : std::make_optional(tensor_of(v)));
      }
      return list;
    }
    case c10::TypeKind::NumberType: {
      c10::impl::GenericList list(c10::NumberType::get());
      for (const c10::IValue& v : value.toListRef()) list.push_back(v);
      return list;
    }
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return TypedList<std::int64_t>(value);
    case c10::TypeKind::FloatType:
      return TypedList<double>(value);
    case c10::TypeKind::BoolType:
      return TypedList<bool>(value);
    default:
      return value;
  }
}

}  // namespace

at::Tensor TensorOver(const c10::Storage& storage, const SequenceTensor& form) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(form.dtype));
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(form.sizes, form.strides, form.offset);
  if (form.is_number) impl->set_wrapped_number(true);
  if (form.is_conjugate) impl->_set_conj(true);
  if (form.is_negative) impl->_set_neg(true);
  return tensor;
}

std::vector<at::ScalarType> DtypesOf(const SequenceRun& run) {
  std::vector<at::ScalarType> dtypes(run.storages.size(), at::kByte);
  const auto add = [&](const SequenceTensor& t) {
    if (t.storage >= 0) dtypes[static_cast<std::size_t>(t.storage)] = t.dtype;
  };
  for (std::size_t c = run.calls.size(); c-- > 0;) {
    for (const SequenceTensor& t : run.calls[c].results) add(t);
    for (const SequenceTensor& t : run.calls[c].tensors) add(t);
  }
  return dtypes;
}

SequenceCalls::SequenceCalls(const SequenceRun& run)
    : run_(run), dropped_(run.calls.size()), outputs_(OutputsOf(run)) {
  std::vector<std::size_t> last_use(run.storages.size(), run.calls.size());
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    ops_.push_back(OpOf(run.calls[c].op));
    auto& arguments = arguments_.emplace_back();
    for (const c10::IValue& value : run.calls[c].arguments) {
      arguments.push_back(WithNumbers(value));
    }
    TORCH_CHECK(arguments.size() == ops_.back().schema().arguments().size(),
                run.calls[c].op, " takes ",
                ops_.back().schema().arguments().size(),
                " arguments here, and the sequence has ", arguments.size());
    for (const SequenceTensor& t : run.calls[c].tensors) {
      if (t.storage >= 0) last_use[static_cast<std::size_t>(t.storage)] = c;
    }
    for (const SequenceTensor& t : run.calls[c].results) {
      if (t.storage >= 0) last_use[static_cast<std::size_t>(t.storage)] = c;
    }
  }
  for (std::size_t s = 0; s < last_use.size(); ++s) {
    if (run.storages[s].is_live || last_use[s] == run.calls.size()) continue;
    dropped_[last_use[s]].push_back(static_cast<std::int64_t>(s));
  }
}

void SequenceCalls::Begin(const std::vector<at::Tensor>& contents,
                          bool keeps_last) {
  before_ = keeps_last ? std::move(storages_) : std::vector<c10::Storage>();
  storages_.assign(run_.storages.size(), c10::Storage());
  made_.clear();
  for (const SequenceCall& call : run_.calls) made_.push_back(call.results);
  const Pause pause;  // no part of the sequence
  for (std::size_t s = 0; s < storages_.size(); ++s) {
    if (!contents[s].defined()) continue;
    if (run_.storages[s].is_foreign) {
      storages_[s] = ForeignStorage(contents[s]);
    } else {
      storages_[s] = at::empty_like(contents[s]).copy_(contents[s]).storage();
    }
  }
}

void SequenceCalls::Call(std::size_t number) {
  const SequenceCall& call = run_.calls[number];
  const auto& arguments = ops_[number].schema().arguments();
  torch::jit::Stack stack;
  {
    std::vector<at::Tensor> tensors;
    for (const SequenceTensor& t : call.tensors) {
      if (t.storage < 0) {
        tensors.emplace_back();
        continue;
      }
      const c10::Storage& s = storages_[static_cast<std::size_t>(t.storage)];
      TORCH_CHECK(s, call.op, " reads a storage that no call has made");
      tensors.push_back(TensorOver(s, t));
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      stack.push_back(
          Fill(*arguments[i].real_type(), arguments_[number][i], tensors));
    }
  }
  const c10::AutoGradMode grad_mode(call.has_grad_mode);
  ops_[number].callBoxed(stack);
  KeepResults(number, stack);
}

void SequenceCalls::KeepResults(std::size_t number,
                                const torch::jit::Stack& stack) {
  const SequenceCall& call = run_.calls[number];
  std::size_t i = 0;
  ForEachResult(stack, [&](const at::Tensor& result) {
    const std::int64_t s =
        i < call.results.size() ? call.results[i].storage : -1;
    ++i;
    if (s < 0 || !result.defined()) return;
    storages_[static_cast<std::size_t>(s)] = result.storage();
    SequenceTensor& form = made_[number][i - 1];
    form.dtype = result.scalar_type();
    form.sizes = result.sizes().vec();
    form.strides = result.strides().vec();
    form.offset = result.storage_offset();
  });
}

void SequenceCalls::Run(const std::function<void(std::size_t)>& after) {
  for (std::size_t c = 0; c < run_.calls.size(); ++c) {
    Call(c);
    if (after) after(c);
    for (const std::int64_t s : dropped_[c]) {
      storages_[static_cast<std::size_t>(s)] = c10::Storage();
    }
  }
}

SequenceTensor SequenceCalls::FormOf(const SequenceOutput& output) const {
  SequenceTensor form =
      output.call < 0
          ? output.form
          : made_[static_cast<std::size_t>(output.call)][output.result];
  form.is_conjugate = form.is_negative = form.is_number = false;
  return form;
}

std::vector<SequenceValue> SequenceCalls::Outputs() const {
  const Pause pause;
  std::vector<SequenceValue> all;
  for (const SequenceOutput& output : outputs_) {
    SequenceValue value;
    value.form = FormOf(output);
    const c10::Storage& storage =
        storages_[static_cast<std::size_t>(value.form.storage)];
    TORCH_CHECK(storage, output.what, " is not there");
    const at::Tensor whole = TensorOver(storage, value.form).contiguous();
    value.bytes.assign(static_cast<const char*>(whole.const_data_ptr()),
                       whole.nbytes());
    all.push_back(std::move(value));
  }
  return all;
}

at::Tensor SequenceCalls::ContentOf(std::int64_t storage) const {
  const c10::Storage& s = storages_[static_cast<std::size_t>(storage)];
  SequenceTensor form;
  form.dtype = at::kByte;
  form.sizes = {static_cast<std::int64_t>(s.nbytes())};
  form.strides = {1};
  return TensorOver(s, form).clone();
}

}  // namespace tjit::tools
