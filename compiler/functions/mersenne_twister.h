// Random numbers of the Mersenne Twister MT19937, many at a time, with the bits
// of eager's uniform_ and bernoulli_.
//
// How: a generator of 624 words makes the next 624 from them. Of these steps
// 227 do not depend on each other, so vectors of words go side by side. So do
// the words that are tempered, and the numbers that are made of them.
// Source of the generator: M. Matsumoto and T. Nishimura, "Mersenne Twister",
// ACM TOMACS 8 (1998). Source of the numbers: libtorch's
// ATen/core/TransformationHelper.h and ATen/native/cpu/DistributionTemplates.h.
// Invariants: (1) No torch header, no allocation. (2) Each function leaves the
// generator as so many single draws would.
// Thread: any; a generator is one thread's at a time.
// Tested by: tests/compiler/functions/mersenne_twister_test.cpp
#pragma once

#include <cstdint>

namespace tjit {

inline constexpr int kTwisterWords = 624;

struct MersenneTwister {
  std::uint32_t* words = nullptr;  // kTwisterWords; the owner's
  int next = kTwisterWords;        // the word to draw; kTwisterWords: none left
};

// Whether this processor runs what is below (AVX2 and FMA).
bool HasMersenneTwister();

// Numbers of [first, last): first + u * (last - first), where u has 24 random
// bits, or 53 of a double; `first` where that is rounded up to `last`.
// `is_fused`: the product is not rounded.
// REQUIRES, as of all below: HasMersenneTwister().
struct UniformRange {
  double first = 0, last = 1;  // are floats where floats are drawn
  bool is_fused = false;
};
void DrawUniform(MersenneTwister* twister, const UniformRange& range, float* to,
                 std::int64_t count);
void DrawUniform(MersenneTwister* twister, const UniformRange& range,
                 double* to, std::int64_t count);

// 1 with a probability of p, else 0: whether 53 random bits, as a number below
// 1, are less than p.
// REQUIRES: 0 <= p <= 1.
void DrawBernoulli(MersenneTwister* twister, double p, float* to,
                   std::int64_t count);
void DrawBernoulli(MersenneTwister* twister, double p, double* to,
                   std::int64_t count);
void DrawBernoulli(MersenneTwister* twister, double p, bool* to,
                   std::int64_t count);

}  // namespace tjit
