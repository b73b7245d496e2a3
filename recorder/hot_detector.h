// Finds the repeating tail of an op stream: the square detector.
//
// How: a ring of the last 2^16 tokens and the state {period p, run}. While p
// holds, each token is compared with the one p ago; when the run reaches a
// multiple of p (and at least 2 p tokens are known to repeat), a repetition
// has closed. Otherwise the fingerprint of the last 8 tokens is looked up in a
// last-position table, which proposes the next p.
//   a b c | a b c | a  ->  period 3 closes at the 6th token
// The longest period wins: a repetition inside an iteration (one optimizer
// loop per parameter, one block per layer) closes first, but a candidate must
// hold a boundary (mark_step, else a sync point) if the stream has any, see
// Note [Inner loops] in hot_detector.cpp.
//
// Invariants: (1) Observe() is O(1) and allocates nothing. (2) No clock: equal
// streams give equal candidates. (3) Memory is fixed at construction.
// Thread: one per ThreadState, no locking.
// Tested by: tests/recorder/hot_detector_test.cpp
#pragma once

#include <cstdint>
#include <vector>

namespace tjit {

class HotDetector {
 public:
  // What a token is beside its bits.
  enum Flag : std::uint8_t {
    kPlain = 0,
    kSync = 1,           // the op is a sync point: a cut may follow it
    kAfterMarkStep = 2,  // mark_step() was called before this op
    kFreshExternal = 4,  // reads a storage never seen before
  };
  struct Candidate {
    std::uint32_t period = 0;     // ops; 0: nothing closed
    std::uint32_t until_cut = 0;  // ops to let pass before the phase begins
    bool cut_at_boundary = false; // the phase begins after a sync or mark_step
  };

  HotDetector();

  // Feeds one token. Returns a candidate when a repetition that may be
  // promoted has just closed, else period 0.
  Candidate Observe(std::uint64_t token, std::uint8_t flags);

  // The period that currently holds, 0 if none: a capture of a candidate goes
  // on only while this stays what it was.
  std::uint32_t period() const { return period_; }

  // Tokens seen so far (the position of the next token).
  std::uint64_t position() const { return n_; }

  // Forgets period and run (after a replay, whose ops are not fed).
  void Break();

 private:
  struct Entry {
    std::uint64_t fingerprint = 0;
    std::uint64_t position = 0;
  };
  static constexpr int kRingBits = 16;
  static constexpr int kTableBits = 15;
  static constexpr std::uint32_t kAnchor = 8;  // tokens in a fingerprint

  std::uint64_t n_ = 0;
  std::uint32_t period_ = 0;
  std::uint64_t run_ = 0;
  std::vector<std::uint64_t> tokens_;
  std::vector<std::uint64_t> prefix_;
  std::vector<std::uint8_t> flags_;
  std::vector<Entry> table_;
};

}  // namespace tjit
