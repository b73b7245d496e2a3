#include "recorder/branch_finder.h"

#include <algorithm>

#include "support/policy.h"

namespace tjit {
namespace {

constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15ull;

std::uint32_t High(std::uint64_t hash) {
  return static_cast<std::uint32_t>(hash >> 32);
}

}  // namespace

BranchFinder::BranchFinder()
    : table_(std::size_t{1} << kTableBits), recent_(kRecent) {}

void BranchFinder::Learn(Entry& entry, std::uint32_t next) {
  if (entry.next == 0) entry.next = next;
  if (entry.next == next) {
    if (++entry.hits < policy::kForgetAfter) return;
    entry.hits = 0;
    if (entry.misses != 0) --entry.misses;
    return;
  }
  if (entry.hits < policy::kUsualHits) entry.next = next;
  entry.hits = 0;
  if (entry.misses < 2 * policy::kBranchPointMisses) ++entry.misses;
}

[[gnu::hot]] BranchFinder::Next BranchFinder::Observe(std::uint64_t kind,
                                                      std::int64_t live) {
  const std::uint32_t name = High(kind * kPrime) | 1;
  Learn(table_[previous_], name);
  recent_[position_ % kRecent].live = static_cast<std::int32_t>(live);
  kinds_[position_ % kOrder] = kind;
  ++position_;
  std::uint64_t hash = 0;
  for (std::uint32_t i = 0; i < kOrder; ++i) {
    hash = (hash ^ kinds_[(position_ + i) % kOrder]) * kPrime;
    hash ^= hash >> 29;
  }
  previous_ = High(hash * kPrime) >> (32 - kTableBits);
  const auto context = static_cast<std::uint32_t>(hash) | 1;
  Entry& entry = table_[previous_];
  recent_[position_ % kRecent].index = previous_;
  if (entry.context != context) {
    entry = Entry{};
    entry.context = context;
    entry.position = position_;
    return Next::kUnknown;
  }
  const std::uint32_t distance = position_ - entry.position;
  entry.position = position_;
  if (entry.forced || entry.misses >= policy::kBranchPointMisses) {
    last_branch_point_ = position_;
    return Next::kBranchPoint;
  }
  if (position_ - last_branch_point_ >= kRecent / 2) ForceBranchPoint(distance);
  return Next::kSure;
}

void BranchFinder::Restart(std::int64_t live) {
  constexpr std::uint64_t kRun = 1;  // no op has this kind
  kinds_.fill(kRun);
  Observe(kRun, live);
}

// The last `distance` ops are a loop, if they came in the same order before:
// else the branch point does no more than end a region early. Fewer ops than
// kShortest, on operands in any order, are no loop worth a trace.
void BranchFinder::ForceBranchPoint(std::uint32_t distance) {
  last_branch_point_ = position_;  // tried again after as many ops
  if (distance < kShortest || distance > kRecent / 2) return;
  const Seen* best = nullptr;
  for (std::uint32_t i = 1; i <= distance; ++i) {
    const Seen& seen = recent_[(position_ - i) % kRecent];
    if (best == nullptr || seen.live < best->live ||
        (seen.live == best->live &&
         table_[seen.index].context < table_[best->index].context)) {
      best = &seen;
    }
  }
  table_[best->index].forced = true;
}

}  // namespace tjit
