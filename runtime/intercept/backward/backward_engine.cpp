#include "runtime/intercept/backward/backward_engine.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/input_buffer.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/intercept/backward/backward_graph.h"
#include "runtime/call/interpose.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/thread_context.h"
#include "runtime/report/instruction_log.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {

namespace {

using torch::autograd::AnomalyMode;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::GraphRoot;
using torch::autograd::InputBuffer;
using torch::autograd::Node;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Compiled autograd takes whole passes; who switches it on wants that.
std::atomic<bool> g_compiled_autograd{false};

// Warnings of a pass come out where it ends, as with libtorch's engine.
class WarningsAtEnd : public at::WarningHandler {
 public:
  WarningsAtEnd() : before_(c10::WarningUtils::get_warning_handler()) {
    c10::WarningUtils::set_warning_handler(this);
  }
  ~WarningsAtEnd() override { c10::WarningUtils::set_warning_handler(before_); }
  WarningsAtEnd(const WarningsAtEnd&) = delete;
  WarningsAtEnd& operator=(const WarningsAtEnd&) = delete;

  void process(const c10::Warning& warning) override {
    warnings_.push_back(warning);
  }
  // Each goes to the handler of before; one that throws ends it.
  void SayAll() {
    c10::WarningUtils::set_warning_handler(before_);
    const std::vector<c10::Warning> warnings = std::exchange(warnings_, {});
    for (const c10::Warning& warning : warnings) c10::warn(warning);
  }

 private:
  at::WarningHandler* before_;
  std::vector<c10::Warning> warnings_;
};

// True if the engine's check of gradients would leave `gradient` as it is.
bool IsAsExpected(const Edge& edge, const Variable& gradient) {
  if (edge.function == nullptr || !gradient.defined()) return true;
  const torch::autograd::InputMetadata& expected =
      edge.function->input_metadata(edge.input_nr);
  return !expected.was_default_constructed() &&
         expected.grad_dtype() == gradient.scalar_type() &&
         gradient.layout() == c10::kStrided && gradient.device().is_cpu() &&
         expected.is_same_shape(gradient);
}

// Libtorch's check, and its messages, where a gradient is not as expected.
void Validate(const Node& node, variable_list* outputs) {
  const edge_list& edges = node.next_edges();
  bool is_expected = outputs->size() == edges.size();
  for (std::size_t i = 0; is_expected && i < edges.size(); ++i) {
    is_expected = IsAsExpected(edges[i], (*outputs)[i]);
  }
  if (is_expected) return;
  torch::autograd::validate_outputs(
      edges, *outputs, [&](const std::string& message) {
        return "Function " + node.name() + " returned an " + message;
      });
}

bool IsPlainGradient(const Variable& gradient) {
  return gradient.defined() && gradient.device().is_cpu() &&
         gradient.layout() == c10::kStrided && !gradient.is_nested() &&
         !gradient.key_set().has(c10::DispatchKey::Python);
}

// Adds to a gradient that is there, by libtorch's rules for doing it in place.
void Accumulate(variable_list* into, std::size_t position, Variable&& more,
                Node* node) {
  InputBuffer buffer(into->size());
  buffer.buffer.swap(*into);
  buffer.add(position, std::move(more), std::nullopt, std::nullopt, node);
  into->swap(buffer.buffer);
}

// A backward pass. Each thread has one object, whose memory is kept.
class BackwardPass {
 public:
  struct Call {
    const edge_list& roots;
    const variable_list& inputs;  // the gradients of the roots
    bool keeps_graph;
    bool accumulates;
    const edge_list& outputs;
  };

  static BackwardPass& OfThread() {
    // A pointer: libtjit may have little room for the threads' own variables.
    thread_local const auto pass = std::make_unique<BackwardPass>();
    return *pass;
  }
  // The pass of this thread that runs now, null if none does.
  static BackwardPass* Running() { return t_running_; }

