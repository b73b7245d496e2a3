#include "compiler/lower/op_rules.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using Rules = absl::flat_hash_map<std::string_view, const OpRule*>;

Rules* MakeRules() {
  auto* rules = new Rules;
  for (const auto family :
       {BatchNormRules(), VectorRemainderRules(), PointwiseRules(),
        CompositeRules(), CopyFillRules(), GroupNormRules(), ConcatRules(),
        ForeachRules(), LossRules(), NllLossRules(), NormRules(),
        NormBackwardRules(), ReduceRules(), RowRules(),
        PositionDependentRules()}) {
    for (const OpRule& rule : family) {
      for (const std::string_view name :
           {rule.functional, rule.in_place, rule.out}) {
        if (!name.empty()) rules->emplace(name, &rule);
      }
    }
  }
  return rules;
}

const Rules& AllRules() {
  static const Rules* const rules = MakeRules();
  return *rules;
}

}  // namespace

bool IsApart(StepLowering& s) {
  const std::vector<ArgRecord>& args = s.record().args;
  for (const ArgRecord& written : args) {
    if (!written.written || written.slot == kNoSlot) continue;
    for (const ArgRecord& other : args) {
      if (&other != &written && other.slot == written.slot) {
        return s.Refuse("writes one of its operands");
      }
    }
  }
  return true;
}

const OpRule* RuleOf(std::string_view op) {
  const auto found = AllRules().find(op);
  return found == AllRules().end() ? nullptr : found->second;
}

std::vector<std::string_view> LoweredOps() {
  std::vector<std::string_view> names;
  for (const auto& [name, rule] : AllRules()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tjit::lower
