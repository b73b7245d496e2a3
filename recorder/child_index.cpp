#include "recorder/child_index.h"

#include "recorder/step_shape.h"

namespace tjit {

void ChildIndex::AddByShape(TraceNode* node) {
  std::atomic<TraceNode*>& bucket =
      by_shape_[BucketOf(*node->parent, ShapeOf(node->step))];
  node->next_of_shape.store(bucket.load(std::memory_order_relaxed),
                            std::memory_order_relaxed);
  bucket.store(node, std::memory_order_release);
}

void ChildIndex::Add(TraceNode* node) {
  TraceNode* const parent = node->parent;
  TraceNode* const sibling =
      parent->first_child.load(std::memory_order_relaxed);
  Link* link = &parent->first_child;
  Link* new_bucket = nullptr;
  if (IsTop(*parent)) {
    link = roots_of_op_[node->step.op % kOpBuckets].load(
        std::memory_order_relaxed);
    if (link == nullptr) {
      link = new_bucket =
          behind_roots_ != nullptr ? behind_roots_ : &parent->first_child;
      behind_roots_ = &node->next_sibling;
    }
    AddByShape(node);
  } else if (sibling != nullptr) {
    const bool was_only =
        sibling->next_sibling.load(std::memory_order_relaxed) == nullptr;
    if (was_only) AddByShape(sibling);
    AddByShape(node);
  }
  node->next_sibling.store(link->load(std::memory_order_relaxed),
                           std::memory_order_relaxed);
  // Who sees the node finds it, too.
  if (new_bucket != nullptr) {
    roots_of_op_[node->step.op % kOpBuckets].store(new_bucket,
                                                   std::memory_order_release);
  }
  link->store(node, std::memory_order_release);
}

}  // namespace tjit
