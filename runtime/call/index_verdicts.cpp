#include "runtime/call/index_verdicts.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "absl/hash/hash.h"
#include "runtime/memory/block.h"
#include "runtime/platform/settings.h"
#include "support/mutex.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

// Null: what is written there may not be seen.
Block* WatchedBlock(const c10::StorageImpl& storage) {
  constexpr std::uint8_t kUnseen =
      Block::kAdopted | Block::kPages | Block::kReserved;
  Block* const block = BlockOf(&storage);
  const bool is_watched =
      block != nullptr && storage.has_materializer() &&
      !block->exposed.load(std::memory_order_relaxed) &&
      (KindOf(block).load(std::memory_order_relaxed) & kUnseen) == 0 &&
      !g_settings.HasModes();
  return is_watched ? block : nullptr;
}

class Verdicts {
 public:
  static constexpr std::size_t kDims = 2;

  bool AllInRange(Block* block, const IndexQuestion& question,
                  absl::FunctionRef<bool()> look) {
    // Nobody waits for it, a child after fork() least of all.
    if (!mutex_.try_lock()) return false;
    const MutexLock lock(mutex_, std::adopt_lock);
    Set& set = sets_[absl::HashOf(block) % sets_.size()];
    const std::uint16_t stamp =
        block->unchanged.load(std::memory_order_relaxed);
    for (const Verdict& verdict : set.verdicts) {
      if (IsCurrent(verdict, block, stamp) && verdict.IsOf(question)) {
        credit_ = std::min(credit_ + 1, policy::kMostIndexCredit);
        return verdict.all_in_range;
      }
    }
    if (credit_ > 0) {
      --credit_;
    } else if (++refused_ % policy::kRefusedIndexLooks != 0) {
      return false;
    }
    const bool all_in_range = look();
    const bool is_known = std::any_of(
        set.verdicts.begin(), set.verdicts.end(),
        [&](const Verdict& v) { return IsCurrent(v, block, stamp); });
    set.verdicts[set.next++ % set.verdicts.size()] =
        Verdict(block, is_known ? stamp : NewStamp(block), epoch_, question,
                all_in_range);
    return all_in_range;
  }

 private:
  struct Verdict {
    Verdict() = default;
    Verdict(const Block* of, std::uint16_t at, std::uint64_t in,
            const IndexQuestion& question, bool verdict)
        : block(of),
          epoch(in),
          stamp(at),
          all_in_range(verdict),
          dtype(question.dtype),
          ndim(question.sizes.size()),
          offset(question.offset),
          allowed(question.allowed) {
      std::copy_n(question.sizes.begin(), ndim, sizes.begin());
      std::copy_n(question.strides.begin(), ndim, strides.begin());
    }
    bool IsOf(const IndexQuestion& question) const {
      return dtype == question.dtype && offset == question.offset &&
             allowed == question.allowed &&
             question.sizes.equals({sizes.data(), ndim}) &&
             question.strides.equals({strides.data(), ndim});
    }

    const Block* block = nullptr;
    std::uint64_t epoch = 0;
    std::uint16_t stamp = 0;
    bool all_in_range = false;
    c10::ScalarType dtype = c10::kLong;
    std::size_t ndim = 0;
    std::int64_t offset = 0;
    IndexRange allowed{};
    std::array<std::int64_t, kDims> sizes{}, strides{};
  };
  struct Set {
    std::array<Verdict, 4> verdicts;
    std::size_t next = 0;  // to be replaced
  };

  bool IsCurrent(const Verdict& verdict, const Block* block,
                 std::uint16_t stamp) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stamp != 0 && verdict.block == block && verdict.stamp == stamp &&
           verdict.epoch == epoch_;
  }
  // When all have been drawn nothing is known any more, as a block may have one
  // that is drawn again.
  std::uint16_t NewStamp(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (++last_stamp_ == 0) {
      ++last_stamp_;
      ++epoch_;
    }
    block->unchanged.store(last_stamp_, std::memory_order_relaxed);
    return last_stamp_;
  }

  Mutex mutex_;
  std::array<Set, 64> sets_ ABSL_GUARDED_BY(mutex_);
  std::uint16_t last_stamp_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // Looks that may be in vain: each verdict that is asked for again gives one.
  int credit_ ABSL_GUARDED_BY(mutex_) = policy::kFirstIndexCredit;
  std::uint32_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

bool AllKnownInRange(const IndexQuestion& question,
                     absl::FunctionRef<bool()> look) {
  if (question.sizes.size() > Verdicts::kDims) return false;
  Block* const block = WatchedBlock(*question.storage);
  if (block == nullptr) return false;
  // Never destroyed, as threads may outlive main().
  static Verdicts& verdicts = *new Verdicts;
  return verdicts.AllInRange(block, question, look);
}

}  // namespace tjit::runtime
