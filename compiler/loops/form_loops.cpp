#include "compiler/loops/form_loops.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ir/ir_text.h"
#include "compiler/loops/fuse.h"
#include "compiler/passes/access_facts.h"
#include "compiler/passes/concats.h"
#include "compiler/passes/rewriter.h"

namespace tjit {
namespace {

using ir::Geometry;
using ir::Instruction;
using ir::Operand;
using ir::ValueId;

constexpr int kAtTheEnd = std::numeric_limits<int>::max();

// Gives values homes and write-backs a loop.
class Planner {
 public:
  Planner(const ir::Function& f, LoopPlan* plan)
      : f_(f), plan_(*plan), concats_(FindConcats(f)) {}

  void Run(Fusion fusion) {
    plan_ = LoopPlan();
    plan_.loops = Fuse(f_, fusion);
    DropConcats();
    loop_of_.assign(f_.values.size(), -1);
    needs_home_.assign(f_.values.size(), 0);
    is_in_join_.assign(f_.values.size(), 0);
    loads_.resize(static_cast<std::size_t>(f_.externals));
    placed_.resize(static_cast<std::size_t>(f_.externals));
    for (std::size_t l = 0; l < plan_.loops.size(); ++l) {
      const LoopKind kind = plan_.loops[l].kind;
      plan_.loops[l].in_order =
          kind == LoopKind::kColumns || kind == LoopKind::kWhole;
      for (const int i : plan_.loops[l].instructions) {
        for (const ValueId id : At(i).results) {
          loop_of_[static_cast<std::size_t>(id)] = static_cast<int>(l);
        }
      }
    }
    for (std::size_t l = 0; l < plan_.loops.size(); ++l) {
      FindLoads(static_cast<int>(l));
    }
    for (const ir::WriteBack& write : f_.writes) PlaceWrite(write);
    AssignHomes();
    AddStores();
  }

 private:
  // A load from an external, or a write-back to it (kAtTheEnd: no loop's).
  struct Access {
    int loop;
    Geometry geometry;
  };

  const Instruction& At(int i) const {
    return f_.body[static_cast<std::size_t>(i)];
  }
  const ir::Value& ValueOf(ValueId id) const {
    return f_.values[static_cast<std::size_t>(id)];
  }

  const ConcatParts& ConcatOf(ValueId id) const {
    return concats_.of[static_cast<std::size_t>(id)];
  }

  // Concats have no loops of their own. What fills them waits for nothing, so
  // that it comes before all parts; nobody reads it in registers.
  void DropConcats() {
    std::vector<Loop> fills, others;
    std::vector<char> is_fill(f_.body.size(), 0);
    for (const ConcatParts& concat : concats_.of) {
      if (concat.fill >= 0) is_fill[static_cast<std::size_t>(concat.fill)] = 1;
    }
    for (Loop& loop : plan_.loops) {
      std::erase_if(loop.instructions, [&](int i) {
        return concats_.is_skipped[static_cast<std::size_t>(i)] != 0;
      });
      if (loop.instructions.empty()) continue;
      const auto first = static_cast<std::size_t>(loop.instructions[0]);
      (is_fill[first] != 0 ? fills : others).push_back(std::move(loop));
    }
    plan_.loops = std::move(fills);
    for (Loop& loop : others) plan_.loops.push_back(std::move(loop));
  }

  void FindLoads(int loop) {
    for (const int i :
         plan_.loops[static_cast<std::size_t>(loop)].instructions) {
      const Instruction& in = At(i);
      for (std::size_t k = 0; k < in.operands.size(); ++k) {
        const Operand& operand = in.operands[k];
        if (!operand.is_tensor()) continue;
        if (!f_.IsExternal(operand.value)) {
          if (loop_of_[static_cast<std::size_t>(operand.value)] != loop) {
            needs_home_[static_cast<std::size_t>(operand.value)] = 1;
          }
          continue;
        }
        const bool is_base = in.op == ir::Op::kUpdate && k == 0;
        loads_[static_cast<std::size_t>(operand.value)].push_back(
            {loop, is_base ? ValueOf(operand.value).layout : operand.access});
      }
    }
  }

  // The loop that computes the value may write it: nobody reads what was there
  // afterwards, and no later write-back comes before.
  bool CanWriteIn(int loop, const ir::WriteBack& write) const {
    const LoopKind kind = plan_.loops[static_cast<std::size_t>(loop)].kind;
    if (kind == LoopKind::kUpdate || !IsInjective(write.to.access))
      return false;
    const auto external = static_cast<std::size_t>(write.to.value);
    for (const Access& load : loads_[external]) {
      if (load.loop < loop) continue;
      const bool is_own_element = load.loop == loop && RunsInParts(kind) &&
                                  load.geometry == write.to.access;
      if (!is_own_element && !AreDisjoint(load.geometry, write.to.access)) {
        return false;
      }
    }
    for (const Access& earlier : placed_[external]) {
      if (earlier.loop < loop) continue;
      const bool is_same =
          earlier.loop == loop && earlier.geometry == write.to.access;
      if (!is_same && !AreDisjoint(earlier.geometry, write.to.access)) {
        return false;
      }
    }
    return true;
  }

