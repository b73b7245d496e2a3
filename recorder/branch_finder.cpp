#include "recorder/branch_finder.h"

#include <algorithm>
#include <utility>

#include "support/policy.h"

namespace tjit {
namespace {

constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15ull;

constexpr std::uint64_t Power(std::uint64_t base, std::uint32_t exponent) {
  std::uint64_t power = 1;
  for (; exponent != 0; --exponent) power *= base;
  return power;
}

std::uint32_t High(std::uint64_t hash) {
  return static_cast<std::uint32_t>(hash >> 32);
}

}  // namespace

bool BranchFinder::Entry::IsUsual() const {
  return worth >= policy::kUsualContext && distance <= policy::kUsualDistance;
}

bool BranchFinder::Entry::IsSure() const {
  return misses == 0 && hits >= policy::kUsualHits;
}

BranchFinder::Predictions::Predictions() : entries_(kNobodys + 1) {}

void BranchFinder::Predictions::Learn(std::uint32_t name) {
  Entry& entry = entries_[found_];
  if (entry.next == 0) entry.next = name;
  if (entry.next == name) {
    if (++entry.hits < policy::kForgetAfter) return;
    entry.hits = policy::kUsualHits;
    if (entry.misses != 0) --entry.misses;
    return;
  }
  if (entry.hits < policy::kUsualHits) entry.next = name;
  entry.hits = 0;
  if (entry.misses < 2 * policy::kBranchPointMisses) ++entry.misses;
}

// A context that came again keeps its place for a while: sizes that are new at
// each step make contexts without end, none of which comes twice.
BranchFinder::Entry* BranchFinder::Predictions::Find(std::uint64_t hash,
                                                     std::uint32_t position) {
  constexpr std::uint8_t kMostWorth = 255;
  found_ = High(hash * kPrime) >> (32 - kTableBits);
  const auto context = static_cast<std::uint32_t>(hash) | 1;
  Entry& entry = entries_[found_];
  if (entry.context == context) {
    distance_ = position - std::exchange(entry.position, position);
    entry.distance = entry.worth == 0
                         ? distance_
                         : entry.distance - entry.distance / 4 + distance_ / 4;
    if (entry.worth < kMostWorth) ++entry.worth;
    return &entry;
  }
  if (entry.worth != 0) {
    --entry.worth;
    found_ = kNobodys;
    return nullptr;
  }
  entry = Entry{};
  entry.context = context;
  entry.position = position;
  return nullptr;
}

BranchFinder::BranchFinder() : recent_(kRecent) {}

void BranchFinder::Push(std::uint64_t kind) {
  std::uint64_t& oldest = kinds_[position_ % kLongOrder];
  // A polynomial of the last kinds, modulo 2^64.
  constexpr std::uint64_t kOfOldest = Power(kPrime, kLongOrder);
  long_hash_ = long_hash_ * kPrime + kind - oldest * kOfOldest;
  oldest = kind;
  ++position_;
}

std::uint64_t BranchFinder::HashOfLast() const {
  std::uint64_t hash = 0;
  for (std::uint32_t i = kLongOrder - kOrder; i < kLongOrder; ++i) {
    hash = (hash ^ kinds_[(position_ + i) % kLongOrder]) * kPrime;
    hash ^= hash >> 29;
  }
  return hash;
}

[[gnu::hot]] BranchFinder::Next BranchFinder::Observe(std::uint64_t kind,
                                                      std::int64_t live) {
  const std::uint32_t name = High(kind * kPrime) | 1;
  short_.Learn(name);
  long_.Learn(name);
  recent_[position_ % kRecent].live = static_cast<std::int32_t>(live);
  Push(kind);
  const Entry* entry = short_.Find(HashOfLast(), position_);
  const std::uint64_t of_long = long_hash_ ^ long_hash_ >> 29;
  const Entry* in_long = long_.Find(of_long * kPrime, position_);
  recent_[position_ % kRecent].index = short_.found();
  const bool was_usual =
      std::exchange(is_usual_, entry != nullptr && entry->IsUsual());
  if (entry == nullptr) return Next::kUnknown;
  const bool is_sure = in_long != nullptr && in_long->IsSure();
  if (entry->forced ||
      (entry->misses >= policy::kBranchPointMisses && !is_sure)) {
    last_branch_point_ = position_;
    return Next::kBranchPoint;
  }
  if (position_ - last_branch_point_ >= kRecent / 2) {
    ForceBranchPoint(short_.distance());
  }
  return is_usual_ && !was_usual ? Next::kBegin : Next::kSure;
}

void BranchFinder::Restart(std::int64_t live) {
  constexpr std::uint64_t kRun = 1;  // no op has this kind
  kinds_.fill(kRun);
  long_hash_ = 0;
  for (const std::uint64_t each : kinds_) {
    long_hash_ = long_hash_ * kPrime + each;
  }
  Observe(kRun, live);
}

// The last `distance` ops are a loop, if they came in the same order before:
// else the branch point does no more than end a region early. Fewer ops than
// kShortestForcedLoop, on operands in any order, are no loop worth a trace.
void BranchFinder::ForceBranchPoint(std::uint32_t distance) {
  last_branch_point_ = position_;  // tried again after as many ops
  if (distance < policy::kShortestForcedLoop || distance > kRecent / 2) return;
  const Seen* best = nullptr;
  for (std::uint32_t i = 1; i <= distance; ++i) {
    const Seen& seen = recent_[(position_ - i) % kRecent];
    if (best == nullptr || seen.live < best->live ||
        (seen.live == best->live &&
         short_[seen.index].context < short_[best->index].context)) {
      best = &seen;
    }
  }
  short_[best->index].forced = true;
}

}  // namespace tjit
