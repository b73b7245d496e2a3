// How many bytes tjit keeps of what it has found, by kind: what stats() reports
// (plan_bytes, code_bytes), and what TJIT_MAX_MEMORY_MB bounds.
//
// Objects compute the size of their parts, so that the sums are about what
// malloc gave: tests/runtime/thread/memory_bound_test.cpp compares them.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tjit {

enum class Kept : std::uint8_t {
  kPlans,  // what is prepared of sequences, on all threads
  kCode,   // machine code, and what the compiler knows of it
  kCount,
};

std::uint64_t KeptBytes(Kept kind);

// The part of one object: counted from Set() on, until the object goes.
class KeptShare {
 public:
  explicit KeptShare(Kept kind) : kind_(kind) {}
  ~KeptShare() { Set(0); }
  KeptShare(const KeptShare&) = delete;
  KeptShare& operator=(const KeptShare&) = delete;

  // Threads: one at a time.
  void Set(std::uint64_t bytes);

 private:
  const Kept kind_;
  std::uint64_t bytes_ = 0;
};

// What malloc keeps beside each piece of memory, about.
inline constexpr std::size_t kMallocHeader = 16;

// What the elements of `list` take on the heap.
template <class T>
std::size_t HeapOf(const std::vector<T>& list) {
  return list.capacity() == 0 ? 0 : kMallocHeader + list.capacity() * sizeof(T);
}

}  // namespace tjit
