#include "runtime/intercept/backward/backward_graph.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <typeinfo>
#include <utility>


namespace tjit::runtime {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;

NodeKind KindOf(const std::type_info& type) {
  if (type == typeid(AccumulateGrad)) return NodeKind::kAccumulate;
  if (type == typeid(torch::autograd::CopySlices)) return NodeKind::kCopySlices;
  const bool is_plain =
      type == typeid(torch::autograd::CopyBackwards) ||
      type == typeid(torch::autograd::GraphRoot) ||
      type == typeid(torch::autograd::UndefinedGrad) ||
      std::string_view(type.name()).starts_with("N5torch8autograd9generated");
  return is_plain ? NodeKind::kGenerated : NodeKind::kForeign;
}

// Hooks of the program. Those of retain_grad() are libtorch's own.
bool HasHooks(Node* node) {
  return !node->pre_hooks().empty() || !node->post_hooks().empty() ||
         !node->tensor_pre_hooks().empty();
}

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

NodeKind NodeKinds::Of(const Node& node) {
  const void* table = nullptr;
  std::memcpy(&table, static_cast<const void*>(&node), sizeof table);
  Known& known =
      known_[reinterpret_cast<std::uintptr_t>(table) / 16 % known_.size()];
  if (known.table != table) known = {table, KindOf(typeid(node))};
  return known.kind;
}

std::optional<BackwardReason> BackwardGraph::WhyNot(const Node& node) {
  // It asks libtorch's engine which nodes are needed, and adds to them.
  if (is_masked_ && kinds_.Of(node) == NodeKind::kCopySlices) {
    return BackwardReason::kViewWritten;
  }
  if (!TakesPlainGradients(node)) return BackwardReason::kNotPlain;
  return std::nullopt;
}

// Hooks of saved tensors cannot be seen.
bool BackwardGraph::RunsProgram(Node* node) {
  switch (kinds_.Of(*node)) {
    case NodeKind::kForeign:
      return true;
    case NodeKind::kAccumulate:
      if (node->tensor_post_acc_grad_hooks() != nullptr) return true;
      break;
    case NodeKind::kCopySlices: {
      // The node of the write runs within; it is gone after a first pass.
      const Node* write =
          static_cast<const torch::autograd::CopySlices*>(node)->fn.get();
      if (write != nullptr && kinds_.Of(*write) == NodeKind::kForeign) {
        return true;
      }
      break;
    }
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
    buckets_[BucketOf(entries_[i].node)] = static_cast<std::int32_t>(i);
  }
}

std::int32_t BackwardGraph::Add(Node* node) {
  if (2 * size_ >= buckets_.size()) Grow();
  std::int32_t& bucket = buckets_[BucketOf(node)];
  if (bucket != kNowhere) return bucket;
  if (size_ == entries_.size()) entries_.emplace_back();
  Entry& e = entries_[size_];
  e.node = node;
  e.first_edge = 0;
  e.waits_for = 0;
  e.is_needed = !is_masked_;
  e.is_captured = false;
  bucket = static_cast<std::int32_t>(size_++);
  return bucket;
}

std::optional<BackwardReason> BackwardGraph::Read(Node* root,
                                                  const edge_list& outputs,
                                                  bool accumulates) {
  is_masked_ = !outputs.empty();
  // What lies deeper than all outputs is no way to any of them.
  std::uint64_t least_depth = 0;
  if (is_masked_) {
    least_depth = ~std::uint64_t{0};
    for (const Edge& output : outputs) {
      if (output.function == nullptr) return BackwardReason::kUnreached;
      least_depth = std::min(least_depth, output.function->topological_nr());
    }
    if (root->topological_nr() < least_depth) return BackwardReason::kUnreached;
  }
  Add(root);
  // Entries are their own list of what is still to be read.
  for (std::size_t i = 0; i < size_; ++i) {
    Node* node = entries_[i].node;
    if (const auto why = WhyNot(*node)) return why;
    const bool runs_program = RunsProgram(node);
    entries_[i].runs_program = runs_program;
    runs_program_ = runs_program_ || runs_program;
    entries_[i].first_edge = static_cast<std::uint32_t>(targets_.size());
    const bool ends_here = node->topological_nr() < least_depth;
    for (const Edge& edge : node->next_edges()) {
      std::int32_t target = kNowhere;
      if (edge.function != nullptr && !ends_here) {
        target = Add(edge.function.get());
        ++entries_[static_cast<std::size_t>(target)].waits_for;
      }
      targets_.push_back(target);
    }
  }
  if (is_masked_) FindNeeded(outputs, accumulates);
  return std::nullopt;
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
  for (const std::uint32_t i : by_depth_) {
    Entry& e = entries_[i];
    const std::size_t count = e.node->num_outputs();
    for (std::size_t k = 0; k < count && !e.is_needed; ++k) {
      const std::int32_t target = TargetOf(e, k);
      e.is_needed = target != kNowhere &&
                    IsWanted(entries_[static_cast<std::size_t>(target)]);
    }
  }
  entries_[0].is_needed = true;  // the root, as libtorch has it
}

void BackwardGraph::Clear() {
  constexpr std::size_t kKept = 4096;  // entries
  for (std::size_t i = 0; i < size_; ++i) {
    if (!entries_[i].has_inputs) continue;
    entries_[i].has_inputs = false;
    entries_[i].inputs.clear();
  }
  size_ = 0;
  runs_program_ = false;
  captures_.clear();
  targets_.clear();
  if (entries_.size() > kKept) {
    entries_ = {};
    buckets_ = {};
    targets_ = {};
    by_depth_ = {};
  }
  std::fill(buckets_.begin(), buckets_.end(), kNowhere);
}

}  // namespace tjit::runtime
