#include "compiler/passes/simplify_access.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/passes/groups.h"
#include "compiler/passes/loop_kinds.h"
#include "compiler/passes/rewriter.h"

namespace tjit {
namespace {

using ir::Geometry;
using ir::Instruction;
using ir::Size;
using ir::ValueId;

// What a group of instructions does with its dims.
struct Shape {
  ir::Sizes sizes;
  bool is_fixed = false;
  std::vector<char> is_dropped;  // by dim: has size 1
  std::vector<char> is_merged;   // by dim: goes into the next dim that stays
};

// The dims of `g` that stay, merged.
Geometry Apply(const Shape& shape, const Geometry& g) {
  Geometry out;
  out.offset = g.offset;
  Size size = 1;
  for (std::size_t d = 0; d < g.sizes.size(); ++d) {
    if (shape.is_dropped[d] != 0) continue;
    size = size * g.sizes[d];
    if (shape.is_merged[d] != 0) continue;
    out.sizes.push_back(size);
    out.strides.push_back(g.strides[d]);
    size = 1;
  }
  return out;
}

class Merger {
 public:
  explicit Merger(const ir::Function& f)
      : f_(f), groups_(f), shapes_(f.body.size()) {}

  ir::Function Run() {
    for (const ValueId base : groups_.bases()) {
      const int maker = groups_.MakerOf(base);
      if (maker >= 0) ShapeOf(maker).is_fixed = true;
    }
    for (std::size_t i = 0; i < f_.body.size(); ++i) {
      Begin(static_cast<int>(i));
    }
    for (std::size_t i = 0; i < f_.body.size(); ++i) {
      Constrain(static_cast<int>(i));
    }
    for (const Instruction& in : f_.body) {
      if (IsUpdate(in)) Constrain(PartOf(in));
    }
    for (const ir::WriteBack& write : f_.writes) Constrain(write);
    Rewriter r(f_);
    for (std::size_t i = 0; i < f_.body.size(); ++i) {
      Rewrite(static_cast<int>(i), &r);
    }
    std::vector<ir::WriteBack> writes;
    for (const ir::WriteBack& write : f_.writes) {
      writes.push_back(Rewritten(write, r));
    }
    std::vector<ValueId> returns = f_.returns;
    for (ValueId& id : returns) id = r.Map(id);
    return r.FinishWith(std::move(writes), std::move(returns));
  }

 private:
  const Instruction& At(int i) const {
    return f_.body[static_cast<std::size_t>(i)];
  }
  const Geometry& LayoutOf(ValueId id) const {
    return f_.values[static_cast<std::size_t>(id)].layout;
  }
  Shape& ShapeOf(int i) {
    return shapes_[static_cast<std::size_t>(groups_.Find(i))];
  }

  // Everything is dropped and merged, until something is against it.
  void Begin(int i) {
    const Instruction& in = At(i);
    if (!Groups::HasDims(in)) return;
    Shape& shape = ShapeOf(i);
    const ir::Sizes sizes = LoopSizesOf(f_, in);
    if (shape.sizes.empty()) {
      shape.sizes = sizes;
      shape.is_merged.assign(sizes.size(), 1);
      for (const Size& size : sizes)
        shape.is_dropped.push_back(size == Size(1));
    }
    if (shape.sizes != sizes || sizes.empty()) {
      shape.is_fixed = true;
    } else if (InfoOf(in.op).takes_dims()) {
      for (const int dim : in.dims) {
        shape.is_dropped[static_cast<std::size_t>(dim)] = 0;
      }
    }
  }

  void Constrain(int i) {
    const Instruction& in = At(i);
    if (!Groups::HasDims(in)) return;
    Shape& shape = ShapeOf(i);
    if (shape.is_fixed) return;
    for (const ir::Operand& operand : in.operands) {
      if (operand.is_tensor()) Constrain(operand.access, &shape);
    }
    if (!IsReduction(in)) {
      Constrain(LayoutOf(in.results[0]), &shape);
    } else if (!AreKeptDimsDense(in)) {
      shape.is_fixed = true;
    }
    if (InfoOf(in.op).takes_dims()) KeepDims(in, &shape);
  }

  static bool IsReduction(const Instruction& in) {
    return InfoOf(in.op).family == ir::Family::kReduce;
  }

  // The result of a reduction lies row-major, so that its dims merge, and those
  // that keepdim has left may go.
  bool AreKeptDimsDense(const Instruction& in) const {
    const Geometry& layout = LayoutOf(in.results[0]);
    return layout == ir::Contiguous(layout.sizes);
  }

  static bool IsListed(const Instruction& in, std::size_t d) {
    return std::find(in.dims.begin(), in.dims.end(), static_cast<int>(d)) !=
           in.dims.end();
  }

  // Dims that are reduced (or the row) merge with their like only.
  static void KeepDims(const Instruction& in, Shape* shape) {
    for (std::size_t d = 0; d < shape->sizes.size(); ++d) {
      const std::size_t next = NextOf(*shape, d);
      if (next < shape->sizes.size() && IsListed(in, d) != IsListed(in, next)) {
        shape->is_merged[d] = 0;
      }
    }
  }

  // The next dim that stays.
  static std::size_t NextOf(const Shape& shape, std::size_t d) {
    do {
      ++d;
    } while (d < shape.sizes.size() && shape.is_dropped[d] != 0);
    return d;
  }

