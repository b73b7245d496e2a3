#include "compiler/schedule/register_sums.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace tjit::llvm_backend {
namespace {

using Kind = Source::Kind;

// Each is there for every register of a group.
constexpr int kMaxSteps = 12;
constexpr int kMaxRegisters = 8;  // of the sums of a phase

class Planner {
 public:
  Planner(const LoopCode& code, const Phases& phases, const MathTable& math,
          int lanes)
      : code_(code), phases_(phases), math_(math), lanes_(lanes) {}

  SumPlan Run() {
    if (!code_.is_rows || code_.is_columns) return {};
    for (std::size_t i = 0; i < code_.steps.size(); ++i) FindSum(i);
    if (plan_.phases.empty() || !AllBuffersAreSummed()) return {};
    for (const auto& [phase, sums] : plan_.phases) {
      if (!IsCheap(phase, sums)) return {};
    }
    plan_.is_alone = IsAlone();
    return std::move(plan_);
  }

 private:
  // Of the math table's order, of what an ordinary step computes.
  void FindSum(std::size_t index) {
    const Step& step = code_.steps[index];
    const bool is_of_halves = step.op == ir::Op::kSumOfHalves;
    if (!step.is_row_call || (step.op != ir::Op::kSum &&
                              step.op != ir::Op::kMean && !is_of_halves)) {
      return;
    }
    const int sums = 4 * static_cast<int>(math_.at(step.math).mode);
    const Source& source = step.sources[0];
    if (sums == 0 || sums % lanes_ != 0 || source.kind != Kind::kRegister) {
      return;
    }
    const int group = sums * ElementsOfLane(step);
    PhaseSums& phase = plan_.phases[phases_.of_step[index]];
    if (phase.group != 0 && phase.group != group) return;
    phase.group = group;
    phase.steps.push_back(&step);
    summed_.insert(source.value);
  }

  bool IsSum(const Step& step) const {
    return std::any_of(plan_.phases.begin(), plan_.phases.end(),
                       [&](const auto& in_phase) {
                         const auto& steps = in_phase.second.steps;
                         return std::count(steps.begin(), steps.end(), &step);
                       });
  }

  // No buffer of elements is needed but for the sums.
  bool AllBuffersAreSummed() const {
    for (const auto& [access, buffer] : phases_.buffer_of_access) {
      if (!IsOfRow(buffer)) return false;
    }
    for (const auto& [value, buffer] : phases_.buffer_of_value) {
      if (!IsOfRow(buffer) && !summed_.contains(value)) return false;
    }
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      const Step& step = code_.steps[i];
      if (step.is_array_call && summed_.contains(step.result)) return false;
      if (IsSum(step)) continue;
      for (const Source& source : step.sources) {
        if (!IsReadInside(source, phases_.of_step[i]) ||
            (step.is_array_call && IsSummed(source))) {
          return false;
        }
      }
    }
    for (std::size_t i = 0; i < code_.stores.size(); ++i) {
      const int phase = phases_.of_store[i];
      if (!IsReadInside(code_.stores[i].source, phase)) return false;
    }
    return true;
  }

  bool IsOfRow(int buffer) const {
    return phases_.buffers[static_cast<std::size_t>(buffer)].is_of_row;
  }
  bool IsSummed(const Source& source) const {
    return source.kind == Kind::kRegister && summed_.contains(source.value);
  }
  bool IsReadInside(const Source& source, int phase) const {
    if (!IsSummed(source)) return true;
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      if (code_.steps[i].result == source.value) {
        return phases_.of_step[i] == phase;
      }
    }
    return false;
  }

  bool IsCheap(int phase, const PhaseSums& sums) const {
    int steps = 0;
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      const Step& step = code_.steps[i];
      if (phases_.of_step[i] != phase || step.is_array_call || step.is_of_row) {
        continue;
      }
      ++steps;
      if (step.math >= 0 && !math_.IsRoot(step.math)) return false;
    }
    int registers = 0;
    for (const Step* step : sums.steps) {
      registers += sums.group / ElementsOfLane(*step) / lanes_;
    }
    return steps <= kMaxSteps && registers <= kMaxRegisters;
  }

  bool IsAlone() const {
    int readers = 0;
    for (int phase = 0; phase < phases_.count; ++phase) {
      if (!CodeOf(code_, phases_, phase, false).is_empty) ++readers;
    }
    for (const Step& step : code_.steps) {
      if (step.is_row_call && !IsSum(step)) ++readers;
    }
    return readers == 1;
  }

  const LoopCode& code_;
  const Phases& phases_;
  const MathTable& math_;
  const int lanes_;
  std::set<ir::ValueId> summed_;
  SumPlan plan_;
};

}  // namespace

SumPlan PlanSums(const LoopCode& code, const Phases& phases,
                 const MathTable& math, int lanes) {
  return Planner(code, phases, math, lanes).Run();
}

}  // namespace tjit::llvm_backend
