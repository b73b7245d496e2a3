#include "runtime/intercept/backward/backward_pass.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isnan.h>
#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>
#include <pthread.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/input_buffer.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/platform/thread_context.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::AnomalyMode;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::GraphRoot;
using torch::autograd::InputBuffer;
using torch::autograd::Node;
using torch::autograd::Variable;
using torch::autograd::variable_list;

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

// By value in and out, as hooks take lists.
variable_list CallPreHooks(Node* node, variable_list inputs) {
  for (const auto& hook : node->tensor_pre_hooks()) inputs = (*hook)(inputs);
  for (const auto& [output, hook] : node->retains_grad_hooks()) {
    inputs = (*hook)(inputs);
  }
  return inputs;
}

// Warnings of nodes come out where the pass ends, as with libtorch's engine.
class WarningsAtEnd : public at::WarningHandler {
 public:
  WarningsAtEnd() : before_(c10::WarningUtils::get_warning_handler()) {
    c10::WarningUtils::set_warning_handler(this);
  }
  ~WarningsAtEnd() override { Stop(); }
  WarningsAtEnd(const WarningsAtEnd&) = delete;
  WarningsAtEnd& operator=(const WarningsAtEnd&) = delete;

  void process(const c10::Warning& warning) override {
    warnings_.push_back(warning);
  }
  // From here on warnings go to the handler of before.
  void Stop() { c10::WarningUtils::set_warning_handler(before_); }
  // Each goes there as well; one that throws ends it.
  void SayAll() {
    Stop();
    const std::vector<c10::Warning> warnings = std::exchange(warnings_, {});
    for (const c10::Warning& warning : warnings) c10::warn(warning);
  }

 private:
  at::WarningHandler* before_;
  std::vector<c10::Warning> warnings_;
};

// With anomaly detection on in the midst of a pass.
void CheckForNan(const Node& node, const variable_list& outputs) {
  const at::AutoGradMode off(false);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    if (!at::isnan(outputs[i]).any().item<bool>()) continue;
    throw std::runtime_error("Function '" + node.name() +
                             "' returned nan values in its " +
                             std::to_string(i) + "th output.");
  }
}

}  // namespace

thread_local BackwardPass* BackwardPass::t_own_ = nullptr;

// A pointer and a key of pthreads: libtjit has little room for variables of
// threads. Keys are destroyed behind those variables, whose destructors may run
// backward.
BackwardPass& BackwardPass::OfThread() {
  static const std::optional<pthread_key_t> key = [] {
    pthread_key_t made{};
    const bool is_made = pthread_key_create(&made, [](void* pass) {
                           delete static_cast<BackwardPass*>(pass);
                           t_own_ = nullptr;
                         }) == 0;
    return is_made ? std::optional(made) : std::nullopt;
  }();
  if (t_own_ == nullptr) {
    t_own_ = new BackwardPass;
    // Without a key it is never deleted.
    if (key) static_cast<void>(pthread_setspecific(*key, t_own_));
  }
  return *t_own_;
}

