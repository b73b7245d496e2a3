#include "tests/runtime/against_eager/recorded_group.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/functions/class_losses.h"
#include "compiler/functions/row_functions.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "runtime/bit_exact/row_probe.h"
#include "tests/runtime/call/tensor_geometry.h"

namespace tjit::testing {
namespace {

std::string BytesOf(const at::Tensor& t) {
  return std::string(static_cast<const char*>(t.storage().data()),
                     t.storage().nbytes());
}

ScalarValue Encode(const at::Scalar& s) {
  ScalarValue value;
  value.type = static_cast<std::uint64_t>(s.type());
  if (s.isFloatingPoint()) {
    const double number = s.toDouble();
    std::memcpy(&value.bits[0], &number, sizeof(number));
  } else {
    value.bits[0] = static_cast<std::uint64_t>(s.toLong());
  }
  return value;
}

at::Tensor Eager(ir::Op op, const at::Tensor& x) {
  switch (op) {
    case ir::Op::kExp:
      return at::exp(x);
    case ir::Op::kExpm1:
      return at::expm1(x);
    case ir::Op::kLog:
      return at::log(x);
    case ir::Op::kLog2:
      return at::log2(x);
    case ir::Op::kLog10:
      return at::log10(x);
    case ir::Op::kLog1p:
      return at::log1p(x);
    case ir::Op::kExpInVectors:  // of what is not above 0
      return std::get<1>(at::log_sigmoid_forward(x));
    case ir::Op::kSin:
      return at::sin(x);
    case ir::Op::kCos:
      return at::cos(x);
    case ir::Op::kTan:
      return at::tan(x);
    case ir::Op::kAsin:
      return at::asin(x);
    case ir::Op::kAcos:
      return at::acos(x);
    case ir::Op::kAtan:
      return at::atan(x);
    case ir::Op::kTanh:
      return at::tanh(x);
    case ir::Op::kErf:
      return at::erf(x);
    case ir::Op::kErfc:
      return at::erfc(x);
    case ir::Op::kSqrt:
      return at::sqrt(x);
    default:
      return at::Tensor();
  }
}

// The reduction of a loss whose gradients have this factor, of n elements.
int ReductionOf(double norm, std::int64_t n) {
  return norm == 1                            ? at::Reduction::Sum
         : norm == 1 / static_cast<double>(n) ? at::Reduction::Mean
                                              : -1;
}

at::Tensor EagerOfTwo(ir::Op op, const std::vector<at::Tensor>& x,
                      const double* s) {
  const auto zeros = [&] { return at::zeros_like(x[0]); };
  switch (op) {
    case ir::Op::kSmoothL1Backward:
      return at::smooth_l1_loss_backward(x[1], x[0], zeros(),
                                         ReductionOf(s[2], x[0].numel()), s[3]);
    case ir::Op::kHuberBackward:
      return at::huber_loss_backward(x[1], x[0], zeros(),
                                     ReductionOf(s[2], x[0].numel()), s[3]);
    case ir::Op::kMaximumOfTensors:
      return at::maximum(x[0], x[1]);
    case ir::Op::kMinimumOfTensors:
      return at::minimum(x[0], x[1]);
    case ir::Op::kFmax:
      return at::fmax(x[0], x[1]);
    case ir::Op::kFmin:
      return at::fmin(x[0], x[1]);
    case ir::Op::kAtan2:
      return at::atan2(x[0], x[1]);
    case ir::Op::kHypot:
      return at::hypot(x[0], x[1]);
    case ir::Op::kNextafter:
      return at::nextafter(x[0], x[1]);
    case ir::Op::kLogaddexp:
      return at::logaddexp(x[0], x[1]);
    case ir::Op::kLogaddexp2:
      return at::logaddexp2(x[0], x[1]);
    case ir::Op::kXlogy:
      return at::xlogy(x[0], x[1]);
    default:
      return at::Tensor();
  }
}

// Ops of several operands, and those whose bits depend on the place.
at::Tensor EagerOfMany(ir::Op op, const std::vector<at::Tensor>& x,
                       const double* s) {
  switch (op) {
    case ir::Op::kSigmoid:
      return at::sigmoid(x[0]);
    case ir::Op::kInRemainder:
      return at::signbit(at::lerp(at::full_like(x[0], -1),
                                  at::full_like(x[0], -0.0),
                                  at::ones_like(x[0])))
          .to(x[0].scalar_type());
    case ir::Op::kSilu:
      return at::silu(x[0]);
    case ir::Op::kMish:
      return at::mish(x[0]);
    case ir::Op::kGelu:
      return at::gelu(x[0]);
    case ir::Op::kGeluTanh:
      return at::gelu(x[0], "tanh");
    case ir::Op::kSoftplus:
      return at::softplus(x[0], s[1], s[2]);
    case ir::Op::kElu:
      return at::elu(x[0], s[1], s[2], s[3]);
    case ir::Op::kExp2:
      return at::exp2(x[0]);
    case ir::Op::kSinh:
      return at::sinh(x[0]);
    case ir::Op::kCosh:
      return at::cosh(x[0]);
    case ir::Op::kPow:
      return at::pow(x[0], x[1]);
    case ir::Op::kPowScalar:
      return at::pow(x[0], s[1]);
    case ir::Op::kSiluBackward:
      return at::silu_backward(x[0], x[1]);
    case ir::Op::kMishBackward:
      return at::mish_backward(x[0], x[1]);
    case ir::Op::kGeluBackward:
      return at::gelu_backward(x[0], x[1]);
    case ir::Op::kGeluTanhBackward:
      return at::gelu_backward(x[0], x[1], "tanh");
    case ir::Op::kSoftplusBackward:
      return at::softplus_backward(x[0], x[1], s[2], s[3]);
    case ir::Op::kSoftshrink:
      return at::softshrink(x[0], s[1]);
    case ir::Op::kAsinh:
      return at::asinh(x[0]);
    case ir::Op::kAcosh:
      return at::acosh(x[0]);
    case ir::Op::kAtanh:
      return at::atanh(x[0]);
    case ir::Op::kEluBackward:
      return at::elu_backward(x[0], s[2], s[3], s[4], false, x[1]);
    case ir::Op::kEluResultBackward:
      return at::elu_backward(x[0], s[2], s[3], s[4], true, x[1]);
    case ir::Op::kHardtanhBackward:
      return at::hardtanh_backward(x[0], x[1], s[2], s[3]);
    case ir::Op::kHardswishBackward:
      return at::hardswish_backward(x[0], x[1]);
    case ir::Op::kShrinkBackward:
      return at::softshrink_backward(x[0], x[1], s[2]);
    default:
      return EagerOfTwo(op, x, s);
  }
}

bool EagersFunctions(ir::Op op, ir::DType dtype, const void* const* in,
                     const double* scalars, void* out, std::int64_t n) {
  if (n == 0) return false;
  const bool is_double = InfoOf(dtype).compute == ir::Compute::kDouble;
  const auto wide = is_double ? at::kDouble : at::kFloat;
  const auto type = static_cast<at::ScalarType>(InfoOf(dtype).number);
  std::vector<at::Tensor> x;
  for (const char* kind = InfoOf(op).operands; *kind != '\0'; ++kind) {
    x.push_back(at::empty({n}, wide));
    std::memcpy(x.back().data_ptr(), in[x.size() - 1], x.back().nbytes());
    x.back() = x.back().to(type);
  }
  at::Tensor y = Eager(op, x[0]);
  if (!y.defined()) y = EagerOfMany(op, x, scalars);
  if (!y.defined()) return false;
  y = y.to(wide);
  std::memcpy(out, y.data_ptr(), y.nbytes());
  return true;
}

// Of those that are called here with optional arguments.
bool HasTypedWrapper(const std::string& op) {
  return op == "aten::sum" || op == "aten::mean" || op == "aten::var" ||
         op == "aten::std" || op == "aten::var_mean" ||
         op == "aten::std_mean" || op == "aten::linalg_vector_norm";
}

bool IsHidden(ir::Op op) {
  return op == ir::Op::kDot || op == ir::Op::kSumSequential ||
         op == ir::Op::kSumOfHalves || op == ir::Op::kAmaxOfHalves ||
         op == ir::Op::kAminOfHalves;
}

// No op of eager's returns these as they are; the functions that the probe
// found have its order.
bool HiddenRows(const ir::RowsCall& call) {
  static runtime::RowProbe& probe = *new runtime::RowProbe;
  if (!IsHidden(call.op)) return false;
  AxisOp what;  // a dot of all elements is one of a row
  TORCH_CHECK(AxisOpOf(call.op, call.axis, &what) ||
              AxisOpOf(call.op, ir::Axis::kInner, &what));
  const RowFunction* f = probe.Find(what, call.dtype == ir::DType::kF64);
  TORCH_CHECK(f != nullptr, "no function for ", InfoOf(call.op).name);
  RunAlongAxis(*f, call.rows, call.n, call.a, call.b, call.number, call.out);
  return true;
}

// A row on its own, so that what is lowered must not depend on others; or all
// rows, whose columns are reduced.
at::Tensor EagersRows(const ir::RowsCall& call, const at::Tensor& a,
                      const at::Tensor& b) {
  const bool are_columns = call.axis == ir::Axis::kOuter;
  const bool is_slab = call.axis == ir::Axis::kStrided;
  const std::int64_t dim = are_columns ? 0 : is_slab ? 1 : -1;
  // The variance of all elements is another function of eager's.
  const at::Tensor several = are_columns ? a : at::cat({a, a});
  const std::int64_t results = are_columns ? call.n : 1;
  switch (call.op) {
    case ir::Op::kSum:
      return at::sum(a, dim);
    case ir::Op::kMean:
      return at::mean(a, dim);
    case ir::Op::kVar:
      return at::var(several, {{dim}}, call.number).narrow(0, 0, results);
    case ir::Op::kStd:
      return at::std(several, {{dim}}, call.number).narrow(0, 0, results);
    case ir::Op::kWelfordMean:
      return std::get<1>(at::var_mean(several, {{dim}})).narrow(0, 0, results);
    case ir::Op::kNormMean:
      return std::get<1>(
          at::native_layer_norm(a, {a.size(1)}, {}, {}, call.number));
    case ir::Op::kNormRstd:
      return std::get<2>(
          at::native_layer_norm(a, {a.size(1)}, {}, {}, call.number));
    case ir::Op::kNormRstdWide:
      return std::get<2>(
          at::native_group_norm(a, {}, {}, 1, 1, a.numel(), 1, call.number));
    case ir::Op::kNorm:
      return at::linalg_vector_norm(a, call.number, {{dim}});
    case ir::Op::kAmax:
      return at::amax(a, dim);
    case ir::Op::kAmin:
      return at::amin(a, dim);
    case ir::Op::kMaxOfAll:
      return at::max(a);
    case ir::Op::kMinOfAll:
      return at::min(a);
    case ir::Op::kSoftmax:
      return at::softmax(a, dim);
    case ir::Op::kLogSoftmax:
      return at::log_softmax(a, dim);
    case ir::Op::kSoftmaxBackward:
      return at::_softmax_backward_data(a, b, dim, a.scalar_type());
    case ir::Op::kLogSoftmaxBackward:
      return at::_log_softmax_backward_data(a, b, dim, a.scalar_type());
    default:
      return at::Tensor();
  }
}

bool EagersRowsHook(const ir::RowsCall& call) {
  if (HiddenRows(call)) return true;
  if (call.op == ir::Op::kSumInLevels) {
    RunColumns(reinterpret_cast<TjitColumnFn>(
                   ClassFunction(call.op, call.dtype)->address),
               call.n, 1, call.a, 0, call.out);
    return true;
  }
  const auto type = call.dtype == ir::DType::kF32 ? at::kFloat : at::kDouble;
  const bool is_slab = call.axis == ir::Axis::kStrided;
  const std::int64_t together =
      is_slab || call.axis == ir::Axis::kOuter ? call.rows : 1;
  const auto row_of = [&](const void* data, std::int64_t row) {
    const at::Tensor x = at::zeros({together, call.n}, type);
    if (data == nullptr) return x;
    std::memcpy(x.data_ptr(), static_cast<const char*>(data) + row * x.nbytes(),
                x.nbytes());
    return x;
  };
  for (std::int64_t row = 0; row * together < call.rows; ++row) {
    // One slab for each thread of eager's, so that none is split.
    const auto operand_of = [&](const void* data) {
      const at::Tensor x = row_of(data, row);
      return is_slab ? x.repeat({at::get_num_threads(), 1, 1}) : x;
    };
    at::Tensor y = EagersRows(call, operand_of(call.a), operand_of(call.b));
    if (is_slab) y = y[0];
    if (!y.defined()) return false;
    std::memcpy(static_cast<char*>(call.out) + row * y.nbytes(), y.data_ptr(),
                y.nbytes());
  }
  return true;
}

// The first element of two storages that differs, or "".
std::string Difference(const std::string& is, const std::string& should,
                       at::ScalarType type) {
  const std::size_t item = c10::elementSize(type);
  if (is.size() != should.size()) return "sizes differ";
  ir::DType dtype;
  ir::DTypeByNumber(static_cast<std::uint8_t>(type), &dtype);
  for (std::size_t i = 0; i + item <= is.size(); i += item) {
    if (is.compare(i, item, should, i, item) == 0) continue;
    const auto a = ir::Load<double>(dtype, is.data() + i);
    const auto b = ir::Load<double>(dtype, should.data() + i);
    if (a != a && b != b) continue;
    return absl::StrCat("element ", i / item, " is ", a, ", eager ", b);
  }
  return "";
}

}  // namespace

std::int32_t RecordedGroup::SlotOf(const at::Tensor& t, bool is_born) {
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].keeper.storage().unsafeGetStorageImpl() ==
        t.storage().unsafeGetStorageImpl()) {
      return static_cast<std::int32_t>(s);
    }
  }
  slots_.push_back({t, BytesOf(t), is_born, true});
  return static_cast<std::int32_t>(slots_.size()) - 1;
}

