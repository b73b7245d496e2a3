#include "runtime/thread/exposure_notes.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "runtime/memory/tensor_names.h"
#include "runtime/thread/exit_notes.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

constexpr int kLookedAt = 64;           // pointers
constexpr std::size_t kMostPlaces = 8;  // lines of a report

class Places {
 public:
  static Places& Get() {
    static auto& places = *new Places;
    return places;
  }
  // `tensor`: its name.
  void Add(const std::string& place, std::string tensor, std::uint64_t bytes) {
    const auto size = static_cast<std::int64_t>(bytes);
    const MutexLock lock(mutex_);
    for (ExplainedExposure& e : places_) {
      if (e.place != place || e.tensor != tensor) continue;
      ++e.times;
      e.bytes = std::max(e.bytes, size);
      return;
    }
    if (places_.size() < kMostPlaces) {
      places_.push_back({place, 1, size, std::move(tensor)});
    }
  }
  void Remove(const std::string& place, const std::string& tensor) {
    const MutexLock lock(mutex_);
    const auto it = std::find_if(
        places_.begin(), places_.end(), [&](const ExplainedExposure& e) {
          return e.place == place && e.tensor == tensor;
        });
    if (it != places_.end() && --it->times == 0) places_.erase(it);
  }
  std::vector<ExplainedExposure> Sorted() {
    std::vector<ExplainedExposure> places;
    {
      const MutexLock lock(mutex_);
      places = places_;
    }
    std::stable_sort(
        places.begin(), places.end(),
        [](const auto& a, const auto& b) { return a.times > b.times; });
    return places;
  }

 private:
  Mutex mutex_;
  std::vector<ExplainedExposure> places_ ABSL_GUARDED_BY(mutex_);
};

// The last one that was noted; only compared.
std::atomic<const c10::StorageImpl*> g_noted{nullptr};

}  // namespace

void RecordExposure(const c10::StorageImpl* storage, std::uint64_t bytes) {
  static std::atomic<int> looked_at{0};
  if (looked_at.load(std::memory_order_relaxed) >= kLookedAt ||
      looked_at.fetch_add(1, std::memory_order_relaxed) >= kLookedAt) {
    return;
  }
  try {
    Places::Get().Add(PlaceOfCall(), TensorNameOf(storage), bytes);
    g_noted.store(storage, std::memory_order_relaxed);
  } catch (const std::exception&) {
    // No memory: the report has a line less.
  }
}

void ForgetExposure(const c10::StorageImpl* storage) {
  if (g_noted.load(std::memory_order_relaxed) != storage) return;
  g_noted.store(nullptr, std::memory_order_relaxed);
  try {
    Places::Get().Remove(PlaceOfCall(), TensorNameOf(storage));
  } catch (const std::exception&) {
    // No memory: the report has a line more.
  }
}

std::vector<ExplainedExposure> RecordedExposures() {
  return Places::Get().Sorted();
}

}  // namespace tjit::runtime
