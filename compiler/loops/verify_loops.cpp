#include "compiler/loops/verify_loops.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/loops/fuse.h"
#include "compiler/loops/store_order.h"
#include "compiler/passes/access_facts.h"
#include "compiler/passes/concats.h"
#include "compiler/passes/rewriter.h"

namespace tjit {
namespace {

using ir::Geometry;
using ir::Instruction;
using ir::Operand;
using ir::ValueId;

class PlanVerifier {
 public:
  PlanVerifier(const ir::Function& f, const LoopPlan& plan)
      : f_(f),
        plan_(plan),
        concats_(FindConcats(f)),
        memories_(static_cast<std::size_t>(f.externals) + f.returns.size() +
                  plan.scratch.size()),
        made_in_(f.values.size(), -1),
        filled_in_(f.values.size(), -1) {}

  std::vector<std::string> Run() {
    if (plan_.homes.size() != f_.values.size()) {
      Report("plan", 3, "has not one home for each value");
      return std::move(violations_);
    }
    for (int l = 0; l < static_cast<int>(plan_.loops.size()); ++l) {
      CheckInstructions(l);
    }
    for (std::size_t i = 0; i < f_.body.size(); ++i) {
      const ValueId id = f_.body[i].results[0];
      const bool is_made = made_in_[Index(id)] >= 0;
      if (is_made != (concats_.is_skipped[i] == 0)) {
        Report(absl::StrCat("%", id), 1,
               is_made ? "is a concat, but in a loop" : "is in no loop");
      }
    }
    if (!violations_.empty()) return std::move(violations_);
    for (int l = 0; l < static_cast<int>(plan_.loops.size()); ++l) {
      CheckStores(l);
    }
    if (!violations_.empty()) return std::move(violations_);
    CheckConcats();
    CheckHomes();
    CheckOutputs();
    for (int l = 0; l < static_cast<int>(plan_.loops.size()); ++l) {
      CheckLoads(l);
    }
    for (const StoreFault& fault : CheckStoreOrder(plan_, stores_, store_of_)) {
      Report(fault.loop, fault.rule, fault.what);
    }
    return std::move(violations_);
  }

 private:
  // A store or a load of elements of a memory.
  static std::size_t Index(int i) { return static_cast<std::size_t>(i); }
  const Instruction& At(int i) const { return f_.body[Index(i)]; }
  const ir::Value& ValueOf(ValueId id) const { return f_.values[Index(id)]; }
  const Loop& LoopAt(int l) const { return plan_.loops[Index(l)]; }

  void Report(const std::string& where, int rule, const std::string& what) {
    violations_.push_back(absl::StrCat(where, " (rule ", rule, "): ", what));
  }
  void Report(int loop, int rule, const std::string& what) {
    Report(absl::StrCat("loop ", loop), rule, what);
  }

  // Rules 1 and the first half of 2.
  void CheckInstructions(int l) {
    const Loop& loop = LoopAt(l);
    int last = -1;
    for (std::size_t k = 0; k < loop.instructions.size(); ++k) {
      const int i = loop.instructions[k];
      if (i <= last || Index(i) >= f_.body.size()) {
        Report(l, 1, absl::StrCat("instruction ", i, " is out of order"));
        return;
      }
      last = i;
      const bool is_root = k + 1 == loop.instructions.size();
      const LoopKind kind = LoopKindOf(At(i));
      if (!Belongs(loop, i, is_root)) {
        Report(l, 1, absl::StrCat("instruction ", i, " does not belong here"));
      }
      if (kind == LoopKind::kUpdate && loop.instructions.size() > 1) {
        Report(l, 1, "an update is not alone");
      }
      int& made_in = made_in_[Index(At(i).results[0])];
      if (made_in >= 0) {
        Report(l, 1, absl::StrCat("instruction ", i, " runs twice"));
      }
      CheckRegisters(l, i);
      made_in = l;
    }
  }

