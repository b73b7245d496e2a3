#include "recorder/token_ring.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tjit {

// kBase^e for e up to 2^16 + 255 from two small tables.
struct TokenRing::Powers {
  std::array<std::uint64_t, 256> low{};
  std::array<std::uint64_t, 257> high{};
  constexpr Powers() {
    low[0] = high[0] = 1;
    for (std::size_t i = 1; i < 256; ++i) low[i] = low[i - 1] * kBase;
    const std::uint64_t step = low[255] * kBase;
    for (std::size_t i = 1; i < 257; ++i) high[i] = high[i - 1] * step;
  }
  constexpr std::uint64_t operator()(std::uint64_t e) const {
    return low[e & 255] * high[e >> 8];
  }
};

namespace {

constexpr std::uint64_t kDirect = 16;  // tokens compared before hashes are

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

std::uint64_t TokenRing::HashOf(std::uint64_t begin, std::uint64_t end) const {
  static constexpr Powers kPowers;
  const std::uint64_t to = end == size_ ? hash_ : prefix_[end % kSize];
  return to - prefix_[begin % kSize] * kPowers(end - begin);
}

bool TokenRing::Equal(std::uint64_t a, std::uint64_t b,
                      std::uint64_t length) const {
  return HashOf(a, a + length) == HashOf(b, b + length);
}

std::uint64_t TokenRing::HeldFor(std::uint64_t period,
                                 std::uint64_t limit) const {
  const TokenRing& t = *this;
  std::uint64_t held = 0;
  while (held < kDirect && held < limit &&
         t[size_ - 1 - held] == t[size_ - 1 - held - period]) {
    ++held;
  }
  if (held < kDirect) return held;
  return Longest(held, limit, [&](std::uint64_t length) {
    return Equal(size_ - length, size_ - length - period, length);
  });
}

bool TokenRing::AreAlike(std::uint64_t a, std::uint64_t b,
                         std::uint64_t length) const {
  for (std::uint64_t i = 0; i < length; ++i) {
    i += CommonPrefix(a + i, b + i, length - i);
    if (i < length && !AreAlike(a + i, b + i)) return false;
  }
  return true;
}

std::uint64_t TokenRing::CommonPrefix(std::uint64_t a, std::uint64_t b,
                                      std::uint64_t limit) const {
  const TokenRing& t = *this;
  std::uint64_t same = 0;
  while (same < kDirect && same < limit && t[a + same] == t[b + same]) ++same;
  if (same < kDirect) return same;
  return Longest(same, limit, [&](std::uint64_t length) {
    return Equal(a, b, length);
  });
}

}  // namespace tjit
