#include "compiler/loops/store_order.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "compiler/passes/access_facts.h"

namespace tjit {
namespace {

// Of two write-backs, the first by the function's order.
void CheckPair(const std::vector<LoopTouch>& stores, int first, int second,
               std::vector<StoreFault>* faults) {
  if (first < 0 || second < 0) return;
  const LoopTouch& a = stores[static_cast<std::size_t>(first)];
  const LoopTouch& b = stores[static_cast<std::size_t>(second)];
  if (a.memory != b.memory || AreDisjoint(a.to, b.to)) return;
  if (second < first) {
    faults->push_back({b.loop, 7,
                       absl::StrCat("stores to %", b.memory,
                                    " before an earlier write-back")});
  }
  if (a.loop == b.loop && a.to != b.to) {
    faults->push_back({a.loop, 8, absl::StrCat("stores twice to %", a.memory)});
  }
}

}  // namespace

std::vector<StoreFault> CheckStoreOrder(const LoopPlan& plan,
                                        const std::vector<LoopTouch>& stores,
                                        const std::vector<int>& store_of) {
  std::vector<StoreFault> faults;
  for (std::size_t a = 0; a < store_of.size(); ++a) {
    for (std::size_t b = a + 1; b < store_of.size(); ++b) {
      CheckPair(stores, store_of[a], store_of[b], &faults);
    }
  }
  for (const LoopTouch& store : stores) {
    if (!plan.loops[static_cast<std::size_t>(store.loop)].in_order &&
        !IsInjective(store.to)) {
      faults.push_back(
          {store.loop, 8,
           absl::StrCat("stores %", store.value, " twice into one place")});
    }
  }
  return faults;
}

}  // namespace tjit