class BackwardPass::Scope {
 public:
  explicit Scope(BackwardPass* pass) : pass_(pass) {
    pass_->is_running_ = true;
  }
  ~Scope() {
    pass_->Forget();
    pass_->is_running_ = false;
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  BackwardPass* pass_;
};

std::optional<BackwardReason> BackwardPass::Read(const Call& call) {
  // Libtorch's engine says what is wrong with such a call.
  if (call.roots.empty() || call.roots.size() != call.inputs.size()) {
    return BackwardReason::kRefused;
  }
  for (std::size_t i = 0; i < call.roots.size(); ++i) {
    if (call.roots[i].function == nullptr || !IsPlainGradient(call.inputs[i])) {
      return BackwardReason::kNotPlain;
    }
  }
  if (!call.accumulates && call.outputs.empty()) {
    return BackwardReason::kRefused;
  }
  graph_.Clear();
  // The node above several roots is made in Start(): it takes a sequence
  // number.
  const auto why = graph_.Read(call.roots, call.outputs, call.accumulates);
  if (why) graph_.Clear();
  return why;
}

void BackwardPass::Start(const Call& call) {
  first_ = 0;
  if (call.roots.size() == 1) {
    const Edge& root = call.roots[0];
    BackwardGraph::Entry& e = At(first_);
    e.inputs.resize(root.function->num_inputs());
    e.inputs[root.input_nr] = call.inputs[0];
  } else {
    top_ = c10::make_intrusive<GraphRoot>(call.roots, call.inputs);
    first_ = graph_.AddAbove(top_.get());
  }
  At(first_).has_inputs = true;
  results_.resize(graph_.captures().size());
  Push(first_);
}

variable_list BackwardPass::Run(const Call& call) {
  // Not libtorch's numbers, which count from 0.
  constexpr unsigned kFirstId = 1u << 30;
  static std::atomic<unsigned> next_id{0};
  const Scope scope(this);
  torch::autograd::validate_outputs(
      call.roots, const_cast<variable_list&>(call.inputs),
      [](const std::string& message) { return message; });
  keeps_graph_ = call.keeps_graph;
  id_ = static_cast<int>(kFirstId + next_id.fetch_add(1) % kFirstId);
  const at::AutoGradMode mode(call.creates_graph);
  WarningsAtEnd warnings;
  try {
    RunNodes(call);
    warnings.Stop();
    RunCallbacks();
  } catch (...) {
    warnings.SayAll();
    throw;
  }
  warnings.SayAll();
  return std::exchange(results_, {});
}

namespace {

// The function of tjit::jit() that runs on this thread, or null.
FunctionSession* OpenFunction() {
  ThreadState* const state = t_context.state;
  return state == nullptr ? nullptr : state->open_function();
}

}  // namespace

void BackwardPass::RunNodes(const Call& call) {
  Start(call);
  function_ = OpenFunction();
  if (function_ != nullptr && graph_.runs_program()) {
    function_->Fail(Refusal::kBackward);
  }
  if (graph_.runs_program()) state_.emplace();
  keys_ = c10::impl::tls_local_dispatch_key_set();
  modes_ = c10::AutogradState::get_tls_state();
  while (!ready_.empty()) RunEntry(Pop());
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    if (!graph_.entry(i).has_inputs) continue;
    throw std::runtime_error("could not compute gradients for some functions");
  }
}

// A hook that nobody could foresee, as one of a saved tensor, may have changed
// what ops look at first.
void BackwardPass::RestoreModes() {
  c10::AutogradState::set_tls_state(modes_);
  const c10::impl::LocalDispatchKeySet keys =
      c10::impl::tls_local_dispatch_key_set();
  if (keys.included_ == keys_.included_ && keys.excluded_ == keys_.excluded_) {
    return;
  }
  c10::impl::_force_tls_local_dispatch_key_set(keys_);
}

// Each may add more.
void BackwardPass::RunCallbacks() {
  for (std::size_t i = 0; i < callbacks_.size(); ++i) {
    const std::function<void()> callback = std::move(callbacks_[i]);
    callback();
  }
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

void BackwardPass::Capture(std::int32_t i, const variable_list& inputs) {
  const auto captures = graph_.captures();
  for (std::size_t k = 0; k < captures.size(); ++k) {
    if (captures[k].entry == i) results_[k] = inputs[captures[k].input];
  }
}

variable_list BackwardPass::RunNode(Node* node, variable_list* inputs) {
  *inputs = CallPreHooks(node, std::move(*inputs));
  for (const auto& hook : node->pre_hooks()) *inputs = (*hook)(*inputs);
  if (!keeps_graph_) node->will_release_variables();
  variable_list outputs;
  if (node->post_hooks().empty()) {
    outputs = (*node)(std::move(*inputs));
  } else {
    variable_list copy = *inputs;  // AccumulateGrad counts on it
    outputs = (*node)(std::move(copy));
  }
  Validate(*node, &outputs);
  // There may be one that came while the node ran.
  for (const auto& hook : node->post_hooks()) {
    outputs = (*hook)(outputs, *inputs);
  }
  return outputs;
}

void BackwardPass::RunEntry(std::int32_t i) {
  Entry& e = At(i);
  Node& node = *e.node;
  // Code of the program finds the thread's state as it was at the beginning,
  // and what it changes of it ends with its node.
  std::optional<at::ThreadLocalStateGuard> state;
  if (e.runs_program && state_) state.emplace(*state_);
  node_ = &node;
  e.has_inputs = false;
  variable_list inputs = std::exchange(e.inputs, std::move(spare_));
  // A result of grad() is what a needed node's inputs are before its hooks.
  if (!e.is_needed) inputs = CallPreHooks(&node, std::move(inputs));
  if (e.is_captured) Capture(i, inputs);
  if (e.is_needed) {
    variable_list outputs = RunNode(&node, &inputs);
    if (function_ != nullptr) [[unlikely]] {
      if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(&node)) {
        t_context.state->AddLeaf(leaf->variable);
      }
    }
    // Nobody here holds what came in while the outputs are added up: whether
    // that is done in place depends on who does.
    inputs.clear();
    if (!keeps_graph_) node.release_variables();
    if (AnomalyMode::is_enabled() && AnomalyMode::should_check_nan()) {
      CheckForNan(node, outputs);
    }
    HandOn(e, &outputs);
  }
  inputs.clear();
  spare_ = std::move(inputs);
  node_ = nullptr;
  RestoreModes();
}