  bool Belongs(const Loop& loop, int i, bool is_root) const {
    const LoopKind kind = LoopKindOf(At(i));
    const ir::Sizes sizes = LoopSizesOf(f_, At(i));
    if (loop.kind == LoopKind::kColumns || loop.kind == LoopKind::kWhole) {
      return (kind == loop.kind || kind == LoopKind::kPointwise) &&
             sizes == loop.sizes && loop.in_order;
    }
    if (loop.kind == LoopKind::kSlabs) {
      const bool is_of_slabs =
          kind == LoopKind::kSlabs && SlabDimOf(At(i)) == loop.slab_dim;
      return (is_of_slabs || kind == LoopKind::kPointwise) &&
             sizes == loop.sizes;
    }
    if (loop.kind != LoopKind::kRows) {
      return kind == (is_root ? loop.kind : LoopKind::kPointwise) &&
             sizes == loop.sizes;
    }
    return (kind == LoopKind::kRows || kind == LoopKind::kPointwise) &&
           (sizes == loop.sizes ||
            (kind == LoopKind::kPointwise && AreRowsOf(sizes, loop.sizes)));
  }

  bool TakesFromLoop(int l, const Instruction& in, std::size_t operand) const {
    return TakesRegister(f_, in, operand) ||
           (LoopAt(l).kind == LoopKind::kRows && ReadsRow(f_, in, operand));
  }

  void CheckRegisters(int l, int i) {
    const Instruction& in = At(i);
    for (std::size_t k = 0; k < in.operands.size(); ++k) {
      const Operand& operand = in.operands[k];
      if (!operand.is_tensor() || f_.IsExternal(operand.value)) continue;
      const int made_in = made_in_[Index(operand.value)];
      if (ConcatOf(operand.value).is_concat()) continue;
      if (made_in < 0 || (made_in == l && !TakesFromLoop(l, in, k))) {
        Report(l, 2,
               absl::StrCat("%", operand.value, " is no register for %",
                            in.results[0]));
      }
    }
  }

  // Rule 4. Collects the stores.
  void CheckStores(int l) {
    const Loop& loop = LoopAt(l);
    for (const LoopStore& store : loop.stores) {
      if (store.value < f_.externals ||
          Index(store.value) >= f_.values.size() || store.memory < 0 ||
          Index(store.memory) >= memories_) {
        Report(
            l, 4,
            absl::StrCat("stores %", store.value, " to memory ", store.memory));
        continue;
      }
      const bool is_copy = loop.instructions.empty();
      const int made_in = made_in_[Index(store.value)];
      const bool is_there = is_copy ? filled_in_[Index(store.value)] >= 0 ||
                                          ConcatOf(store.value).is_concat()
                                    : made_in == l;
      if (!is_there) {
        Report(l, 4, absl::StrCat("has no %", store.value, " to store"));
      }
      const ir::Sizes& sizes = ValueOf(store.value).layout.sizes;
      if (store.to.sizes != sizes ||
          (loop.kind == LoopKind::kPointwise && sizes != loop.sizes)) {
        Report(l, 4,
               absl::StrCat("stores %", store.value, " as [",
                            ToText(store.to.sizes), "]"));
      }
      const Home& home = plan_.homes[Index(store.value)];
      if (!is_copy && store.memory == home.memory &&
          store.to == LayoutIn(home, ValueOf(store.value).layout)) {
        filled_in_[Index(store.value)] = l;
      }
      stores_.push_back({l, store.memory, store.to, store.value});
    }
  }

  static Geometry LayoutIn(const Home& home, Geometry access) {
    access.offset = access.offset + home.offset;
    return access;
  }

  const ConcatParts& ConcatOf(ValueId id) const {
    return concats_.of[Index(id)];
  }

