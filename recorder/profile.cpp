#include "recorder/profile.h"

#include <algorithm>
#include <utility>

#include "recorder/step_shape.h"
#include "recorder/trace.h"
#include "recorder/trace_verifier.h"
#include "support/assert.h"

namespace tjit {
namespace {

bool SameAccess(const TensorGeometry& a, const TensorGeometry& b) {
  TensorGeometry copy = b;
  copy.offset = a.offset;
  return a == copy;
}

bool ResemblesArg(const ArgRecord& a, const ArgRecord& b) {
  return a.slot == b.slot && a.written == b.written &&
         SameAccess(a.geometry, b.geometry);
}

// A value that may vary stands for all of its class. The class of one that may
// not is not in the text of a profile.
bool ResemblesScalar(const ScalarRecord& a, const ScalarRecord& b) {
  if (a.may_vary != b.may_vary) return false;
  if (!a.may_vary) return a.value.SameBits(b.value);
  return a.value_class == b.value_class && a.value.type == b.value.type;
}

bool ResemblesResult(const ResultRecord& a, const ResultRecord& b) {
  return a.kind == b.kind && a.slot == b.slot && a.alias_arg == b.alias_arg &&
         SameAccess(a.geometry, b.geometry);
}

// The slots that are new with each step. REQUIRES: the path is sound.
std::vector<std::vector<SlotRecord>> NewSlots(const KnownPath& path) {
  std::vector<std::vector<SlotRecord>> all;
  std::size_t count = 0;
  const auto take = [&](std::int32_t slot) {
    if (slot != static_cast<std::int32_t>(count)) return;
    all.back().push_back(path.slots[count++]);
  };
  for (const StepRecord& step : path.steps) {
    all.emplace_back();
    for (const ArgRecord& arg : step.args) take(arg.slot);
    for (const ResultRecord& result : step.results) take(result.slot);
  }
  return all;
}

// New numbers of the slots, one for each storage; empty if they are the same.
std::vector<std::int32_t> JoinPlaces(const std::vector<SlotRecord>& slots) {
  std::vector<std::int32_t> joined;
  std::int32_t next = 0;
  for (const SlotRecord& slot : slots) {
    const auto number = static_cast<std::int32_t>(joined.size());
    const bool is_again = slot.is_place() && slot.place_of < number;
    joined.push_back(is_again ? joined[static_cast<std::size_t>(slot.place_of)]
                              : next++);
  }
  if (next == static_cast<std::int32_t>(joined.size())) joined.clear();
  return joined;
}

void RecordJoined(const std::vector<std::int32_t>& joined, KnownNode* node) {
  if (joined.empty() || !node->joined.empty()) return;
  const auto add = [&](std::int32_t slot) {
    node->joined.push_back(slot < 0 ? slot
                                    : joined[static_cast<std::size_t>(slot)]);
  };
  for (const ArgRecord& arg : node->step.args) add(arg.slot);
  for (const ResultRecord& result : node->step.results) add(result.slot);
}

// REQUIRES: node.joined is not empty.
StepRecord Joined(const KnownNode& node) {
  StepRecord step = CopyOf(node.step);
  const std::int32_t* slot = node.joined.data();
  for (ArgRecord& arg : step.args) arg.slot = *slot++;
  for (ResultRecord& result : step.results) result.slot = *slot++;
  return step;
}

void MergeScalars(const StepRecord& from, StepRecord* into) {
  for (std::size_t i = 0; i < into->scalars.size(); ++i) {
    if (from.scalars[i].IsRuntime()) into->scalars[i].MarkRuntime();
  }
}

// Storages of other sizes, which accesses of other offsets lie in: each is as
// long as the longest, so that all of them do. REQUIRES: the steps resemble.
void MergeSlots(const std::vector<SlotRecord>& from,
                std::vector<SlotRecord>* into) {
  TJIT_ASSERT(from.size() == into->size());
  for (std::size_t i = 0; i < into->size(); ++i) {
    (*into)[i].bytes = std::max((*into)[i].bytes, from[i].bytes);
  }
}

void MergeSegments(const std::vector<ProfileSegment>& from, KnownNode* node) {
  for (const ProfileSegment& segment : from) {
    if (node->segments.size() >= Profile::kMaxSegmentsPerNode) return;
    if (std::find(node->segments.begin(), node->segments.end(), segment) ==
        node->segments.end()) {
      node->segments.push_back(segment);
    }
  }
}

}  // namespace

bool Resembles(const StepRecord& step, const StepRecord& known) {
  return step.op == known.op && step.kind == known.kind &&
         step.context == known.context && step.statics == known.statics &&
         SameList(step.args, known.args, ResemblesArg) &&
         SameList(step.scalars, known.scalars, ResemblesScalar) &&
         SameList(step.results, known.results, ResemblesResult);
}

std::string Profile::Add(KnownPath path) {
  if (path.steps.empty()) return "it has no steps";
  std::vector<const StepRecord*> records;
  for (const StepRecord& step : path.steps) records.push_back(&step);
  const std::vector<std::string> broken = VerifyPath(records, path.slots);
  if (!broken.empty()) return broken.front();
  if (nodes_.size() + path.steps.size() > kMaxNodes ||
      steps_ + path.steps.size() > kMaxSteps) {
    return "there is no room";
  }
  std::vector<std::vector<SlotRecord>> slots = NewSlots(path);
  const std::vector<std::int32_t> joined = JoinPlaces(path.slots);
  path.segments.resize(path.steps.size());
  KnownNode* node = nullptr;
  KnownNode* root = nullptr;
  for (std::size_t i = 0; i < path.steps.size(); ++i) {
    KnownNode* next = Next(node, path.steps[i]);
    if (next == nullptr) {
      next = &nodes_.emplace_back();
      next->parent = node;
      next->depth = static_cast<std::uint32_t>(i);
      next->new_slots = std::move(slots[i]);
      next->step = std::move(path.steps[i]);
      if (node != nullptr) node->children.push_back(next);
      if (node == nullptr) roots_[ShapeOf(next->step)].push_back(next);
    } else {
      MergeScalars(path.steps[i], &next->step);
      MergeSlots(slots[i], &next->new_slots);
    }
    MergeSegments(path.segments[i], next);
    RecordJoined(joined, next);
    node = next;
    if (i == 0) root = node;
  }
  if (!path.at_boundary) root->anywhere = true;
  root->longest = std::max(root->longest, path.steps.size());
  const OpId op = root->step.op;
  if (op >= root_ops_.size()) root_ops_.resize(op + 1, false);
  root_ops_[op] = true;
  if (node->ends) return "";
  node->ends = true;
  steps_ += path.steps.size();
  node->at_boundary = path.at_boundary;
  ends_.push_back(node);
  return "";
}

const std::vector<KnownNode*>* Profile::RootsOf(std::uint64_t shape) const {
  const auto found = roots_.find(shape);
  return found == roots_.end() ? nullptr : &found->second;
}

const std::vector<KnownNode*>* Profile::After(const KnownNode* from,
                                              const StepRecord& step) const {
  return from == nullptr ? RootsOf(ShapeOf(step)) : &from->children;
}

KnownNode* Profile::Next(const KnownNode* from, const StepRecord& step) const {
  const std::vector<KnownNode*>* all = After(from, step);
  if (all == nullptr) return nullptr;
  for (KnownNode* node : *all) {
    if (Resembles(step, node->step)) return node;
  }
  return nullptr;
}

KnownNode* Profile::NextRecorded(const KnownNode* from,
                                 const StepRecord& step) const {
  if (KnownNode* node = Next(from, step)) return node;
  const std::vector<KnownNode*>* all = After(from, step);
  if (all == nullptr) return nullptr;
  for (KnownNode* node : *all) {
    if (!node->joined.empty() && Resembles(step, Joined(*node))) return node;
  }
  return nullptr;
}

const KnownNode* Profile::Find(
    const std::vector<const StepRecord*>& steps) const {
  const KnownNode* node = nullptr;
  for (const StepRecord* step : steps) {
    node = Next(node, *step);
    if (node == nullptr) return nullptr;
  }
  return node;
}

KnownPath Profile::PathTo(const KnownNode* end) {
  std::vector<const KnownNode*> nodes;
  for (const KnownNode* n = end; n != nullptr; n = n->parent) {
    nodes.push_back(n);
  }
  std::reverse(nodes.begin(), nodes.end());
  KnownPath path;
  path.at_boundary = end->at_boundary;
  for (const KnownNode* node : nodes) {
    path.steps.push_back(node->step);
    path.slots.insert(path.slots.end(), node->new_slots.begin(),
                      node->new_slots.end());
    path.segments.push_back(node->segments);
  }
  return path;
}

}  // namespace tjit
