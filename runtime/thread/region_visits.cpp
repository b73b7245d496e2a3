#include "runtime/thread/region_visits.h"

#include <new>

#include "runtime/platform/settings.h"

namespace tjit::runtime {
namespace {

// Adds what `now` has more than `base`, and takes it over.
void Gain(const Counter& now, Counter* base, Counter* sum) {
  const std::int64_t gained = now.value() - base->value();
  if (gained == 0) return;
  base->Add(gained);
  if (sum != nullptr) sum->Add(gained);
}

}  // namespace

RegionVisits::~RegionVisits() {
  for (std::atomic<Chunk*>& chunk : chunks_) delete chunk.load();
}

RegionVisits::Counts* RegionVisits::CountsOf(RegionId id) noexcept {
  std::atomic<Chunk*>& chunk = chunks_[id / kChunk];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(new (std::nothrow) Chunk, std::memory_order_release);
  }
  Chunk* const counts = chunk.load(std::memory_order_relaxed);
  return counts == nullptr ? nullptr : &(*counts)[id % kChunk];
}

void RegionVisits::Count(const Counters& now) noexcept {
  // What ran since was called before, and ran at the edge then.
  if (now.ops_seen.value() == base_.ops_seen.value()) return;
  Counts* const sum = current_;
  Gain(now.ops_seen, &base_.ops_seen, sum ? &sum->ops_seen : nullptr);
  Gain(now.ops_eager, &base_.ops_eager, sum ? &sum->ops_eager : nullptr);
  Gain(now.ops_replayed, &base_.ops_replayed,
       sum ? &sum->ops_replayed : nullptr);
  Gain(now.ops_drained, &base_.ops_drained, sum ? &sum->ops_drained : nullptr);
}

void RegionVisits::GoTo(RegionId id, bool is_new,
                        const Counters& now) noexcept {
  Count(now);
  RegionIds* const from = current_ != nullptr && CurrentRegion() == this->id()
                              ? &current_->ids
                              : nullptr;
  current_ = CountsOf(id);
  id_.store(id, std::memory_order_relaxed);
  GoToRegion(id, from, current_ != nullptr ? current_->ids : RegionIds(),
             &found_);
  settings_ = &table_.SettingsOf(id);
  excludes_all_ = settings_->excludes_all();
  is_strict_.store(settings_->strict.value_or(false),
                   std::memory_order_relaxed);
  is_exact_ = settings_->is_exact.value_or(false);
  if (is_new && current_ != nullptr) current_->entries.Add();
}

std::int64_t ThresholdIn(const RegionVisits* visits) {
  if (g_settings.compile_all()) return 1;
  const std::int64_t usual = g_settings.hot_threshold();
  return visits == nullptr ? usual
                           : visits->settings().threshold.value_or(usual);
}

void RegionVisits::Forget() {
  found_ = {};
  for (const std::atomic<Chunk*>& chunk : chunks_) {
    Chunk* const all = chunk.load(std::memory_order_relaxed);
    if (all == nullptr) continue;
    for (Counts& counts : *all) {
      counts.new_bodies = counts.runs = 0;
      counts.ids = {};
      counts.pause.Reset();
    }
  }
}

void RegionVisits::RecordBody(bool is_new, std::int64_t seen, std::size_t ops) {
  if (current_ == nullptr) return;
  if (!is_new) {
    ++current_->runs;
    return;
  }
  current_->pause.Fail(static_cast<std::uint64_t>(seen), ops);
  if (++current_->new_bodies < policy::kCountedBodies) return;
  current_->new_bodies /= 2;
  current_->runs /= 2;
}

bool RegionVisits::MayRecord(std::int64_t seen) const {
  if (current_ == nullptr) return false;
  return current_->new_bodies < policy::kTriedBodies ||
         current_->runs >= policy::kRunsOfEachBody * current_->new_bodies ||
         current_->pause.IsOver(static_cast<std::uint64_t>(seen));
}

void RegionVisits::AddTo(RegionId id, const Counters& now,
                         RegionSums* sums) const {
  const Chunk* const chunk =
      chunks_[id / kChunk].load(std::memory_order_acquire);
  if (chunk == nullptr) return;
  const Counts& counts = (*chunk)[id % kChunk];
  sums->entries += counts.entries.value();
  sums->ops_seen += counts.ops_seen.value();
  sums->ops_eager += counts.ops_eager.value();
  sums->ops_replayed += counts.ops_replayed.value();
  sums->ops_drained += counts.ops_drained.value();
  if (this->id() != id) return;
  sums->ops_seen += now.ops_seen.value() - base_.ops_seen.value();
  sums->ops_eager += now.ops_eager.value() - base_.ops_eager.value();
  sums->ops_replayed += now.ops_replayed.value() - base_.ops_replayed.value();
  sums->ops_drained += now.ops_drained.value() - base_.ops_drained.value();
}

}  // namespace tjit::runtime
