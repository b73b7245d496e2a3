// What is known of the gradients of a function whose results keep a graph.
//
// Note [Results with a graph]. Under JitOptions::gradients the results of a
// function may ask for gradients. A call that runs the function gives the graph
// that the function made to one node (JitNode in jit_node.h), which stands for
// it in the program's graph: it has an edge for each edge that leaves the
// function's own graph, in the order in which libtorch's engine would have
// followed them, so that gradients are added in eager's order. When a backward
// pass comes to the node, the nodes within run and are recorded as a function
// of their own: from gradients, arguments and all that the call has made and
// that lives, to a gradient for each edge. A replay makes the node without
// those within, and keeps what it has made; the backward pass is replayed then.
//
// A way is replayed when (1) a backward pass through a call of it was one that
// would have been replayed, and (2) nothing that the call has made lives on
// when the graph is gone but its results. A backward pass that was never seen
// (other gradients, create_graph) runs the function again, which makes the
// graph: so nothing that it takes may have changed, as eager asks of what it
// has saved. What it draws and writes: Note [Run again] in run_again.h.
//
// Under create_graph the nodes within take the place of the one that stands for
// them before the pass begins: the pass adds nodes to their graph, and the
// order of all of them, and of each sum, has to be eager's. Nodes of a graph
// that is made again get the sequence numbers that the replay has left out for
// them. Threads: a plan does not change; GradientWays: any. Tested by:
// tests/runtime/thread/jit_graph_test.cpp
#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tjit::internal {
struct GradientWays;
}

namespace tjit::runtime {

// An edge that leaves the function's graph.
struct GradientUse {
  std::int32_t argument = -1;  // it is the one of this argument
  // Else of this leaf, which the function has found by itself.
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> leaf;
  bool is_of_all = true;  // each result with a graph leads to it

  bool operator==(const GradientUse& other) const {
    return argument == other.argument && is_of_all == other.is_of_all &&
           leaf.has_value() == other.leaf.has_value() &&
           (!leaf ||
            leaf->_unsafe_get_target() == other.leaf->_unsafe_get_target());
  }
};

// Of a plan.
struct FunctionGradients {
  std::vector<GradientUse> uses;
  std::size_t nodes = 0;  // how many the graph has
  // Of each result with a graph: see InnerGraph::Components().
  std::vector<std::size_t> components;
  // What lives when the function has returned, of what a replay makes.
  std::vector<std::uint32_t> living;
};

}  // namespace tjit::runtime