  void PlaceWrite(const ir::WriteBack& write) {
    const int loop = loop_of_[static_cast<std::size_t>(write.from.value)];
    const bool is_direct = loop >= 0 && CanWriteIn(loop, write);
    write_loops_.push_back(is_direct ? loop : kAtTheEnd);
    placed_[static_cast<std::size_t>(write.to.value)].push_back(
        {write_loops_.back(), write.to.access});
    if (!is_direct) needs_home_[static_cast<std::size_t>(write.from.value)] = 1;
  }

  // The value may be read back from where write-back `w` puts it.
  bool IsHome(std::size_t w) const {
    const Operand& to = f_.writes[w].to;
    if (write_loops_[w] == kAtTheEnd ||
        to.access.strides != ValueOf(f_.writes[w].from.value).layout.strides) {
      return false;
    }
    int overlapping = 0;  // itself is one
    for (const Access& write : placed_[static_cast<std::size_t>(to.value)]) {
      overlapping += !AreDisjoint(write.geometry, to.access);
    }
    return overlapping == 1;
  }

  void AssignHomes() {
    plan_.homes.assign(f_.values.size(), Home());
    const auto home_of = [&](ValueId id) -> Home& {
      return plan_.homes[static_cast<std::size_t>(id)];
    };
    for (ValueId id = 0; id < f_.externals; ++id) home_of(id).memory = id;
    for (std::size_t k = 0; k < f_.returns.size(); ++k) {
      home_of(f_.returns[k]).memory = f_.externals + static_cast<int>(k);
    }
    for (std::size_t w = 0; w < f_.writes.size(); ++w) {
      const ValueId id = f_.writes[w].from.value;
      Home& home = home_of(id);
      const bool is_needed = needs_home_[static_cast<std::size_t>(id)] != 0;
      if (home.memory >= 0 || !is_needed || !IsHome(w)) continue;
      home = {f_.writes[w].to.value, f_.writes[w].to.access.offset};
    }
    AssignScratch(/*is_concat=*/true);
    HomeParts();
    AssignScratch(/*is_concat=*/false);
  }

  void AssignScratch(bool is_concat) {
    for (ValueId id = f_.externals; id < static_cast<int>(f_.values.size());
         ++id) {
      if (ConcatOf(id).is_concat() != is_concat) continue;
      const bool is_update = loop_of_[static_cast<std::size_t>(id)] >= 0 &&
                             KindAt(id) == LoopKind::kUpdate;
      const bool needs_home =
          needs_home_[static_cast<std::size_t>(id)] != 0 || is_update;
      Home& home = plan_.homes[static_cast<std::size_t>(id)];
      if (home.memory >= 0 || !needs_home) continue;
      home.memory = f_.externals +
                    static_cast<int>(f_.returns.size() + plan_.scratch.size());
      plan_.scratch.push_back(id);
    }
  }

  // A part may be read from where it lies in the concat.
  void HomeParts() {
    for (ValueId id = f_.externals; id < static_cast<int>(f_.values.size());
         ++id) {
      const Home& concat = plan_.homes[static_cast<std::size_t>(id)];
      for (const int i : ConcatOf(id).parts) {
        const Operand& to = At(i).operands[0];
        const ValueId part = At(i).operands[1].value;
        Home& home = plan_.homes[static_cast<std::size_t>(part)];
        if (concat.memory >= 0 && home.memory < 0 &&
            needs_home_[static_cast<std::size_t>(part)] != 0 &&
            to.access.strides == ValueOf(part).layout.strides) {
          home = {concat.memory, to.access.offset};
          is_in_join_[static_cast<std::size_t>(part)] = 1;
        }
      }
    }
  }

  LoopKind KindAt(ValueId id) const {
    return plan_
        .loops[static_cast<std::size_t>(loop_of_[static_cast<std::size_t>(id)])]
        .kind;
  }

  void AddStores() {
    for (Loop& loop : plan_.loops) {
      for (const int i : loop.instructions) {
        const ValueId id = At(i).results[0];
        const Home& home = plan_.homes[static_cast<std::size_t>(id)];
        const bool is_elsewhere =
            home.memory < f_.externals ||
            is_in_join_[static_cast<std::size_t>(id)] != 0;
        if (is_elsewhere) continue;
        loop.stores.push_back({id, home.memory, ValueOf(id).layout});
      }
    }
    StoreParts();
    for (std::size_t w = 0; w < f_.writes.size(); ++w) {
      const ir::WriteBack& write = f_.writes[w];
      LoopStore store = {write.from.value, write.to.value, write.to.access};
      if (write_loops_[w] != kAtTheEnd) {
        plan_.loops[static_cast<std::size_t>(write_loops_[w])].stores.push_back(
            std::move(store));
        continue;
      }
      Loop copy;
      copy.sizes = write.to.access.sizes;
      copy.in_order = !IsInjective(write.to.access);
      copy.stores.push_back(std::move(store));
      copies_.push_back(std::move(copy));
    }
    for (Loop& copy : copies_) plan_.loops.push_back(std::move(copy));
  }