  // Reads the graph. Returns why it is not run here; with no reason Run() comes
  // next.
  std::optional<BackwardReason> Read(const Call& call);
  variable_list Run(const Call& call);

  bool is_masked() const { return graph_.is_masked(); }
  // Node::task_should_compute_output() in this pass.
  bool ShouldCompute(const Node& node, std::size_t output);

  // While it lives, this thread runs no pass of ours: what is asked of libtorch
  // is about its own.
  class Aside {
   public:
    Aside() : before_(std::exchange(t_running_, nullptr)) {}
    ~Aside() { t_running_ = before_; }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

   private:
    BackwardPass* before_;
  };

 private:
  class Scope;

  BackwardGraph::Entry& At(std::int32_t i) {
    return graph_.entry(static_cast<std::size_t>(i));
  }
  void Start(const Call& call);
  void RunEntry(std::int32_t i, bool keeps_graph);
  void Capture(std::int32_t i);
  void HandOn(const BackwardGraph::Entry& from, variable_list* outputs);
  void Push(std::int32_t i);
  std::int32_t Pop();
  void Forget();

  // What the thread destroys at its end may run backward: no constructor, so
  // that it can be read then as well.
  static thread_local BackwardPass* t_running_;

  BackwardGraph graph_;
  std::vector<std::int32_t> ready_;  // a heap
  variable_list results_;            // of grad()
  c10::intrusive_ptr<Node> top_;     // above several roots
};

thread_local BackwardPass* BackwardPass::t_running_ = nullptr;

class BackwardPass::Scope {
 public:
  explicit Scope(BackwardPass* pass) : pass_(pass) { t_running_ = pass; }
  ~Scope() {
    t_running_ = nullptr;
    pass_->Forget();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  BackwardPass* pass_;
};

std::optional<BackwardReason> BackwardPass::Read(const Call& call) {
  // Libtorch's engine says what is wrong with such a call.
  if (call.roots.empty() || call.roots.size() != call.inputs.size()) {
    return BackwardReason::kNotPlain;
  }
  for (std::size_t i = 0; i < call.roots.size(); ++i) {
    if (call.roots[i].function == nullptr || !IsPlainGradient(call.inputs[i])) {
      return BackwardReason::kNotPlain;
    }
  }
  // The node above several roots is made in Start(): it takes a sequence
  // number.
  for (const Edge& root : call.roots) {
    graph_.Clear();
    const auto why =
        graph_.Read(root.function.get(), call.outputs, call.accumulates);
    if (!why) continue;
    graph_.Clear();
    return why;
  }
  return std::nullopt;
}

void BackwardPass::Start(const Call& call) {
  if (call.roots.size() == 1) {
    const Edge& root = call.roots[0];
    BackwardGraph::Entry& e = graph_.entry(0);
    e.inputs.resize(root.function->num_inputs());
    e.inputs[root.input_nr] = call.inputs[0];
    e.has_inputs = true;
  } else {
    top_ = c10::make_intrusive<GraphRoot>(call.roots, call.inputs);
    graph_.Clear();
    // Plain as well: it is nothing but a way to what was read.
    static_cast<void>(graph_.Read(top_.get(), call.outputs, call.accumulates));
    graph_.entry(0).has_inputs = true;
  }
  results_.resize(graph_.captures().size());
  Push(0);
}

variable_list BackwardPass::Run(const Call& call) {
  const Scope scope(this);
  torch::autograd::validate_outputs(
      call.roots, const_cast<variable_list&>(call.inputs),
      [](const std::string& message) { return message; });
  Start(call);
  while (!ready_.empty()) RunEntry(Pop(), call.keeps_graph);
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    if (!graph_.entry(i).has_inputs) continue;
    throw std::runtime_error("could not compute gradients for some functions");
  }
  return std::exchange(results_, {});
}

void BackwardPass::Push(std::int32_t i) {
  ready_.push_back(i);
  std::push_heap(ready_.begin(), ready_.end(),
                 [this](std::int32_t a, std::int32_t b) {
                   return At(a).node->sequence_nr() < At(b).node->sequence_nr();
                 });
}

std::int32_t BackwardPass::Pop() {
  std::pop_heap(ready_.begin(), ready_.end(),
                [this](std::int32_t a, std::int32_t b) {
                  return At(a).node->sequence_nr() < At(b).node->sequence_nr();
                });
  const std::int32_t i = ready_.back();
  ready_.pop_back();
  return i;
}

void BackwardPass::Capture(std::int32_t i) {
  const auto captures = graph_.captures();
  for (std::size_t k = 0; k < captures.size(); ++k) {
    if (captures[k].entry == i) results_[k] = At(i).inputs[captures[k].input];
  }
}

// retain_grad(): its hook takes the list and gives it back.
void KeepForTensors(BackwardGraph::Entry* e) {
  for (const auto& [output, hook] : e->node->retains_grad_hooks()) {
    e->inputs = (*hook)(e->inputs);
  }
}

void BackwardPass::RunEntry(std::int32_t i, bool keeps_graph) {
  BackwardGraph::Entry& e = At(i);
  Node& node = *e.node;
  // The tensor that keeps its gradient keeps what a node's inputs are then; a
  // result of grad() is what they were before.
  if (!e.is_needed) KeepForTensors(&e);
  if (e.is_captured) Capture(i);
  e.has_inputs = false;
  if (!e.is_needed) return e.inputs.clear();
  KeepForTensors(&e);
  if (!keeps_graph) node.will_release_variables();
  variable_list outputs = node(std::move(e.inputs));
  Validate(node, &outputs);
  // Nobody here holds what came in while the outputs are added up: whether that
  // is done in place depends on who does.
  e.inputs.clear();
  if (!keeps_graph) node.release_variables();
  HandOn(e, &outputs);
}

void BackwardPass::HandOn(const BackwardGraph::Entry& from,
                          variable_list* outputs) {
  const edge_list& edges = from.node->next_edges();
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    const std::int32_t target = graph_.TargetOf(from, i);
    if (target == BackwardGraph::kNowhere) continue;
    BackwardGraph::Entry& to = At(target);
    const bool is_ready = --to.waits_for == 0;
    if (!BackwardGraph::IsWanted(to)) continue;
    if (!to.has_inputs) {
      to.inputs.clear();
      to.inputs.resize(to.node->num_inputs());
      to.has_inputs = true;
    }
    if (Variable& output = (*outputs)[i]; output.defined()) {
      const std::size_t position = edges[i].input_nr;
      if (to.inputs[position].defined()) {
        Accumulate(&to.inputs, position, std::move(output), to.node);
      } else {
        to.inputs[position] = std::move(output);
      }
    }
    if (is_ready) Push(target);
  }
}

