#include "recorder/hot_detector.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "support/policy.h"

namespace tjit {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;
// Makes a token after mark_step() another one than the same op elsewhere, so
// that the period of a stream is also that of its boundaries.
constexpr std::uint64_t kMarkSalt = 0xD6E8FEB86659FD93ull;

StreamToken Marked(StreamToken token) {
  return {token.exact ^ kMarkSalt, token.loose ^ kMarkSalt};
}

}  // namespace

HotDetector::HotDetector()
    : flags_(kRing),
      live_(kRing),
      table_(std::size_t{1} << kTableBits),
      back_(kRing) {}

void HotDetector::Break() {
  period_ = 0;
  run_ = 0;
  floor_ = n();
}

[[gnu::hot]] HotDetector::Candidate HotDetector::Observe(
    StreamToken token, std::uint8_t flags, std::int64_t live,
    std::int64_t elements) {
  if (flags & kAfterMarkStep) token = Marked(token);
  Push(token, flags, live);
  const std::uint32_t distance = RecordFingerprint();
  if (period_ != 0) {
    if (GoesOn()) {
      elements_ = exact_run() == 0 ? 0 : elements_ + elements;
      if (++run_ >= next_close_) {
        next_close_ += period_;
        return Close();
      }
      const bool is_open = run_ < period_;
      return is_open && flags != 0 ? Shorten(distance) : Candidate{};
    }
    const Candidate stretch = Lose();
    if (stretch.period != 0) return stretch;
  }
  return Search(distance);
}

// In a loop of a few ops over operands that are drawn all tokens would be
// alike, in whatever order they come.
bool HotDetector::GoesOn() {
  const std::uint64_t last = n() - 1, before = last - period_;
  if (ring_[last] == ring_[before]) return true;
  if (period_ < kAnchor || !ring_.AreAlike(last, before)) return false;
  exact_from_ = n();
  return true;
}

bool HotDetector::Expects(StreamToken token, std::uint8_t flags,
                          std::uint32_t distance) const {
  if (flags & kAfterMarkStep) token = Marked(token);
  if (distance == 0) distance = period_;
  return distance != 0 && ring_.IsAlike(n() - distance, token);
}

void HotDetector::Push(StreamToken token, std::uint8_t flags,
                       std::int64_t live) {
  ring_.Push(token);
  live_[(n() - 1) & kMask] = static_cast<std::int32_t>(live);
  flags_[(n() - 1) & kMask] = flags;
  recent_ = recent_ << 8 | (token.exact * kGolden) >> 56;
  if (flags & kAfterMarkStep) {
    mark_gap_ = last_mark_ == 0 ? 0 : n() - last_mark_;
    last_mark_ = n();
  }
  if (flags & kSync) last_sync_ = n();
}

// Enters the last kAnchor tokens into the table. Returns how many tokens ago
// they were there before, 0 if that is not known or too long ago.
std::uint32_t HotDetector::RecordFingerprint() {
  if (n() < kAnchor) return 0;
  const std::uint64_t hash = ring_.Fingerprint() * kGolden;
  Entry& entry = table_[hash >> (64 - kTableBits)];
  const auto fingerprint = static_cast<std::uint16_t>(hash >> 8);
  const auto position = static_cast<std::uint16_t>(n());
  std::uint32_t distance = 0;
  if (entry.fingerprint == fingerprint) {
    // Modulo 2^16, as the positions: what is older is found out by comparing.
    distance = static_cast<std::uint16_t>(position - entry.position);
    if (distance > policy::kLongestPeriod) distance = 0;
  }
  entry.fingerprint = fingerprint;
  entry.position = position;
  back_[(n() - 1) & kMask] = static_cast<std::uint16_t>(distance);
  return distance;
}

// The period no longer holds.
HotDetector::Candidate HotDetector::Lose() {
  const Candidate stretch = run_ < period_ ? BreakStretch() : Candidate{};
  if (is_closed_ && eligible_ == 0) {
    auto* inner = const_cast<Inner*>(FindInner());
    if (inner == nullptr) {
      inner = &*std::min_element(inner_.begin(), inner_.end(),
                                 [](const Inner& a, const Inner& b) {
                                   return a.last_end < b.last_end;
                                 });
      *inner = {run_key_, n(), period_};
    }
    inner->last_end = n();
    ++inner->breaks;
    const std::uint64_t body = HashFrom(n() - 1 - period_);
    inner->ends_alike = body == inner->body;
    inner->body = body;
  }
  period_ = 0;
  run_ = 0;
  return stretch;
}