  // A store of a part of the concat, or of what fills it.
  bool IsPartStore(ValueId concat, const LoopTouch& store) const {
    const ConcatParts& parts = ConcatOf(concat);
    if (parts.fill >= 0 && At(parts.fill).results[0] == store.value &&
        store.to == ValueOf(concat).layout) {
      return true;
    }
    return std::any_of(parts.parts.begin(), parts.parts.end(), [&](int i) {
      return At(i).operands[1].value == store.value &&
             At(i).operands[0].access == store.to;
    });
  }

  // Every part of a concat that has a home is stored there once, what fills it
  // before them. Nothing else is.
  void CheckConcats() {
    for (ValueId id = f_.externals; id < static_cast<int>(f_.values.size());
         ++id) {
      const ConcatParts& concat = ConcatOf(id);
      const Home& home = plan_.homes[Index(id)];
      if (!concat.is_concat() || home.memory < 0) continue;
      std::size_t stores = 0;
      int filled =
          concat.fill < 0 ? -1 : made_in_[Index(At(concat.fill).results[0])];
      for (const LoopTouch& store : stores_) {
        if (store.memory != home.memory) continue;
        const bool is_fill =
            concat.fill >= 0 && store.value == At(concat.fill).results[0];
        if (!IsPartStore(id, store) || (!is_fill && store.loop <= filled)) {
          Report(store.loop, 5,
                 absl::StrCat("stores %", store.value, " into concat %", id));
        }
        ++stores;
        filled_in_[Index(id)] = std::max(filled_in_[Index(id)], store.loop);
      }
      if (stores != concat.parts.size() + (concat.fill >= 0 ? 1 : 0)) {
        Report(absl::StrCat("%", id), 5, "is not joined of its parts");
      }
      if (home.memory < f_.externals || home.offset != ir::Size(0)) {
        Report(absl::StrCat("%", id), 3, "is a concat without its own memory");
      }
    }
  }

  // Rule 3.
  void CheckHomes() {
    for (ValueId id = 0; id < static_cast<int>(f_.values.size()); ++id) {
      const Home& home = plan_.homes[Index(id)];
      if (f_.IsExternal(id)) {
        if (home.memory != id || home.offset != ir::Size(0)) {
          Report(absl::StrCat("%", id), 3, "does not lie in its own memory");
        }
      } else if (home.memory >= 0 && filled_in_[Index(id)] < 0) {
        Report(absl::StrCat("%", id), 3, "is not stored in its home");
      }
    }
    const int first = f_.externals + static_cast<int>(f_.returns.size());
    for (const LoopTouch& store : stores_) {
      if (store.memory < first) continue;
      const ValueId owner = plan_.scratch[Index(store.memory - first)];
      if (owner != store.value && !IsPartStore(owner, store)) {
        Report(
            store.loop, 3,
            absl::StrCat("stores %", store.value, " into another's scratch"));
      }
    }
  }

  // Rule 5.
  void CheckOutputs() {
    for (std::size_t k = 0; k < f_.returns.size(); ++k) {
      const ValueId id = f_.returns[k];
      const int memory = f_.externals + static_cast<int>(k);
      if (ConcatOf(id).is_concat()) {
        if (plan_.homes[Index(id)].memory != memory) {
          Report(absl::StrCat("return ", k), 5, "is a concat elsewhere");
        }
        continue;
      }
      int right = 0, wrong = 0;
      for (const LoopTouch& store : stores_) {
        if (store.memory != memory) continue;
        const bool is_it = store.value == id && store.to == ValueOf(id).layout;
        ++(is_it ? right : wrong);
      }
      if (right == 1 && wrong == 0) continue;
      Report(absl::StrCat("return ", k), 5, "is not stored once");
    }
    std::vector<char> is_used(stores_.size(), 0);
    for (std::size_t w = 0; w < f_.writes.size(); ++w) {
      store_of_.push_back(FindWrite(f_.writes[w], &is_used));
      if (store_of_.back() < 0) {
        Report(absl::StrCat("write ", w), 5, "is not stored");
      }
    }
    for (std::size_t s = 0; s < stores_.size(); ++s) {
      if (stores_[s].memory >= f_.externals || is_used[s] != 0) continue;
      Report(stores_[s].loop, 5,
             absl::StrCat("stores to %", stores_[s].memory,
                          " what nobody writes"));
    }
  }

