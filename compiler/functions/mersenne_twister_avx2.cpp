// Compiled for AVX2: no header of the C++ library may be included here.
#include "compiler/functions/mersenne_twister.h"

namespace tjit {
namespace {

constexpr int kMiddle = 397;   // words between the two that make a new one
constexpr int kAtOnce = 1024;  // words on the stack; an even number

template <class T>
T Min(T a, T b) {
  return a < b ? a : b;
}

std::uint32_t Twist(std::uint32_t u, std::uint32_t v) {
  const std::uint32_t mixed = (u & 0x80000000U) | (v & 0x7fffffffU);
  return (mixed >> 1) ^ ((v & 1U) * 0x9908b0dfU);
}

// The next words. Each one is made of words that are 1 and kMiddle away, so no
// vector of them overlaps what it is made of.
void MakeWords(std::uint32_t* words) {
  constexpr int kFirst = kTwisterWords - kMiddle;
  for (int i = 0; i < kFirst; ++i) {
    words[i] = words[i + kMiddle] ^ Twist(words[i], words[i + 1]);
  }
  for (int i = kFirst; i < kTwisterWords - 1; ++i) {
    words[i] = words[i - kFirst] ^ Twist(words[i], words[i + 1]);
  }
  words[kTwisterWords - 1] =
      words[kMiddle - 1] ^ Twist(words[kTwisterWords - 1], words[0]);
}

std::uint32_t Tempered(std::uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

void DrawWords(MersenneTwister* twister, std::uint32_t* to, int count) {
  while (count > 0) {
    if (twister->next == kTwisterWords) {
      MakeWords(twister->words);
      twister->next = 0;
    }
    const int some = Min(count, kTwisterWords - twister->next);
    const std::uint32_t* const from = twister->words + twister->next;
    for (int i = 0; i < some; ++i) to[i] = Tempered(from[i]);
    twister->next += some;
    to += some;
    count -= some;
  }
}

// Calls f(words, to, count) for pieces of the numbers, each of which needs
// kWords words.
template <int kWords, class T, class F>
void ForEachPiece(MersenneTwister* twister, T* to, std::int64_t count, F&& f) {
  alignas(64) std::uint32_t words[kAtOnce];
  while (count > 0) {
    const int some =
        static_cast<int>(Min<std::int64_t>(count, kAtOnce / kWords));
    DrawWords(twister, words, some * kWords);
    f(words, to, some);
    to += some;
    count -= some;
  }
}

// The first word has the high bits.
std::int64_t Bits53(const std::uint32_t* words) {
  return static_cast<std::int64_t>(words[0] & 0x1fffffU) << 32 | words[1];
}

float MultiplyAdd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
double MultiplyAdd(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

template <class T>
T InRange(T u, T first, T last, bool is_fused) {
  const T range = last - first;
  const T x = is_fused ? MultiplyAdd(u, range, first) : u * range + first;
  return x == last ? first : x;
}

// x / 2^53 < p just where x < p * 2^53, a number without rounding; and x is
// whole.
template <class T>
void Bernoulli(MersenneTwister* twister, double p, T* to, std::int64_t count) {
  const auto limit = static_cast<std::int64_t>(__builtin_ceil(p * 0x1p53));
  ForEachPiece<2>(twister, to, count,
                  [=](const std::uint32_t* words, T* some, int n) {
                    for (int i = 0; i < n; ++i) {
                      some[i] = static_cast<T>(Bits53(words + 2 * i) < limit);
                    }
                  });
}

}  // namespace

void DrawUniform(MersenneTwister* twister, const UniformRange& range, float* to,
                 std::int64_t count) {
  const auto first = static_cast<float>(range.first);
  const auto last = static_cast<float>(range.last);
  const auto draw = [&](auto is_fused) {
    ForEachPiece<1>(twister, to, count,
                    [=](const std::uint32_t* words, float* some, int n) {
                      for (int i = 0; i < n; ++i) {
                        const auto u =
                            static_cast<float>(static_cast<std::int32_t>(
                                words[i] & 0xffffffU)) *
                            0x1p-24F;
                        some[i] = InRange(u, first, last, is_fused());
                      }
                    });
  };
  range.is_fused ? draw([] { return true; }) : draw([] { return false; });
}

void DrawUniform(MersenneTwister* twister, const UniformRange& range,
                 double* to, std::int64_t count) {
  ForEachPiece<2>(
      twister, to, count, [&](const std::uint32_t* words, double* some, int n) {
        for (int i = 0; i < n; ++i) {
          const double u = static_cast<double>(Bits53(words + 2 * i)) * 0x1p-53;
          some[i] = InRange(u, range.first, range.last, range.is_fused);
        }
      });
}

void DrawBernoulli(MersenneTwister* twister, double p, float* to,
                   std::int64_t count) {
  Bernoulli(twister, p, to, count);
}
void DrawBernoulli(MersenneTwister* twister, double p, double* to,
                   std::int64_t count) {
  Bernoulli(twister, p, to, count);
}
void DrawBernoulli(MersenneTwister* twister, double p, bool* to,
                   std::int64_t count) {
  Bernoulli(twister, p, to, count);
}

}  // namespace tjit
