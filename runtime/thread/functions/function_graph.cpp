#include "runtime/thread/functions/function_graph.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "recorder/schema_key.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/library_calls/library_call.h"
#include "runtime/library_calls/recorded_tensors.h"
#include "runtime/memory/tensor_names.h"
#include "runtime/tier2/torchscript_graph.h"

namespace tjit::runtime {
namespace {

namespace jit = torch::jit;
using jit::Value;
using Kind = FunctionSlot::Kind;

// The whole storage as elements of a dtype.
TensorGeometry WholeOf(std::uint64_t bytes, const TensorGeometry& like) {
  TensorGeometry g;
  g.key_set = like.key_set;
  g.dtype = like.dtype;
  g.itemsize = like.itemsize;
  g.ndim = 1;
  g.sizes[0] = static_cast<std::int64_t>(bytes) / like.itemsize;
  g.strides[0] = 1;
  return g;
}

// Letters, digits and underscores, and no name that the module has already.
bool IsName(std::string_view name) {
  const auto is_part = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_part) &&
         name != "self" && name != "forward" && name != "ops" &&
         name != "training";
}

// ---- The module's tensors.

class ModuleTensors {
 public:
  explicit ModuleTensors(const TorchscriptOptions& options)
      : options_(options), module_(c10::QualifiedName("__torch__.Function")) {}

  jit::Module& module() { return module_; }

  // The value of `tensor`, which is added where the module has none yet.
  Value* Add(jit::Graph* graph, Value* self, const at::Tensor& tensor) {
    const std::string name = NameOf(tensor);
    const std::vector<std::string> path = absl::StrSplit(name, '.');
    TORCH_CHECK(std::all_of(path.begin(), path.end(), IsName),
                "tjit::save_torchscript: \"", name,
                "\" is no name of a tensor;"
                " write letters, digits and underscores, with dots between "
                "modules, and not forward, ops, self or training");
    jit::Module owner = module_;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      owner = Child(owner, path, i);
      self = graph->insertGetAttr(self, path[i]);
    }
    TORCH_CHECK(!owner.hasattr(path.back()), "tjit::save_torchscript: \"", name,
                "\" names two tensors or a tensor "
                "and a module; give each a name of its own");
    const at::Tensor saved = tensor.detach();
    if (tensor.requires_grad()) {
      owner.register_parameter(path.back(), saved.requires_grad_(true),
                               /*is_buffer=*/false);
    } else {
      owner.register_buffer(path.back(), saved);
    }
    return graph->insertGetAttr(self, path.back());
  }

 private:
  std::string NameOf(const at::Tensor& tensor) {
    for (const auto& [name, named] : options_.tensors) {
      if (named.defined() && named.storage().is_alias_of(tensor.storage())) {
        return name;
      }
    }
    // What the program calls it anyway, where that can be a name here.
    const std::string given = TensorNameOf(tensor.unsafeGetTensorImpl());
    if (!given.empty() && MayBeCalled(given)) return given;
    return absl::StrCat("captured", unnamed_++);
  }

  // True if Add() takes that name, and nothing is in its place.
  bool MayBeCalled(const std::string& name) const {
    if (absl::StartsWith(name, "captured")) return false;
    const std::vector<std::string> path = absl::StrSplit(name, '.');
    if (!std::all_of(path.begin(), path.end(), IsName)) return false;
    for (const auto& [other, tensor] : options_.tensors) {
      if (other == name || absl::StartsWith(other, name + ".") ||
          absl::StartsWith(name, other + ".")) {
        return false;
      }
    }
    jit::Module owner = module_;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      if (!owner.hasattr(path[i])) return true;
      const c10::IValue child = owner.attr(path[i]);
      if (!child.isModule()) return false;
      owner = child.toModule();
    }
    return !owner.hasattr(path.back());
  }

  jit::Module Child(const jit::Module& owner,
                    const std::vector<std::string>& path, std::size_t depth) {
    const std::string& name = path[depth];
    if (!owner.hasattr(name)) {
      jit::Module(owner).register_module(
          name, jit::Module(c10::QualifiedName(
                    absl::StrCat("__torch__.Module", modules_++))));
    }
    const c10::IValue child = owner.attr(name);
    TORCH_CHECK(child.isModule(), "tjit::save_torchscript: \"", name,
                "\" names a tensor and a module; rename one of them");
    return child.toModule();
  }

  const TorchscriptOptions& options_;
  jit::Module module_;
  int unnamed_ = 0, modules_ = 0;
};

