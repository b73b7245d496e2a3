// Offers planned memory to a kernel that has no out variant.
//
// While a Placement lives on this thread, an allocation of exactly `bytes` is
// served with the offered address instead of a new block (once each; sizes
// that are not unique among the offers are not offered). The caller checks
// afterwards whether the result lies there, and that nothing else holds it.
// What no offer serves is a request to the scope's ScratchPool, if it has one.
// Implemented in block_allocator.cpp.
// Tested by: tests/runtime/memory/block_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>

namespace tjit::runtime {

class ScratchPool;

struct PlacementOffer {
  std::size_t bytes = 0;
  void* data = nullptr;
  bool taken = false;     // an allocation was served with it
  bool released = false;  // and given back since, within the scope
  int passes = 0;         // so many allocations of `bytes` are not served
};

// Installs `offers[0, count)` and `room` on this thread; they belong to the
// caller. Of nested scopes, of which the product has none, the innermost serves
// all requests; releases are noted in each.
class PlacementScope {
 public:
  PlacementScope(PlacementOffer* offers, std::size_t count,
                 ScratchPool* room = nullptr);
  ~PlacementScope();
  PlacementScope(const PlacementScope&) = delete;
  PlacementScope& operator=(const PlacementScope&) = delete;

  // Memory for a request of this scope, or null.
  void* AcquireOffer(std::size_t bytes);
  ScratchPool* room() const { return room_; }
  // Memory is given back on this thread. True if it was offered.
  static bool MarkReleased(void* data);

 private:
  PlacementOffer* offers_;
  std::size_t count_;
  ScratchPool* room_;
  PlacementScope* outer_;
};

// Bytes of results that boxed steps of this thread have copied, as they did not
// lie where they were to. In boxed.cpp, for tests.
std::int64_t CopiedResultBytes();
// Bytes of requests of this thread that rooms have served, for tests.
std::int64_t PlacedScratchBytes();

}  // namespace tjit::runtime
