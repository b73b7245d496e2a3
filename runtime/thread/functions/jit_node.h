// The node that stands for a call of a function in the graph of gradients: Note
// [Results with a graph] in gradient_graph.h.
//
// Ownership: the results' tensors own the node, which keeps arguments and what
// the call has made, as the nodes within do in eager.
// Threads: as libtorch's nodes: one backward pass at a time runs it.
// Tested by: tests/runtime/thread/jit_graph_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/node.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/thread/functions/function_plan.h"
#include "runtime/thread/functions/inner_graph.h"
#include "runtime/thread/functions/jit_core.h"

namespace tjit::internal {

// Of one recorded way of a function.
struct GradientWays {
  explicit GradientWays(const JitOptions& options);

  JitCore backward;  // the nodes within, as a function
  // Of each call. Under the mutex of the function's JitCore.
  std::vector<runtime::GradientUse> uses;
  // Backward passes of replayed calls that ran the function again.
  std::atomic<int> again{0};
  // Of calls that ran it: those in a row that would have been replayed, and
  // those in a row that would not.
  std::atomic<int> served{0}, missed{0};
  // Passes came through components of one graph, one after the other.
  std::atomic<bool> are_separate{false};
};

// What a call had and made, as its backward pass takes it.
struct CallValues {
  std::vector<at::Tensor> arguments;
  std::vector<double> numbers;
  std::vector<at::Tensor> living;
  // Of arguments, living tensors and captured storages, behind the call.
  std::vector<std::uint32_t> versions;

  CallValues() = default;
  CallValues(const runtime::FunctionPlan& plan,
             std::vector<at::Tensor> arguments, std::vector<double> numbers,
             std::vector<at::Tensor> living);
};

// Of a call that ran: what becomes of its plan when the graph is gone.
struct WaitingPlan {
  // Null: it is published.
  std::unique_ptr<runtime::FunctionPlan> plan;
  const runtime::FunctionPlan* before = nullptr;
  std::uint64_t form = 0;
  // The results that it has made, with the owners that their storages had
  // before somebody else was given them.
  struct Made {
    at::Tensor tensor;
    std::size_t owners = 0;
  };
  std::vector<Made> made;
  // What it has made of numbers, and the graph keeps.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> numbers;
};

class JitNode : public torch::autograd::Node {
 public:
  JitNode(std::shared_ptr<JitCore> core, std::shared_ptr<GradientWays> ways,
          const runtime::FunctionPlan* plan, CallValues values)
      : core_(std::move(core)),
        ways_(std::move(ways)),
        plan_(plan),
        values_(std::move(values)) {
    alive_.fetch_add(1, std::memory_order_relaxed);
  }
  ~JitNode() override;

  // True if a pass may have nodes to open, or to leave out.
  static bool HasAny(bool creates_graph) {
    return (creates_graph ? alive_ : opened_).load(std::memory_order_relaxed) !=
           0;
  }
  // A backward pass from `roots` is about to begin, which asks for `outputs`.
  // The nodes within take the place of such nodes, and edges of the two lists
  // follow: of all if the pass creates a graph, else of those that have been
  // opened before. THROWS: what functions throw that run again, and why they
  // cannot.
  static void OpenBehind(bool creates_graph,
                         torch::autograd::edge_list* roots,
                         torch::autograd::edge_list* outputs);

  // A result that asks for gradients, in their order.
  void AddResult(const at::Tensor& t);
  std::string name() const override { return "TjitBackward"; }
  void release_variables() override;

  // Of a call that ran.
  void SetGraph(InnerGraph graph, WaitingPlan waiting);
  // Of a replayed one, whose nodes would have had the sequence numbers from
  // `first` on. `run`: runs the function again, and returns its results.
  void SetFirst(std::uint64_t first, runtime::GeneratorMoves moves) {
    first_ = first;
    moves_ = std::move(moves);
  }
  void SetRunAgain(std::function<std::vector<at::Tensor>()> run) {
    run_again_ = std::move(run);
  }

 private:
  torch::autograd::variable_list apply(
      torch::autograd::variable_list&& gradients) override;
  void NoteComponents(const torch::autograd::variable_list& gradients);
  bool ReleasesAll();
  void Release();
  bool RunByPlan(const torch::autograd::variable_list& gradients,
                 torch::autograd::variable_list* flows);
  void RunAgain();
  void Open();
  static void Follow(bool opens, torch::autograd::Edge* edge);
  void CheckVersions(const runtime::FunctionPlan* backward) const;
  bool IsWrittenSince(std::size_t l) const;
  void BumpWritten(c10::ArrayRef<at::Tensor> results) const;
  bool HasSameResults(c10::ArrayRef<at::Tensor> results) const;
  bool HasHooks();
  void Decide(bool is_all_gone);

  static std::atomic<std::int64_t> alive_, opened_;

  const std::shared_ptr<JitCore> core_;
  const std::shared_ptr<GradientWays> ways_;
  const runtime::FunctionPlan* plan_;
  std::uint64_t first_ = 0;
  runtime::GeneratorMoves moves_;
  CallValues values_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> results_;
  InnerGraph graph_;
  WaitingPlan waiting_;
  std::function<std::vector<at::Tensor>()> run_again_;
  // Where the graph has several components: whether they were released, and
  // whether the last pass came through them.
  std::vector<bool> released_, passed_;
  bool is_open_ = false;  // the nodes within are those of the program's graph
  bool is_served_ = false;
  bool is_released_ = false;
};

// The part of a JitCall that gives its results their node.
class GraphCalls {
 public:
  explicit GraphCalls(JitCall* call) : call_(*call) {}

  // The function has run. False, and the session's reason: it is to be refused.
  bool Keep(JitSession* session, std::unique_ptr<runtime::FunctionPlan> plan);
  // It was replayed. `made`: what the replay has made; `moves`: of the
  // generator.
  void Keep(const runtime::FunctionPlan& plan, c10::ArrayRef<at::Tensor> made,
            runtime::GeneratorMoves moves);

 private:
  runtime::Refusal ReadGraph(const JitSession& session,
                             const runtime::FunctionPlan& plan,
                             InnerGraph* graph);
  std::vector<at::Tensor> Arguments() const;
  std::vector<double> Numbers(const runtime::FunctionPlan& plan) const;
  std::shared_ptr<GradientWays> WaysOf(const runtime::FunctionPlan& plan);
  void GiveNode(const runtime::FunctionPlan& plan,
                const c10::intrusive_ptr<JitNode>& node);

  JitCall& call_;
};

}  // namespace tjit::internal