// ---- What the steps take from outside.

class FunctionSource : public GraphSource {
 public:
  FunctionSource(const FunctionPlan& plan, const TorchscriptOptions& options,
                 jit::Graph* graph)
      : plan_(plan), options_(options), graph_(*graph), tensors_(options) {
    for (const TraceNode* node : plan.record->nodes) {
      first_scalar_.push_back(scalars_);
      scalars_ += node->step.scalars.size();
    }
  }

  jit::Module& module() { return tensors_.module(); }
  std::vector<GraphArgument>& arguments() { return arguments_; }

  void AddArguments() {
    self_ = graph_.addInput("self")->setType(module().type());
    for (std::uint32_t i = 0; i < plan_.key.arguments.size(); ++i) {
      const FunctionArgument& known = plan_.key.arguments[i];
      // Its slot is the other one's: the module would never look at this one.
      TORCH_CHECK(known.shares < 0, "tjit::save_torchscript: tensors ",
                  known.shares, " and ", i,
                  " in the arguments have one storage; call the function with "
                  "tensors of their own");
      for (const auto& [name, tensor] : options_.tensors) {
        TORCH_CHECK(!known.defined || !tensor.defined() ||
                        known.storage._unsafe_get_target() !=
                            tensor.storage().unsafeGetStorageImpl(),
                    "tjit::save_torchscript: \"", name, "\" is tensor ", i,
                    " in the arguments, too; pass another example");
      }
      inputs_.push_back(known.defined
                            ? NewInput(true, i, GraphType(known.geometry))
                            : nullptr);
    }
    for (std::uint32_t i = 0; i < plan_.key.numbers.size(); ++i) {
      numbers_.push_back(NewInput(false, i, c10::FloatType::get()));
    }
  }

  // In the order of their names, whichever op comes first.
  void AddNamedTensors() {
    for (const auto& [name, tensor] : options_.tensors) {
      for (std::uint32_t c = 0; c < plan_.captured.size(); ++c) {
        const CapturedStorage& captured = plan_.captured[c];
        if (tensor.defined() && captured.tensor &&
            captured.storage._unsafe_get_target() ==
                tensor.storage().unsafeGetStorageImpl()) {
          Captured(c, captured.geometry);
        }
      }
    }
  }

  // Random numbers are drawn before the steps, as at a replay.
  void AddDraws() {
    const FunctionRecord& record = *plan_.record;
    for (const InsideTensor& drawn : record.drawn) {
      drawn_.push_back(Empty(drawn.geometry));
    }
    for (const FunctionDraw& draw : record.draws) {
      const c10::FunctionSchema& schema = draw.call->entry->handle.schema();
      std::vector<Value*> inputs;
      for (std::size_t i = 0; i < draw.call->arguments.size(); ++i) {
        const bool is_tensor = schema.arguments()[i].real_type()->kind() ==
                               c10::TypeKind::TensorType;
        inputs.push_back(is_tensor
                             ? drawn_[draw.tensor]
                             : GraphConstant(&graph_, draw.call->arguments[i]));
      }
      graph_.insertNode(
          graph_.create(c10::Symbol::fromQualString(schema.name()),
                        at::ArrayRef<Value*>(inputs), schema.returns().size()));
    }
  }

