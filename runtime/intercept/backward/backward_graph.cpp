#include "runtime/intercept/backward/backward_graph.h"

#include <algorithm>
#include <utility>

namespace tjit::runtime {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;

bool TakesPlainGradients(const Node& node) {
  for (std::uint32_t i = 0; i < node.num_inputs(); ++i) {
    const torch::autograd::InputMetadata& input = node.input_metadata(i);
    if (input.was_default_constructed()) continue;  // never looked at
    if (!input.device().is_cpu() || input.is_tensor_subclass() ||
        input.is_nested_tensor()) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<BackwardReason> BackwardGraph::WhyNot(const Node& node) {
  // It asks libtorch's engine which nodes are needed, and adds to them.
  if (is_masked_ && kinds_.Of(node) == NodeKind::kCopySlices) {
    return BackwardReason::kViewWritten;
  }
  if (!TakesPlainGradients(node)) return BackwardReason::kNotPlain;
  return std::nullopt;
}

// Hooks of saved tensors cannot be seen. The node of an in-place write runs
// within a CopySlices, whose pointer to it another thread may take away.
bool BackwardGraph::RunsProgram(Node* node) {
  switch (kinds_.Of(*node)) {
    case NodeKind::kForeign:
    case NodeKind::kCopySlices:
      return true;
    case NodeKind::kAccumulate:
      if (node->tensor_post_acc_grad_hooks() != nullptr) return true;
      break;
    case NodeKind::kGenerated:
      break;
  }
  return HasHooks(node);
}

std::size_t BackwardGraph::BucketOf(const Node* node) const {
  constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15ull;
  const std::size_t mask = buckets_.size() - 1;
  std::size_t i =
      (reinterpret_cast<std::uintptr_t>(node) * kPrime >> 32) & mask;
  while (buckets_[i] != kNowhere &&
         entries_[static_cast<std::size_t>(buckets_[i])].node != node) {
    i = (i + 1) & mask;
  }
  return i;
}

std::int32_t BackwardGraph::Find(const Node* node) const {
  return size_ == 0 ? kNowhere : buckets_[BucketOf(node)];
}

void BackwardGraph::Grow() {
  buckets_.assign(std::max<std::size_t>(64, 2 * buckets_.size()), kNowhere);
  for (std::size_t i = 0; i < size_; ++i) {
    const std::size_t bucket = BucketOf(entries_[i].node);
    buckets_[bucket] = static_cast<std::int32_t>(i);
    entries_[i].bucket = static_cast<std::uint32_t>(bucket);
  }
}

std::int32_t BackwardGraph::Add(Node* node) {
  if (2 * size_ >= buckets_.size()) Grow();
  const std::size_t bucket = BucketOf(node);
  if (buckets_[bucket] != kNowhere) return buckets_[bucket];
  if (size_ == entries_.size()) entries_.emplace_back();
  Entry& e = entries_[size_];
  e.node = node;
  e.bucket = static_cast<std::uint32_t>(bucket);
  e.first_edge = 0;
  e.edges = 0;
  e.runs_program = false;
  e.waits_for = 0;
  e.is_needed = !is_masked_;
  e.is_captured = false;
  buckets_[bucket] = static_cast<std::int32_t>(size_++);
  return buckets_[bucket];
}

std::optional<BackwardReason> BackwardGraph::Read(const edge_list& roots,
                                                  const edge_list& outputs,
                                                  bool accumulates) {
  is_masked_ = !outputs.empty();
  // What lies deeper than all outputs is no way to any of them.
  std::uint64_t least_depth = 0;
  if (is_masked_) {
    least_depth = ~std::uint64_t{0};
    for (const Edge& output : outputs) {
      if (output.function == nullptr) return BackwardReason::kRefused;
      least_depth = std::min(least_depth, output.function->topological_nr());
    }
  }
  for (const Edge& root : roots) Add(root.function.get());
  // Entries are their own list of what is still to be read.
  for (std::size_t i = 0; i < size_; ++i) {
    Node* node = entries_[i].node;
    if (const auto why = WhyNot(*node)) return why;
    const bool runs_program = RunsProgram(node);
    runs_program_ = runs_program_ || runs_program;
    entries_[i].runs_program = runs_program;
    ReadEdges(i, node->topological_nr() < least_depth);
  }
  if (is_masked_) FindNeeded(outputs, accumulates);
  return std::nullopt;
}

void BackwardGraph::ReadEdges(std::size_t i, bool ends_here) {
  const edge_list& edges = entries_[i].node->next_edges();
  entries_[i].first_edge = static_cast<std::uint32_t>(targets_.size());
  entries_[i].edges = static_cast<std::uint32_t>(edges.size());
  for (const Edge& edge : edges) {
    std::int32_t target = kNowhere;
    if (edge.function != nullptr && !ends_here) {
      target = Add(edge.function.get());
      ++entries_[static_cast<std::size_t>(target)].waits_for;
    }
    targets_.push_back(target);
  }
}

std::int32_t BackwardGraph::AddAbove(Node* top) {
  const std::int32_t added = Add(top);
  ReadEdges(static_cast<std::size_t>(added), /*ends_here=*/false);
  if (is_masked_) FindWhetherNeeded(&entries_[static_cast<std::size_t>(added)]);
  return added;
}

// A node is needed if a way leads from it to an output. Along each edge the
// topological number falls, so what an edge leads to is settled first.
void BackwardGraph::FindNeeded(const edge_list& outputs, bool accumulates) {
  for (const Edge& output : outputs) {
    const std::int32_t found = Find(output.function.get());
    if (!accumulates) captures_.push_back({found, output.input_nr});
    if (found == kNowhere) continue;
    Entry& e = entries_[static_cast<std::size_t>(found)];
    if (accumulates) {
      e.is_needed = true;
    } else {
      e.is_captured = true;
    }
  }
  by_depth_.resize(size_);
  for (std::uint32_t i = 0; i < size_; ++i) by_depth_[i] = i;
  std::sort(by_depth_.begin(), by_depth_.end(),
            [&](std::uint32_t a, std::uint32_t b) {
              return entries_[a].node->topological_nr() <
                     entries_[b].node->topological_nr();
            });
  for (const std::uint32_t i : by_depth_) FindWhetherNeeded(&entries_[i]);
}

void BackwardGraph::FindWhetherNeeded(Entry* e) const {
  for (std::size_t k = 0; k < e->edges && !e->is_needed; ++k) {
    const std::int32_t target = TargetOf(*e, k);
    e->is_needed = target != kNowhere &&
                   IsWanted(entries_[static_cast<std::size_t>(target)]);
  }
}

void BackwardGraph::Clear() {
  constexpr std::size_t kKept = 4096;  // entries
  for (std::size_t i = 0; i < size_; ++i) {
    entries_[i].has_inputs = false;
    entries_[i].inputs.clear();
    buckets_[entries_[i].bucket] = kNowhere;
  }
  size_ = 0;
  runs_program_ = false;
  captures_.clear();
  targets_.clear();
  if (entries_.size() <= kKept) return;
  entries_ = {};
  buckets_ = {};
  targets_ = {};
  by_depth_ = {};
}

}  // namespace tjit::runtime
