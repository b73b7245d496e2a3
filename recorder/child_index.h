// Finds the children of a step: by their shape, and first steps by their op.
//
// Behind a step at which sizes part there are hundreds of children, and as many
// first steps of one op. A walk over all of them would miss the cache at each.
//
// Threads: Add() runs under the store's mutex; the others on any thread
// meanwhile, and see a node or do not see it yet.
// Tested by: tests/recorder/child_index_test.cpp
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "recorder/trace_node.h"

namespace tjit {

class ChildIndex {
 public:
  // Makes `node` a child of its parent. REQUIRES: it is complete.
  void Add(TraceNode* node);

  // The newest child of `parent` of this shape (step_shape.h) that accept(node)
  // holds for, or null. A shape only proposes; an only child is asked whatever
  // its shape, but for first steps.
  template <class Accept>
  TraceNode* Find(const TraceNode* parent, std::uint64_t shape,
                  Accept accept) const {
    TraceNode* n = parent->first_child.load(std::memory_order_acquire);
    if (n == nullptr) return nullptr;
    if (!IsTop(*parent) &&
        n->next_sibling.load(std::memory_order_acquire) == nullptr) {
      return accept(n) ? n : nullptr;
    }
    n = by_shape_[BucketOf(*parent, shape)].load(std::memory_order_acquire);
    while (n != nullptr && !(n->parent == parent && accept(n))) {
      n = n->next_of_shape.load(std::memory_order_acquire);
    }
    return n;
  }

  // Calls f(node) for the first steps that are of this op.
  template <class F>
  void ForEachRoot(OpId op, F f) const {
    const std::size_t bucket = op % kOpBuckets;
    const Link* const link =
        roots_of_op_[bucket].load(std::memory_order_acquire);
    if (link == nullptr) return;
    for (const TraceNode* n = link->load(std::memory_order_acquire);
         n != nullptr && n->step.op % kOpBuckets == bucket;
         n = n->next_sibling.load(std::memory_order_acquire)) {
      if (n->step.op == op) f(*n);
    }
  }

 private:
  using Link = std::atomic<TraceNode*>;
  static constexpr std::size_t kShapeBuckets = 4093, kOpBuckets = 251;

  static std::size_t BucketOf(const TraceNode& parent, std::uint64_t shape) {
    return (shape ^ parent.id * 0x9E3779B97F4A7C15ull) % kShapeBuckets;
  }
  // Of the node above all first steps.
  static bool IsTop(const TraceNode& node) { return node.parent == nullptr; }
  void AddByShape(TraceNode* node);

  // First steps, and children that have siblings.
  std::array<std::atomic<TraceNode*>, kShapeBuckets> by_shape_{};
  // First steps of the ops of a bucket follow one another by next_sibling, the
  // newest first. What leads to the first one of each bucket, if it has one.
  std::array<std::atomic<Link*>, kOpBuckets> roots_of_op_{};
  Link* behind_roots_ = nullptr;  // where the next bucket begins
};

}  // namespace tjit