bool BackwardPass::ShouldCompute(const Node& node, std::size_t output) {
  const std::int32_t found = graph_.Find(&node);
  if (found == BackwardGraph::kNowhere || output >= node.num_outputs()) {
    return node.should_compute_output(output);
  }
  const std::int32_t target = graph_.TargetOf(At(found), output);
  return target != BackwardGraph::kNowhere &&
         BackwardGraph::IsWanted(At(target));
}

void BackwardPass::Forget() {
  graph_.Clear();
  ready_.clear();
  results_.clear();
  top_.reset();
}

variable_list RunHere(BackwardPass* pass, const BackwardPass::Call& call,
                      bool create_graph) {
  WarningsAtEnd warnings;
  const at::AutoGradMode mode(create_graph);
  try {
    variable_list results = pass->Run(call);
    warnings.SayAll();
    return results;
  } catch (...) {
    warnings.SayAll();
    throw;
  }
}

bool HasModes() {
  constexpr c10::DispatchKeySet kModes = c10::DispatchKeySet(
      {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
       c10::DispatchKey::PythonDispatcher, c10::DispatchKey::PreDispatch,
       c10::DispatchKey::Tracer, c10::DispatchKey::Functionalize,
       c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
       c10::DispatchKey::FuncTorchDynamicLayerBackMode,
       c10::DispatchKey::FuncTorchVmapMode});
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(kModes);
}

