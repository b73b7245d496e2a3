#include "runtime/tier2/torchscript_graph.h"

#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/library_calls/internal.h"

namespace tjit::runtime {
namespace {

namespace jit = torch::jit;
using jit::Value;

// Why a step cannot be emitted; caught by EmitGraph().
class CannotEmit : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

c10::TypePtr TypeOf(const TensorGeometry& g) {
  const c10::IntArrayRef sizes(g.sizes, g.ndim), strides(g.strides, g.ndim);
  return c10::TensorType::create(
      static_cast<c10::ScalarType>(g.dtype), c10::Device(c10::kCPU),
      c10::VaryingShape<std::int64_t>(sizes),
      c10::VaryingShape<std::int64_t>(strides), /*requires_grad=*/false);
}

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

// Same elements of the storage, of one type.
bool SameView(const TensorGeometry& a, const TensorGeometry& b) {
  return a.ndim == b.ndim && a.offset == b.offset &&
         std::equal(a.sizes, a.sizes + a.ndim, b.sizes) &&
         std::equal(a.strides, a.strides + a.ndim, b.strides);
}

class Emitter {
 public:
  Emitter(const StepGroup& group, StepGraph* out) : group_(group), out_(*out) {}

  void Run() {
    out_.graph = std::make_shared<jit::Graph>();
    for (step_ = 0; step_ < group_.steps.size(); ++step_) EmitStep();
    for (const std::int32_t slot : group_.returns) {
      const Born& born = born_.at(slot);
      graph().registerOutput(born.value);
      out_.outputs.push_back(born.geometry);
    }
  }

  // The op of the step at which it stopped.
  std::string_view op() const { return group_.steps[step_]->op; }

 private:
  // A storage that a step made.
  struct Born {
    Value* value = nullptr;
    TensorGeometry geometry;
  };

  jit::Graph& graph() { return *out_.graph; }
  const StepRecord& record() const { return group_.steps[step_]->record; }

  Value* Constant(const c10::IValue& value) {
    const std::optional<Value*> made = jit::tryInsertConstant(graph(), value);
    if (!made) {
      throw CannotEmit(absl::StrCat("an argument of type ", value.tagKind(),
                                    " is no constant of TorchScript"));
    }
    return *made;
  }

  // `g` over the storage of `value`.
  Value* Strided(Value* value, const TensorGeometry& g) {
    const std::vector<Value*> inputs = {
        value, Constant(c10::IntArrayRef(g.sizes, g.ndim)),
        Constant(c10::IntArrayRef(g.strides, g.ndim)), Constant(g.offset)};
    jit::Node* const node =
        graph().insertNode(graph().create(c10::aten::as_strided, inputs));
    return node->output()->setType(TypeOf(g));
  }

  Value* ViewOf(const Born& born, const TensorGeometry& g) {
    if (g.wrapped_number != born.geometry.wrapped_number) {
      throw CannotEmit("a result is read as a number");
    }
    if (g.dtype != born.geometry.dtype) {
      throw CannotEmit("a result is read as elements of another type");
    }
    return SameView(born.geometry, g) ? born.value : Strided(born.value, g);
  }

  Value* NewInput(StepGraph::Input input, const std::string& name,
                  c10::TypePtr type) {
    out_.inputs.push_back(input);
    return graph().addInput(name)->setType(std::move(type));
  }

  // The next tensor argument of the step; null: undefined.
  Value* NextTensor() {
    const ArgRecord& arg = record().args[next_arg_++];
    if (arg.slot == kNoSlot) return nullptr;
    if (IsLazyView(arg.geometry)) {
      throw CannotEmit("an argument is a conjugated or negated view");
    }
    const auto born = born_.find(arg.slot);
    if (born != born_.end()) return ViewOf(born->second, arg.geometry);
    std::vector<std::pair<TensorGeometry, Value*>>& seen = inputs_[arg.slot];
    for (const auto& [geometry, value] : seen) {
      if (geometry == arg.geometry) return value;
    }
    const auto at =
        std::find(group_.externals.begin(), group_.externals.end(), arg.slot);
    const auto index = static_cast<std::size_t>(at - group_.externals.begin());
    Value* const value =
        NewInput({false, index, arg.geometry}, absl::StrCat("s", arg.slot),
                 TypeOf(arg.geometry));
    seen.emplace_back(arg.geometry, value);
    return value;
  }

