#include "compiler/passes/order_dims.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "compiler/passes/access_facts.h"
#include "compiler/passes/groups.h"
#include "compiler/passes/loop_kinds.h"
#include "compiler/passes/rewriter.h"

namespace tjit {
namespace {

using ir::Geometry;
using ir::Instruction;
using ir::Size;

using Order = std::vector<std::size_t>;  // the dim that comes at each place

bool IsRowMajor(const Order& order) {
  return std::is_sorted(order.begin(), order.end());
}

Geometry Apply(const Order& order, const Geometry& g) {
  Geometry out;
  out.offset = g.offset;
  for (const std::size_t d : order) {
    out.sizes.push_back(g.sizes[d]);
    out.strides.push_back(g.strides[d]);
  }
  return out;
}

// In which order of its dims a dense layout is row-major.
Order OrderOf(const Geometry& layout) {
  Order left(layout.sizes.size());
  std::iota(left.begin(), left.end(), 0);
  if (layout.strides == ir::ContiguousStrides(layout.sizes)) return left;
  Order order;
  Size expected = 1;
  while (!left.empty()) {
    auto next = left.end();
    for (auto d = left.begin(); d != left.end(); ++d) {
      if (layout.strides[*d] != expected) continue;
      if (next == left.end() || layout.sizes[*d] == Size(1)) next = d;
    }
    if (next == left.end()) return {};
    expected = expected * layout.sizes[*next];
    order.push_back(*next);
    left.erase(next);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

class Orderer {
 public:
  explicit Orderer(const ir::Function& f)
      : f_(f),
        groups_(f),
        orders_(f.body.size()),
        is_fixed_(f.body.size(), 0) {}

  ir::Function Run() {
    for (const ir::ValueId base : groups_.bases()) Fix(groups_.MakerOf(base));
    for (int i = 0; i < static_cast<int>(f_.body.size()); ++i) Vote(i);
    for (const Instruction& in : f_.body) {
      if (IsUpdate(in)) Look(PartOf(in));
    }
    for (const ir::WriteBack& write : f_.writes) Look(write);
    Rewriter r(f_);
    for (int i = 0; i < static_cast<int>(f_.body.size()); ++i) Rewrite(i, &r);
    std::vector<ir::WriteBack> writes;
    for (const ir::WriteBack& write : f_.writes) {
      writes.push_back(Rewritten(write, r));
    }
    std::vector<ir::ValueId> returns = f_.returns;
    for (ir::ValueId& id : returns) id = r.Map(id);
    return r.FinishWith(std::move(writes), std::move(returns));
  }

 private:
  const Instruction& At(int i) const {
    return f_.body[static_cast<std::size_t>(i)];
  }
  Order& OrderAt(int i) {
    return orders_[static_cast<std::size_t>(groups_.Find(i))];
  }
  bool IsMoved(int i) {
    return is_fixed_[static_cast<std::size_t>(groups_.Find(i))] == 0 &&
           !IsRowMajor(OrderAt(i));
  }
  void Fix(int i) {
    if (i >= 0) is_fixed_[static_cast<std::size_t>(groups_.Find(i))] = 1;
  }

  // An update puts a value somewhere, as a write-back does.
  static bool IsUpdate(const Instruction& in) {
    return in.op == ir::Op::kUpdate;
  }
  static ir::WriteBack PartOf(const Instruction& update) {
    return {update.operands[0], update.operands[1]};
  }

  void Look(const ir::WriteBack& write) {
    // Which of two elements in one place wins depends on the order.
    if (!IsWhole(f_, write.from) || !IsInjective(write.to.access)) {
      Fix(groups_.MakerOf(write.from.value));
    }
  }

  ir::WriteBack Rewritten(const ir::WriteBack& write, const Rewriter& r) {
    ir::WriteBack out = {r.Map(write.to), r.Map(write.from)};
    const int maker = groups_.MakerOf(write.from.value);
    if (maker >= 0 && IsMoved(maker)) {
      out.to.access = Apply(OrderAt(maker), write.to.access);
      out.from.access = Apply(OrderAt(maker), write.from.access);
    }
    return out;
  }

  void Vote(int i) {
    const Instruction& in = At(i);
    if (!Groups::HasDims(in)) return;
    const Geometry& layout =
        f_.values[static_cast<std::size_t>(in.results[0])].layout;
    const Order order = OrderOf(layout);
    Order& common = OrderAt(i);
    if (common.empty()) common = order;
    if (order.empty() || common != order ||
        LoopKindOf(in) != LoopKind::kPointwise) {
      Fix(i);
    }
  }

  void Rewrite(int i, Rewriter* r) {
    Instruction in = r->Mapped(At(i));
    if (IsUpdate(in)) {
      ir::WriteBack part = Rewritten(PartOf(At(i)), *r);
      in.operands = {std::move(part.to), std::move(part.from)};
      return r->Emit(std::move(in));
    }
    if (Groups::HasDims(in) && IsMoved(i)) {
      const Order& order = OrderAt(i);
      for (ir::Operand& operand : in.operands) {
        if (operand.is_tensor()) operand.access = Apply(order, operand.access);
      }
      ir::Value type = f_.values[static_cast<std::size_t>(in.results[0])];
      type.layout = Apply(order, type.layout);
      r->Retype(in.results[0], std::move(type));
    }
    r->Emit(std::move(in));
  }

  const ir::Function& f_;
  Groups groups_;
  std::vector<Order> orders_;   // by group
  std::vector<char> is_fixed_;  // by group
};

}  // namespace

ir::Function OrderDims(const ir::Function& function) {
  return Orderer(function).Run();
}

}  // namespace tjit
