// What a thread keeps of the named regions (tjit::Region) that it enters.
//
// Ops are counted for the innermost region that they are called in: what the
// thread's counters gained from one edge to the next belongs to the region
// between. What is pending runs at each edge, so nothing is counted for one
// region as called and for another as run, unless there was no memory at an
// edge.
// Thread: the owner writes, any thread may Sum().
// Tested by: tests/runtime/thread/region_test.cpp
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "recorder/backoff.h"
#include "recorder/region_table.h"
#include "runtime/call/kernel_state.h"
#include "support/counters.h"
#include "support/policy.h"

namespace tjit::runtime {

struct RegionSums {
  std::int64_t entries = 0;
  std::int64_t ops_seen = 0;
  std::int64_t ops_eager = 0;
  std::int64_t ops_replayed = 0;
  std::int64_t ops_drained = 0;
};

class RegionVisits {
 public:
  RegionVisits() = default;
  ~RegionVisits();
  RegionVisits(const RegionVisits&) = delete;
  RegionVisits& operator=(const RegionVisits&) = delete;

  // The region that the thread is in.
  RegionId id() const { return id_.load(std::memory_order_relaxed); }
  // What held there when it was entered.
  const RegionSettings& settings() const { return *settings_; }
  bool excludes_all() const { return excludes_all_; }
  // Any thread that runs what the owner has pending asks.
  bool is_strict() const { return is_strict_.load(std::memory_order_relaxed); }
  bool is_exact() const { return is_exact_; }
  // Ops are looked at before anything else is done with them.
  bool looks_first() const { return excludes_all_ || is_strict(); }

  // Leaves the present region for `id`, this thread with it (kernel_state.h).
  // `now`: the thread's counters. `is_new`: the region begins; else an inner
  // one has ended.
  void GoTo(RegionId id, bool is_new, const Counters& now) noexcept;
  // Adds what was counted in the region. `now`: the thread's counters.
  void AddTo(RegionId id, const Counters& now, RegionSums* sums) const;

  // A body of the present region was recorded, of so many ops, when the thread
  // had called `seen`; `is_new`: it had not come before, or came to nothing.
  void RecordBody(bool is_new, std::int64_t seen, std::size_t ops);
  // A body of it has come again. True if it is the first one on this thread
  // that was replayed.
  bool RecordRun(bool was_replayed) {
    if (current_ == nullptr) return false;
    ++current_->runs;
    return was_replayed && !std::exchange(current_->was_replayed, true);
  }
  // True if a body that is not known is to be recorded: the first ones, as long
  // as those so far came again, and now and then.
  bool MayRecord(std::int64_t seen) const;
  // Another thread may be the owner from now on, and bodies may be others.
  void Forget();

 private:
  struct Counts {
    Counter entries, ops_seen, ops_eager, ops_replayed, ops_drained;
    // The owner's: bodies that were new, runs of those that were not, and what
    // lies between two tries.
    std::uint32_t new_bodies = 0;
    std::uint32_t runs = 0;
    bool was_replayed = false;
    RegionIds ids;
    Backoff pause{policy::kMostRegionFailures};
  };
  static constexpr std::size_t kChunk = 16;
  using Chunk = std::array<Counts, kChunk>;

  Counts* CountsOf(RegionId id) noexcept;
  void Count(const Counters& now) noexcept;

  RegionTable& table_ = RegionTable::Get();
  std::atomic<RegionId> id_{kNoRegion};
  const RegionSettings* settings_ = &table_.SettingsOf(kNoRegion);
  bool excludes_all_ = false;
  std::atomic<bool> is_strict_{false};
  bool is_exact_ = false;
  Counts* current_ = nullptr;  // null: no memory
  OutsideIds found_;
  Counts base_;  // the thread's counters at the last edge
  std::array<std::atomic<Chunk*>, kMaxRegions / kChunk> chunks_{};
};

// Of the region that a thread is in. `visits` may be null.
inline bool IsStrict(const RegionVisits* visits) {
  return visits != nullptr && visits->is_strict();
}
inline bool IsExact(const RegionVisits* visits) {
  return visits != nullptr && visits->is_exact();
}
// Sightings of a sequence before it is hot.
std::int64_t ThresholdIn(const RegionVisits* visits);

}  // namespace tjit::runtime
