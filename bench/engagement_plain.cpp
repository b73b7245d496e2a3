// The eager peer: a program that tjit is no part of.
#include <c10/core/Allocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <cstring>

#include "bench/engagement.h"

namespace tjit::bench {
namespace {

std::atomic<std::int64_t> live_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};

// libtorch's default allocator, with the size in front of each block.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &Delete, c10::kCPU};
    auto* block = static_cast<char*>(c10::alloc_cpu(kHeader + bytes));
    std::memcpy(block, &bytes, sizeof bytes);
    const auto size = static_cast<std::int64_t>(bytes);
    const std::int64_t live = live_bytes.fetch_add(size) + size;
    std::int64_t peak = peak_bytes.load();
    while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
    }
    return {block + kHeader, block + kHeader, &Delete, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static constexpr std::size_t kHeader = 64;  // keeps the alignment

  static void Delete(void* data) {
    if (data == nullptr) return;
    char* block = static_cast<char*>(data) - kHeader;
    std::size_t bytes = 0;
    std::memcpy(&bytes, block, sizeof bytes);
    live_bytes.fetch_sub(static_cast<std::int64_t>(bytes));
    c10::free_cpu(block);
  }
};

}  // namespace

bool IsLinked() { return false; }
bool IsEnabled() { return false; }
void StartCounting() {}
Engagement Counted() { return {}; }
void CountMemory() {
  static auto* allocator = new CountingAllocator;
  c10::SetAllocator(c10::kCPU, allocator, /*priority=*/1);
}
void StartPeak() { peak_bytes.store(live_bytes.load()); }
std::int64_t PeakBytes() { return peak_bytes.load(); }
void WrapFunctions() {}
bool WrapsFunctions() { return false; }
TensorFunction Wrapped(TensorFunction function) { return function; }
TensorsFunction Wrapped(TensorsFunction function) { return function; }
PlaceFunction Wrapped(PlaceFunction function) { return function; }
NumbersFunction Wrapped(NumbersFunction function) { return function; }
TrainingFunction Wrapped(TrainingFunction function) { return function; }
BatchFunction Wrapped(BatchFunction function) { return function; }
void Enable() {}
void Disable() {}
void MarkStep() {}
void Sync() {}

}  // namespace tjit::bench