  void StoreParts() {
    const auto store = [&](ValueId value, std::int32_t memory,
                           const Geometry& to) {
      const int loop = loop_of_[static_cast<std::size_t>(value)];
      plan_.loops[static_cast<std::size_t>(loop)].stores.push_back(
          {value, memory, to});
    };
    for (ValueId id = f_.externals; id < static_cast<int>(f_.values.size());
         ++id) {
      const ConcatParts& concat = ConcatOf(id);
      const Home& home = plan_.homes[static_cast<std::size_t>(id)];
      if (!concat.is_concat() || home.memory < 0) continue;
      if (concat.fill >= 0) {
        store(At(concat.fill).results[0], home.memory, ValueOf(id).layout);
      }
      for (const int i : concat.parts) {
        store(At(i).operands[1].value, home.memory, At(i).operands[0].access);
      }
    }
  }

  const ir::Function& f_;
  LoopPlan& plan_;
  const Concats concats_;
  std::vector<char> is_in_join_;             // by value: has its home there
  std::vector<int> loop_of_;                 // by value; -1: external
  std::vector<char> needs_home_;             // by value
  std::vector<std::vector<Access>> loads_;   // by external
  std::vector<std::vector<Access>> placed_;  // by external, in order
  std::vector<int> write_loops_;             // by write-back
  std::vector<Loop> copies_;
};

std::string WhyNot(const ir::Function& f) {
  for (const Instruction& in : f.body) {
    if (in.op == ir::Op::kCall) return absl::StrCat("calls ", in.callee);
  }
  for (const ir::WriteBack& write : f.writes) {
    if (f.IsExternal(write.from.value) || !IsWhole(f, write.from)) {
      return "a write-back has no value of its own: CopyOut() has not run";
    }
  }
  for (const ConcatParts& concat : FindConcats(f).of) {
    for (const int i : concat.parts) {
      if (!IsOwnPart(f, f.body[static_cast<std::size_t>(i)])) {
        return "a part has no value of its own: CopyOut() has not run";
      }
    }
  }
  std::vector<ValueId> returns = f.returns;
  std::sort(returns.begin(), returns.end());
  const bool is_own =
      (returns.empty() || !f.IsExternal(returns.front())) &&
      std::adjacent_find(returns.begin(), returns.end()) == returns.end();
  return is_own ? ""
                : "a return has no value of its own: CopyOut() has not run";
}

std::string MemoryText(const ir::Function& f, std::int32_t memory) {
  const int returns = static_cast<int>(f.returns.size());
  if (memory < f.externals) return absl::StrCat("%", memory);
  memory -= f.externals;
  return memory < returns ? absl::StrCat("return ", memory)
                          : absl::StrCat("scratch ", memory - returns);
}

std::string GeometryText(const Geometry& g) {
  std::string text = absl::StrCat("[", ToText(g.sizes), "]");
  if (g.strides != ir::ContiguousStrides(g.sizes)) {
    absl::StrAppend(&text, "(", ToText(g.strides), ")");
  }
  if (g.offset != ir::Size(0)) absl::StrAppend(&text, "+", g.offset.ToText());
  return text;
}

}  // namespace

const char* Name(LoopKind kind) {
  switch (kind) {
    case LoopKind::kPointwise:
      return "pointwise";
    case LoopKind::kRows:
      return "rows";
    case LoopKind::kColumns:
      return "columns";
    case LoopKind::kWhole:
      return "whole";
    case LoopKind::kReduce:
      return "reduce";
    case LoopKind::kSlabs:
      return "slabs";
    case LoopKind::kUpdate:
      return "update";
  }
  return "?";
}

std::string FormLoops(const ir::Function& function, LoopPlan* plan,
                      Fusion fusion) {
  std::string why_not = WhyNot(function);
  if (why_not.empty()) Planner(function, plan).Run(fusion);
  return why_not;
}

std::string Print(const ir::Function& function, const LoopPlan& plan) {
  std::string text;
  for (const Loop& loop : plan.loops) {
    absl::StrAppend(&text, "loop ", Name(loop.kind), " [", ToText(loop.sizes),
                    "]", loop.in_order ? " in order" : "", "\n");
    for (const int i : loop.instructions) {
      absl::StrAppend(
          &text, "  ",
          Print(function, function.body[static_cast<std::size_t>(i)]), "\n");
    }
    for (const LoopStore& store : loop.stores) {
      absl::StrAppend(&text, "  store ", MemoryText(function, store.memory),
                      GeometryText(store.to), " = %", store.value, "\n");
    }
  }
  for (ValueId id = function.externals;
       id < static_cast<int>(plan.homes.size()); ++id) {
    const Home& home = plan.homes[static_cast<std::size_t>(id)];
    if (home.memory < 0 || home.memory >= function.externals) continue;
    absl::StrAppend(&text, "%", id, " lies in ",
                    MemoryText(function, home.memory), "+",
                    home.offset.ToText(), "\n");
  }
  return text;
}

}  // namespace tjit