  Value* Tensor(std::int32_t slot, const TensorGeometry& g) override {
    const FunctionSlot& from =
        plan_.record->slots[static_cast<std::size_t>(slot)];
    switch (from.kind) {
      case Kind::kArgument:
        return ViewOfArgument(from.index, g);
      case Kind::kDrawn:
        return ViewOfDrawn(from.index, g);
      case Kind::kCaptured:
        return ViewOfCaptured(from.index, g);
      case Kind::kConstant:
        return ConstantOf(from.index, g);
      case Kind::kBorn:
      case Kind::kCalled:  // such a function is not saved
      case Kind::kInside: {
        auto [at, is_new] = made_.try_emplace(slot);
        if (is_new) {
          at->second.geometry = WholeOf(from.bytes, g);
          at->second.value = Empty(at->second.geometry);
        }
        return View(at->second.value, at->second.geometry, g);
      }
    }
    return nullptr;
  }

  Value* Scalar(const ScalarSource& source, const ScalarValue&) override {
    const std::size_t at =
        first_scalar_[static_cast<std::size_t>(source.step)] +
        static_cast<std::size_t>(source.index);
    for (const NumberUse& use : plan_.uses) {
      if (use.where == NumberUse::Where::kStep && use.at == at)
        return numbers_[use.number];
    }
    return GraphConstant(&graph_, DecodeScalar(plan_.scalars[at]));
  }

  Value* ViewOfArgument(std::uint32_t index, const TensorGeometry& g) {
    const TensorGeometry& form = plan_.key.arguments[index].geometry;
    CheckElements(form, g);
    if (SameView(form, g)) return inputs_[index];
    // Where it begins in its storage is the caller's.
    Value* offset = nullptr;
    if (g.offset != form.offset) {
      const auto add = [this](const char* op, std::vector<Value*> inputs) {
        return graph_
            .insertNode(graph_.create(c10::Symbol::fromQualString(op),
                                      at::ArrayRef<Value*>(inputs)))
            ->output()
            ->setType(c10::IntType::get());
      };
      offset =
          add("aten::add", {add("aten::storage_offset", {inputs_[index]}),
                            GraphConstant(&graph_, g.offset - form.offset)});
    }
    return GraphView(&graph_, inputs_[index], g, offset);
  }
  Value* ViewOfCaptured(std::uint32_t index, const TensorGeometry& g) {
    const Known& known = Captured(index, g);
    return View(known.value, known.geometry, g);
  }
  Value* argument(std::uint32_t index) const { return inputs_[index]; }
  Value* drawn(std::uint32_t index) const { return drawn_[index]; }
  // A draw that gives the tensor its sizes, as arange() does, says of no form
  // that it is the whole.
  Value* ViewOfDrawn(std::uint32_t index, const TensorGeometry& g) {
    const TensorGeometry& made = plan_.record->drawn[index].geometry;
    if (made.numel() != 0) return View(drawn_[index], made, g);
    CheckElements(made, g);
    return GraphView(&graph_, drawn_[index], g,
                     GraphConstant(&graph_, g.offset));
  }

 private:
  // A tensor that the graph has, and its form.
  struct Known {
    Value* value = nullptr;
    TensorGeometry geometry;
  };

  Value* NewInput(bool is_tensor, std::uint32_t index, c10::TypePtr type) {
    const std::size_t n = arguments_.size();
    const std::string name =
        n < options_.arguments.size()
            ? options_.arguments[n]
            : absl::StrCat(is_tensor ? "tensor" : "number", index);
    const auto is_it = [&](const GraphArgument& a) { return a.name == name; };
    TORCH_CHECK(
        IsName(name) &&
            !absl::ascii_isdigit(static_cast<unsigned char>(name[0])) &&
            std::none_of(arguments_.begin(), arguments_.end(), is_it),
        "tjit::save_torchscript: \"", name,
        "\" is no name of an argument; write letters, digits and underscores, "
        "another one for each, and not forward, ops, self or training");
    arguments_.push_back({name, is_tensor, index});
    return graph_.addInput(name)->setType(std::move(type));
  }