  int FindWrite(const ir::WriteBack& write, std::vector<char>* is_used) const {
    for (std::size_t s = 0; s < stores_.size(); ++s) {
      const LoopTouch& store = stores_[s];
      if ((*is_used)[s] == 0 && store.memory == write.to.value &&
          store.value == write.from.value && store.to == write.to.access) {
        (*is_used)[s] = 1;
        return static_cast<int>(s);
      }
    }
    return -1;
  }

  // The second half of 2, rules 6 and 8 for all that a loop loads.
  void CheckLoads(int l) {
    const Loop& loop = LoopAt(l);
    for (const int i : loop.instructions) {
      const Instruction& in = At(i);
      for (std::size_t k = 0; k < in.operands.size(); ++k) {
        const Operand& operand = in.operands[k];
        if (!operand.is_tensor()) continue;
        const bool is_register = !f_.IsExternal(operand.value) &&
                                 made_in_[Index(operand.value)] == l;
        if (is_register) continue;
        const bool is_base = in.op == ir::Op::kUpdate && k == 0;
        CheckLoad(l, operand.value,
                  is_base ? ValueOf(operand.value).layout : operand.access);
      }
      if (in.op == ir::Op::kUpdate) CheckUpdate(l, in);
    }
    if (!loop.instructions.empty()) return;
    for (const LoopStore& store : loop.stores) {
      CheckLoad(l, store.value, ValueOf(store.value).layout);
    }
  }

  void CheckUpdate(int l, const Instruction& in) {
    const int memory = plan_.homes[Index(in.results[0])].memory;
    if (memory < f_.externals || LoopAt(l).stores.size() != 1) {
      Report(l, 8, "an update has no memory of its own");
    }
  }

  void CheckLoad(int l, ValueId id, const Geometry& access) {
    const Home& home = plan_.homes[Index(id)];
    const int filled_in = f_.IsExternal(id) ? -1 : filled_in_[Index(id)];
    if (home.memory < 0 || filled_in >= l) {
      Report(l, 2, absl::StrCat("reads %", id, ", which is in no memory"));
      return;
    }
    if (ConcatOf(id).is_concat()) return;  // nobody else stores there
    // An access lies within its value, though that may not be provable.
    const Geometry from = LayoutIn(home, access);
    const Geometry all = LayoutIn(home, ValueOf(id).layout);
    bool is_behind_own = f_.IsExternal(id);  // its own store makes it
    for (const LoopTouch& store : stores_) {
      if (!is_behind_own) {
        is_behind_own = store.loop == filled_in && store.value == id &&
                        store.memory == home.memory;
        continue;
      }
      if (store.loop > l || store.memory != home.memory) continue;
      const bool is_own_element =
          store.loop == l && store.to == from && RunsInParts(LoopAt(l).kind);
      if (is_own_element || AreDisjoint(store.to, from) ||
          AreDisjoint(store.to, all)) {
        continue;
      }
      Report(l, store.loop == l ? 8 : 6,
             absl::StrCat("reads %", id, ", which loop ", store.loop,
                          " replaces"));
    }
  }

  const ir::Function& f_;
  const LoopPlan& plan_;
  const Concats concats_;
  const std::size_t memories_;
  std::vector<int> made_in_;    // by value: loop
  std::vector<int> filled_in_;  // by value: loop that fills its home
  std::vector<LoopTouch> stores_;  // in the order in which they run
  std::vector<int> store_of_;   // by write-back: index into stores_
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> VerifyLoops(const ir::Function& function,
                                     const LoopPlan& plan) {
  return PlanVerifier(function, plan).Run();
}

}  // namespace tjit
