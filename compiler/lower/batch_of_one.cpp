#include "compiler/lower/batch_of_one.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "compiler/lower/geometry.h"
#include "compiler/lower/symbolic_match.h"

namespace tjit::lower {
namespace {

bool IsOne(const TensorGeometry& g) { return g.ndim > 0 && g.sizes[0] == 1; }

// Tensors that the group makes or changes.
std::vector<const TensorGeometry*> ResultsOf(
    absl::Span<const GroupStep> steps) {
  std::vector<const TensorGeometry*> all;
  for (const GroupStep& step : steps) {
    for (const ArgRecord& arg : step.record->args) {
      if (arg.slot != kNoSlot && arg.written) all.push_back(&*arg.geometry);
    }
    for (const ResultRecord& result : step.record->results) {
      if (result.kind == ResultRecord::Kind::kFresh) {
        all.push_back(&*result.geometry);
      }
    }
  }
  return all;
}

std::int64_t LengthThatIsNoSize(absl::Span<const GroupStep> steps) {
  std::set<std::int64_t> sizes;
  for (const GroupStep& step : steps) {
    for (const ArgRecord& arg : step.record->args) {
      sizes.insert(arg.geometry->sizes, arg.geometry->sizes + kMaxDims);
    }
  }
  for (const std::int64_t prime : {61, 67, 71, 73, 79, 83, 89, 97, 101, 103}) {
    if (!sizes.contains(prime)) return prime;
  }
  return 0;
}

// What the uses of a slot reach, in bytes: as recorded, and with the longer
// batch.
struct Reached {
  std::int64_t before = 0, after = 0;
};
using ReachedBySlot = absl::flat_hash_map<std::int32_t, Reached>;

std::int64_t BytesOf(const TensorGeometry& g) {
  return g.numel() == 0 ? 0 : (ReachOf(g).last + 1) * g.itemsize;
}

void Lengthen(std::int64_t length, std::int32_t slot, TensorGeometry* g,
              ReachedBySlot* reached) {
  if (slot == kNoSlot) return;
  Reached& mine = (*reached)[slot];
  mine.before = std::max(mine.before, BytesOf(*g));
  if (IsOne(*g) && g->numel() != 0) {
    g->sizes[0] = length;
    if (g->strides[0] != 0) {
      TensorGeometry inner = *g;
      inner.sizes[0] = 1;
      inner.offset = 0;
      g->strides[0] = std::max(g->strides[0], ReachOf(inner).last + 1);
    }
  }
  mine.after = std::max(mine.after, BytesOf(*g));
}

}  // namespace

bool MakeLongerBatch(absl::Span<const GroupStep> steps,
                     absl::Span<const GroupSlot> slots, LongerBatch* longer) {
  const std::vector<const TensorGeometry*> results = ResultsOf(steps);
  const std::int64_t length = LengthThatIsNoSize(steps);
  if (results.empty() || length == 0 ||
      !std::all_of(results.begin(), results.end(),
                   [](const TensorGeometry* g) { return IsOne(*g); })) {
    return false;
  }
  ReachedBySlot reached;
  longer->records.reserve(steps.size());  // the steps point to them
  for (const GroupStep& step : steps) {
    StepRecord& record = longer->records.emplace_back(CopyOf(*step.record));
    for (ArgRecord& arg : record.args) {
      Lengthen(length, arg.slot, &arg.geometry.Own(), &reached);
    }
    for (ResultRecord& result : record.results) {
      if (result.kind != ResultRecord::Kind::kFresh) continue;
      Lengthen(length, result.slot, &result.geometry.Own(), &reached);
    }
    longer->steps.push_back(step);
    longer->steps.back().record = &record;
  }
  longer->slots.assign(slots.begin(), slots.end());
  for (GroupSlot& slot : longer->slots) {
    const Reached& mine = reached[slot.slot];
    const auto after = static_cast<std::uint64_t>(mine.after);
    const bool is_all = slot.bytes == static_cast<std::uint64_t>(mine.before);
    slot.bytes = is_all ? after : std::max(slot.bytes, after);
  }
  return true;
}

bool MatchesBatchOfOne(const Lowered& general,
                       absl::Span<const GroupStep> steps,
                       const Lowered& numbers) {
  if (general.external_slots != numbers.external_slots ||
      general.return_slots != numbers.return_slots ||
      general.scalars != numbers.scalars) {
    return false;
  }
  return MatchesAt(SizesOf(general.symbols, steps), general.function,
                   numbers.function);
}

}  // namespace tjit::lower