  static void CheckElements(const TensorGeometry& form,
                            const TensorGeometry& g) {
    if (g.dtype != form.dtype) {
      throw CannotEmit("a tensor is read as elements of another type");
    }
    if (g.wrapped_number != form.wrapped_number) {
      throw CannotEmit("a tensor is read as a number");
    }
  }

  Value* View(Value* value, const TensorGeometry& form,
              const TensorGeometry& g) {
    CheckElements(form, g);
    if (SameView(form, g)) return value;
    return GraphView(&graph_, value, g, GraphConstant(&graph_, g.offset));
  }

  Value* Empty(const TensorGeometry& g) {
    const std::vector<Value*> inputs = {
        GraphConstant(&graph_, c10::IntArrayRef(g.sizes, g.ndim)),
        GraphConstant(&graph_, c10::IntArrayRef(g.strides, g.ndim)),
        GraphConstant(&graph_, static_cast<c10::ScalarType>(g.dtype)),
        GraphConstant(&graph_, c10::IValue()),
        GraphConstant(&graph_, c10::IValue()),
        GraphConstant(&graph_, c10::IValue())};
    jit::Node* const node = graph_.insertNode(graph_.create(
        c10::Symbol::fromQualString("aten::empty_strided"), inputs));
    return node->output()->setType(c10::TensorType::get());
  }

  const Known& Captured(std::uint32_t index, const TensorGeometry& g) {
    const CapturedStorage& captured = plan_.captured[index];
    auto [at, is_new] =
        captured_.try_emplace(captured.storage._unsafe_get_target());
    if (!is_new) return at->second;
    at::Tensor tensor;
    if (captured.tensor) {
      tensor = Locked(*captured.tensor);
      at->second.geometry = captured.geometry;
    } else {  // nobody is known to have a tensor over it
      const c10::Storage storage(captured.storage.lock());
      at->second.geometry = WholeOf(storage.nbytes(), g);
      const TensorGeometry& whole = at->second.geometry;
      tensor = at::empty({0}, static_cast<c10::ScalarType>(whole.dtype));
      tensor.set_(storage, 0, c10::IntArrayRef(whole.sizes, whole.ndim));
    }
    at->second.value = tensors_.Add(&graph_, self_, tensor);
    return at->second;
  }

  // A number that libtorch wrapped into a tensor is a number again.
  Value* ConstantOf(std::uint32_t at, const TensorGeometry& g) {
    for (const NumberUse& use : plan_.uses) {
      if (use.where != NumberUse::Where::kConstant || use.at != at) continue;
      if (!g.wrapped_number) {
        throw CannotEmit("a number that may change is read as a tensor");
      }
      return numbers_[use.number];
    }
    const std::string& bytes = plan_.constants[at];
    at::Tensor tensor = at::empty(c10::IntArrayRef(g.sizes, g.ndim),
                                  static_cast<c10::ScalarType>(g.dtype));
    TORCH_INTERNAL_ASSERT(tensor.nbytes() <= bytes.size());
    std::memcpy(tensor.mutable_data_ptr(), bytes.data(), tensor.nbytes());
    return GraphConstant(
        &graph_, g.wrapped_number ? c10::IValue(tensor.item()) : tensor);
  }

  const FunctionPlan& plan_;
  const TorchscriptOptions& options_;
  jit::Graph& graph_;
  ModuleTensors tensors_;
  Value* self_ = nullptr;
  std::vector<GraphArgument> arguments_;
  std::vector<Value*> inputs_, numbers_;  // of the plan's key
  std::vector<Value*> drawn_;
  std::vector<std::size_t> first_scalar_;  // of each step
  std::size_t scalars_ = 0;
  std::map<std::int32_t, Known> made_;  // by slot
  std::map<const c10::StorageImpl*, Known> captured_;
};

// ---- Results.

class ResultValues {
 public:
  ResultValues(const FunctionPlan& plan, GraphEmitter* emitter,
               FunctionSource* source)
      : plan_(plan), emitter_(*emitter), source_(*source) {}

