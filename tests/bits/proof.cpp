#include "tests/bits/proof.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <tjit/tjit.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit::bits {
namespace {

constexpr int kSteps = 8;  // compiled behind the third

c10::OperatorHandle HandleOf(const std::string& op) {
  const std::size_t dot = op.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      op.substr(0, dot).c_str(),
      dot == std::string::npos ? "" : op.substr(dot + 1).c_str());
}

// Defaults of the op's arguments, up to `count` in all.
void AddDefaults(const c10::OperatorHandle& handle, std::size_t count,
                 torch::jit::Stack* stack) {
  for (std::size_t i = stack->size(); i < count; ++i) {
    const c10::Argument& argument = handle.schema().arguments()[i];
    stack->push_back(argument.default_value().value_or(c10::IValue()));
  }
}

std::vector<at::Tensor> Call(const OpCall& call) {
  torch::jit::Stack stack = call.arguments;
  std::vector<at::Tensor> results;
  if (call.is_in_place && stack[0].isTensor()) {
    stack[0] = stack[0].toTensor().clone();
    results.push_back(stack[0].toTensor());
  } else if (call.is_in_place) {
    for (const at::Tensor& t : stack[0].toTensorVector()) {
      results.push_back(t.clone());
    }
    stack[0] = results;
  }
  const c10::OperatorHandle handle = HandleOf(call.op);
  AddDefaults(handle, handle.schema().arguments().size(), &stack);
  handle.callBoxed(stack);
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) results.push_back(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& t : value.toTensorVector()) results.push_back(t);
  }
  // One op alone stays a library call: another one reads the result.
  if (!results.empty() && results[0].defined()) {
    const at::Tensor& t = results[0];
    results.push_back(t.scalar_type() == at::kBool ? t.logical_not() : t.neg());
  }
  return results;
}

// Bits of an element, all NaNs being one.
template <class Float>
bool SameFloat(const char* a, const char* b) {
  Float x, y;
  std::memcpy(&x, a, sizeof(x));
  std::memcpy(&y, b, sizeof(y));
  return x != x && y != y;
}

bool SameElement(at::ScalarType type, const char* a, const char* b,
                 std::size_t bytes) {
  if (std::memcmp(a, b, bytes) == 0) return true;
  switch (type) {
    case at::kFloat:
      return SameFloat<float>(a, b);
    case at::kDouble:
      return SameFloat<double>(a, b);
    case at::kHalf:
      return SameFloat<c10::Half>(a, b);
    case at::kBFloat16:
      return SameFloat<c10::BFloat16>(a, b);
    default:
      return false;
  }
}

// "" or what differs.
std::string Compare(const at::Tensor& eager, const at::Tensor& ours) {
  if (!eager.defined() || !ours.defined()) {
    return eager.defined() == ours.defined() ? "" : "one is undefined";
  }
  if (eager.sizes() != ours.sizes() || eager.strides() != ours.strides() ||
      eager.scalar_type() != ours.scalar_type()) {
    return "another size, layout or type";
  }
  const at::Tensor a = eager.contiguous(), b = ours.contiguous();
  const auto* x = static_cast<const char*>(a.const_data_ptr());
  const auto* y = static_cast<const char*>(b.const_data_ptr());
  const std::size_t bytes = a.itemsize();
  if (std::memcmp(x, y, a.nbytes()) == 0) return "";
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * bytes;
    if (SameElement(a.scalar_type(), x + at, y + at, bytes)) continue;
    return absl::StrCat("element ", i, " of ", a.numel(), ": eager ",
                        a.view(-1)[i].item().toDouble(), ", ours ",
                        b.view(-1)[i].item().toDouble());
  }
  return "";
}

std::string Text(const OpCall& call) {
  std::string text = call.op;
  for (const c10::IValue& value : call.arguments) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor t = value.toTensor();
    absl::StrAppend(&text, " ", at::toString(t.scalar_type()), "[");
    for (const std::int64_t n : t.sizes()) absl::StrAppend(&text, n, " ");
    text.back() = t.dim() == 0 ? '[' : ']';
    if (t.dim() == 0) text += "]";
    if (!t.is_contiguous()) text += " strided";
  }
  return text;
}

}  // namespace

void Proof::Add(OpCall call) {
  try {
    static_cast<void>(Call(call));
  } catch (const std::exception&) {  // c10::Error, or of a number's type
    return;
  }
  calls_.push_back(std::move(call));
}

void Proof::AddOut(const std::string& op, const OpCall& call) {
  try {
    const Results results = Call(call);
    OpCall with_out{op, call.arguments, false};
    const c10::OperatorHandle handle = HandleOf(op);
    const std::size_t outs = handle.schema().returns().size();
    AddDefaults(handle, handle.schema().arguments().size() - outs,
                &with_out.arguments);
    for (std::size_t i = 0; i < outs; ++i) {
      with_out.arguments.emplace_back(at::zeros_like(results.at(i)));
    }
    Add(std::move(with_out));
  } catch (const std::exception&) {  // as in Add()
  }
}

std::vector<Proof::Results> Proof::Step() const {
  std::vector<Results> all;
  for (const OpCall& call : calls_) all.push_back(Call(call));
  return all;
}

Proven Proof::Run(int threads) {
  Proven proven;
  proven.calls = static_cast<std::int64_t>(calls_.size());
  const int threads_before = at::get_num_threads();
  at::set_num_threads(threads);
  // Copies: an out= argument is written again by each step.
  const auto copied = [](std::vector<Results> all) {
    for (Results& results : all) {
      for (at::Tensor& t : results) {
        if (!t.defined()) continue;
        const at::Tensor copy =
            at::empty_strided(t.sizes(), t.strides(), t.options());
        copy.copy_(t);
        t = copy;
      }
    }
    return all;
  };
  const std::vector<Results> eager = copied(Step());
  enable(MachineCodeAtOnce());
  std::vector<Results> ours;
  for (int i = 0; i < kSteps; ++i) {
    ours = Step();
    mark_step();
    testing::WaitForCompiler();
  }
  const Stats before = stats();
  ours = Step();
  mark_step();
  const Stats last = stats() - before;
  disable();
  if (last.ops_deferred > 0) {
    proven.in_code = static_cast<double>(last.steps_fused) /
                     static_cast<double>(last.ops_deferred);
  }
  for (std::size_t c = 0; c < calls_.size(); ++c) {
    for (std::size_t r = 0; r < eager[c].size(); ++r) {
      const std::string difference = Compare(eager[c][r], ours[c][r]);
      if (difference.empty() || !proven.difference.empty()) continue;
      proven.difference = absl::StrCat(Text(calls_[c]), ": ", difference);
    }
  }
  clear();
  at::set_num_threads(threads_before);
  return proven;
}

}  // namespace tjit::bits
