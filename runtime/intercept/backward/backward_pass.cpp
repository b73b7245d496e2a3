#include "runtime/intercept/backward/backward_pass.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/input_buffer.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace tjit::runtime {
namespace {

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

bool HasPreHooks(Node* node) {
  return !node->tensor_pre_hooks().empty() ||
         !node->retains_grad_hooks().empty();
}

}  // namespace

thread_local BackwardPass* BackwardPass::t_running_ = nullptr;

BackwardPass& BackwardPass::OfThread() {
  // A pointer: libtjit may have little room for the threads' own variables.
  thread_local const auto pass = std::make_unique<BackwardPass>();
  return *pass;
}

class BackwardPass::Scope {
 public:
  explicit Scope(BackwardPass* pass) : pass_(pass) { t_running_ = pass; }
  ~Scope() {
    pass_->Forget();
    t_running_ = nullptr;
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
  // Not libtorch's numbers, which count from 0.
  constexpr int kFirstId = 1 << 30;
  static std::atomic<int> next_id{kFirstId};
  const Scope scope(this);
  torch::autograd::validate_outputs(
      call.roots, const_cast<variable_list&>(call.inputs),
      [](const std::string& message) { return message; });
  keeps_graph_ = call.keeps_graph;
  creates_graph_ = call.creates_graph;
  id_ = next_id.fetch_add(1, std::memory_order_relaxed);
  const at::AutoGradMode mode(creates_graph_);
  RunNodes(call);
  RunCallbacks();
  return std::exchange(results_, {});
}

void BackwardPass::RunNodes(const Call& call) {
  Start(call);
  if (graph_.runs_program()) state_.emplace();
  while (!ready_.empty()) RunEntry(Pop());
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    if (!graph_.entry(i).has_inputs) continue;
    throw std::runtime_error("could not compute gradients for some functions");
  }
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

void BackwardPass::Capture(std::int32_t i) {
  const auto captures = graph_.captures();
  for (std::size_t k = 0; k < captures.size(); ++k) {
    if (captures[k].entry == i) results_[k] = At(i).inputs[captures[k].input];
  }
}

variable_list BackwardPass::RunNode(Entry* e) {
  Node& node = *e->node;
  if (HasPreHooks(&node)) e->inputs = CallPreHooks(&node, std::move(e->inputs));
  for (const auto& hook : node.pre_hooks()) e->inputs = (*hook)(e->inputs);
  if (!keeps_graph_) node.will_release_variables();
  if (node.post_hooks().empty()) {
    variable_list outputs = node(std::move(e->inputs));
    Validate(node, &outputs);
    return outputs;
  }
  // AccumulateGrad counts on the copy.
  variable_list inputs = e->inputs;
  variable_list outputs = node(std::move(inputs));
  Validate(node, &outputs);
  for (const auto& hook : node.post_hooks()) {
    outputs = (*hook)(outputs, e->inputs);
  }
  return outputs;
}

void BackwardPass::RunEntry(std::int32_t i) {
  Entry& e = At(i);
  Node& node = *e.node;
  // Code of the program finds the thread's state as it was at the beginning,
  // and what it changes of it ends with its node.
  std::optional<at::ThreadLocalStateGuard> state;
  if (e.runs_program) state.emplace(*state_);
  node_ = &node;
  e.has_inputs = false;
  // A result of grad() is what a needed node's inputs are before its hooks.
  if (!e.is_needed && HasPreHooks(&node)) {
    e.inputs = CallPreHooks(&node, std::move(e.inputs));
  }
  if (e.is_captured) Capture(i);
  if (e.is_needed) {
    variable_list outputs = RunNode(&e);
    // Nobody here holds what came in while the outputs are added up: whether
    // that is done in place depends on who does.
    e.inputs.clear();
    if (!keeps_graph_) node.release_variables();
    HandOn(e, &outputs);
  } else {
    e.inputs.clear();
  }
  node_ = nullptr;
  // A hook of a saved tensor may have changed it.
  if (at::GradMode::is_enabled() != creates_graph_) {
    at::GradMode::set_enabled(creates_graph_);
  }
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

const std::unordered_set<Node*>& BackwardPass::nodes() {
  if (nodes_) return *nodes_;
  nodes_.emplace();
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    nodes_->insert(graph_.entry(i).node);
  }
  return *nodes_;
}

// As the pass runs them, from the first.
std::vector<Node*> BackwardPass::OrderOfNodes() {
  std::vector<Node*> order;
  std::vector<std::int32_t> waits_for(graph_.size());
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    for (std::size_t k = 0; k < graph_.entry(i).node->num_outputs(); ++k) {
      const std::int32_t target = graph_.TargetOf(graph_.entry(i), k);
      if (target == BackwardGraph::kNowhere) continue;
      ++waits_for[static_cast<std::size_t>(target)];
    }
  }
  const std::vector<std::int32_t> ready = std::exchange(ready_, {});
  Push(0);
  while (!ready_.empty()) {
    const Entry& e = At(Pop());
    order.push_back(e.node);
    for (std::size_t k = 0; k < e.node->num_outputs(); ++k) {
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
  id_ = -1;
  state_.reset();
  callbacks_.clear();
  exec_infos_.reset();
  nodes_.reset();
}

}  // namespace tjit::runtime