// Note [Stretches]
// Where a step begins with what is drawn, a batch of graphs of other sizes or
// another number of samples, some of its tokens are others each time and its
// period never closes. The ops between repeat at the step's distance all the
// same: so they do in the layers of a net that differ in a few ops. So a
// stretch is one that has come kStretchTimes in a row and would be promoted by
// (a) or (b) of Note [Inner loops], were the ops between alike. It begins
// behind a list that is joined in its first half: what is joined was drawn,
// too.
HotDetector::Candidate HotDetector::BreakStretch() {
  if (run_ < policy::kShortestStretch) return {};
  const StretchFinder::Stretch stretch = stretches_.Observe(
      n() - 1 - run_, n() - 1, period_,
      [&](std::uint64_t begin, std::uint64_t end, std::uint64_t distance) {
        return n() <= begin - distance + kRing &&
               ring_.AreAlike(begin, begin - distance, end - begin);
      });
  if (stretch.times % policy::kStretchTimes != 0 ||
      (BoundaryInUse() + stretch.distance < n() &&
       !IsOuter(stretch.times * stretch.distance, EnoughOfLoose()))) {
    return {};
  }
  std::uint64_t begin = stretch.begin;
  const std::uint64_t middle = begin + (stretch.end - begin) / 2;
  for (std::uint64_t i = begin; i < middle; ++i) {
    if ((flags_[i & kMask] & kJoinsMany) != 0) begin = i + 1;
  }
  const std::uint64_t next = begin + stretch.distance;
  if (next < n()) return {};  // the next one has begun
  Candidate candidate;
  candidate.period = static_cast<std::uint32_t>(stretch.end - begin);
  candidate.distance = static_cast<std::uint32_t>(stretch.distance);
  candidate.times = stretch.times;
  candidate.until_cut = static_cast<std::uint32_t>(next - n());
  return candidate;
}

HotDetector::Candidate HotDetector::Search(std::uint32_t distance) {
  if (distance != 0) {
    const Match match = BestMatch(distance);
    if (match.run >= kAnchor) return Hold(match);
  }
  // Periods too short for a fingerprint. The newest token is the low byte.
  constexpr std::uint64_t kOnes = 0x0101010101010101ull;
  const std::uint64_t differs = (recent_ >> 8) ^ (recent_ & 0xFF) * kOnes;
  // Byte p - 1 is 0x80 if the token p ago may be equal (and for some above).
  const std::uint64_t maybe =
      (differs - kOnes) & ~differs & (kOnes << 7) & ~(0xFFull << 56);
  return maybe != 0 ? SearchShort(maybe) : Candidate{};
}

// While a long period holds but has not closed yet, a shorter one may close
// under it: two steps, something new, two steps. Looked for at boundaries,
// where steps end.
HotDetector::Candidate HotDetector::Shorten(std::uint32_t distance) {
  const std::uint64_t boundary = BoundaryInUse();
  if (distance == 0 || distance >= period_ || boundary != n()) return {};
  const Match match = BestMatch(distance);
  const bool closes = match.period != 0 && match.run >= match.period;
  return closes && match.period < period_ ? Hold(match) : Candidate{};
}

// Of the last places with this fingerprint, the one that agrees furthest
// back, those first that close a repetition: inside an inner loop the
// nearest, past its end the same place of the iteration before.
HotDetector::Match HotDetector::BestMatch(std::uint32_t distance) {
  const std::uint32_t longest =
      n() < vain_until_ ? vain_period_ - 1 : policy::kLongestPeriod;
  const int tries = n() >= next_deep_ ? policy::kDeepTries : 1;
  if (tries > 1) next_deep_ = n() + policy::kDeepEvery;
  Match best;
  bool best_closes = false;
  for (int i = 0; i < tries; ++i) {
    if (distance > longest || floor_ + distance > n()) break;
    const std::uint64_t run = HeldFor(distance);
    const bool closes = run >= distance;
    if (std::pair(closes, run) > std::pair(best_closes, best.run)) {
      best = {distance, run};
      best_closes = closes;
    }
    const std::uint32_t further = back_[(n() - 1 - distance) & kMask];
    if (further == 0) break;
    distance += further;
  }
  return best;
}

