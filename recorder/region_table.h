// The named regions of the process (tjit::Region): their names as small
// numbers, and what is said of each.
//
// A name has parts with / between; "newton" inside "solve" is the region
// "solve/newton", as is "solve/newton" outside of all. An id lives as long as
// the process, and 0 stands for the outside of all regions.
//
// Threads: any. A name that is known is found without a lock, and so are its
// settings; mutex_ guards what changes.
// Tested by: tests/recorder/region_table_test.cpp
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "recorder/region_id.h"
#include "recorder/schema_key.h"
#include "support/mutex.h"
#include "support/region_settings.h"

namespace tjit {

// With the outside.
inline constexpr RegionId kMaxRegions = 1024;
inline constexpr std::size_t kLongestRegionName = 200;

class RegionTable {
 public:
  RegionTable();
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;

  // The one of the process.
  static RegionTable& Get();

  // The region of that name inside `outer`, if there has been one, else
  // kNoRegion.
  RegionId FindInside(RegionId outer, std::string_view name) noexcept;
  // The same, made if need be. `outer` if there is no room for
  // another one, or no memory. REQUIRES: WhyNoName() is empty.
  RegionId Enter(RegionId outer, std::string_view name) noexcept;
  // Why nothing can be called `name`; empty if it can.
  static std::string WhyNoName(std::string_view name);
  // kNoRegion if there has been none of that whole name.
  RegionId Find(std::string_view whole_name);

  // "solve/newton"; empty for the outside.
  std::string NameOf(RegionId id) const;
  // The same in every process; 0 for the outside.
  std::uint64_t HashOf(RegionId id) const;
  // The region whose name has that hash, which may have been entered by
  // another process alone. kNoRegion if there is no room for it.
  RegionId OfHash(std::uint64_t hash);
  // How many ids there are. Each below that may be asked for.
  RegionId size() const { return count_.load(std::memory_order_acquire); }

  // What holds in the region. It lives as long as the process.
  const RegionSettings& SettingsOf(RegionId id) const;
  // The rules of the file. Once.
  void SetFileRules(const std::vector<RegionRule>& rules);
  // One of the program. True if something else holds now in some region.
  bool AddRule(RegionRule rule);

  // Why an op of the region runs at the call; `why` lives for ever.
  void RecordAtCall(RegionId id, OpId op, const char* why);
  // "" if that is not known.
  const char* WhyAtCall(RegionId id, OpId op);
  // True the first time that it is asked about a region.
  bool IsFirstReplay(RegionId id);

  void LockForFork() { mutex_.LockForFork(); }
  void UnlockAfterFork() { mutex_.UnlockAfterFork(); }

 private:
  // Immutable but for the atomics.
  struct Node {
    RegionId outer = kNoRegion;
    std::string part;  // of the name, behind the last /
    std::string name;
    std::uint64_t hash = 0;
    std::atomic<const RegionSettings*> settings{nullptr};
    std::atomic<bool> is_replayed{false};
    // The region inside that was found last; kNoRegion: none was.
    std::atomic<RegionId> last_inner{kNoRegion};
  };
  static constexpr std::size_t kBuckets = 4 * kMaxRegions;

  const Node& At(RegionId id) const {
    return *nodes_[id].load(std::memory_order_acquire);
  }
  Node& At(RegionId id) { return *nodes_[id].load(std::memory_order_acquire); }
  static std::size_t BucketOf(RegionId outer, std::string_view part);
  RegionId FindPart(RegionId outer, std::string_view part) const;
  RegionId AddPart(RegionId outer, std::string_view part);
  RegionId NewId() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetNode(RegionId id, std::unique_ptr<Node> node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if something else holds now.
  bool Settle(Node* node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SettleAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::array<std::atomic<Node*>, kMaxRegions> nodes_{};
  std::atomic<RegionId> count_{0};
  // Ids by outer region and part; 0: free. A chain goes on in the next bucket.
  std::array<std::atomic<RegionId>, kBuckets> buckets_{};
  Mutex mutex_;
  // Everything that was there, as others may look at it.
  std::vector<std::unique_ptr<Node>> all_nodes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<const RegionSettings>> all_settings_
      ABSL_GUARDED_BY(mutex_);
  std::vector<RegionRule> rules_ ABSL_GUARDED_BY(mutex_);
  // Regions of other processes whose names are not known yet.
  std::map<std::uint64_t, RegionId> nameless_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<RegionId, OpId>, const char*> at_call_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tjit
