// The nodes that one backward pass reaches, in a flat table.
//
// What it answers: whether a graph may be run here at all, how many gradients
// each node waits for, which nodes a grad() call needs, and where the outputs
// of a node go. Memory is kept from pass to pass, so that a step of training
// allocates nothing here, up to some thousand nodes.
//
// Invariant: nothing of a graph is changed, and no node is kept alive; the
// roots that the caller holds do that.
// Thread: one thread's.
// Tested by: tests/runtime/intercept/backward_order_test.cpp
// Source: GraphTask::init_to_execute() and Engine::compute_dependencies() of
// libtorch 2.13.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/node.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/call/node_kinds.h"
#include "support/bail.h"

namespace tjit::runtime {

class BackwardGraph {
 public:
  static constexpr std::int32_t kNowhere = -1;

  struct Entry {
    torch::autograd::Node* node = nullptr;
    std::uint32_t bucket = 0;      // in buckets_
    std::uint32_t first_edge = 0;  // in targets_
    std::uint32_t edges = 0;       // that were there when the graph was read
    std::int32_t waits_for = 0;    // edges whose gradient is to come
    bool runs_program = false;     // code of the program: hooks, functions
    bool is_needed = false;        // runs; all do in backward()
    bool is_captured = false;      // what comes in is a result of grad()
    bool has_inputs = false;       // `inputs` are this pass's
    torch::autograd::variable_list inputs;
  };
  struct Capture {
    std::int32_t entry;
    std::uint32_t input;
  };

  // Reads the graph below `roots`; the first has entry 0. `outputs`: what
  // grad() or backward(inputs=) asks for; empty for all leaves. Returns why it
  // cannot be run here.
  std::optional<BackwardReason> Read(const torch::autograd::edge_list& roots,
                                     const torch::autograd::edge_list& outputs,
                                     bool accumulates);
  // Adds a node that leads to nothing but what was read. Returns its entry.
  std::int32_t AddAbove(torch::autograd::Node* top);
  // Forgets the nodes and lets go of all gradients.
  void Clear();

  std::size_t size() const { return size_; }
  Entry& entry(std::size_t i) { return entries_[i]; }
  // True if code of the program runs in one of the nodes.
  bool runs_program() const { return runs_program_; }
  // True if only some nodes are needed: grad() and backward(inputs=).
  bool is_masked() const { return is_masked_; }
  // Where output `i` of the node goes: an entry, or kNowhere. REQUIRES: i <
  // entry.edges.
  std::int32_t TargetOf(const Entry& entry, std::size_t i) const {
    return targets_[entry.first_edge + i];
  }
  // True if a gradient for this entry is of use.
  static bool IsWanted(const Entry& e) { return e.is_needed || e.is_captured; }
  // The entry of a node; kNowhere if it is none of the graph's.
  std::int32_t Find(const torch::autograd::Node* node) const;
  // The results of grad(), in its order.
  std::span<const Capture> captures() const { return captures_; }

 private:
  std::int32_t Add(torch::autograd::Node* node);
  void Grow();
  std::size_t BucketOf(const torch::autograd::Node* node) const;
  std::optional<BackwardReason> WhyNot(const torch::autograd::Node& node);
  bool RunsProgram(torch::autograd::Node* node);
  void ReadEdges(std::size_t i, bool ends_here);
  void FindWhetherNeeded(Entry* e) const;
  void FindNeeded(const torch::autograd::edge_list& outputs, bool accumulates);

  NodeKinds kinds_;
  std::vector<Entry> entries_;  // the first size_; the others keep memory
  std::size_t size_ = 0;
  bool is_masked_ = false;
  bool runs_program_ = false;
  std::vector<std::int32_t> targets_;
  std::vector<std::int32_t> buckets_;  // of a hash table: entry, or kNowhere
  std::vector<Capture> captures_;
  std::vector<std::uint32_t> by_depth_;
};

}  // namespace tjit::runtime
