#include "runtime/tier2/torchscript_graph.h"

#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/library_calls/call_names.h"
#include "runtime/library_calls/internal.h"
#include "support/printed_name.h"

namespace tjit::runtime {
namespace {

namespace jit = torch::jit;
using jit::Value;

c10::TypePtr TypeOf(const ScalarValue& scalar) {
  switch (static_cast<c10::ScalarType>(scalar.type)) {
    case c10::ScalarType::Double:
      return c10::FloatType::get();
    case c10::ScalarType::Long:
      return c10::IntType::get();
    case c10::ScalarType::Bool:
      return c10::BoolType::get();
    default:
      return c10::ComplexType::get();
  }
}

bool IsLazyView(const TensorGeometry& g) {
  const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, g.key_set);
  return keys.has(c10::DispatchKey::Conjugate) ||
         keys.has(c10::DispatchKey::Negative);
}

// "s3", or "s3_layer1_weight" where one of the steps has a named tensor in it.
std::string NameOfSlot(std::int32_t slot,
                       const std::vector<const SegmentStep*>& steps) {
  const std::string number = absl::StrCat("s", slot);
  for (const SegmentStep* step : steps) {
    const auto& call = *static_cast<const CapturedCall*>(step->call.get());
    for (const NamedTensor& named : NamesOfCall(call)) {
      if (SlotOf(step->record, named) != slot) continue;
      return absl::StrCat(number, "_", IdentifierOf(named.name));
    }
  }
  return number;
}

bool IsTensorType(const c10::Type& type) {
  return type.kind() == c10::TypeKind::TensorType ||
         type.kind() == c10::TypeKind::OptionalType;
}

}  // namespace

c10::TypePtr GraphType(const TensorGeometry& g) {
  const c10::IntArrayRef sizes(g.sizes, g.ndim), strides(g.strides, g.ndim);
  return c10::TensorType::create(
      static_cast<c10::ScalarType>(g.dtype), c10::Device(c10::kCPU),
      c10::VaryingShape<std::int64_t>(sizes),
      c10::VaryingShape<std::int64_t>(strides), /*requires_grad=*/false);
}

bool SameView(const TensorGeometry& a, const TensorGeometry& b) {
  return a.ndim == b.ndim && a.offset == b.offset &&
         std::equal(a.sizes, a.sizes + a.ndim, b.sizes) &&
         std::equal(a.strides, a.strides + a.ndim, b.strides);
}

Value* GraphConstant(jit::Graph* graph, const c10::IValue& value) {
  const std::optional<Value*> made = jit::tryInsertConstant(*graph, value);
  if (!made) {
    throw CannotEmit(absl::StrCat("an argument of type ", value.tagKind(),
                                  " is no constant of TorchScript"));
  }
  return *made;
}

Value* GraphView(jit::Graph* graph, Value* value, const TensorGeometry& g,
                 Value* offset) {
  const std::vector<Value*> inputs = {
      value, GraphConstant(graph, c10::IntArrayRef(g.sizes, g.ndim)),
      GraphConstant(graph, c10::IntArrayRef(g.strides, g.ndim)),
      offset != nullptr ? offset : GraphConstant(graph, c10::IValue())};
  jit::Node* const node =
      graph->insertNode(graph->create(c10::aten::as_strided, inputs));
  return node->output()->setType(GraphType(g));
}

Value* GraphEmitter::Tensor(std::int32_t slot, const TensorGeometry& g) {
  if (IsLazyView(g)) {
    throw CannotEmit("an argument is a conjugated or negated view");
  }
  const auto found = born_.find(slot);
  if (found == born_.end()) return source_.Tensor(slot, g);
  const Born& born = found->second;
  if (g.wrapped_number != born.geometry.wrapped_number) {
    throw CannotEmit("a result is read as a number");
  }
  if (g.dtype != born.geometry.dtype) {
    throw CannotEmit("a result is read as elements of another type");
  }
  if (SameView(born.geometry, g)) return born.value;
  return GraphView(&graph_, born.value, g, GraphConstant(&graph_, g.offset));
}

// The next tensor argument of the step; null: undefined.
Value* GraphEmitter::NextTensor() {
  const ArgRecord& arg = step_->record.args[next_arg_++];
  return arg.slot == kNoSlot ? nullptr : Tensor(arg.slot, arg.geometry);
}

// The next scalar argument of the step; `captured`: as it was recorded.
Value* GraphEmitter::NextScalar(const c10::IValue& captured) {
  const std::int32_t scalar = next_scalar_++;
  Value* const varies = source_.Scalar(
      {steps_, scalar},
      step_->record.scalars[static_cast<std::size_t>(scalar)].value);
  return varies != nullptr ? varies : GraphConstant(&graph_, captured);
}

// As Refill of library_call.cpp: tensors and scalars in schema order.
Value* GraphEmitter::Argument(const c10::Type& type, const c10::IValue& value) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return Argument(*type.castRaw<c10::OptionalType>()->getElementType(),
                      value);
    case c10::TypeKind::ListType:
      if (value.isNone()) return GraphConstant(&graph_, value);
      return List(type.castRaw<c10::ListType>()->getElementType(), value);
    case c10::TypeKind::TensorType: {
      Value* const tensor = NextTensor();
      if (tensor == nullptr) return GraphConstant(&graph_, c10::IValue());
      has_number_ |= !tensor->type()->isSubtypeOf(*c10::TensorType::get());
      return tensor;
    }
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      return NextScalar(value);
    default:
      return GraphConstant(&graph_, value);
  }
}

