#include "runtime/thread/functions/inner_graph.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "runtime/call/node_kinds.h"

namespace tjit::internal {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

namespace {

// Hands on what flows along one edge that leaves a function's graph.
class ExitNode : public Node {
 public:
  explicit ExitNode(const Edge& to) : Node(edge_list{to}) {
    const torch::autograd::InputMetadata& takes =
        to.function->input_metadata(to.input_nr);
    input_metadata_.emplace_back(takes);
  }
  std::string name() const override { return "TjitExit"; }

 private:
  variable_list apply(variable_list&& gradients) override {
    return std::move(gradients);
  }
};

// Node::topological_nr_, which falls along each edge: engines leave out what
// lies deeper than all that is asked for. Only edges that a node has from the
// beginning raise it. (An explicit instantiation may name a private member.)
template <std::uint64_t Node::* kMember>
struct DepthMember {
  friend std::uint64_t& DepthOf(Node& node) { return node.*kMember; }
};
std::uint64_t& DepthOf(Node& node);
template struct DepthMember<&Node::topological_nr_>;

// True if it runs nothing of the program's. A write into a view is a node
// around that of the write.
bool IsPlainNode(Node* node, runtime::NodeKinds* kinds) {
  if (runtime::HasHooks(node) || !node->retains_grad_hooks().empty()) {
    return false;
  }
  switch (kinds->Of(*node)) {
    case runtime::NodeKind::kGenerated:
      return true;
    case runtime::NodeKind::kCopySlices: {
      Node* const inside =
          static_cast<torch::autograd::CopySlices*>(node)->fn.get();
      return inside != nullptr && IsPlainNode(inside, kinds);
    }
    default:
      return false;
  }
}

// A write into a view has the edges of the node within as well, but for the
// first, and libtorch asserts that they are the same.
void SetEdge(Node* node, std::size_t output, const Edge& edge) {
  node->next_edges()[output] = edge;
  auto* const write = dynamic_cast<torch::autograd::CopySlices*>(node);
  if (write != nullptr && output != 0) write->fn->next_edges()[output] = edge;
}

}  // namespace

bool InnerGraph::Read(c10::ArrayRef<at::Tensor> results, std::uint64_t first) {
  runtime::NodeKinds kinds;
  std::vector<Node*> inner;
  absl::flat_hash_set<const Node*> known;
  // Each thread counts by itself.
  const std::uint64_t thread = at::RecordFunction::currentThreadId();
  const auto is_inner = [&](const Edge& edge) {
    return edge.function != nullptr && edge.function->sequence_nr() >= first &&
           edge.function->thread_id() == thread &&
           kinds.Of(*edge.function) != runtime::NodeKind::kAccumulate;
  };
  const auto add = [&](const Edge& edge) {
    if (is_inner(edge) && known.insert(edge.function.get()).second) {
      inner.push_back(edge.function.get());
    }
  };
  for (const at::Tensor& t : results) {
    roots_.push_back(torch::autograd::impl::gradient_edge(t));
    if (!is_inner(roots_.back())) return false;
    add(roots_.back());
  }
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (!IsPlainNode(inner[i], &kinds)) return false;
    for (const Edge& edge : inner[i]->next_edges()) add(edge);
  }
  std::sort(inner.begin(), inner.end(), [](const Node* a, const Node* b) {
    return a->sequence_nr() < b->sequence_nr();
  });
  nodes_ = inner;
  for (Node* node : inner) {
    for (std::size_t i = node->num_outputs(); i-- > 0;) {
      const Edge edge = node->next_edge(i);
      if (edge.function == nullptr || is_inner(edge)) continue;
      exits_.push_back({c10::make_intrusive<ExitNode>(edge), node, i});
      SetEdge(node, i, Edge(exits_.back().node, 0));
    }
    ++DepthOf(*node);
  }
  std::reverse(exits_.begin(), exits_.end());
  return true;
}

void InnerGraph::Renumber(std::uint64_t first) {
  for (Node* node : nodes_) node->set_sequence_nr(first++);
}

edge_list InnerGraph::Outside() const {
  edge_list edges;
  for (const Exit& exit : exits_) edges.push_back(exit.node->next_edge(0));
  return edges;
}

bool InnerGraph::Uses(std::size_t i) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node* node) {
    const edge_list& edges = node->next_edges();
    return std::find(edges.begin(), edges.end(), roots_[i]) != edges.end();
  });
}

absl::flat_hash_set<const Node*> InnerGraph::ReachedFrom(
    std::size_t root) const {
  const absl::flat_hash_set<const Node*> within(nodes_.begin(), nodes_.end());
  std::vector<const Node*> nodes = {roots_[root].function.get()};
  absl::flat_hash_set<const Node*> reached(nodes.begin(), nodes.end());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const Edge& edge : nodes[i]->next_edges()) {
      const Node* const next = edge.function.get();
      if (next == nullptr || !reached.insert(next).second) continue;
      if (within.contains(next)) nodes.push_back(next);
    }
  }
  return reached;
}

std::vector<bool> InnerGraph::AreOfAll() const {
  std::vector<bool> are_of_all(exits_.size(), true);
  for (std::size_t r = 0; roots_.size() > 1 && r < roots_.size(); ++r) {
    const absl::flat_hash_set<const Node*> reached = ReachedFrom(r);
    const auto leads_to = [&](const Exit& exit) {
      return std::any_of(exits_.begin(), exits_.end(), [&](const Exit& other) {
        return other.node->next_edge(0) == exit.node->next_edge(0) &&
               reached.contains(other.node.get());
      });
    };
    for (std::size_t e = 0; e < exits_.size(); ++e) {
      if (!leads_to(exits_[e])) are_of_all[e] = false;
    }
  }
  return are_of_all;
}

std::vector<std::size_t> InnerGraph::Components() const {
  std::vector<std::size_t> components;
  std::vector<absl::flat_hash_set<const Node*>> reached;
  for (std::size_t r = 0; r < roots_.size(); ++r) {
    reached.push_back(ReachedFrom(r));
    components.push_back(r);
    for (std::size_t q = 0; q < r; ++q) {
      const bool is_one = std::any_of(
          reached[r].begin(), reached[r].end(),
          [&](const Node* node) { return reached[q].contains(node); });
      if (!is_one || components[q] == components[r]) continue;
      const std::size_t other = components[r];
      std::replace(components.begin(), components.end(), other, components[q]);
    }
  }
  return components;
}

variable_list InnerGraph::Run(const variable_list& gradients,
                              bool creates_graph) {
  edge_list roots, exits;
  variable_list inputs;
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    roots.push_back(roots_[i]);
    inputs.push_back(gradients[i]);
  }
  if (roots.empty()) return variable_list(exits_.size());
  for (const Exit& exit : exits_) exits.emplace_back(exit.node, 0);
  return torch::autograd::Engine::get_default_engine().execute(
      roots, inputs, /*keep_graph=*/true, creates_graph,
      /*accumulate_grad=*/false, exits);
}

edge_list InnerGraph::Open() {
  for (const Exit& exit : exits_) {
    SetEdge(exit.from, exit.output, exit.node->next_edge(0));
  }
  edge_list roots = std::move(roots_);
  Clear();
  return roots;
}

void InnerGraph::Clear() {
  roots_.clear();
  nodes_.clear();
  exits_.clear();
}

void SetDepth(std::size_t nodes, Node* node) {
  // Those within lie one deeper than they did, for their exits.
  constexpr std::uint64_t kExits = 2;
  DepthOf(*node) += nodes + kExits;
}

}  // namespace tjit::internal
