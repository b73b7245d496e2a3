#include "compiler/driver/varied_scalars.h"

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "recorder/tensor_meta.h"

namespace tjit {
namespace {

constexpr std::uint64_t kDouble = 7;  // c10::ScalarType
constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;

bool MayBeArgument(const ScalarRecord& scalar) {
  return scalar.may_vary && !scalar.IsRuntime() &&
         scalar.value.type == kDouble &&
         (scalar.value.bits[0] & kFraction) != 0;
}

// What one scalar of an op is in the segment.
struct Seen {
  std::uint64_t first = 0;  // bits
  bool differs = false;
};
using Place = std::pair<std::string_view, std::size_t>;

}  // namespace

VariedScalars::VariedScalars(const SegmentInput& input, bool are_found)
    : input_(input) {
  if (!are_found) return;
  absl::flat_hash_map<Place, Seen> places;
  const auto for_each = [&](auto visit) {
    for (std::uint32_t s = 0; s < input.steps.size(); ++s) {
      const SegmentStep& step = input.steps[s];
      for (std::size_t i = 0; i < step.record.scalars.size(); ++i) {
        const ScalarRecord& scalar = step.record.scalars[i];
        if (MayBeArgument(scalar)) visit(s, Place(step.op, i), scalar);
      }
    }
  };
  for_each([&](std::uint32_t, const Place& place, const ScalarRecord& scalar) {
    const std::uint64_t bits = scalar.value.bits[0];
    Seen& seen = places.try_emplace(place, Seen{bits}).first->second;
    seen.differs = seen.differs || seen.first != bits;
  });
  for_each([&](std::uint32_t s, const Place& place, const ScalarRecord&) {
    if (!places.at(place).differs) return;
    const auto record = records_.try_emplace(s, input.steps[s].record).first;
    record->second.scalars[place.second].MarkRuntime();
  });
}

const StepRecord& VariedScalars::RecordOf(std::uint32_t s) const {
  const auto found = records_.find(s);
  return found == records_.end() ? input_.steps[s].record : found->second;
}

}  // namespace tjit
