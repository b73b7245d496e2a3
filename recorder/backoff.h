// A pause that doubles with each failure in a row.
//
// Positions are those of a stream of ops, so that a pause costs a program the
// same share of its ops however fast it runs.
// Thread: belongs to one. Tested by: tests/recorder/backoff_test.cpp
#pragma once

#include <algorithm>
#include <cstdint>

namespace tjit {

class Backoff {
 public:
  // The pause grows with no more than `most_failures` in a row, to at most
  // `longest` ops.
  constexpr explicit Backoff(std::uint32_t most_failures,
                             std::uint64_t longest = ~std::uint64_t{0})
      : most_failures_(most_failures), longest_(longest) {}

  // At `now` something failed that took `ops`: the pause is twice as long, four
  // times, ...
  void Fail(std::uint64_t now, std::uint64_t ops) {
    failures_ = std::min(failures_ + 1, most_failures_);
    until_ = now + std::min(ops << failures_, longest_);
  }
  // The next failure is the first one of its row.
  void Succeed() { failures_ = 0; }
  void PauseUntil(std::uint64_t position) { until_ = position; }
  void Reset() {
    failures_ = 0;
    until_ = 0;
  }

  bool IsOver(std::uint64_t now) const { return now >= until_; }
  std::uint64_t until() const { return until_; }

 private:
  std::uint32_t most_failures_;
  std::uint32_t failures_ = 0;  // in a row
  std::uint64_t longest_;
  std::uint64_t until_ = 0;
};

}  // namespace tjit
