// What is known of groups of steps that were looked at before, so that equal
// ones are lowered once: a net repeats its layers, and an optimizer its steps
// for every parameter.
//
// Two groups are equal if a text of all that lowering reads is: ops, arguments
// with their geometries, statics, scalars, results, and of each slot its bytes
// and what the segment does with it. In the text slots are numbered in the
// order of first use; what is known of a group names them so.
//
// Thread: one at a time.
// Tested by: tests/compiler/driver/group_cache_test.cpp, segment_code_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "compiler/driver/kernel.h"
#include "compiler/lower/lower.h"
#include "support/kept_bytes.h"

namespace tjit {

struct GroupKey {
  enum class Sizes : std::uint8_t { kInText, kLeftOut };
  // `slots`: all that the steps use. `context`: what decides besides, the
  // engine's name among it. kLeftOut: equal texts say that steps are the same
  // in all but sizes, strides, offsets and bytes.
  GroupKey(std::string_view context, absl::Span<const GroupStep> steps,
           absl::Span<const GroupSlot> slots, Sizes sizes = Sizes::kInText);

  // Numbers of the text to slots, and back.
  std::vector<std::int32_t> ToSlots(
      const std::vector<std::int32_t>& numbers) const;
  std::vector<std::int32_t> ToNumbers(
      const std::vector<std::int32_t>& slots) const;

  std::string text;
  std::vector<std::int32_t> slots;  // by number
};

// A function that groups share; counts itself (Kept::kCode).
struct KeptFunction {
  explicit KeptFunction(ir::Function f);

  const ir::Function function;
  KeptShare kept{Kept::kCode};
};

// What other sizes need of a group: what it was lowered to, its slots by number
// of its key.
struct GeneralGroup {
  std::shared_ptr<const KeptFunction> kept;
  std::vector<std::int32_t> external_slots;
  std::vector<std::int32_t> return_slots;
  std::vector<ScalarSource> scalars;
  std::vector<SizeSource> symbols;
};

// A group with a kernel, or why there is none.
struct CachedGroup {
  std::shared_ptr<const Kernel> kernel;
  std::string why_not;  // null kernel
  bool is_too_large = false;  // there is one, but it has no room for the sizes
  KernelShape shape;
  // Slots, by number. memory: externals, then returned values.
  std::vector<std::int32_t> reads, writes, memory;
  std::vector<InPlace> in_place;  // of the kernel
  std::vector<ScalarSource> scalars;
  std::shared_ptr<const GeneralGroup> general;  // where other sizes may follow
};

class GroupCache {
 public:
  // Null if the group is new. Valid until the next Add().
  const CachedGroup* Find(const GroupKey& key);
  const CachedGroup& Add(GroupKey key, CachedGroup group);

  // A new group that was lowered ahead, until it is taken by whoever compiles
  // the same group of the same segment.
  void AddPrecompiled(GroupKey key, Lowered lowered);
  bool IsPrecompiled(const GroupKey& key) const {
    return precompiled_.contains(key.text);
  }
  bool AcquirePrecompiled(const GroupKey& key, Lowered* lowered);

  // Whether the step alone can be compiled: `find` computes it once.
  template <class Find>
  bool CanCompile(GroupKey key, Find find) {
    const auto found = can_compile_.find(key.text);
    if (found != can_compile_.end()) {
      ++hits_;
      return found->second;
    }
    const bool can = find();
    MakeRoom(key);
    can_compile_.emplace(std::move(key.text), can);
    return can;
  }

  void Clear();
  // About; kernels do not count.
  std::size_t kept_bytes() const { return bytes_ + function_bytes_; }
  // How often something was known.
  std::int64_t hits() const { return hits_; }

 private:
  // All is forgotten when the texts have become so long.
  static constexpr std::size_t kMaxBytes = 1 << 20;

  void MakeRoom(const GroupKey& key);

  absl::flat_hash_map<std::string, CachedGroup> groups_;
  absl::flat_hash_map<std::string, bool> can_compile_;
  struct Precompiled {
    std::vector<std::int32_t> slots;  // of the key
    Lowered lowered;
  };
  absl::flat_hash_map<std::string, Precompiled> precompiled_;
  std::size_t bytes_ = 0;  // of the texts
  std::size_t function_bytes_ = 0;
  std::int64_t hits_ = 0;
};

}  // namespace tjit
