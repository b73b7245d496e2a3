#include "recorder/trace_verifier.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "recorder/trace_text.h"

namespace tjit {
namespace {

// Bytes of an element, in the order of c10::ScalarType; 0: any.
constexpr std::uint8_t kItemsize[] = {1, 1, 2, 4,  8, 2, 4, 8,
                                      4, 8, 16, 1, 0, 0, 0, 2};

class Verifier {
 public:
  explicit Verifier(const std::vector<SlotRecord>& slots) : slots_(slots) {}

  std::vector<std::string> Verify(const std::vector<const StepRecord*>& steps) {
    if (steps.size() > kMaxTraceSteps) {
      Report("path", absl::StrCat("has ", steps.size(), " steps"));
    }
    for (step_ = 0; step_ < steps.size(); ++step_) CheckStep(*steps[step_]);
    if (next_slot_ != slots_.size()) {
      Report("path", absl::StrCat("uses ", next_slot_, " of ", slots_.size(),
                                  " slots"));
    }
    return std::move(violations_);
  }

 private:
  void Report(const std::string& where, const std::string& what) {
    violations_.push_back(absl::StrCat(where, ": ", what));
  }

  void CheckStep(const StepRecord& step) {
    const std::string name = absl::StrCat("%", step_);
    if (OpName(step.op) == "?") Report(name, "unknown op");
    for (std::size_t i = 0; i < step.args.size(); ++i) {
      CheckArg(absl::StrCat(name, " arg ", i), step.args[i]);
    }
    for (std::size_t i = 0; i < step.scalars.size(); ++i) {
      if (step.scalars[i].IsRuntime() && !step.scalars[i].may_vary) {
        Report(absl::StrCat(name, " scalar ", i),
               "a run-time scalar that may not vary");
      }
    }
    for (std::size_t i = 0; i < step.results.size(); ++i) {
      CheckResult(absl::StrCat(name, " result ", i), step, step.results[i]);
    }
  }

  void CheckArg(const std::string& where, const ArgRecord& arg) {
    if (arg.slot == kNoSlot) {
      if (arg.written) Report(where, "an undefined tensor is written");
      CheckUndefined(where, arg.geometry);
      return;
    }
    if (!CheckSlotNumber(where, arg.slot)) return;
    const SlotRecord& slot = slots_[static_cast<std::size_t>(arg.slot)];
    if (static_cast<std::size_t>(arg.slot) == next_slot_) {
      ++next_slot_;
      CheckPlace(where, arg.slot, slot);
      if (slot.born_step >= 0) {
        Report(where, absl::StrCat("s", arg.slot, " is read before %",
                                   slot.born_step, " makes it"));
      }
    }
    CheckGeometry(where, arg.geometry, slot);
  }

  void CheckResult(const std::string& where, const StepRecord& step,
                   const ResultRecord& result) {
    if (result.kind == ResultRecord::Kind::kAlias) {
      const bool is_arg =
          result.alias_arg >= 0 &&
          static_cast<std::size_t>(result.alias_arg) < step.args.size();
      if (!is_arg) {
        Report(where, absl::StrCat("is alias of arg ", result.alias_arg));
      } else if (step.args[static_cast<std::size_t>(result.alias_arg)].slot ==
                 kNoSlot) {
        Report(where, "is alias of an undefined tensor");
      }
    }
    if (result.kind == ResultRecord::Kind::kEmpty) {
      CheckGeometry(where, result.geometry, SlotRecord());
      if (result.geometry->numel() != 0) {
        Report(where, "has elements but no storage");
      }
    }
    if (result.kind != ResultRecord::Kind::kFresh) {
      if (result.slot != kNoSlot) Report(where, "has a slot but is not fresh");
      return;
    }
    if (!CheckSlotNumber(where, result.slot)) return;
    const SlotRecord& slot = slots_[static_cast<std::size_t>(result.slot)];
    if (static_cast<std::size_t>(result.slot) < next_slot_ &&
        !IsBornHere(slot)) {
      Report(where, absl::StrCat("s", result.slot, " is not fresh"));
    }
    if (static_cast<std::size_t>(result.slot) == next_slot_) {
      ++next_slot_;
      if (!IsBornHere(slot)) {
        Report(where, absl::StrCat("s", result.slot, " was born at ",
                                   slot.born_step));
      }
    }
    CheckGeometry(where, result.geometry, slot);
  }