Value* GraphEmitter::List(const c10::TypePtr& element,
                          const c10::IValue& value) {
  if (element->kind() != c10::TypeKind::NumberType && !IsTensorType(*element)) {
    return GraphConstant(&graph_, value);
  }
  std::vector<Value*> items;
  const auto list = value.toList();
  for (std::size_t i = 0; i < list.size(); ++i) {
    items.push_back(Argument(*element, list.get(i)));
  }
  return graph_.insertNode(graph_.createList(element, items))->output();
}

void GraphEmitter::Emit(const SegmentStep& step) {
  step_ = &step;
  if (step.call == nullptr) throw CannotEmit("it was not captured");
  const auto& call = *static_cast<const CapturedCall*>(step.call.get());
  const c10::FunctionSchema& schema = call.entry->handle.schema();
  next_arg_ = 0;
  next_scalar_ = 0;
  has_number_ = false;
  std::vector<Value*> inputs;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    inputs.push_back(
        Argument(*schema.arguments()[i].real_type(), call.arguments[i]));
  }
  jit::Node* const node = graph_.insertNode(
      graph_.create(c10::Symbol::fromQualString(schema.name()),
                    at::ArrayRef<Value*>(inputs), schema.returns().size()));
  CheckOverload(*node);
  NameResults(node);
  ++steps_;
}

// A tensor that is a number selects the overload for numbers, as in
// TorchScript, whose kernels wrap it again.
void GraphEmitter::CheckOverload(const jit::Node& node) const {
  const auto& call = *static_cast<const CapturedCall*>(step_->call.get());
  const std::string& wanted = call.entry->handle.schema().overload_name();
  const c10::FunctionSchema* const found = node.maybeSchema();
  if (found != nullptr && (found->overload_name() == wanted || has_number_)) {
    return;
  }
  throw CannotEmit(absl::StrCat(
      "TorchScript takes these arguments for ",
      found == nullptr
          ? "no overload"
          : absl::StrCat("the overload \"", found->overload_name(), "\"")));
}

// Recorded are aliases of arguments first, then the fresh results.
void GraphEmitter::NameResults(jit::Node* node) {
  const auto& call = *static_cast<const CapturedCall*>(step_->call.get());
  const auto& returns = call.entry->returns;
  auto next = step_->record.results.begin();
  const auto is_alias = [](const auto& r) { return r.alias_arg >= 0; };
  next += std::count_if(returns.begin(), returns.end(), is_alias);
  for (std::size_t i = 0; i < returns.size(); ++i) {
    if (is_alias(returns[i])) continue;
    if (returns[i].is_list) throw CannotEmit("its result is a list");
    const ResultRecord& result = *next++;
    if (result.kind != ResultRecord::Kind::kFresh) continue;
    Value* const value = node->outputs()[i];
    value->setDebugName(NameOfSlot(result.slot, {step_}));
    value->setType(GraphType(result.geometry));
    born_[result.slot] = {value, result.geometry};
  }
}

namespace {

// What a group does not make is an input of its graph.
class GroupInputs : public GraphSource {
 public:
  GroupInputs(const StepGroup& group, StepGraph* out)
      : group_(group), out_(*out) {}

  Value* Tensor(std::int32_t slot, const TensorGeometry& g) override {
    std::vector<std::pair<TensorGeometry, Value*>>& seen = inputs_[slot];
    for (const auto& [geometry, value] : seen) {
      if (geometry == g) return value;
    }
    const auto at =
        std::find(group_.externals.begin(), group_.externals.end(), slot);
    const auto index = static_cast<std::size_t>(at - group_.externals.begin());
    Value* const value = NewInput({false, index, g},
                                  NameOfSlot(slot, group_.steps), GraphType(g));
    seen.emplace_back(g, value);
    return value;
  }

  Value* Scalar(const ScalarSource& source,
                const ScalarValue& recorded) override {
    const auto at =
        std::find(group_.scalars.begin(), group_.scalars.end(), source);
    if (at == group_.scalars.end()) return nullptr;
    const auto index = static_cast<std::size_t>(at - group_.scalars.begin());
    return NewInput({true, index, {}}, absl::StrCat("scalar", index),
                    TypeOf(recorded));
  }

 private:
  Value* NewInput(StepGraph::Input input, const std::string& name,
                  c10::TypePtr type) {
    out_.inputs.push_back(input);
    return out_.graph->addInput(name)->setType(std::move(type));
  }

  const StepGroup& group_;
  StepGraph& out_;
  // Of the externals, by slot.
  std::map<std::int32_t, std::vector<std::pair<TensorGeometry, Value*>>>
      inputs_;
};

}  // namespace

std::string EmitGraph(const StepGroup& group, StepGraph* out) {
  out->graph = std::make_shared<jit::Graph>();
  GroupInputs inputs(group, out);
  GraphEmitter emitter(out->graph.get(), &inputs);
  for (const SegmentStep* step : group.steps) {
    try {
      emitter.Emit(*step);
    } catch (const CannotEmit& e) {
      return absl::StrCat(std::string(step->op), ": ", e.what());
    }
  }
  for (const std::int32_t slot : group.returns) {
    const GraphEmitter::Born& born = emitter.BornAt(slot);
    out->graph->registerOutput(born.value);
    out->outputs.push_back(born.geometry);
  }
  return "";
}

}  // namespace tjit::runtime