  // Dim d goes into the next one if it lies behind it here too.
  static void Constrain(const Geometry& g, Shape* shape) {
    for (std::size_t d = 0; d < g.sizes.size(); ++d) {
      const std::size_t next = NextOf(*shape, d);
      if (next == g.sizes.size() ||
          g.strides[d] != g.sizes[next] * g.strides[next]) {
        shape->is_merged[d] = 0;
      }
    }
  }

  void Constrain(const ir::WriteBack& write) {
    const int i = groups_.MakerOf(write.from.value);
    if (i < 0) return;
    Shape& shape = ShapeOf(i);
    if (IsWhole(f_, write.from) && IsReduction(At(i)) && At(i).keepdim) {
      return ConstrainKept(At(i), write.to.access, &shape);
    }
    const bool is_own = IsWhole(f_, write.from) && !IsReduction(At(i));
    if (!is_own) shape.is_fixed = true;
    if (!shape.is_fixed) Constrain(write.to.access, &shape);
  }

  // Of what a reduction with keepdim leaves: the other dims have size 1 there.
  static void ConstrainKept(const Instruction& in, const Geometry& g,
                            Shape* shape) {
    if (shape->is_fixed) return;
    for (std::size_t d = 0; d < g.sizes.size(); ++d) {
      const std::size_t next = NextOf(*shape, d);
      if (next == g.sizes.size() || IsListed(in, d) || IsListed(in, next)) {
        continue;
      }
      if (g.strides[d] != g.sizes[next] * g.strides[next]) {
        shape->is_merged[d] = 0;
      }
    }
  }

  static Geometry KeptOf(const Instruction& in, const Shape& shape,
                         const Geometry& g) {
    Geometry kept = Apply(shape, g);
    const std::vector<int> dims = NewDims(in.dims, shape);
    for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
      kept.sizes.erase(kept.sizes.begin() + *d);
      kept.strides.erase(kept.strides.begin() + *d);
    }
    return kept;
  }

  // An update puts a value somewhere, as a write-back does.
  static bool IsUpdate(const Instruction& in) {
    return in.op == ir::Op::kUpdate;
  }
  static ir::WriteBack PartOf(const Instruction& update) {
    return {update.operands[0], update.operands[1]};
  }

  void Rewrite(int i, Rewriter* r) {
    Instruction in = r->Mapped(At(i));
    if (IsUpdate(in)) {
      ir::WriteBack part = Rewritten(PartOf(At(i)), *r);
      in.operands = {std::move(part.to), std::move(part.from)};
      return r->Emit(std::move(in));
    }
    Shape& shape = ShapeOf(i);
    if (Groups::HasDims(in) && !shape.is_fixed) {
      for (ir::Operand& operand : in.operands) {
        if (operand.is_tensor()) operand.access = Apply(shape, operand.access);
      }
      ir::Value type = f_.values[static_cast<std::size_t>(in.results[0])];
      if (IsReduction(in)) {
        type.layout = ir::Contiguous(ReducedSizes(in, shape));
        in.keepdim = false;
      } else {
        type.layout = Apply(shape, type.layout);
      }
      in.dims = NewDims(in.dims, shape);
      r->Retype(in.results[0], std::move(type));
    }
    r->Emit(std::move(in));
  }

  static std::vector<int> NewDims(const std::vector<int>& dims,
                                  const Shape& shape) {
    std::vector<int> out;
    int now = 0;
    for (std::size_t d = 0; d < shape.sizes.size(); ++d) {
      if (shape.is_dropped[d] != 0) continue;
      const bool is_listed = std::find(dims.begin(), dims.end(),
                                       static_cast<int>(d)) != dims.end();
      if (is_listed && (out.empty() || out.back() != now)) out.push_back(now);
      if (shape.is_merged[d] == 0) ++now;
    }
    return out;
  }

  static ir::Sizes ReducedSizes(const Instruction& in, const Shape& shape) {
    const ir::Sizes sizes = Apply(shape, ir::Contiguous(shape.sizes)).sizes;
    const std::vector<int> dims = NewDims(in.dims, shape);
    ir::Sizes kept;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (std::find(dims.begin(), dims.end(), static_cast<int>(d)) ==
          dims.end()) {
        kept.push_back(sizes[d]);
      }
    }
    return kept;
  }

  ir::WriteBack Rewritten(const ir::WriteBack& write, const Rewriter& r) {
    ir::WriteBack out = {r.Map(write.to), r.Map(write.from)};
    const int i = groups_.MakerOf(write.from.value);
    if (i < 0 || ShapeOf(i).is_fixed) return out;
    if (IsReduction(At(i))) {
      out.to.access = KeptOf(At(i), ShapeOf(i), write.to.access);
      out.from.access = ir::Contiguous(ReducedSizes(At(i), ShapeOf(i)));
      return out;
    }
    out.to.access = Apply(ShapeOf(i), write.to.access);
    out.from.access = Apply(ShapeOf(i), write.from.access);
    return out;
  }

  const ir::Function& f_;
  Groups groups_;
  std::vector<Shape> shapes_;  // by group
};

}  // namespace

ir::Function SimplifyAccess(const ir::Function& function) {
  return Merger(function).Run();
}

}  // namespace tjit
