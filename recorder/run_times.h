// The last measured run times of a sequence, one way of running it.
//
// Thread: any; a sample may be lost between two threads, a median is not.
// Tested by: tests/recorder/trace_test.cpp
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tjit {

class RunTimes {
 public:
  void Add(std::uint64_t ns) {
    const std::uint32_t n = count_.fetch_add(1, std::memory_order_relaxed);
    ns_[n % kKept].store(ns, std::memory_order_relaxed);
  }
  void Clear() { count_.store(0, std::memory_order_relaxed); }
  void CopyFrom(const RunTimes& other) {
    count_.store(other.count_.load(std::memory_order_relaxed),
                 std::memory_order_relaxed);
    for (std::size_t i = 0; i < kKept; ++i) {
      ns_[i].store(other.ns_[i].load(std::memory_order_relaxed),
                   std::memory_order_relaxed);
    }
  }
  // Of the last kKept; 0 if there is none.
  std::uint64_t Median() const { return Smallest(2); }
  // A quarter of them is less.
  std::uint64_t LowerQuartile() const { return Smallest(4); }

 private:
  static constexpr std::size_t kKept = 15;

  std::uint64_t Smallest(std::size_t part) const {
    const std::size_t n = std::min<std::size_t>(
        count_.load(std::memory_order_relaxed), kKept);
    if (n == 0) return 0;
    std::array<std::uint64_t, kKept> sorted{};
    for (std::size_t i = 0; i < n; ++i) {
      sorted[i] = ns_[i].load(std::memory_order_relaxed);
    }
    std::sort(sorted.begin(), sorted.begin() + n);
    return sorted[n / part];
  }

  std::atomic<std::uint32_t> count_{0};
  std::array<std::atomic<std::uint64_t>, kKept> ns_{};
};

}  // namespace tjit