  bool IsBornHere(const SlotRecord& slot) const {
    return slot.born_step == static_cast<std::int64_t>(step_);
  }

  bool CheckSlotNumber(const std::string& where, std::int32_t slot) {
    if (slot < 0 || static_cast<std::size_t>(slot) >= slots_.size()) {
      Report(where, absl::StrCat("there is no s", slot));
      return false;
    }
    if (static_cast<std::size_t>(slot) > next_slot_) {
      Report(where,
             absl::StrCat("s", slot, " is used before s", next_slot_));
      return false;
    }
    return true;
  }

  void CheckUndefined(const std::string& where, const TensorGeometry& g) {
    if (!(g == TensorGeometry())) {
      Report(where, "has a geometry but no storage");
    }
  }

  // A place is in memory of others, and its storage has a slot by then.
  void CheckPlace(const std::string& where, std::int32_t number,
                  const SlotRecord& slot) {
    if (!slot.is_place()) return;
    if (slot.place_of > number || slot.born_step >= 0) {
      Report(where, absl::StrCat("s", number, " is a place of s", slot.place_of,
                                 slot.born_step >= 0 ? ", and born" : ""));
    }
  }

  void CheckGeometry(const std::string& where, const TensorGeometry& g,
                     const SlotRecord& slot) {
    if (g.ndim > kMaxDims) {
      Report(where, absl::StrCat("has ", int{g.ndim}, " dims"));
      return;
    }
    const bool has_known_dtype =
        g.dtype < std::size(kItemsize) && kItemsize[g.dtype] != 0;
    if (g.itemsize == 0 ||
        (has_known_dtype && g.itemsize != kItemsize[g.dtype])) {
      Report(where, absl::StrCat("items of ", DtypeName(g.dtype), " have ",
                                 int{g.itemsize}, " bytes"));
    }
    if (g.reserved != 0) Report(where, "reserved bytes are set");
    bool is_negative = g.offset < 0, is_empty = false, is_set_past = false;
    for (int d = 0; d < kMaxDims; ++d) {
      if (d >= g.ndim) {
        is_set_past |= g.sizes[d] != 0 || g.strides[d] != 0;
        continue;
      }
      is_negative |= g.sizes[d] < 0 || g.strides[d] < 0;
      is_empty |= g.sizes[d] == 0;
    }
    if (is_set_past) Report(where, "dims past ndim are set");
    if (is_negative) {
      Report(where, "a size, stride or offset is negative");
      return;
    }
    const auto end =
        static_cast<std::uint64_t>(g.last_element() + 1) * g.itemsize;
    if (!is_empty && end > slot.bytes) {
      Report(where, absl::StrCat(ToText(g), " ends at byte ", end, " of ",
                                 slot.bytes));
    }
  }

  const std::vector<SlotRecord>& slots_;
  std::size_t step_ = 0;
  std::size_t next_slot_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> VerifyPath(
    const std::vector<const StepRecord*>& steps,
    const std::vector<SlotRecord>& slots) {
  return Verifier(slots).Verify(steps);
}

std::vector<std::string> VerifyPath(const std::vector<const TraceNode*>& path) {
  const std::vector<SlotRecord> slots = SlotsOf(path);
  std::vector<std::string> violations = VerifyPath(StepsOf(path), slots);
  std::size_t slot = 0, scalar = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const TraceNode* node = path[i];
    const std::string where = absl::StrCat("%", i, " node");
    if (node->depth != i) violations.push_back(where + ": wrong depth");
    if (node->slot_begin != slot) {
      violations.push_back(where + ": wrong slot_begin");
    }
    if (node->scalar_begin != scalar) {
      violations.push_back(where + ": wrong scalar_begin");
    }
    if (i > 0 && node->parent != path[i - 1]) {
      violations.push_back(where + ": wrong parent");
    }
    slot += node->new_slots.size();
    scalar += node->step.scalars.size();
  }
  return violations;
}

}  // namespace tjit