void RecordedGroup::RecordValue(const c10::IValue& value, bool is_number,
                                bool is_written, StepRecord* step) {
  if (value.isTensor() || (value.isNone() && !is_number)) {
    ArgRecord& arg = step->args.emplace_back();
    if (value.isNone() || !value.toTensor().defined()) return;
    const at::Tensor t = value.toTensor();
    arg = {SlotOf(t, false), is_written, GeometryOf(t)};
    kept_.push_back(t);
  } else if (is_number) {
    ScalarRecord& scalar = step->scalars.emplace_back();
    scalar.may_vary = true;
    if (value.isNone()) {
      scalar.value.type = ~std::uint64_t{0};
    } else {
      scalar.value = Encode(value.toScalar());
    }
  } else if (value.isList()) {
    const auto list = value.toListRef();
    step->statics.push_back(list.size());
    for (const c10::IValue& element : list) {
      RecordValue(element, element.isScalar() && !element.isInt(), is_written,
                  step);
    }
  } else if (value.isString()) {  // as CallFrame::AddString()
    const std::string& text = value.toStringRef();
    step->statics.push_back(text.size());
    for (std::size_t i = 0; i < text.size(); i += 8) {
      std::uint64_t& word = step->statics.emplace_back(0);
      std::memcpy(&word, text.data() + i,
                  std::min<std::size_t>(8, text.size() - i));
    }
  } else if (value.isInt() || value.isBool()) {
    step->statics.push_back(static_cast<std::uint64_t>(
        value.isInt() ? value.toInt() : value.toBool()));
  }
}

