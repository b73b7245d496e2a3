#include "compiler/program/step_order.h"

#include <algorithm>
#include <cstddef>

namespace tjit {
namespace {

class Orderer {
 public:
  Orderer(const std::vector<PlanStep>& steps,
          const std::vector<PlanSlot>& slots)
      : steps_(steps),
        slots_(slots),
        waiting_(steps.size()),
        by_slot_(slots.size()) {}

  std::vector<std::uint32_t> Run() {
    std::vector<bool> touched(slots_.size());
    for (std::uint32_t i = 0; i < steps_.size(); ++i) {
      if (MayWait(steps_[i], touched)) {
        waiting_[i] = true;
        ForEachSlot(i, [&](std::int32_t s) { by_slot_[s].push_back(i); });
      } else {
        Emit(i);
      }
      ForEachSlot(i, [&](std::int32_t s) { touched[s] = true; });
    }
    for (std::uint32_t i = 0; i < steps_.size(); ++i) {
      if (waiting_[i]) Emit(i);
    }
    return std::move(order_);
  }

 private:
  bool IsTemporary(std::int32_t s) const {
    return slots_[s].born_step >= 0 && !slots_[s].live_out;
  }

  // It writes nothing but temporaries that begin here, and reads none.
  bool MayWait(const PlanStep& step, const std::vector<bool>& touched) const {
    const auto begins = [&](std::int32_t s) {
      return s >= 0 && IsTemporary(s) && !touched[s];
    };
    const auto is_read = [&](std::int32_t s) {
      return s >= 0 && IsTemporary(s);
    };
    return !step.writes.empty() &&
           std::all_of(step.writes.begin(), step.writes.end(), begins) &&
           std::none_of(step.reads.begin(), step.reads.end(), is_read);
  }

  template <typename Fn>
  void ForEachSlot(std::uint32_t i, Fn fn) const {
    for (const std::int32_t s : steps_[i].reads) {
      if (s >= 0) fn(s);
    }
    for (const std::int32_t s : steps_[i].writes) {
      if (s >= 0) fn(s);
    }
  }

  // What waits reads no temporary, so it needs nothing else that waits: before
  // `i` go those that made what it touches, and those that read what it writes.
  void Emit(std::uint32_t i) {
    const PlanStep& step = steps_[i];
    std::vector<std::uint32_t> before;
    ForEachSlot(i, [&](std::int32_t s) {
      const bool written = std::find(step.writes.begin(), step.writes.end(),
                                     s) != step.writes.end();
      if (!written && !IsTemporary(s)) return;
      for (const std::uint32_t w : by_slot_[s]) {
        if (waiting_[w] && w != i) before.push_back(w);
      }
    });
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (const std::uint32_t w : before) {
      waiting_[w] = false;
      order_.push_back(w);
    }
    waiting_[i] = false;
    order_.push_back(i);
  }

  const std::vector<PlanStep>& steps_;
  const std::vector<PlanSlot>& slots_;
  std::vector<bool> waiting_;                        // by step
  std::vector<std::vector<std::uint32_t>> by_slot_;  // steps that waited
  std::vector<std::uint32_t> order_;
};

}  // namespace

std::vector<std::uint32_t> OrderSteps(const std::vector<PlanStep>& steps,
                                      const std::vector<PlanSlot>& slots) {
  return Orderer(steps, slots).Run();
}

}  // namespace tjit
