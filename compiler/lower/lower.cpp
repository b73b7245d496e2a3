#include "compiler/lower/lower.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/verifier.h"
#include "compiler/lower/batch_of_one.h"
#include "compiler/lower/op_rules.h"
#include "compiler/lower/step_lowering.h"

namespace tjit {
namespace lower {
namespace {

class GroupLowering {
 public:
  GroupLowering(absl::Span<const GroupStep> steps,
                absl::Span<const GroupSlot> slots)
      : steps_(steps), slots_(slots) {}

  // With numbers for sizes until they are solved, with symbols then.
  bool Once(Lowered* lowered, std::string* reason) {
    sizes_.Restart();
    *lowered = Lowered();
    ir::Builder builder("group", static_cast<int>(sizes_.symbols().size()));
    Storages storages(&builder, &sizes_);
    std::vector<StepPlaces> places;
    if (!MakePlaces(&storages, &places, reason)) return false;
    storages.MakeExternals(lowered);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      StepLowering step(steps_[i], static_cast<std::int32_t>(i), places[i],
                        &builder, &sizes_, &storages, &lowered->scalars);
      const OpRule* rule = RuleOf(steps_[i].op);
      if (!rule->lower(step, *rule) || !step.reason().empty()) {
        return Fail(i, step.reason(), reason);
      }
    }
    storages.Finish(lowered);
    lowered->function = builder.Finish();
    return true;
  }

  // "" if it can be done; else why not.
  std::string Check() {
    Lowered lowered;
    std::string reason;
    Once(&lowered, &reason);
    return reason;
  }

  // With numbers for sizes first, which says whether it can be done and which
  // sizes belong together; then with symbols. `numbers`: gets the first.
  bool Run(Lowered* lowered, std::string* reason, Lowered* numbers) {
    if (!Once(lowered, reason)) return false;
    if (numbers != nullptr) *numbers = *lowered;
    Lowered symbolic;
    sizes_.Solve();
    if (sizes_.symbols().empty()) return true;
    if (Once(&symbolic, reason) && Verify(symbolic.function).empty()) {
      symbolic.symbols = sizes_.symbols();
      *lowered = std::move(symbolic);
    }
    reason->clear();
    return true;
  }

 private:
  bool MakePlaces(Storages* storages, std::vector<StepPlaces>* places,
                  std::string* reason) {
    for (const GroupSlot& slot : slots_) {
      if (!storages->AddSlot(slot, reason)) return false;
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      StepPlaces& mine = places->emplace_back();
      std::string why;
      if (RuleOf(steps_[i].op) == nullptr) {
        why = "is not lowered";
      } else if (steps_[i].record->kind != StepKind::kDeferred) {
        why = "runs at the call";
      } else {
        why = AddArguments(i, storages, &mine);
      }
      if (why.empty()) why = AddResults(*steps_[i].record, storages, &mine);
      if (!why.empty()) return Fail(i, why, reason);
    }
    return true;
  }

  std::string AddArguments(std::size_t step, Storages* storages,
                           StepPlaces* places) {
    const StepRecord& record = *steps_[step].record;
    const bool reads = RuleOf(steps_[step].op)->reads_arguments;
    std::string why;
    for (std::size_t a = 0; a < record.args.size() && why.empty(); ++a) {
      const ArgRecord& arg = record.args[a];
      Place& place = places->args.emplace_back();
      if (arg.slot == kNoSlot) continue;
      place = PlaceOf(arg.slot, arg.geometry);
      for (int d = 0; d < arg.geometry->ndim; ++d) {
        place.dims.push_back(sizes_.Argument(
            arg.geometry->sizes[d], {static_cast<std::int32_t>(step),
                                     static_cast<std::int32_t>(a), d}));
      }
      if (arg.written || reads) why = storages->AddUse(place, arg.written);
    }
    return why;
  }