// The arguments of the step, in schema order.
void RecordedGroup::RecordArguments(const c10::FunctionSchema& schema,
                                    const torch::jit::Stack& arguments,
                                    StepRecord* step) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const c10::TypePtr type = argument.real_type();
    const auto kind =
        type->kind() == c10::TypeKind::OptionalType
            ? type->expectRef<c10::OptionalType>().getElementType()->kind()
            : type->kind();
    const bool is_number =
        kind == c10::TypeKind::NumberType || kind == c10::TypeKind::FloatType;
    // The schema of batch norm conceals what it writes (op_classes.def).
    const bool is_statistics =
        schema.name() == "aten::native_batch_norm" && (i == 3 || i == 4);
    const bool is_written =
        is_statistics ||
        (argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    const bool is_static = !is_number && kind != c10::TypeKind::TensorType;
    const bool is_optional = type->kind() == c10::TypeKind::OptionalType;
    if (is_static && is_optional && HasTypedWrapper(schema.name())) {
      step->statics.push_back(!arguments[i].isNone());
      if (!arguments[i].isNone()) {
        RecordValue(arguments[i], is_number, is_written, step);
      } else if (kind != c10::TypeKind::ListType) {
        step->statics.push_back(0);
      }
    } else if (arguments[i].isNone() && is_static) {
      step->statics.push_back(0x6e6f6e65);  // as a boxed wrapper does
    } else {
      RecordValue(arguments[i], is_number, is_written, step);
    }
  }
}

