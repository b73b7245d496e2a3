// The last 2^16 tokens of an op stream, and equality of stretches of it in
// O(1) by hashes of all prefixes.
//
// Positions count from the start of the stream. A stretch [a, b) may be asked
// about while a + kSize >= size().
// Thread: one. Tested by: tests/recorder/token_ring_test.cpp
#pragma once

#include <cstdint>

#include "support/assert.h"
#include "support/zeroed_array.h"

namespace tjit {

// One op of a stream. Equal `exact` mean that it does the same with the same
// tensors, equal `loose` that only tensors that come from outside the loop may
// be others of the same sizes: samples that are drawn from a list.
struct StreamToken {
  // NOLINTNEXTLINE(google-explicit-constructor): no tensor is from outside.
  StreamToken(std::uint64_t both) : exact(both), loose(both) {}
  StreamToken(std::uint64_t exact_token, std::uint64_t loose_token)
      : exact(exact_token), loose(loose_token) {}

  bool IsAlike(const StreamToken& other) const {
    return exact == other.exact || loose == other.loose;
  }

  std::uint64_t exact, loose;
};

class TokenRing {
 public:
  static constexpr std::uint64_t kSize = std::uint64_t{1} << 16;
  static constexpr std::uint32_t kAnchor = 8;  // tokens in a fingerprint

  TokenRing() : tokens_(kSize), prefix_(kSize), loose_(kSize) {}

  void Push(StreamToken token) {
    tokens_[size_ % kSize] = token.exact;
    prefix_[size_ % kSize] = hash_;
    loose_[size_ % kSize] = LooseOf(token);
    hash_ = hash_ * kBase + token.exact;
    ++size_;
  }

  // Tokens pushed so far: the position of the next one.
  std::uint64_t size() const { return size_; }
  std::uint64_t operator[](std::uint64_t position) const {
    return tokens_[position % kSize];
  }

  // True if `token` does the same as the one at `position`, maybe with other
  // tensors from outside the loop.
  bool IsAlike(std::uint64_t position, StreamToken token) const {
    return tokens_[position % kSize] == token.exact ||
           loose_[position % kSize] == LooseOf(token);
  }
  bool AreAlike(std::uint64_t a, std::uint64_t b) const {
    return tokens_[a % kSize] == tokens_[b % kSize] ||
           loose_[a % kSize] == loose_[b % kSize];
  }
  // The same of each of `length` tokens from there on.
  bool AreAlike(std::uint64_t a, std::uint64_t b, std::uint64_t length) const;

  // A hash of the last kAnchor tokens. REQUIRES: there are so many.
  std::uint64_t Fingerprint() const {
    static_assert(kAnchor == 8);
    TJIT_ASSERT(size_ >= kAnchor);
    return hash_ - prefix_[(size_ - kAnchor) % kSize] * kBase8;
  }

  // For how many tokens back, at most `limit`, each equals the one `period`
  // before it. Past the first few by their hashes.
  std::uint64_t HeldFor(std::uint64_t period, std::uint64_t limit) const;

  // The first position at or after which [a, a + limit) and [b, b + limit)
  // differ, counted from a; `limit` if they are equal.
  std::uint64_t CommonPrefix(std::uint64_t a, std::uint64_t b,
                             std::uint64_t limit) const;

 private:
  // Hashes are polynomials modulo 2^64: one multiplication each. There are
  // streams of two tokens that collide (Thue-Morse words), so a hash only
  // proposes.
  static constexpr std::uint64_t kBase = 0x9E3779B97F4A7C15ull;
  static constexpr std::uint64_t kBase2 = kBase * kBase;
  static constexpr std::uint64_t kBase4 = kBase2 * kBase2;
  static constexpr std::uint64_t kBase8 = kBase4 * kBase4;
  struct Powers;

  static std::uint32_t LooseOf(StreamToken token) {
    return static_cast<std::uint32_t>(token.loose);
  }
  std::uint64_t HashOf(std::uint64_t begin, std::uint64_t end) const;
  bool Equal(std::uint64_t a, std::uint64_t b, std::uint64_t length) const;

  std::uint64_t size_ = 0;
  std::uint64_t hash_ = 0;  // of all tokens
  ZeroedArray<std::uint64_t> tokens_;
  ZeroedArray<std::uint64_t> prefix_;  // hash of all tokens before this one
  ZeroedArray<std::uint32_t> loose_;
};

}  // namespace tjit
