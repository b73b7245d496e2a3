// Numbers that look drawn by chance and are the same in every run: a linear
// congruential generator, whose upper bits are the good ones.
//
//   PseudoRandom random;  if (random.NextBool()) { ... }
//
// Not for secrets. Thread: one owner.
// Tested by: tests/support/pseudo_random_test.cpp
// Source: Knuth, The Art of Computer Programming 2, 3.3.4 (MMIX).
#pragma once

#include <cstdint>

namespace tjit {

class PseudoRandom {
 public:
  constexpr explicit PseudoRandom(std::uint64_t seed = 1) : last_(seed) {}

  constexpr std::uint64_t Next() {
    last_ = last_ * 6364136223846793005u + 1442695040888963407u;
    return last_;
  }
  constexpr bool NextBool() { return (Next() >> 63) != 0; }
  // What Next() returned last, or the seed.
  constexpr std::uint64_t last() const { return last_; }

 private:
  std::uint64_t last_;
};

}  // namespace tjit