HotDetector::Candidate HotDetector::SearchShort(std::uint64_t maybe) {
  for (; maybe != 0; maybe &= maybe - 1) {
    const auto p = static_cast<std::uint32_t>(std::countr_zero(maybe) / 8 + 1);
    if (floor_ + 2 * p > n()) break;
    std::uint32_t same = 0;
    while (same < p && ring_[n() - 1 - same] == ring_[n() - 1 - same - p]) {
      ++same;
    }
    if (same == p) return Hold({p, p});
  }
  return {};
}

HotDetector::Candidate HotDetector::Hold(Match match) {
  period_ = match.period;
  run_ = match.run;
  exact_from_ = n() - run_;
  elements_ = 0;
  eligible_ = 0;
  is_closed_ = false;
  inner_due_ = false;
  is_known_ = false;
  next_close_ = (run_ / period_ + 1) * period_;
  return run_ >= period_ ? Close() : Candidate{};
}

// Position + 1 of the last boundary that an iteration must hold; one that is
// no longer in the ring if there is none.
std::uint64_t HotDetector::BoundaryInUse() const {
  const std::uint64_t window = n() - std::min(n(), kRing);
  return last_mark_ > window ? last_mark_ : last_sync_;
}

// Note [Inner loops]
// A closed period is promoted only if
// (a) its last occurrence holds a boundary of the kind in use: mark_step if
//     one was seen in the last 2^16 tokens, else a sync point if one was; or
// (b) there is no such boundary in the last max(2 p, 4096) tokens, and as many
//     tokens have repeated without a break: a loop per parameter or per layer
//     inside a step ends before that, or the step is found first. Or it came
//     16 times and its ops had 2^30 elements: half a second of one loop is
//     worth a trace whatever is around it.
//     Where tokens are alike and not equal (token_ring.h) that takes 8,192
//     tokens, 32,768 if the stream has a boundary, and elements do not count.
//     The first iteration meets the loop's constants for the first time, so its
//     tokens are but alike: if no later iteration has such tokens, equal ones
//     count from the last of them on; or
// (c) it has closed and broken 16 times, at 64 tokens or more, and no longer
//     period around it came three times: its trip count varies, so there is
//     no iteration around it to be recorded. (Twice is not enough: with
//     trip counts 9 and 5 the end of the first equals the second.)
//     Its candidate says so: what lies around it is no period either. Where it
//     ended in the same place of its body twice, the body begins there.
//     A list made anew each 15 steps and a value read each 50 leave hardly a
//     period of 15 steps whole. So where one around a loop was captured in vain
//     three times in a row, none that is as long is looked for during 24 of it;
//     or
// (d) it holds a sync point, no mark_step came for twice as long as between the
//     last two, and it has repeated for 4 periods and 512 tokens, at most for
//     32 periods: a phase of the program does without mark_step; or
// (e) it has been promoted before, in whatever rotation: the loop is back with
//     other sizes, or after something else.
// A period of nothing but sync points has nothing to defer.
//
// Cost: what is O(p) happens at the first closing of a run, which has p tokens
// to pay for it, and at the promotions, which come at the closings 2, 3, 4, 8,
// 16, ... of a run (counted from the first that may promote).
HotDetector::Candidate HotDetector::Close() {
  const std::uint64_t twice = 2 * std::uint64_t{period_};
  if (!is_closed_ && run_ + period_ >= policy::kInnerRun) FirstClose();
  if (run_ >= twice && run_ < twice + period_) ThirdTime();
  if (!MayPromote()) return {};
  ++eligible_;
  const std::uint64_t closings = eligible_ + 1;
  if (closings != 3 && !std::has_single_bit(closings)) return {};
  return Promote();
}

