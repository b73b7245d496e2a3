// Finds the repeating tail of an op stream: the square detector.
//
// How: a ring of the last 2^16 tokens and the state {period p, run}. While p
// holds, each token is alike the one p ago (token_ring.h); when the run reaches
// a multiple of p (so that at least 2 p tokens are known to repeat), a
// repetition has closed. Otherwise the fingerprint of the last 8 tokens is
// looked up in a last-position table, which proposes the next p; prefix
// hashes tell at once how far back it has held already.
//   a b c | a b c | a  ->  period 3 closes at the 6th token
// The longest period wins: a repetition inside an iteration (one optimizer
// loop per parameter, one block per layer) closes first, but a candidate must
// hold a boundary (mark_step, else a sync point) if the stream has any, see
// Note [Inner loops] in hot_detector.cpp.
//
// Invariants: (1) Observe() is O(1) amortised and allocates nothing. (2) No
// clock: equal streams give equal candidates. (3) Memory is fixed at
// construction. (4) A hash only proposes: a candidate was compared in full.
// Thread: one per ThreadState, no locking.
// Tested by: tests/recorder/hot_detector_test.cpp
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "recorder/stretch_finder.h"
#include "recorder/token_ring.h"
#include "support/zeroed_array.h"

namespace tjit {

class HotDetector {
 public:
  // What a token is beside its bits.
  enum Flag : std::uint8_t {
    kPlain = 0,
    kSync = 1,           // the op is a sync point: a cut may follow it
    kAfterMarkStep = 2,  // mark_step() was called before this op
    kFreshExternal = 4,  // reads a storage never seen before
    kJoinsMany = 8,      // joins a long list of tensors, which may be drawn
  };
  struct Candidate {
    std::uint32_t period = 0;     // ops; 0: nothing closed
    std::uint32_t until_cut = 0;  // ops to let pass before the phase begins
    bool cut_at_boundary = false; // the phase begins after a sync or mark_step
    std::uint32_t times = 0;      // how often it has come without a break
    bool varies = false;          // its trip count: rule (c) of Inner loops
    // From one begin to the next where `period` ops of a longer period repeat
    // and the others do not: Note [Stretches] in hot_detector.cpp. 0: all do.
    std::uint32_t distance = 0;
  };

  HotDetector();

  // Feeds one token. `live`: how many values are alive before the op, up to a
  // constant; `elements`: of all its arguments. Returns a candidate when a
  // repetition that may be promoted has just closed, else period 0.
  Candidate Observe(StreamToken token, std::uint8_t flags,
                    std::int64_t live = 0, std::int64_t elements = 0);

  // The period that currently holds, 0 if none: a capture of a candidate goes
  // on only while this stays what it was.
  std::uint32_t period() const { return period_; }
  // How many tokens have equalled those a period before them.
  std::uint64_t run() const { return run_; }

  // True if this token would carry on the period that holds, or if it is alike
  // the one `distance` before it, if that is not 0.
  bool Expects(StreamToken token, std::uint8_t flags,
               std::uint32_t distance = 0) const;
  // True if the last token went on with this candidate.
  bool Holds(std::uint32_t period, std::uint32_t distance) const {
    return distance == 0 ? period == period_
                         : ring_.AreAlike(n() - 1, n() - 1 - distance);
  }

  // Tokens seen so far (the position of the next token).
  std::uint64_t position() const { return ring_.size(); }

  // A capture of a candidate with this period has ended: rule (c) of Note
  // [Inner loops].
  void RecordCapture(std::uint32_t period, bool in_vain);

  // Forgets period and run (after a replay, whose ops are not fed).
  void Break();