void BackwardPass::HandOn(const BackwardGraph::Entry& from,
                          variable_list* outputs) {
  const edge_list& edges = from.node->next_edges();
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    TORCH_CHECK(i < from.edges || edges[i].function == nullptr,
                "dependency not found for ", edges[i].function->name());
    if (i >= from.edges) continue;
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

// By where the output goes, as in libtorch: the node may be none of the pass.
bool BackwardPass::ShouldCompute(const Node& node, std::size_t output) {
  if (!node.should_compute_output(output)) return false;
  const std::int32_t target =
      graph_.Find(node.next_edge(output).function.get());
  return target != BackwardGraph::kNowhere &&
         BackwardGraph::IsWanted(At(target));
}

const BackwardPass::ExecInfos& BackwardPass::exec_infos() {
  using Info = torch::autograd::GraphTask::ExecInfo;
  if (exec_infos_) return *exec_infos_;
  exec_infos_.emplace();  // empty: all nodes run
  if (!is_masked()) return *exec_infos_;
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    (*exec_infos_)[graph_.entry(i).node].needed_ = graph_.entry(i).is_needed;
  }
  int result = 0;
  for (const BackwardGraph::Capture& capture : graph_.captures()) {
    const int number = result++;
    if (capture.entry == BackwardGraph::kNowhere) continue;
    auto& list = (*exec_infos_)[At(capture.entry).node].captures_;
    if (list == nullptr) list = std::make_unique<std::vector<Info::Capture>>();
    list->emplace_back(static_cast<int>(capture.input), number);
  }
  return *exec_infos_;
}

// Those that an edge leads to: the root is none.
const std::unordered_set<Node*>& BackwardPass::nodes() {
  if (nodes_) return *nodes_;
  nodes_.emplace();
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    const Entry& e = graph_.entry(i);
    for (std::size_t k = 0; k < e.edges; ++k) {
      const std::int32_t target = graph_.TargetOf(e, k);
      if (target != BackwardGraph::kNowhere) nodes_->insert(At(target).node);
    }
  }
  return *nodes_;
}

// As the pass runs them, from the roots.
std::vector<Node*> BackwardPass::OrderOfNodes() {
  TORCH_CHECK(
      !c10::AutogradState::get_tls_state().get_multithreading_enabled(),
      "get_current_graph_task_execution_order expects the current backward to "
      "be executed with multithreading disabled, e.g. by running:\n\n"
      ">>> with torch.autograd.set_multithreading_enabled(False):\n"
      "...     torch.autograd.grad(...)\n");
  std::vector<Node*> order;
  std::vector<std::int32_t> waits_for(graph_.size());
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    const Entry& e = graph_.entry(i);
    if (e.node == top_.get()) continue;
    for (std::size_t k = 0; k < e.edges; ++k) {
      const std::int32_t target = graph_.TargetOf(e, k);
      if (target == BackwardGraph::kNowhere) continue;
      ++waits_for[static_cast<std::size_t>(target)];
    }
  }
  const std::vector<std::int32_t> ready = std::exchange(ready_, {});
  if (top_ == nullptr) {
    Push(first_);
  } else {
    for (std::size_t k = 0; k < At(first_).edges; ++k) {
      Push(graph_.TargetOf(At(first_), k));
    }
  }
  while (!ready_.empty()) {
    const Entry& e = At(Pop());
    order.push_back(e.node);
    for (std::size_t k = 0; k < e.edges; ++k) {
      const std::int32_t target = graph_.TargetOf(e, k);
      if (target == BackwardGraph::kNowhere) continue;
      if (--waits_for[static_cast<std::size_t>(target)] != 0) continue;
      if (BackwardGraph::IsWanted(At(target))) Push(target);
    }
  }
  ready_ = ready;
  return order;
}

void BackwardPass::Forget() {
  graph_.Clear();
  ready_.clear();
  results_.clear();
  top_.reset();
  node_ = nullptr;
  state_.reset();
  callbacks_.clear();
  exec_infos_.reset();
  nodes_.reset();
  id_ = -1;  // until here a pass that a destructor begins is one within this
}

}  // namespace tjit::runtime
