#include "runtime/report/strict.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "runtime/platform/settings.h"
#include "runtime/report/log.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

struct Kept {
  Mutex mutex;
  std::map<const Counters*, std::string> failures ABSL_GUARDED_BY(mutex);
};
Kept& Failures() {
  static auto* kept = new Kept;
  return *kept;
}
std::atomic<int> g_kept{0};  // how many, so that looking costs a load

}  // namespace

void RecordBail(Counters* counters, BailReason why, OpId op,
                bool in_strict_region) {
  counters->side_exits[static_cast<std::size_t>(why)].Add();
  if (IsExpected(why)) return;
  if ((g_settings.modes() & kModeStrict) == 0 && !in_strict_region) return;
  KeepFailure(counters,
              "tjit: unexpected fallback at " + std::string(OpName(op)) + ": " +
                  BailText(why) + " (" + BailName(why) +
                  "). TJIT_STRICT=1, or `strict` of a region, makes it an "
                  "error; without it the program runs on eagerly.");
}

void KeepFailure(const Counters* counters, std::string text) {
  Kept& kept = Failures();
  const MutexLock lock(kept.mutex);
  if (kept.failures.emplace(counters, std::move(text)).second) ++g_kept;
}

bool HasKeptFailure(const Counters* counters) {
  if (g_kept.load(std::memory_order_acquire) == 0) return false;
  Kept& kept = Failures();
  const MutexLock lock(kept.mutex);
  return kept.failures.count(counters) != 0;
}

void ThrowKeptFailure(const Counters* counters) {
  if (g_kept.load(std::memory_order_acquire) == 0) return;
  std::string text;
  {
    Kept& kept = Failures();
    const MutexLock lock(kept.mutex);
    const auto it = kept.failures.find(counters);
    if (it == kept.failures.end()) return;
    text = std::move(it->second);
    kept.failures.erase(it);
    --g_kept;
  }
  TORCH_CHECK(false, text);
}

void PrintKeptFailures() {
  if (g_kept.load(std::memory_order_acquire) == 0) return;
  Kept& kept = Failures();
  const MutexLock lock(kept.mutex);
  for (const auto& [counters, text] : kept.failures) LogWarning(text);
  kept.failures.clear();
  g_kept.store(0, std::memory_order_release);
}

}  // namespace tjit::runtime