  std::vector<Value*> All() {
    std::vector<Value*> values;
    for (const FunctionResult& result : plan_.results) {
      values.push_back(result.same_as >= 0
                           ? values[static_cast<std::size_t>(result.same_as)]
                           : One(result));
    }
    return values;
  }

 private:
  Value* One(const FunctionResult& result) {
    switch (result.kind) {
      case FunctionResult::Kind::kUndefined:
        throw CannotEmit("a result is an undefined tensor");
      case FunctionResult::Kind::kArgument:
        return result.is_view
                   ? source_.ViewOfArgument(result.index, result.geometry)
                   : source_.argument(result.index);
      case FunctionResult::Kind::kCaptured:
        return source_.ViewOfCaptured(
            result.index, result.is_view
                              ? result.geometry
                              : plan_.captured[result.index].geometry);
      case FunctionResult::Kind::kSlot:
        return emitter_.Tensor(
            static_cast<std::int32_t>(plan_.fresh[result.index].slot),
            result.geometry);
      case FunctionResult::Kind::kDrawn:
        return result.is_view
                   ? source_.ViewOfDrawn(result.index, result.geometry)
                   : source_.drawn(result.index);
      case FunctionResult::Kind::kCalled:
        break;  // such a function is not saved
    }
    return nullptr;
  }

  const FunctionPlan& plan_;
  GraphEmitter& emitter_;
  FunctionSource& source_;
};

// Reading a file drops what nothing uses, so that is left out at once. Draws
// are not: those behind them would have other numbers.
void DropUnused(const FunctionPlan& plan,
                const std::shared_ptr<jit::Graph>& graph) {
  const auto draws = [&] {
    std::size_t count = 0;
    for (const jit::Node* node : graph->nodes()) {
      for (const FunctionDraw& draw : plan.record->draws) {
        if (draw.call->entry->op_class != OpClass::kRandom) continue;
        const c10::FunctionSchema& schema = draw.call->entry->handle.schema();
        count += node->kind() == c10::Symbol::fromQualString(schema.name());
      }
    }
    return count;
  };
  const std::size_t before = draws();
  jit::EliminateDeadCode(graph);
  if (draws() != before) {
    throw CannotEmit("random numbers are drawn that nothing uses");
  }
}

// The steps, which a graph of TorchScript takes as those of a segment.
SegmentStep StepOf(const TraceNode& node) {
  SegmentStep step;
  step.record = CopyOf(node.step);
  step.op = OpName(node.step.op);
  step.call = node.payload;
  return step;
}

}  // namespace

FunctionModule MakeFunctionModule(const FunctionPlan& plan,
                                  const TorchscriptOptions& options) {
  auto graph = std::make_shared<jit::Graph>();
  FunctionSource source(plan, options, graph.get());
  GraphEmitter emitter(graph.get(), &source);
  std::string_view op = "the arguments";
  try {
    source.AddArguments();
    source.AddNamedTensors();
    source.AddDraws();
    for (const TraceNode* node : plan.record->nodes) {
      op = OpName(node->step.op);
      emitter.Emit(StepOf(*node));
    }
    op = "the result";
    std::vector<Value*> results = ResultValues(plan, &emitter, &source).All();
    if (results.size() == 1) {
      graph->registerOutput(results[0]);
    } else if (results.empty()) {
      graph->registerOutput(GraphConstant(graph.get(), c10::IValue()));
    } else {
      graph->registerOutput(
          graph->insertNode(graph->createTuple(results))->output());
    }
    DropUnused(plan, graph);
  } catch (const CannotEmit& e) {
    TORCH_CHECK(false, "tjit::save_torchscript: ", std::string(op), ": ",
                e.what(),
                "; nothing was written. Leave this part out of the function");
  }
  jit::Module& module = source.module();
  graph->inputs()[0]->setType(module.type());
  jit::Function* const ops =
      module._ivalue()->compilation_unit()->create_function(
          c10::QualifiedName(*module.type()->name(), "ops"), std::move(graph));
  module.type()->addMethod(ops);
  return {module, std::move(source.arguments())};
}

}  // namespace tjit::runtime
