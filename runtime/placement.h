// Offers planned memory to a kernel that has no out variant.
//
// While a Placement lives on this thread, an allocation of exactly `bytes` is
// served with the offered address instead of a new block (once each; sizes
// that are not unique among the offers are not offered). The caller checks
// afterwards whether the result lies there, and that nothing else holds it.
// Implemented in block.cpp. Tested by: tests/runtime/block_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>

namespace tjit::runtime {

struct PlacementOffer {
  std::size_t bytes = 0;
  void* data = nullptr;
  bool taken = false;     // an allocation was served with it
  bool released = false;  // and given back since, within the scope
  int passes = 0;         // so many allocations of `bytes` are not served
};

// Installs `offers[0, count)` on this thread; the array belongs to the caller.
class PlacementScope {
 public:
  PlacementScope(PlacementOffer* offers, std::size_t count);
  ~PlacementScope();
  PlacementScope(const PlacementScope&) = delete;
  PlacementScope& operator=(const PlacementScope&) = delete;

 private:
  PlacementOffer* saved_;
  std::size_t saved_count_;
};

// Bytes of results that boxed steps of this thread have copied, as they did not
// lie where they were to. In library_calls_boxed.cpp, for tests.
std::int64_t CopiedResultBytes();

}  // namespace tjit::runtime