void HotDetector::FirstClose() {
  is_closed_ = true;
  run_key_ = period_;
  for (std::uint64_t i = n() - period_; i < n(); ++i) {
    const std::uint64_t x = ring_[i] * kGolden;
    run_key_ += (x ^ x >> 29) * kMarkSalt;  // the order does not matter
  }
  const Inner* inner = FindInner();
  inner_due_ = inner != nullptr && inner->breaks >= policy::kInnerBreaks;
  is_known_ = std::find(promoted_.begin(), promoted_.end(), run_key_) !=
              promoted_.end();
}

// The period came three times: forgets the loops inside.
void HotDetector::ThirdTime() {
  const std::uint64_t first = n() - std::min(n(), run_ + period_);
  for (Inner& inner : inner_) {
    if (inner.period == 0 || inner.period >= period_ ||
        inner.last_end <= first) {
      continue;
    }
    inner = {};
    outer_period_ = period_;
  }
}

void HotDetector::RecordCapture(std::uint32_t period, bool in_vain) {
  if (!in_vain || period != vain_period_) vain_captures_ = 0;
  if (!in_vain || n() < vain_until_) return;
  vain_period_ = period;
  if (++vain_captures_ < policy::kVainCaptures || period != outer_period_) {
    return;
  }
  vain_captures_ = 0;
  vain_until_ = n() + std::uint64_t{policy::kPeriodsWithoutVain} * period;
}

const HotDetector::Inner* HotDetector::FindInner() const {
  for (const Inner& inner : inner_) {
    if (inner.period == period_ && inner.key == run_key_) return &inner;
  }
  return nullptr;
}

bool HotDetector::MayPromote() const {
  if (period_ < kAnchor) {
    std::uint8_t common = kSync;
    for (std::uint32_t i = 1; i <= period_; ++i) {
      common &= flags_[(n() - i) & kMask];
    }
    if (common != 0) return false;
  }
  const std::uint64_t boundary = BoundaryInUse();
  if (boundary > n() - period_) return true;
  if (inner_due_ || is_known_) return true;
  if (last_sync_ > n() - period_ && IsPatient()) return true;
  const std::uint64_t twice = 2 * std::uint64_t{period_};
  if (IsOuter(run_ + period_, std::max(twice, EnoughOfLoose()))) return true;
  // Some were but alike in a later iteration than the first.
  if (exact_from_ > n() - run_ + period_) return false;
  if (IsOuter(exact_run() + period_, std::max(twice, policy::kOuterLoopRun))) {
    return true;
  }
  return IsHeavy() && boundary + period_ <= exact_from_;
}

// Rule (b), but for its last sentence: so many tokens have repeated.
bool HotDetector::IsOuter(std::uint64_t tokens, std::uint64_t enough) const {
  return tokens >= enough && BoundaryInUse() + enough <= n();
}

// Of tokens that are alike and not equal: a deep net has thousands of them in a
// step, as layers differ in their parameters alone. A step that ends at a
// boundary is found by that.
std::uint64_t HotDetector::EnoughOfLoose() const {
  const std::uint64_t window = n() - std::min(n(), kRing);
  return BoundaryInUse() > window ? policy::kLongestPeriod
                                  : policy::kOuterLoopOfAlike;
}

bool HotDetector::IsHeavy() const {
  return elements_ >= policy::kHeavyRun &&
         exact_run() + period_ >= policy::kHeavyPeriods * period_;
}

bool HotDetector::IsPatient() const {
  const std::uint64_t least = std::max({policy::kPatientPeriods * period_,
                                        policy::kPatientTokens, 2 * mark_gap_});
  return run_ + period_ >= std::min(least, policy::kMostPeriods * period_);
}

HotDetector::Candidate HotDetector::Promote() {
  for (std::uint64_t i = n() - period_; i < n(); ++i) {
    if (ring_.AreAlike(i, i - period_)) continue;
    Break();  // a hash was wrong
    return {};
  }
  if (is_closed_ && !is_known_) {
    is_known_ = true;
    promoted_[next_promoted_++ % promoted_.size()] = run_key_;
  }
  Candidate candidate;
  candidate.period = period_;
  candidate.varies = inner_due_;
  candidate.times = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(run_ / period_ + 1, 1u << 16));
  const std::uint64_t cut = Cut(&candidate.cut_at_boundary);
  const auto since = static_cast<std::uint32_t>((n() - cut) % period_);
  candidate.until_cut = since == 0 ? 0 : period_ - since;
  return candidate;
}

