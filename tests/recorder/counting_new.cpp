#include "tests/recorder/counting_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> allocations{0};
}  // namespace

// A file of its own: inlined into a caller, new and delete would look like
// malloc and free that do not match.
void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
// AddressSanitizer has one of its own (std::stable_sort() asks it).
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tjit {

std::int64_t AllocationCount() {
  return allocations.load(std::memory_order_relaxed);
}

}  // namespace tjit
