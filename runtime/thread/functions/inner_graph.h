// The graph for gradients that one call of a function has made: the nodes
// within, apart from what is around them. Threads: the owner's. Tested by:
// tests/runtime/thread/jit_graph_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/node.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace tjit::internal {

// The nodes that a call of the function has made.
class InnerGraph {
 public:
  using Node = torch::autograd::Node;

  // The graph behind `results`, which ask for gradients, as far as it has been
  // made since the thread's sequence number was `first`. The edges that leave
  // it go through nodes of its own from now on. False if it has nodes or hooks
  // of the program's.
  bool Read(c10::ArrayRef<at::Tensor> results, std::uint64_t first);
  std::size_t size() const { return nodes_.size(); }
  // Gives the nodes, in their order, the sequence numbers from `first` on.
  void Renumber(std::uint64_t first);
  // The edges that leave it, in the order in which the engine follows them.
  torch::autograd::edge_list Outside() const;
  // True if one of its nodes was made of result `i`, whose tensor it may keep.
  bool Uses(std::size_t i) const;
  // Of each: whether every result leads to where it goes.
  std::vector<bool> AreOfAll() const;
  // Of each result: the first whose graph shares a node with its own. Eager
  // runs backward passes through graphs that share none one after the other.
  std::vector<std::size_t> Components() const;
  // What flows along them. THROWS: what a node throws.
  torch::autograd::variable_list Run(
      const torch::autograd::variable_list& gradients, bool creates_graph);
  // Its edges lead outside again as they did. Returns its roots, by result.
  torch::autograd::edge_list Open();
  // The nodes are gone, but for those that somebody else has.
  void Clear();
  bool empty() const { return roots_.empty(); }

 private:
  // A node behind an edge that leaves the graph, and where that is.
  struct Exit {
    c10::intrusive_ptr<Node> node;
    Node* from;
    std::size_t output;
  };

  // The nodes of the graph of result `root`, and of its exits.
  absl::flat_hash_set<const Node*> ReachedFrom(std::size_t root) const;

  torch::autograd::edge_list roots_;  // of each result
  std::vector<Node*> nodes_;          // by sequence number
  std::vector<Exit> exits_;
};

// `node` is as deep as so many others, for which it stands.
void SetDepth(std::size_t nodes, torch::autograd::Node* node);

}  // namespace tjit::internal
