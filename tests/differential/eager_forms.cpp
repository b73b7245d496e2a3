// See eager_forms.h.
#include "tests/differential/eager_forms.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "compiler/lower/op_rules.h"
#include "tests/differential/called_op.h"
#include "tests/differential/coverage.h"
#include "tests/differential/machine.h"
#include "tests/differential/op_table.h"

namespace tjit::differential {
namespace {

// The variables: tensors, then a mask, a row, a target and results.
constexpr int kTensors = 3, kMask = 3, kRow = 4, kTarget = 5, kResults = 6;

State SomeState(c10::ScalarType type) {
  State state;
  const auto options = at::TensorOptions().dtype(type);
  for (int i = 0; i < kTensors; ++i) {
    state.vars.push_back(at::ones({2, 4}, options));
  }
  state.vars.push_back(at::ones({2, 4}, at::kBool));
  state.vars.push_back(at::ones({4}, options));
  state.vars.push_back(at::ones({2, 4}, options));
  state.vars.resize(kResults + 3);
  return state;
}

void AddArguments(char letter, int* tensors, bool is_float, Statement* st) {
  const auto add_tensor = [&] { st->args.push_back((*tensors)++ % kTensors); };
  const auto add_scalar = [&] {
    st->scalars.push_back({.is_int = !is_float, .a = 1});
  };
  switch (letter) {
    case 'V':
    case 'v':
      add_tensor();
      [[fallthrough]];
    case 'T':
    case 'U':
    case 'Q':
    case '=':
    case 'p':
      return add_tensor();
    case 'M':
      return st->args.push_back(kMask);
    case 'L':
      return st->args.push_back(kRow);
    case '*':
      add_scalar();
      [[fallthrough]];
    case 'S':
    case 'A':
    case 'W':
      return add_scalar();
    case 'I':
    case 'D':
    case 'E':
      return st->ints.push_back(1);
    case 'X':
      return st->ints.push_back(static_cast<std::int64_t>(at::kFloat));
    default:
      return;
  }
}

Statement CallOf(int row, const OpSpec& spec, bool is_float) {
  Statement st;
  st.op = row;
  st.mode = Mode::kNoGrad;
  if (spec.call->form == Call::Form::kOut) st.args.push_back(kTarget);
  int tensors = 0;
  for (const char letter : spec.call->letters) {
    AddArguments(letter, &tensors, is_float, &st);
  }
  for (int i = 0; i < spec.num_dst; ++i) st.dst.push_back(kResults + i);
  return st;
}

bool IsOf(const OpSpec& spec, std::string_view op, std::uint32_t forms) {
  return spec.call != nullptr && RowOf(spec.call->op) == op &&
         (TemplateOf(spec.call->op) & forms) != 0;
}

}  // namespace

bool HasRows(std::string_view op, std::uint32_t forms) {
  for (const OpSpec& spec : OpTable()) {
    if (IsOf(spec, op, forms)) return true;
  }
  return false;
}

bool RunsInEager(std::string_view op, std::uint32_t forms,
                 c10::ScalarType type) {
  const Program program;
  for (std::size_t row = 0; row < OpTable().size(); ++row) {
    const OpSpec& spec = OpTable()[row];
    if (!IsOf(spec, op, forms)) continue;
    Machine machine(program, nullptr, 0);
    machine.state() = SomeState(type);
    const Statement st =
        CallOf(static_cast<int>(row), spec, at::isFloatingType(type));
    if (machine.RunOne(st, -1, -1)) return true;
  }
  return false;
}

bool IsComposite(std::string_view op, std::uint32_t forms) {
  for (const std::string_view name : lower::LoweredOps()) {
    if (RowOf(name) != op || (TemplateOf(name) & forms) == 0) continue;
    const std::size_t dot = name.find('.');
    const std::string overload(
        dot == std::string_view::npos ? "" : name.substr(dot + 1));
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(
        std::string(name.substr(0, dot)).c_str(), overload.c_str());
    if (handle.hasKernelForDispatchKey(c10::DispatchKey::CPU)) return false;
  }
  return true;
}

}  // namespace tjit::differential