// Why no pass of this thread is ours now, whatever its graph.
std::optional<BackwardReason> WhyNotNow(bool create_graph, bool accumulates) {
  if (!g_settings.own_backward()) {
    return BackwardReason::kSwitchedOff;
  }
  if (BackwardPass::Running() != nullptr ||
      torch::autograd::get_current_graph_task_id() != -1) {
    return BackwardReason::kNested;
  }
  if (g_compiled_autograd.load(std::memory_order_relaxed)) {
    return BackwardReason::kCompiled;
  }
  if (AnomalyMode::is_enabled()) return BackwardReason::kAnomaly;
  if (at::hasCallbacks()) return BackwardReason::kProfiler;
  if (create_graph && accumulates) return BackwardReason::kCreateGraph;
  if (HasModes()) return BackwardReason::kModes;
  return std::nullopt;
}

}  // namespace
}  // namespace tjit::runtime

using tjit::runtime::BackwardPass;

// variable_list torch::autograd::Engine::execute(roots, inputs, keep_graph,
// create_graph, accumulate_grad, outputs)
TJIT_INTERPOSED torch::autograd::variable_list
_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_(
    torch::autograd::Engine* engine, const torch::autograd::edge_list& roots,
    const torch::autograd::variable_list& inputs, bool keep_graph,
    bool create_graph, bool accumulate_grad,
    const torch::autograd::edge_list& outputs) {
  using namespace tjit::runtime;
  ThreadState* const state = ActiveState();
  if (state != nullptr && state != LogOnlyState()) {
    const BackwardPass::Call call{roots, inputs, keep_graph, accumulate_grad,
                                  outputs};
    std::optional<tjit::BackwardReason> why =
        WhyNotNow(create_graph, accumulate_grad);
    BackwardPass& pass = BackwardPass::OfThread();
    if (!why) why = pass.Read(call);
    state->CountBackward(why);
    if (!why) {
      return RunHere(&pass, call, create_graph);
    }
  }
  const BackwardPass::Aside aside;
  return TJIT_NEXT(
      _ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_)(
      engine, roots, inputs, keep_graph, create_graph, accumulate_grad,
      outputs);
}

// bool torch::autograd::Node::task_should_compute_output(size_t) const
TJIT_INTERPOSED bool _ZNK5torch8autograd4Node26task_should_compute_outputEm(
    const torch::autograd::Node* node, std::size_t output) {
  BackwardPass* const pass = BackwardPass::Running();
  if (pass == nullptr) {
    return TJIT_NEXT(_ZNK5torch8autograd4Node26task_should_compute_outputEm)(
        node, output);
  }
  return pass->is_masked() ? pass->ShouldCompute(*node, output)
                           : node->should_compute_output(output);
}

// void torch::autograd::Engine::set_compiled_autograd(compiled_autograd_fn)
TJIT_INTERPOSED void
_ZN5torch8autograd6Engine21set_compiled_autogradEPFSt6vectorIN2at6TensorESaIS4_EERKN3c1013intrusive_ptrINS0_4NodeENS7_6detail34intrusive_target_default_null_typeIS9_EEEERKNS0_9GraphTaskEbRKS2_INS0_4EdgeESaISJ_EEE(
    torch::autograd::Engine::compiled_autograd_fn function) {
  tjit::runtime::g_compiled_autograd.store(function != nullptr);
  TJIT_NEXT(
      _ZN5torch8autograd6Engine21set_compiled_autogradEPFSt6vectorIN2at6TensorESaIS4_EERKN3c1013intrusive_ptrINS0_4NodeENS7_6detail34intrusive_target_default_null_typeIS9_EEEERKNS0_9GraphTaskEbRKS2_INS0_4EdgeESaISJ_EEE)
  (function);
}
