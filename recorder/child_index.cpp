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
  if (IsTop(*parent)) {
    std::atomic<Link*>& of_op = roots_of_op_[node->step.op % kOpBuckets];
    link = of_op.load(std::memory_order_relaxed);
    if (link == nullptr) {
      link = behind_roots_ != nullptr ? behind_roots_ : &parent->first_child;
      behind_roots_ = &node->next_sibling;
      of_op.store(link, std::memory_order_release);
    }
  } else if (sibling != nullptr &&
             sibling->next_sibling.load(std::memory_order_relaxed) == nullptr) {
    AddByShape(sibling);  // it was an only child
  }
  if (IsTop(*parent) || sibling != nullptr) AddByShape(node);
  node->next_sibling.store(link->load(std::memory_order_relaxed),
                           std::memory_order_relaxed);
  link->store(node, std::memory_order_release);  // who sees it finds it, too
}

}  // namespace tjit
