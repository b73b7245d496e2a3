#include "support/kept_bytes.h"

#include <array>
#include <atomic>
#include <cstddef>

namespace tjit {
namespace {

std::atomic<std::uint64_t>& SumOf(Kept kind) {
  static std::array<std::atomic<std::uint64_t>,
                    static_cast<std::size_t>(Kept::kCount)>
      sums{};
  return sums[static_cast<std::size_t>(kind)];
}

}  // namespace

std::uint64_t KeptBytes(Kept kind) {
  return SumOf(kind).load(std::memory_order_relaxed);
}

void KeptShare::Set(std::uint64_t bytes) {
  // Unsigned: what is less wraps around, and the sum with it.
  SumOf(kind_).fetch_add(bytes - bytes_, std::memory_order_relaxed);
  bytes_ = bytes;
}

}  // namespace tjit
