#include "recorder/hot_detector.h"

#include <algorithm>
#include <bit>

namespace tjit {
namespace {

// Hashes are polynomials modulo the prime 2^61 - 1.
constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
constexpr std::uint64_t kBase = 0x1E3779B97F4A7C15ull & kPrime;
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;
// Makes a token after mark_step() another one than the same op elsewhere, so
// that the period of a stream is also that of its boundaries.
constexpr std::uint64_t kMarkSalt = 0xD6E8FEB86659FD93ull;

constexpr std::uint32_t kMaxPeriod = 32768;
// Rules (b) and (c) of Note [Inner loops].
constexpr std::uint64_t kLongRun = 4096;
constexpr std::uint32_t kInnerBreaks = 16;
constexpr std::uint64_t kInnerRun = 64;
constexpr int kDeepTries = 4;
constexpr std::uint64_t kDeepEvery = 32;
constexpr std::uint64_t kDirect = 16;  // tokens compared before hashes are

constexpr std::uint64_t Mod(std::uint64_t x) {
  x = (x & kPrime) + (x >> 61);
  return x >= kPrime ? x - kPrime : x;
}

constexpr std::uint64_t MulMod(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return Mod((static_cast<std::uint64_t>(product) & kPrime) +
             static_cast<std::uint64_t>(product >> 61));
}

constexpr std::uint64_t SubMod(std::uint64_t a, std::uint64_t b) {
  return a >= b ? a - b : a + kPrime - b;
}

// kBase^e for e up to 2^16 + 255 from two small tables.
struct Powers {
  std::array<std::uint64_t, 256> low{};
  std::array<std::uint64_t, 257> high{};
  constexpr Powers() {
    low[0] = high[0] = 1;
    for (std::size_t i = 1; i < 256; ++i) low[i] = MulMod(low[i - 1], kBase);
    const std::uint64_t step = MulMod(low[255], kBase);
    for (std::size_t i = 1; i < 257; ++i) high[i] = MulMod(high[i - 1], step);
  }
  constexpr std::uint64_t operator()(std::uint64_t e) const {
    return MulMod(low[e & 255], high[e >> 8]);
  }
};
constexpr Powers kPowers;
constexpr std::uint64_t kAnchorPower = kPowers(8);

// The longest length up to `limit` for which `holds`, which is true up to
// some length and false past it. REQUIRES: holds(known).
template <typename Holds>
std::uint64_t Longest(std::uint64_t known, std::uint64_t limit, Holds holds) {
  std::uint64_t bad = limit + 1;
  while (known < limit) {
    const std::uint64_t next = std::min(known * 2, limit);
    if (!holds(next)) {
      bad = next;
      break;
    }
    known = next;
  }
  while (known + 1 < bad) {
    const std::uint64_t middle = known + (bad - known) / 2;
    (holds(middle) ? known : bad) = middle;
  }
  return known;
}

}  // namespace

HotDetector::HotDetector()
    : tokens_(kRing),
      prefix_(kRing),
      flags_(kRing),
      table_(std::size_t{1} << kTableBits),
      back_(kRing) {}

void HotDetector::Break() {
  period_ = 0;
  run_ = 0;
  floor_ = n_;
}

HotDetector::Candidate HotDetector::Observe(std::uint64_t token,
                                            std::uint8_t flags) {
  if (flags & kAfterMarkStep) token ^= kMarkSalt;
  Push(token, flags);
  const std::uint32_t distance = NoteFingerprint();
  if (period_ != 0) {
    if (TokenAt(n_ - 1 - period_) == token) {
      if (++run_ < next_close_) return {};
      next_close_ += period_;
      return Close();
    }
    Lose();
  }
  return Search(distance);
}

void HotDetector::Push(std::uint64_t token, std::uint8_t flags) {
  const std::uint64_t slot = n_ & kMask;
  tokens_[slot] = token;
  flags_[slot] = flags;
  prefix_[slot] = hash_;
  hash_ = Mod(MulMod(hash_, kBase) + Mod(token));
  ++n_;
  recent_ = recent_ << 8 | (token * kGolden) >> 56;
  if (flags & kAfterMarkStep) last_mark_ = n_;
  if (flags & kSync) last_sync_ = n_;
}

// Enters the last kAnchor tokens into the table. Returns how many tokens ago
// they were there before, 0 if that is not known or too long ago.
std::uint32_t HotDetector::NoteFingerprint() {
  if (n_ < kAnchor) return 0;
  const std::uint64_t hash =
      SubMod(hash_, MulMod(prefix_[(n_ - kAnchor) & kMask], kAnchorPower)) *
      kGolden;
  Entry& entry = table_[hash >> (64 - kTableBits)];
  const auto fingerprint = static_cast<std::uint32_t>(hash >> 8);
  const auto position = static_cast<std::uint32_t>(n_);
  std::uint32_t distance = 0;
  if (entry.fingerprint == fingerprint &&
      position - entry.position <= kMaxPeriod) {
    distance = position - entry.position;
  }
  entry.fingerprint = fingerprint;
  entry.position = position;
  back_[(n_ - 1) & kMask] = static_cast<std::uint16_t>(distance);
  return distance;
}

// The period no longer holds.
void HotDetector::Lose() {
  const std::uint64_t repeated = run_ + period_;
  if (is_closed_ && eligible_ == 0 && repeated >= kInnerRun &&
      repeated >= 4 * std::uint64_t{period_}) {
    Inner* inner = FindInner();
    if (inner == nullptr) {
      inner = &*std::min_element(inner_.begin(), inner_.end(),
                                 [](const Inner& a, const Inner& b) {
                                   return a.last_end < b.last_end;
                                 });
      *inner = {run_key_, n_, period_, 0};
    }
    inner->last_end = n_;
    ++inner->breaks;
  }
  period_ = 0;
  run_ = 0;
}

HotDetector::Candidate HotDetector::Search(std::uint32_t distance) {
  if (distance != 0) {
    const Candidate candidate = Propose(distance);
    if (period_ != 0) return candidate;
  }
  // Periods too short for a fingerprint. The newest token is the low byte.
  constexpr std::uint64_t kOnes = 0x0101010101010101ull;
  const std::uint64_t differs = (recent_ >> 8) ^ (recent_ & 0xFF) * kOnes;
  // Byte p - 1 is 0x80 if the token p ago may be equal (and for some above).
  const std::uint64_t maybe =
      (differs - kOnes) & ~differs & (kOnes << 7) & ~(0xFFull << 56);
  return maybe != 0 ? SearchShort(maybe) : Candidate{};
}

// Of the last places with this fingerprint, takes the one that agrees
// furthest back: inside an inner loop the nearest, past its end the same
// place of the iteration before.
HotDetector::Candidate HotDetector::Propose(std::uint32_t distance) {
  const int tries = n_ >= next_deep_ ? kDeepTries : 1;
  if (tries > 1) next_deep_ = n_ + kDeepEvery;
  std::uint32_t best = 0;
  std::uint64_t best_run = 0;
  for (int i = 0; i < tries; ++i) {
    if (distance > kMaxPeriod || floor_ + distance > n_) break;
    const std::uint64_t run = HeldFor(distance);
    if (run > best_run) {
      best = distance;
      best_run = run;
    }
    const std::uint32_t further = back_[(n_ - 1 - distance) & kMask];
    if (further == 0) break;
    distance += further;
  }
  return best_run >= kAnchor ? Hold(best, best_run) : Candidate{};
}

HotDetector::Candidate HotDetector::SearchShort(std::uint64_t maybe) {
  for (; maybe != 0; maybe &= maybe - 1) {
    const auto p = static_cast<std::uint32_t>(std::countr_zero(maybe) / 8 + 1);
    if (floor_ + 2 * p > n_) break;
    std::uint32_t same = 0;
    while (same < p && TokenAt(n_ - 1 - same) == TokenAt(n_ - 1 - same - p)) {
      ++same;
    }
    if (same == p) return Hold(p, p);
  }
  return {};
}

HotDetector::Candidate HotDetector::Hold(std::uint32_t period,
                                         std::uint64_t run) {
  period_ = period;
  run_ = run;
  eligible_ = 0;
  is_closed_ = false;
  inner_due_ = false;
  next_close_ = (run / period + 1) * period;
  return run >= period ? Close() : Candidate{};
}

// Note [Inner loops]
// A closed period is promoted only if
// (a) its last occurrence holds a boundary of the kind in use: mark_step if
//     one was seen in the last 2^16 tokens, else a sync point if one was; or
// (b) there is no such boundary in the last max(2 p, 4096) tokens, and as many
//     tokens have repeated without a break: a loop per parameter or per layer
//     inside a step ends before that, or the step is found first; or
// (c) it has broken 16 times after a run of at least max(4 p, 64) tokens and
//     no longer period closed around it: its trip count varies, so the
//     iteration around it never repeats.
// A period of nothing but sync points has nothing to defer.
//
// Cost: what is O(p) happens at the first closing of a run, which has p tokens
// to pay for it, and at the promotions, which come at the closings 2, 3, 4, 8,
// 16, ... of a run (counted from the first that may promote).
HotDetector::Candidate HotDetector::Close() {
  if (!is_closed_ && run_ + period_ >= kInnerRun) FirstClose();
  if (!MayPromote()) return {};
  ++eligible_;
  const std::uint64_t closings = eligible_ + 1;
  if (closings != 3 && !std::has_single_bit(closings)) return {};
  return Promote();
}

void HotDetector::FirstClose() {
  is_closed_ = true;
  run_key_ = period_;
  for (std::uint64_t i = n_ - period_; i < n_; ++i) {
    const std::uint64_t x = TokenAt(i) * kGolden;
    run_key_ += (x ^ x >> 29) * kMarkSalt;  // the order does not matter
  }
  const std::uint64_t first = n_ - std::min(n_, run_ + period_);
  for (Inner& inner : inner_) {
    if (inner.period < period_ && inner.last_end > first) inner = {};
  }
  const Inner* inner = FindInner();
  inner_due_ = inner != nullptr && inner->breaks >= kInnerBreaks;
}

HotDetector::Inner* HotDetector::FindInner() {
  for (Inner& inner : inner_) {
    if (inner.period == period_ && inner.key == run_key_) return &inner;
  }
  return nullptr;
}

bool HotDetector::MayPromote() const {
  if (period_ < kAnchor) {
    std::uint8_t common = kSync;
    for (std::uint32_t i = 1; i <= period_; ++i) {
      common &= flags_[(n_ - i) & kMask];
    }
    if (common != 0) return false;
  }
  const std::uint64_t window = n_ - std::min(n_, kRing);
  const std::uint64_t boundary = last_mark_ > window ? last_mark_ : last_sync_;
  if (boundary > window && boundary > n_ - period_) return true;
  if (inner_due_) return true;
  const std::uint64_t enough =
      std::max<std::uint64_t>(2 * std::uint64_t{period_}, kLongRun);
  return run_ + period_ >= enough && boundary + enough <= n_;
}

HotDetector::Candidate HotDetector::Promote() {
  for (std::uint64_t i = n_ - period_; i < n_; ++i) {
    if (TokenAt(i) == TokenAt(i - period_)) continue;
    Break();  // a hash was wrong
    return {};
  }
  const Rotation least = LeastRotation();
  if (least.primitive != period_) {
    period_ = least.primitive;
    run_ = HeldFor(period_);
    next_close_ = (run_ / period_ + 1) * period_;
  }
  Candidate candidate;
  candidate.period = period_;
  const std::uint64_t cut = CutOf(least.start, &candidate.cut_at_boundary);
  const auto since = static_cast<std::uint32_t>((n_ - cut) % period_);
  candidate.until_cut = since == 0 ? 0 : period_ - since;
  return candidate;
}

// The position where an iteration begins, one that has been seen.
std::uint64_t HotDetector::CutOf(std::uint64_t least, bool* at_boundary) const {
  const std::uint64_t first = n_ - period_;
  *at_boundary = last_mark_ > first || last_sync_ > first;
  if (last_mark_ > first) return LeastAmong(kAfterMarkStep, 0);
  if (last_sync_ > first) return LeastAmong(kSync, 1);
  const std::uint64_t fresh = LeastAmong(kFreshExternal, 0);
  return fresh != n_ ? fresh : least;
}

// Of the positions `after` a token with `flag`, the one that begins the least
// rotation; n_ if there is none. They are looked for in the last period and
// answered for the one before, where all rotations lie in the ring.
std::uint64_t HotDetector::LeastAmong(std::uint8_t flag,
                                      std::uint64_t after) const {
  const std::uint64_t begin = n_ - 2 * std::uint64_t{period_};
  std::uint64_t best = n_;
  for (std::uint64_t i = 0; i < period_; ++i) {
    if ((flags_[(begin + period_ + i) & kMask] & flag) == 0) continue;
    const std::uint64_t start = begin + (i + after) % period_;
    if (best == n_) {
      best = start;
      continue;
    }
    const std::uint64_t same = CommonPrefix(start, best, period_ - 1);
    if (TokenAt(start + same) < TokenAt(best + same)) best = start;
  }
  return best;
}

// Two starts race; the one whose rotation is greater jumps past what was
// compared. If both survive, the period is a power of a shorter one.
HotDetector::Rotation HotDetector::LeastRotation() const {
  const std::uint64_t begin = n_ - 2 * std::uint64_t{period_};
  std::uint64_t i = 0, j = 1, same = 0;
  while (i < period_ && j < period_ && same < period_) {
    const std::uint64_t a = TokenAt(begin + i + same);
    const std::uint64_t b = TokenAt(begin + j + same);
    if (a == b) {
      ++same;
      continue;
    }
    (a > b ? i : j) += same + 1;
    if (i == j) ++j;
    same = 0;
  }
  Rotation least;
  least.start = begin + std::min(i, j);
  least.primitive = period_;
  if (same == period_ && i != j) {
    least.primitive = static_cast<std::uint32_t>(i > j ? i - j : j - i);
  }
  return least;
}

std::uint64_t HotDetector::HashOf(std::uint64_t begin,
                                  std::uint64_t end) const {
  const std::uint64_t to = end == n_ ? hash_ : prefix_[end & kMask];
  return SubMod(to, MulMod(prefix_[begin & kMask], kPowers(end - begin)));
}

bool HotDetector::Equal(std::uint64_t a, std::uint64_t b,
                        std::uint64_t length) const {
  return HashOf(a, a + length) == HashOf(b, b + length);
}

// For how many tokens back each equals the one `period` before it.
std::uint64_t HotDetector::HeldFor(std::uint64_t period) const {
  const std::uint64_t limit =
      std::min(kRing - period, n_ - floor_ - std::min(n_ - floor_, period));
  std::uint64_t held = 0;
  while (held < kDirect && held < limit &&
         TokenAt(n_ - 1 - held) == TokenAt(n_ - 1 - held - period)) {
    ++held;
  }
  if (held < kDirect) return held;
  return Longest(held, limit, [&](std::uint64_t length) {
    return Equal(n_ - length, n_ - length - period, length);
  });
}

std::uint64_t HotDetector::CommonPrefix(std::uint64_t a, std::uint64_t b,
                                        std::uint64_t limit) const {
  std::uint64_t same = 0;
  while (same < kDirect && same < limit &&
         TokenAt(a + same) == TokenAt(b + same)) {
    ++same;
  }
  if (same < kDirect) return same;
  return Longest(same, limit, [&](std::uint64_t length) {
    return Equal(a, b, length);
  });
}

}  // namespace tjit