 private:
  // Small, so that the table stays in the second-level cache beside the
  // program's own data: every op of a stream that never repeats looks into it.
  struct Entry {
    std::uint16_t fingerprint = 0;
    std::uint16_t position = 0;
  };
  // A period that closed and broke without a candidate.
  struct Inner {
    std::uint64_t key = 0;
    std::uint64_t last_end = 0;
    std::uint32_t period = 0;  // 0: free
    std::uint32_t breaks = 0;
    // Of the tokens with which it would have gone on at the last break.
    std::uint64_t body = 0;
    bool ends_alike = false;  // so it was at the break before
  };
  // The tokens equal those `period` before them, `run` of them up to here.
  struct Match {
    std::uint32_t period = 0;
    std::uint64_t run = 0;
  };
  static constexpr int kTableBits = 15;
  static constexpr std::uint32_t kAnchor = TokenRing::kAnchor;
  static constexpr std::uint64_t kRing = TokenRing::kSize;
  static constexpr std::uint64_t kMask = kRing - 1;

  std::uint64_t n() const { return ring_.size(); }
  // Tokens of this run, behind the last one that is alike and not equal.
  std::uint64_t exact_run() const { return n() - exact_from_; }
  bool GoesOn();
  void Push(StreamToken token, std::uint8_t flags, std::int64_t live);
  std::uint32_t RecordFingerprint();
  Candidate Lose();
  Candidate BreakStretch();
  Candidate Search(std::uint32_t distance);
  Candidate SearchShort(std::uint64_t maybe);
  Candidate Shorten(std::uint32_t distance);
  Match BestMatch(std::uint32_t distance);
  std::uint64_t HeldFor(std::uint32_t period) const;
  Candidate Hold(Match match);
  Candidate Close();
  void FirstClose();
  void ThirdTime();
  std::uint64_t BoundaryInUse() const;
  bool MayPromote() const;
  bool IsOuter(std::uint64_t tokens, std::uint64_t enough) const;
  std::uint64_t EnoughOfLoose() const;
  bool IsPatient() const;
  bool IsHeavy() const;
  Candidate Promote();
  std::uint64_t Cut(bool* at_boundary) const;
  std::uint64_t LeastAmong(std::uint8_t flag, std::uint64_t after) const;
  std::uint64_t FewestLive() const;
  std::uint64_t HashFrom(std::uint64_t start) const;
  std::uint64_t WhereItEnds() const;
  void KeepLess(std::uint64_t start, std::uint64_t* best) const;
  const Inner* FindInner() const;

  std::uint64_t floor_ = 0;  // tokens before this one are not adjacent
  std::uint32_t period_ = 0;
  std::uint64_t run_ = 0;         // tokens that equal the one `period_` ago
  std::uint64_t next_close_ = 0;  // the run at which a repetition closes
  std::uint64_t exact_from_ = 0;  // behind the last that was but alike
  std::int64_t elements_ = 0;     // since then, or since this run was found
  std::uint64_t eligible_ = 0;    // closings of this run that could promote
  std::uint64_t run_key_ = 0;     // names the period, whatever its rotation
  bool is_closed_ = false;        // FirstClose() ran for this run
  bool inner_due_ = false;        // rule (c) holds for this period
  bool is_known_ = false;         // rule (e) holds for this period
  std::uint32_t outer_period_ = 0;   // the last one that came around a loop
  std::uint32_t vain_period_ = 0;    // of the last capture in vain
  std::uint32_t vain_captures_ = 0;  // of it, in a row
  std::uint64_t vain_until_ = 0;     // until here it is not looked for
  std::uint64_t last_mark_ = 0;   // position + 1 of the last such token
  std::uint64_t last_sync_ = 0;
  std::uint64_t mark_gap_ = 0;    // between the last two; 0: not known
  std::uint64_t next_deep_ = 0;  // from here on older positions are tried too
  std::uint64_t recent_ = 0;     // a byte for each of the last 8 tokens
  std::array<Inner, 16> inner_;
  std::array<std::uint64_t, 64> promoted_{};  // keys of periods
  std::uint32_t next_promoted_ = 0;
  StretchFinder stretches_;
  TokenRing ring_;
  ZeroedArray<std::uint8_t> flags_;
  ZeroedArray<std::int32_t> live_;
  ZeroedArray<Entry> table_;
  // From a position back to the one with the same fingerprint; 0: none.
  ZeroedArray<std::uint16_t> back_;
};

}  // namespace tjit