void RecordedGroup::RecordResults(const torch::jit::Stack& arguments,
                                  StepRecord* step) {
  for (const at::Tensor& t : results_) {
    ResultRecord& result = step->results.emplace_back();
    if (!t.defined()) {
      result.kind = ResultRecord::Kind::kUndefined;
      continue;
    }
    const bool is_given = std::any_of(
        arguments.begin(), arguments.end(), [&](const c10::IValue& v) {
          return v.isTensor() && v.toTensor().is_same(t);
        });
    for (std::size_t arg = 0; is_given && arg < step->args.size(); ++arg) {
      if (step->args[arg].written && result.alias_arg < 0 &&
          step->args[arg].slot == SlotOf(t, false)) {
        result.kind = ResultRecord::Kind::kAlias;
        result.alias_arg = static_cast<std::int32_t>(arg);
      }
    }
    if (result.kind == ResultRecord::Kind::kAlias) continue;
    if (t.storage().nbytes() == 0) {
      result.kind = ResultRecord::Kind::kEmpty;
      result.geometry = GeometryOf(t);
      continue;
    }
    // A loss in a tensor that became smaller: the rest means nothing.
    if (t.dim() == 0) {
      t.storage().unsafeGetStorageImpl()->set_nbytes(
          static_cast<std::size_t>(t.element_size()));
    }
    result.slot = SlotOf(t, true);
    result.geometry = GeometryOf(t);
    kept_.push_back(t);
  }
}

