// Running is one pass over the placements and one over the steps.
#include "compiler/program/executable.h"

#include <utility>

namespace tjit {
namespace {

// What a step is lent, until it has run.
class Loan {
 public:
  explicit Loan(const ProgramStep& step) : step_(step) {}
  ~Loan() {
    if (is_made_) step_.lend(step_.state, nullptr, 0);
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  void Add(char* data, std::uint64_t bytes) {
    is_made_ = true;
    step_.lend(step_.state, data, bytes);
  }

 private:
  const ProgramStep& step_;
  bool is_made_ = false;
};

}  // namespace

Executable::Executable(const std::vector<ProgramStep>& steps, MemoryPlan plan)
    : plan_(std::move(plan)) {
  steps_.reserve(plan_.needed.size());
  for (std::uint32_t i : plan_.needed) steps_.push_back(steps[i]);
}

void Executable::Run(char** slots, const ScalarValue* scalars,
                     char* arena) const {
  for (const Placement& p : plan_.placements) {
    slots[p.slot] = (p.host < 0 ? arena : slots[p.host]) + p.offset;
  }
  auto scratch = plan_.scratch.begin();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const ProgramStep& step = steps_[i];
    Loan loan(step);
    for (; scratch != plan_.scratch.end() && scratch->step == i; ++scratch) {
      char* const base = scratch->host < 0 ? arena : slots[scratch->host];
      loan.Add(base + scratch->offset, scratch->bytes);
    }
    step.fn(step.state, slots, scalars + step.scalar_begin);
  }
}

}  // namespace tjit
