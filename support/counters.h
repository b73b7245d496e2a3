// The counters of one thread (counters.def) and the reasons (bail.h), summed
// up by the runtime for tjit::stats().
//
// Written by the owning thread only, with relaxed stores, read by any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "support/bail.h"

namespace tjit {

// One number: single writer, any reader.
class Counter {
 public:
  void Add(std::int64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n,
                 std::memory_order_relaxed);
  }
  void Max(std::int64_t n) {
    if (n > value()) value_.store(n, std::memory_order_relaxed);
  }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

struct Counters {
#define TJIT_COUNTER(name, what) Counter name;
#include "support/counters.def"
#undef TJIT_COUNTER
  std::array<Counter, static_cast<std::size_t>(FlushReason::kCount)> flushes;
  std::array<Counter, static_cast<std::size_t>(BailReason::kCount)> side_exits;
  std::array<Counter, static_cast<std::size_t>(BackwardReason::kCount)>
      backwards_left;
  std::array<Counter, 20> segment_length;  // log2 bins, see stats.h
  std::array<Counter, 20> segment_ops;
};

}  // namespace tjit