at::Tensor RecordedGroup::Call(const std::string& op,
                               torch::jit::Stack arguments) {
  const auto dot = op.find('.');
  const c10::OperatorHandle handle =
      c10::Dispatcher::singleton().findSchemaOrThrow(
          op.substr(0, dot).c_str(),
          dot == std::string::npos ? "" : op.substr(dot + 1).c_str());
  const auto& schema = handle.schema().arguments();
  for (std::size_t i = arguments.size(); i < schema.size(); ++i) {
    arguments.push_back(schema[i].default_value().value_or(c10::IValue()));
  }
  StepRecord step;
  step.op = InternOp(op);
  RecordArguments(handle.schema(), arguments, &step);
  torch::jit::Stack stack = arguments;
  handle.callBoxed(&stack);
  results_.clear();
  for (const c10::IValue& v : stack) {
    if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorVector()) results_.push_back(t);
    } else if (v.isTensor()) {
      results_.push_back(v.toTensor());
    }
  }
  RecordResults(arguments, &step);
  steps_.push_back(std::move(step));
  names_.push_back(op);
  return results_.empty() ? at::Tensor() : results_[0];
}

void RecordedGroup::MakeScalarsRuntime() {
  for (ScalarRecord& scalar : steps_.back().scalars) scalar.MarkRuntime();
}