  // The next scalar argument of the step; `captured`: as it was recorded.
  Value* NextScalar(const c10::IValue& captured) {
    const ScalarSource source{static_cast<std::int32_t>(step_), next_scalar_++};
    const auto at =
        std::find(group_.scalars.begin(), group_.scalars.end(), source);
    if (at == group_.scalars.end()) return Constant(captured);
    const auto index = static_cast<std::size_t>(at - group_.scalars.begin());
    return NewInput({true, index, {}}, absl::StrCat("scalar", index),
                    TypeOf(record().scalars[source.index].value));
  }

  // As Refill of library_call.cpp: tensors and scalars in schema order.
  Value* Argument(const c10::Type& type, const c10::IValue& value) {
    switch (type.kind()) {
      case c10::TypeKind::OptionalType:
        return Argument(*type.castRaw<c10::OptionalType>()->getElementType(),
                        value);
      case c10::TypeKind::ListType:
        if (value.isNone()) return Constant(value);
        return List(type.castRaw<c10::ListType>()->getElementType(), value);
      case c10::TypeKind::TensorType: {
        Value* const tensor = NextTensor();
        return tensor != nullptr ? tensor : Constant(c10::IValue());
      }
      case c10::TypeKind::NumberType:
      case c10::TypeKind::FloatType:
        return NextScalar(value);
      default:
        return Constant(value);
    }
  }

  Value* List(const c10::TypePtr& element, const c10::IValue& value) {
    const bool is_number = element->kind() == c10::TypeKind::NumberType;
    const bool is_optional = element->kind() == c10::TypeKind::OptionalType;
    if (!is_number && !is_optional &&
        element->kind() != c10::TypeKind::TensorType) {
      return Constant(value);
    }
    std::vector<Value*> items;
    const auto list = value.toList();
    for (std::size_t i = 0; i < list.size(); ++i) {
      items.push_back(Argument(*element, list.get(i)));
    }
    return graph().insertNode(graph().createList(element, items))->output();
  }

  void EmitStep() {
    const SegmentStep& step = *group_.steps[step_];
    if (step.call == nullptr) throw CannotEmit("it was not captured");
    const auto& call = *static_cast<const CapturedCall*>(step.call.get());
    const c10::FunctionSchema& schema = call.entry->handle.schema();
    next_arg_ = 0;
    next_scalar_ = 0;
    std::vector<Value*> inputs;
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
      inputs.push_back(
          Argument(*schema.arguments()[i].real_type(), call.arguments[i]));
    }
    jit::Node* const node = graph().insertNode(
        graph().create(c10::Symbol::fromQualString(schema.name()),
                       at::ArrayRef<Value*>(inputs), schema.returns().size()));
    const c10::FunctionSchema* const found = node->maybeSchema();
    if (found == nullptr || found->overload_name() != schema.overload_name()) {
      throw CannotEmit(absl::StrCat(
          "TorchScript takes these arguments for ",
          found == nullptr
              ? "no overload"
              : absl::StrCat("the overload \"", found->overload_name(), "\"")));
    }
    EmitResults(call.entry->returns, node);
  }

  // Recorded are aliases of arguments first, then the fresh results.
  template <class Returns>
  void EmitResults(const Returns& returns, jit::Node* node) {
    auto next = record().results.begin();
    const auto is_alias = [](const auto& r) { return r.alias_arg >= 0; };
    next += std::count_if(returns.begin(), returns.end(), is_alias);
    for (std::size_t i = 0; i < returns.size(); ++i) {
      if (is_alias(returns[i])) continue;
      if (returns[i].is_list) throw CannotEmit("its result is a list");
      NameResult(*next++, node->outputs()[i]);
    }
  }

  void NameResult(const ResultRecord& result, Value* value) {
    if (result.kind != ResultRecord::Kind::kFresh) return;
    value->setDebugName(absl::StrCat("s", result.slot));
    value->setType(TypeOf(result.geometry));
    born_[result.slot] = {value, result.geometry};
  }

  const StepGroup& group_;
  StepGraph& out_;
  std::size_t step_ = 0;
  std::size_t next_arg_ = 0;
  std::int32_t next_scalar_ = 0;
  std::map<std::int32_t, Born> born_;  // by slot
  // Of the externals, by slot.
  std::map<std::int32_t, std::vector<std::pair<TensorGeometry, Value*>>>
      inputs_;
};

}  // namespace

std::string EmitGraph(const StepGroup& group, StepGraph* out) {
  Emitter emitter(group, out);
  try {
    emitter.Run();
  } catch (const CannotEmit& e) {
    return absl::StrCat(std::string(emitter.op()), ": ", e.what());
  }
  return "";
}

}  // namespace tjit::runtime
