// The last 2^16 tokens of an op stream, and equality of stretches of it in
// O(1) by hashes of all prefixes.
//
// Positions count from the start of the stream. A stretch [a, b) may be asked
// about while a + kSize >= size().
// Thread: one. Tested by: tests/recorder/token_ring_test.cpp
#pragma once

#include <cstdint>
#include <vector>

namespace tjit {
namespace ring_hash {

// Hashes are polynomials modulo the prime 2^61 - 1.
inline constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
inline constexpr std::uint64_t kBase = 0x1E3779B97F4A7C15ull & kPrime;

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

constexpr std::uint64_t Power(std::uint64_t base, int exponent) {
  return exponent == 0 ? 1 : MulMod(base, Power(base, exponent - 1));
}

}  // namespace ring_hash

class TokenRing {
 public:
  static constexpr std::uint64_t kSize = std::uint64_t{1} << 16;
  static constexpr std::uint32_t kAnchor = 8;  // tokens in a fingerprint

  TokenRing() : tokens_(kSize), prefix_(kSize) {}

  void Push(std::uint64_t token) {
    tokens_[size_ % kSize] = token;
    prefix_[size_ % kSize] = hash_;
    hash_ = ring_hash::Mod(ring_hash::MulMod(hash_, ring_hash::kBase) +
                           ring_hash::Mod(token));
    ++size_;
  }

  // Tokens pushed so far: the position of the next one.
  std::uint64_t size() const { return size_; }
  std::uint64_t operator[](std::uint64_t position) const {
    return tokens_[position % kSize];
  }

  // A hash of the last kAnchor tokens. REQUIRES: there are so many.
  std::uint64_t Fingerprint() const {
    constexpr std::uint64_t kPower =
        ring_hash::Power(ring_hash::kBase, kAnchor);
    const std::uint64_t before = prefix_[(size_ - kAnchor) % kSize];
    return ring_hash::SubMod(hash_, ring_hash::MulMod(before, kPower));
  }

  // For how many tokens back, at most `limit`, each equals the one `period`
  // before it. Up to hash collisions past the first few.
  std::uint64_t HeldFor(std::uint64_t period, std::uint64_t limit) const;

  // The first position at or after which [a, a + limit) and [b, b + limit)
  // differ, counted from a; `limit` if they are equal.
  std::uint64_t CommonPrefix(std::uint64_t a, std::uint64_t b,
                             std::uint64_t limit) const;

 private:
  std::uint64_t HashOf(std::uint64_t begin, std::uint64_t end) const;
  bool Equal(std::uint64_t a, std::uint64_t b, std::uint64_t length) const;

  std::uint64_t size_ = 0;
  std::uint64_t hash_ = 0;  // of all tokens
  std::vector<std::uint64_t> tokens_;
  std::vector<std::uint64_t> prefix_;  // hash of all tokens before this one
};

}  // namespace tjit
