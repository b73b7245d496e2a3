// The sizes that memory of blocks comes in: 64 bytes apart up to 512, then eight
// to each power of two.
// Tested by: tests/runtime/memory/block_test.cpp
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tjit::runtime {

constexpr unsigned kSizeClasses = 248;      // up to 512 GiB
constexpr std::uint8_t kUncachedClass = 255;  // larger: never cached
constexpr std::size_t kMaxClassBytes = std::size_t{1} << 39;
// So much may be cached whatever the peak: of each thread, and of all.
constexpr std::int64_t kCacheFloorOfThread = 16 << 20;
constexpr std::int64_t kCacheFloor = 4 * kCacheFloorOfThread;
// From this size on blocks have colours: up to a page more.
constexpr std::size_t kMinColouredBytes = 32 << 10;
constexpr std::size_t kColours = 8;
// AddressSanitizer is to see what is in front of a block and behind it.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kHasColours = false;
#else
constexpr bool kHasColours = true;
#endif

// REQUIRES: 0 < bytes <= kMaxClassBytes.
constexpr unsigned SizeClassOf(std::size_t bytes) {
  const std::size_t last = bytes - 1;
  if (last < 512) return static_cast<unsigned>(last >> 6);
  const unsigned log = static_cast<unsigned>(std::bit_width(last)) - 1;
  return 8 + (log - 9) * 8 + static_cast<unsigned>((last >> (log - 3)) & 7);
}

inline constexpr std::array<std::int64_t, kSizeClasses> kClassBytes = [] {
  std::array<std::int64_t, kSizeClasses> bytes{};
  for (unsigned c = 0; c < 8; ++c) bytes[c] = 64 * (c + 1);
  for (unsigned c = 8; c < kSizeClasses; ++c) {
    bytes[c] = static_cast<std::int64_t>(9 + (c - 8) % 8) << ((c - 8) / 8 + 6);
  }
  return bytes;
}();

// Where a class has no free block, one of so many next ones serves as well, in
// blocks up to the second constant.
constexpr unsigned kLargerClasses = 2;
constexpr unsigned kMostWithLarger = SizeClassOf(std::size_t{4} << 20);
// The class itself or the first of these of which has_free() holds; the class
// itself where none is.
template <class HasFree>
unsigned ClassWithFree(unsigned size_class, HasFree has_free) {
  const unsigned last = std::min(size_class + kLargerClasses, kMostWithLarger);
  for (unsigned c = size_class; c <= last; ++c) {
    if (has_free(c)) return c;
  }
  return size_class;
}
// Larger blocks go to the shared lists at once.
constexpr unsigned kLocalClasses = SizeClassOf(std::size_t{256} << 10) + 1;
// Slots without memory (reserved_block.h), of 64 KiB << 0 .. 8, are kept for
// reuse on lists behind those. They are no cached bytes.
constexpr unsigned kSlotClasses = 9;
constexpr unsigned kRecycledClasses = kLocalClasses + kSlotClasses;

}  // namespace tjit::runtime
