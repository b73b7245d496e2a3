// Numbers that are 0 until they are written. Pages that nobody has written take
// no memory, so a thread that runs a hundred ops does not pay for tables of
// 65,536. A std::vector writes its zeros, and calloc() those of memory that it
// has had before.
//
// Thread: as std::vector. Tested by: tests/support/zeroed_array_test.cpp
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "support/assert.h"

namespace tjit {

// Of whole pages: for large ones.
template <class T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // THROWS std::bad_alloc. REQUIRES: size > 0; a T of bits that are 0 is one.
  explicit ZeroedArray(std::size_t size) : size_(size) {
    void* const pages =
        mmap(nullptr, size * sizeof(T), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(pages);
  }
  ~ZeroedArray() {
    if (data_ != nullptr) munmap(data_, size_ * sizeof(T));
  }
  ZeroedArray(ZeroedArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  ZeroedArray& operator=(ZeroedArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) {
    TJIT_ASSERT(i < size_);
    return data_[i];
  }
  const T& operator[](std::size_t i) const {
    TJIT_ASSERT(i < size_);
    return data_[i];
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tjit
