// One backward pass on the calling thread: the nodes in libtorch's order, and
// what code of the program may ask about the pass while it runs.
//
// A hook or a custom function sees what it sees with libtorch's engine: the
// number of the current graph task, its nodes and their order, the node that
// runs, callbacks for the end of the pass, and the thread's state as it was
// when the pass began. backward_engine.cpp answers libtorch's functions from
// here.
//
// Thread: each has one object, whose memory is kept.
// Tested by: tests/runtime/intercept/backward_engine_test.cpp,
// tests/runtime/intercept/backward_order_test.cpp
// Source: Engine::evaluate_function(), GraphTask::exec_post_processing() of
// libtorch 2.13.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/intercept/backward/backward_graph.h"
#include "support/bail.h"

namespace tjit::runtime {

struct FunctionSession;

class BackwardPass {
 public:
  using ExecInfos = std::unordered_map<torch::autograd::Node*,
                                       torch::autograd::GraphTask::ExecInfo>;
  struct Call {
    const torch::autograd::edge_list& roots;
    const torch::autograd::variable_list& inputs;  // gradients of the roots
    bool keeps_graph;
    bool creates_graph;
    bool accumulates;
    const torch::autograd::edge_list& outputs;
  };

  static BackwardPass& OfThread();
  // The pass of this thread that runs now, null if none does.
  static BackwardPass* Running() {
    return t_own_ != nullptr && t_own_->is_running_ ? t_own_ : nullptr;
  }

  // Reads the graph. Returns why it is not run here; with no reason Run() comes
  // next.
  std::optional<BackwardReason> Read(const Call& call);
  // Runs it under the grad mode that the call asks for. THROWS: what a node, a
  // hook or the check of a gradient throws.
  torch::autograd::variable_list Run(const Call& call);

  // The rest is for the pass that runs.
  bool is_masked() const { return graph_.is_masked(); }
  bool keeps_graph() const { return keeps_graph_; }
  int id() const { return id_; }
  // The node that runs now, null between two.
  torch::autograd::Node* node() const { return node_; }
  // Node::task_should_compute_output().
  bool ShouldCompute(const torch::autograd::Node& node, std::size_t output);
  // At the end of the pass, in their order.
  void AddCallback(std::function<void()> callback) {
    callbacks_.push_back(std::move(callback));
  }
  // All valid until the pass ends.
  const ExecInfos& exec_infos();
  const std::unordered_set<torch::autograd::Node*>& nodes();
  std::vector<torch::autograd::Node*> OrderOfNodes();

  // While it lives, this thread runs no pass of ours: what is asked of libtorch
  // is about its own.
  class Aside {
   public:
    Aside() : pass_(Running()) {
      if (pass_ == nullptr) return;
      pass_->is_running_ = false;
      pass_->is_aside_ = true;
    }
    ~Aside() {
      if (pass_ == nullptr) return;
      pass_->is_running_ = true;
      pass_->is_aside_ = false;
    }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

   private:
    BackwardPass* pass_;
  };
  // True where libtorch runs a pass within a masked one of ours: reentrant
  // checkpoints may not run there.
  static bool IsInGrad() {
    return t_own_ != nullptr && t_own_->is_aside_ && t_own_->is_masked();
  }

 private:
  class Scope;
  using Entry = BackwardGraph::Entry;

  Entry& At(std::int32_t i) {
    return graph_.entry(static_cast<std::size_t>(i));
  }
  void RunNodes(const Call& call);
  void Start(const Call& call);
  void RunEntry(std::int32_t i);
  torch::autograd::variable_list RunNode(
      torch::autograd::Node* node, torch::autograd::variable_list* inputs);
  void RestoreModes();
  void Capture(std::int32_t i, const torch::autograd::variable_list& inputs);
  void HandOn(const Entry& from, torch::autograd::variable_list* outputs);
  void Push(std::int32_t i);
  std::int32_t Pop();
  void RunCallbacks();
  void Forget();

  static thread_local BackwardPass* t_own_;
  bool is_running_ = false;
  // Of tjit::jit(), that is looked at while the pass runs; else null.
  FunctionSession* function_ = nullptr;
  bool is_aside_ = false;  // libtorch runs a pass within this one

  BackwardGraph graph_;
  std::vector<std::int32_t> ready_;                // a heap
  torch::autograd::variable_list results_;         // of grad()
  c10::intrusive_ptr<torch::autograd::Node> top_;  // above several roots
  bool keeps_graph_ = false;
  std::int32_t first_ = 0;  // the entry that runs first
  int id_ = -1;
  torch::autograd::Node* node_ = nullptr;
  // What ops look at first, as it was when the pass began.
  c10::impl::LocalDispatchKeySet keys_ =
      c10::impl::tls_local_dispatch_key_set();
  c10::AutogradState modes_ = c10::AutogradState::get_tls_state();
  torch::autograd::variable_list spare_;  // memory for a node's inputs
  // The thread's state when the pass began, where code of the program runs.
  std::optional<at::ThreadLocalState> state_;
  std::vector<std::function<void()>> callbacks_;
  // Made when they are asked for.
  std::optional<ExecInfos> exec_infos_;
  std::optional<std::unordered_set<torch::autograd::Node*>> nodes_;
};

}  // namespace tjit::runtime
