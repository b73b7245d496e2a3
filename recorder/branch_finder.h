// Finds the branch points of an op stream: places after which more than one op
// has followed. From branch point to branch point the same ops come in the same
// order, whatever the order of these regions is, so a region is worth a trace
// where no period holds: variants drawn at random, sizes that come and go,
// loops in loops whose trip counts vary.
//   A: mm tanh | B: sub cos mul | A | A | B | ...  -> branch points after tanh
//   and mul
//
// How: each op has a kind (the op and a size, no sources). A table holds for
// each run of kOrder kinds the kind that came next. One that was wrong at
// least kBranchPointMisses times lately is a branch point. A second table does
// the same for runs of kLongOrder kinds. It overrules the first where it was
// right each time: an optimizer's loop over two parameters of equal size is no
// branch. A loop of kinds without any branch point (the same body over data
// drawn at random) gets one where fewest values are alive, of equals at the
// least context, unless it is very short.
//
// Sizes that are new at each step make kinds that nobody knows. What comes
// behind them begins where the last kOrder kinds are known again.
//   forward over a new length | optimizer, whose sizes stay -> kBegin, kSure
//
// Invariants: (1) Observe() is O(1) amortised and allocates nothing. (2) No
// clock: equal streams have equal branch points. (3) Memory is fixed at
// construction. (4) Hashes propose only: what is recorded at a branch point is
// matched op by op. Thread: one per ThreadState, no locking. Tested by:
// tests/recorder/branch_finder_test.cpp
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "support/policy.h"

namespace tjit {

class BranchFinder {
 public:
  // What is known of the op that comes next.
  // kBegin: as kSure, and a region may begin, as it may at a branch point.
  enum class Next : std::uint8_t { kUnknown, kBegin, kSure, kBranchPoint };

  BranchFinder();

  // Feeds the kind of one op. `live`: how many values are alive before it, up
  // to a constant.
  Next Observe(std::uint64_t kind, std::int64_t live);

  // True where the last ops come often, and have for a while: else a region
  // over them does not pay.
  bool is_usual() const { return is_usual_; }

  // A run was replayed, whose ops are not seen one by one: whatever it was,
  // what follows is judged from here on.
  void Restart(std::int64_t live);

 private:
  static constexpr std::uint32_t kOrder = 4, kLongOrder = 16;
  static constexpr int kTableBits = 12;
  // Index of the entry that is no context's.
  static constexpr std::uint32_t kNobodys = std::uint32_t{1} << kTableBits;
  static constexpr std::uint32_t kRecent = 1024;

  struct Entry {
    std::uint32_t context = 0;   // 0: free
    std::uint32_t next = 0;      // kind that came last
    std::uint32_t position = 0;  // where the context came last
    std::uint32_t distance = 0;  // between two times that it came, about
    std::uint8_t hits = 0;       // since the last miss
    std::uint8_t misses = 0;
    std::uint8_t worth = 0;  // so many others that fall here find it taken
    bool forced = false;  // a branch point that a loop without one was given

    // It comes often, and has for a while.
    bool IsUsual() const;
    // What came behind it was the same each time.
    bool IsSure() const;
  };
  // What came behind each context.
  class Predictions {
   public:
    Predictions();
    // `name` came behind the context that was found last.
    void Learn(std::uint32_t name);
    // The entry of a context, null where that is new.
    Entry* Find(std::uint64_t hash, std::uint32_t position);
    std::uint32_t found() const { return found_; }
    // Of the entry that was found: ops since its context came before.
    std::uint32_t distance() const { return distance_; }
    Entry& operator[](std::uint32_t index) { return entries_[index]; }

   private:
    std::vector<Entry> entries_;
    std::uint32_t found_ = kNobodys;  // index
    std::uint32_t distance_ = 0;
  };
  struct Seen {
    std::uint32_t index = 0;  // of its entry
    std::int32_t live = 0;    // values alive after the op
  };
  void Push(std::uint64_t kind);
  std::uint64_t HashOfLast() const;
  void ForceBranchPoint(std::uint32_t distance);

  std::array<std::uint64_t, kLongOrder> kinds_{};  // the last ones
  std::uint64_t long_hash_ = 0;                    // of them
  std::uint32_t position_ = 0;
  std::uint32_t last_branch_point_ = 0;
  bool is_usual_ = false;
  Predictions short_, long_;
  std::vector<Seen> recent_;
};

}  // namespace tjit