// The position where an iteration begins, one that has been seen.
std::uint64_t HotDetector::Cut(bool* at_boundary) const {
  const std::uint64_t first = n() - period_;
  *at_boundary = last_mark_ > first || last_sync_ > first;
  if (last_mark_ > first) return LeastAmong(kAfterMarkStep, 0);
  if (last_sync_ > first) return LeastAmong(kSync, 1);
  if (const std::uint64_t end = WhereItEnds(); end != n()) return end;
  const std::uint64_t fresh = LeastAmong(kFreshExternal, 0);
  return fresh != n() ? fresh : FewestLive();
}

// Of the tokens of one period from `start` on, a few at most.
std::uint64_t HotDetector::HashFrom(std::uint64_t start) const {
  const std::uint64_t count = std::min(period_, kAnchor);
  std::uint64_t hash = 0;
  for (std::uint64_t i = start; i < start + count; ++i) {
    hash = (hash ^ ring_[i]) * kGolden;
    hash ^= hash >> 29;
  }
  return hash;
}

// Where a loop ends whose trip count varies, its body begins: whole bodies are
// all that comes between its first op and its last. n() if it is no such loop,
// or ended elsewhere each time.
std::uint64_t HotDetector::WhereItEnds() const {
  const Inner* inner = FindInner();
  if (inner == nullptr || !inner->ends_alike) return n();
  const std::uint64_t begin = n() - 2 * std::uint64_t{period_};
  for (std::uint64_t i = 0; i < period_; ++i) {
    if (HashFrom(begin + i) == inner->body) return begin + i;
  }
  return n();
}

// Takes `start` if its rotation is less than that of `best`.
void HotDetector::KeepLess(std::uint64_t start, std::uint64_t* best) const {
  const std::uint64_t same = ring_.CommonPrefix(start, *best, period_ - 1);
  if (ring_[start + same] < ring_[*best + same]) *best = start;
}

// Of the positions `after` a token with `flag`, the one that begins the least
// rotation; n() if there is none. They are looked for in the last period and
// answered for the one before, where all rotations lie in the ring.
std::uint64_t HotDetector::LeastAmong(std::uint8_t flag,
                                      std::uint64_t after) const {
  const std::uint64_t begin = n() - 2 * std::uint64_t{period_};
  std::uint64_t best = n();
  for (std::uint64_t i = 0; i < period_; ++i) {
    if ((flags_[(begin + period_ + i) & kMask] & flag) == 0) continue;
    const std::uint64_t start = begin + (i + after) % period_;
    if (best == n()) {
      best = start;
    } else {
      KeepLess(start, &best);
    }
  }
  return best;
}

// Where fewest values are alive an iteration ends: between the optimizer and
// the next forward pass, not inside the loop over the parameters, whose
// rounds look alike. Of equals the least rotation, so that one loop is one
// trace however it was met.
std::uint64_t HotDetector::FewestLive() const {
  const std::uint64_t begin = n() - 2 * std::uint64_t{period_};
  const auto live = [&](std::uint64_t i) {
    return live_[(begin + period_ + i) & kMask];
  };
  std::uint64_t best = n();
  std::int32_t fewest = 0;
  for (std::uint64_t i = 0; i < period_; ++i) {
    if (best == n() || live(i) < fewest) {
      best = begin + i;
      fewest = live(i);
    } else if (live(i) == fewest) {
      KeepLess(begin + i, &best);
    }
  }
  return best;
}

// How long ago the tokens began to repeat at this distance.
std::uint64_t HotDetector::HeldFor(std::uint32_t period) const {
  const std::uint64_t known = std::min(n() - floor_, TokenRing::kSize);
  return known <= period ? 0 : ring_.HeldFor(period, known - period);
}

}  // namespace tjit