void RecordedGroup::Drop(const at::Tensor& tensor) {
  slots_[static_cast<std::size_t>(SlotOf(tensor, false))].is_needed = false;
}

std::string RecordedGroup::Lower() {
  std::vector<GroupStep> steps;
  std::vector<GroupSlot> slots;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    steps.push_back({&steps_[i], names_[i], threads_});
  }
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    slots.push_back({static_cast<std::int32_t>(s), slots_[s].before.size(),
                     slots_[s].is_born, slots_[s].is_needed});
  }
  std::string reason;
  lowered_ = Lowered();
  if (!tjit::Lower(steps, slots, &lowered_, &reason)) return reason;
  const std::vector<std::string> violations = Verify(lowered_.function);
  if (!violations.empty()) {
    return violations[0] + "\n" + Print(lowered_.function);
  }
  // What is lowered in a group is claimed alone.
  for (const GroupStep& step : steps) {
    const std::string why = WhyNotLowered(step);
    if (!why.empty()) return "alone: " + why;
  }
  return "";
}

std::string RecordedGroup::ExpectRefused(const std::string& why) {
  const std::string reason = Lower();
  return !reason.empty() && absl::StrContains(reason, why)
             ? ""
             : "expected '" + why + "', got '" + reason + "'";
}

std::string RecordedGroup::Compare() {
  const std::string reason = Lower();
  return reason.empty() ? CompareWith(lowered_) : reason;
}

ir::RunArguments RecordedGroup::ArgumentsOf(const Lowered& lowered,
                                            std::vector<std::string>* memory) {
  ir::RunArguments run;
  for (const SizeSource& s : lowered.symbols) {
    run.symbols.push_back(steps_[static_cast<std::size_t>(s.step)]
                              .args[static_cast<std::size_t>(s.arg)]
                              .geometry->sizes[s.dim]);
  }
  for (const ScalarSource& s : lowered.scalars) {
    run.scalars.push_back(steps_[static_cast<std::size_t>(s.step)]
                              .scalars[static_cast<std::size_t>(s.index)]
                              .value);
  }
  for (const Slot& slot : slots_) {
    memory->push_back(slot.is_born ? std::string(slot.before.size(), '\x5a')
                                   : slot.before);
  }
  const auto buffer = [&](std::int32_t slot) {
    const auto s = static_cast<std::size_t>(slot);
    std::string& bytes = (*memory)[s];
    const std::size_t item = slots_[s].keeper.dtype().itemsize();
    return ir::Buffer{bytes.data(),
                      static_cast<std::int64_t>(bytes.size() / item)};
  };
  for (const std::int32_t s : lowered.external_slots) {
    run.externals.push_back(buffer(s));
  }
  for (const std::int32_t s : lowered.return_slots) {
    run.returns.push_back(buffer(s));
  }
  return run;
}

std::string RecordedGroup::CompareWith(const Lowered& lowered) {
  std::vector<std::string> memory;
  const ir::RunArguments run = ArgumentsOf(lowered, &memory);
  ir::Hooks hooks;
  hooks.math = EagersFunctions;
  hooks.rows = EagersRowsHook;
  std::string error = ir::Interpret(lowered.function, run, hooks);
  for (std::size_t s = 0; s < slots_.size() && error.empty(); ++s) {
    if (!slots_[s].is_needed) continue;
    error = Difference(memory[s], BytesOf(slots_[s].keeper),
                       slots_[s].keeper.scalar_type());
    if (!error.empty()) error = absl::StrCat("s", s, " ", error);
  }
  return error.empty() ? "" : error + "\n" + Print(lowered.function);
}

}  // namespace tjit::testing
