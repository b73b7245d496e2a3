// Running is one pass over the placements and one over the steps.
#include "compiler/executable.h"

#include <utility>

namespace tjit {
namespace {

// A long program's steps have left the cache when their turn comes again.
constexpr std::size_t kCacheLine = 64;

void Prefetch(const ProgramStep& step) {
  const auto* hot = static_cast<const char*>(step.hot);
  for (std::uint32_t i = 0; i < step.hot_bytes; i += kCacheLine) {
    __builtin_prefetch(hot + i);
  }
}

}  // namespace

Executable::Executable(const std::vector<ProgramStep>& steps, MemoryPlan plan)
    : plan_(std::move(plan)) {
  steps_.reserve(plan_.needed.size());
  for (std::uint32_t i : plan_.needed) steps_.push_back(steps[i]);
}

void Executable::Run(char** slots, const ScalarValue* scalars,
                     char* arena) const {
  for (const Placement& p : plan_.placements) slots[p.slot] = arena + p.offset;
  const std::size_t count = steps_.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 1 < count) Prefetch(steps_[i + 1]);
    const ProgramStep& step = steps_[i];
    step.fn(step.state, slots, scalars + step.scalar_begin);
  }
}

}  // namespace tjit