  std::string AddResults(const StepRecord& record, Storages* storages,
                         StepPlaces* places) {
    std::string why;
    for (std::size_t r = 0; r < record.results.size() && why.empty(); ++r) {
      const ResultRecord& result = record.results[r];
      Place& place = places->results.emplace_back();
      if (result.kind != ResultRecord::Kind::kFresh) continue;
      place = PlaceOf(result.slot, result.geometry);
      for (int d = 0; d < result.geometry->ndim; ++d) {
        place.dims.push_back(sizes_.Result(result.geometry->sizes[d]));
      }
      why = storages->AddBirth(place);
    }
    return why;
  }

  static Place PlaceOf(std::int32_t slot, const TensorGeometry& geometry) {
    Place place;
    place.slot = slot;
    place.geometry = &geometry;
    return place;
  }

  bool Fail(std::size_t step, const std::string& why, std::string* reason) {
    *reason =
        absl::StrCat("%", step, " ", std::string(steps_[step].op), ": ", why);
    return false;
  }

  absl::Span<const GroupStep> steps_;
  absl::Span<const GroupSlot> slots_;
  SizeVars sizes_;
};

// The slots of one step alone, as small as its uses allow.
std::vector<GroupSlot> SlotsOf(const StepRecord& record) {
  absl::flat_hash_map<std::int32_t, std::size_t> index;
  std::vector<GroupSlot> slots;
  const auto add = [&](std::int32_t slot, const TensorGeometry& g, bool born) {
    if (slot == kNoSlot || g.numel() == 0) return;
    if (index.emplace(slot, slots.size()).second) {
      slots.push_back({slot, 0, born, true});
    }
    GroupSlot& mine = slots[index.at(slot)];
    const auto bytes = static_cast<std::uint64_t>(
        (ReachOf(g).last + 1) * static_cast<std::int64_t>(g.itemsize));
    mine.bytes = std::max(mine.bytes, bytes);
  };
  for (const ArgRecord& arg : record.args) add(arg.slot, arg.geometry, false);
  for (const ResultRecord& result : record.results) {
    if (result.kind == ResultRecord::Kind::kFresh) {
      add(result.slot, result.geometry, true);
    }
  }
  return slots;
}

}  // namespace
}  // namespace lower

bool Lower(absl::Span<const GroupStep> steps, absl::Span<const GroupSlot> slots,
           Lowered* lowered, std::string* reason) {
  lower::LongerBatch longer;
  if (!lower::MakeLongerBatch(steps, slots, &longer)) {
    return lower::GroupLowering(steps, slots).Run(lowered, reason, nullptr);
  }
  Lowered numbers, general;
  if (!lower::GroupLowering(steps, slots).Run(lowered, reason, &numbers)) {
    return false;
  }
  std::string no_matter;
  if (lower::GroupLowering(longer.steps, longer.slots)
          .Run(&general, &no_matter, nullptr) &&
      lower::MatchesBatchOfOne(general, steps, numbers)) {
    *lowered = std::move(general);
  }
  return true;
}

bool LowerNumbers(absl::Span<const GroupStep> steps,
                  absl::Span<const GroupSlot> slots, Lowered* lowered,
                  std::string* reason) {
  return lower::GroupLowering(steps, slots).Once(lowered, reason);
}

std::string WhyNotLowered(const GroupStep& step) {
  if (lower::RuleOf(step.op) == nullptr) {
    return absl::StrCat("%0 ", std::string(step.op), ": is not lowered");
  }
  const std::vector<GroupSlot> slots = lower::SlotsOf(*step.record);
  return lower::GroupLowering(absl::MakeConstSpan(&step, 1), slots).Check();
}

bool CanLower(const GroupStep& step) { return WhyNotLowered(step).empty(); }

bool NeedsUsualArithmetic(const ir::Function& function) {
  for (const ir::Instruction& in : function.body) {
    if (in.op == ir::Op::kSqrt || in.op == ir::Op::kVar ||
        in.op == ir::Op::kStd || in.op == ir::Op::kWelfordMean) {
      return true;
    }
    // By one divisor (compiler/llvm/quotients.h).
    const ir::Value& result =
        function.values[static_cast<std::size_t>(in.results[0])];
    if (in.op == ir::Op::kDiv && result.dtype == ir::DType::kF64) return true;
  }
  return false;
}

}  // namespace tjit
