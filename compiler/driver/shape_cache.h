// Segments that have come in several sizes: how they were sorted into groups,
// and what function and kernel each group got, so that the next sizes only need
// a shape pass (segment_code.h).
//
// Two segments are one here if their keys without sizes are equal. Nothing is
// kept of a segment that came in one size alone but its key.
//
// Thread: one at a time. Tested by: tests/compiler/driver/segment_code_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/driver/group_cache.h"
#include "compiler/driver/kernel.h"
#include "compiler/lower/partition.h"

namespace tjit {

struct CachedShape {
  struct Group {
    std::shared_ptr<const GeneralGroup> general;
    std::shared_ptr<const Kernel> kernel;
  };
  // False if a group has no kernel, or was known by its sizes, so that its
  // function is not at hand.
  bool IsWhole() const;

  std::vector<PartitionItem> items;
  std::vector<Group> groups;         // of the items that are groups, in order
  std::vector<bool> lowerable;       // by step, alone
  std::vector<std::uint32_t> baked;  // steps whose numbers are compiled in
};

class ShapeCache {
 public:
  // Null: nothing is kept of this one. Valid until the next call.
  const CachedShape* Find(const GroupKey& key) const;
  // True if it came before. It has now.
  bool HasSeen(const GroupKey& key);
  void Add(const GroupKey& key, CachedShape segment);
  void Clear();
  std::size_t text_bytes() const { return bytes_; }

 private:
  // All is forgotten when the texts have become so long, or so many steps are
  // kept.
  static constexpr std::size_t kMaxBytes = 2 << 20;
  static constexpr std::size_t kMaxSteps = 8192;

  struct Entry {
    std::vector<std::int32_t> slots;  // of the key
    std::unique_ptr<const CachedShape> segment;
  };
  absl::flat_hash_map<std::string, Entry> entries_;
  std::size_t bytes_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace tjit
