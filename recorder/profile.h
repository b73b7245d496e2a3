// Sequences that were hot in earlier processes, as a hint for this one.
//
// A trie of its own beside the trace store, immutable once it is in use. A
// capture that walks it from a root to an end has recorded a sequence that was
// hot before; the records that are kept are the capture's own. So a profile
// decides when something is promoted, never what: steps are compared loosely
// (where in its storage a tensor begins, and scalars that may vary, are left
// out), and a wrong profile costs time only.
//
// Invariants: (1) Children of a node do not resemble one another. (2) At most
// kMaxNodes nodes, and kMaxSteps steps of all paths together, since each path
// is written out in full. (3) Every path passes VerifyPath(), as it was added
// and as PathTo() gives it: a step that several share has the offsets of the
// first, and slots as long as the longest.
// Thread: any, after the last Add().
// Tested by: tests/recorder/profile_test.cpp, profile_random_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/op_record.h"

namespace tjit {

// A part of a path that was compiled: its deferred steps from depth `begin` to
// the node that holds this.
struct ProfileSegment {
  std::uint32_t begin = 0;
  std::vector<std::uint32_t> live;     // slots that outlived it, ascending
  std::vector<std::uint32_t> dropped;  // deferred steps that did not run
  bool operator==(const ProfileSegment&) const = default;
};

struct KnownNode {
  StepRecord step;
  std::vector<SlotRecord> new_slots;
  KnownNode* parent = nullptr;  // null: a first step
  std::uint32_t depth = 0;
  bool ends = false;         // a sequence is complete here
  bool at_boundary = false;  // it begins only behind a sync or mark_step
  bool anywhere = false;     // first steps: some sequence begins anywhere
  std::size_t longest = 0;   // first steps: of the sequences that begin here
  std::vector<KnownNode*> children;
  std::vector<ProfileSegment> segments;
  // Slots of the arguments and then of the results with one number for each
  // storage, as a recorder has them before SplitPlaces(); empty: as in `step`.
  std::vector<std::int32_t> joined;
};

// One sequence.
struct KnownPath {
  bool at_boundary = false;
  std::vector<StepRecord> steps;
  std::vector<SlotRecord> slots;
  // By step; may be shorter than `steps`.
  std::vector<std::vector<ProfileSegment>> segments;
};

// True if a recorded step is one that the profile knows.
bool Resembles(const StepRecord& step, const StepRecord& known);

class Profile {
 public:
  static constexpr std::size_t kMaxNodes = 100000;
  static constexpr std::size_t kMaxSteps = 100000;
  static constexpr std::size_t kMaxSegmentsPerNode = 8;

  Profile() = default;
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Adds the path. Returns "" or why not: a broken rule, no room.
  std::string Add(KnownPath path);

  // True if some sequence begins with `op`.
  bool IsRootOp(OpId op) const {
    return op < root_ops_.size() && root_ops_[op];
  }
  // First steps of this shape (step_shape.h); null: there are none.
  const std::vector<KnownNode*>* RootsOf(std::uint64_t shape) const;
  // What follows `from` (null: the first steps) and resembles `step`; or null.
  KnownNode* Next(const KnownNode* from, const StepRecord& step) const;
  // The same for a step as it is recorded: whether its storages are split into
  // places is not known before the sequence is complete.
  KnownNode* NextRecorded(const KnownNode* from, const StepRecord& step) const;
  // The last node of these steps in order; null if they are not known.
  const KnownNode* Find(const std::vector<const StepRecord*>& steps) const;

  // Where the sequences end, in the order in which they were added.
  const std::vector<KnownNode*>& ends() const { return ends_; }
  static KnownPath PathTo(const KnownNode* end);
  bool empty() const { return ends_.empty(); }

 private:
  const std::vector<KnownNode*>* After(const KnownNode* from,
                                       const StepRecord& step) const;

  std::deque<KnownNode> nodes_;
  absl::flat_hash_map<std::uint64_t, std::vector<KnownNode*>> roots_;
  std::vector<bool> root_ops_;
  std::vector<KnownNode*> ends_;
  std::size_t steps_ = 0;  // of all paths
};

}  // namespace tjit
