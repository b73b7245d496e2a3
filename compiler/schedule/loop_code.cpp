#include "compiler/schedule/loop_code.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/loops/fuse.h"
#include "compiler/schedule/native_ops.h"

namespace tjit::llvm_backend {
namespace {

using ir::DType;
using ir::Function;
using ir::Geometry;
using ir::Instruction;
using ir::Operand;
using ir::ValueId;

// The element type that a pointwise op computes for.
DType ElementType(const Function& f, const Instruction& in) {
  const auto dtype_of = [&](ValueId id) {
    return f.values[static_cast<std::size_t>(id)].dtype;
  };
  const bool is_of_operand =
      in.op == ir::Op::kTo || InfoOf(in.op).type_rule == ir::TypeRule::kCompare;
  for (const Operand& operand : in.operands) {
    if (is_of_operand && operand.is_tensor()) return dtype_of(operand.value);
  }
  return dtype_of(in.results[0]);
}

class Resolver {
 public:
  Resolver(const Function& f, const LoopPlan& plan, const MathTable& math,
           const ir::Sizes& sizes, bool in_order, const Loop& loop)
      : f_(f),
        plan_(plan),
        math_(math),
        sizes_(sizes),
        slab_dim_(loop.slab_dim) {
    const LoopKind kind = loop.kind;
    code_.in_order = in_order;
    code_.is_slabs = kind == LoopKind::kSlabs;
    code_.is_columns = kind == LoopKind::kColumns;
    code_.is_whole = kind == LoopKind::kWhole;
    code_.is_rows = kind == LoopKind::kRows || code_.is_columns;
  }

  std::string Run(const Loop& loop, LoopCode* code) {
    for (const int i : loop.instructions) {
      const Instruction& in = f_.body[static_cast<std::size_t>(i)];
      computed_.insert(in.results.begin(), in.results.end());
      if (IsOfColumns(in)) columns_.insert(in.results[0]);
    }
    // What is stored comes first: the first access orders the dims.
    for (const LoopStore& store : loop.stores) {
      if (columns_.contains(store.value)) {
        code_.column_stores.push_back(
            {store.value, store.memory, ValueOf(store.value).dtype,
             store.to.offset,
             code_.is_whole ? ir::Size(0) : store.to.strides.back()});
        continue;
      }
      AddStore(AccessAt(store.memory, ValueOf(store.value).dtype, store.to),
               Whole(f_, store.value));
    }
    for (const int i : loop.instructions) {
      AddStep(f_.body[static_cast<std::size_t>(i)]);
    }
    return Finish(code);
  }

  // from, to where `home` with the geometry `to` is.
  std::string RunCopy(const Operand& from, ValueId home, Geometry to,
                      LoopCode* code) {
    const Home& place = HomeOf(home);
    to.offset = to.offset + place.offset;
    AddStore(AccessAt(place.memory, ValueOf(home).dtype, to), from);
    return Finish(code);
  }

 private:
  const ir::Value& ValueOf(ValueId id) const {
    return f_.values[static_cast<std::size_t>(id)];
  }
  bool IsOfColumns(const Instruction& in) const {
    return (code_.is_columns || code_.is_whole) &&
           InfoOf(in.op).family == ir::Family::kReduce;
  }
  const Home& HomeOf(ValueId id) const {
    return plan_.homes[static_cast<std::size_t>(id)];
  }
  void Fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
  }

  std::string Finish(LoopCode* code) {
    bool keeps_order = code_.in_order;  // as loops over rows do
    for (const Step& step : code_.steps) keeps_order |= step.is_position_call;
    LoopShape shape = code_.is_rows ? MakeRowsShape(sizes_, geometries_)
                      : code_.is_slabs
                          ? MakeSlabsShape(sizes_, geometries_, slab_dim_)
                          : MakeLoopShape(sizes_, geometries_, keeps_order);
    code_.sizes = std::move(shape.sizes);
    code_.split_columns = shape.split_columns;
    for (std::size_t a = 0; a < code_.accesses.size(); ++a) {
      code_.accesses[a].strides = std::move(shape.strides[a]);
    }
    *code = std::move(code_);
    return error_;
  }

  void AddStore(int access, const Operand& from) {
    StoreTo to;
    to.access = access;
    to.dtype = ValueOf(from.value).dtype;
    to.source = SourceOf(from);
    to.is_of_row = code_.accesses[static_cast<std::size_t>(access)].is_of_row;
    code_.stores.push_back(to);
  }

  int AccessAt(int memory, DType dtype, Geometry g) {
    const bool is_of_row =
        code_.is_rows && !code_.is_columns && AreRowsOf(g.sizes, sizes_);
    if (is_of_row) {
      g.sizes.push_back(sizes_.back());
      g.strides.emplace_back(0);
    }
    if (memory < 0) Fail("a value that is loaded or stored has no memory");
    if (g.sizes != sizes_) {
      Fail(absl::StrCat("an access has sizes [", ToText(g.sizes),
                        "] in a loop over [", ToText(sizes_), "]"));
    }
    for (std::size_t a = 0; a < geometries_.size(); ++a) {
      if (code_.accesses[a].memory == memory && geometries_[a] == g &&
          code_.accesses[a].is_of_row == is_of_row) {
        return static_cast<int>(a);
      }
    }
    MemoryAccess access;
    access.memory = memory;
    access.is_external = memory < f_.externals;
    access.dtype = dtype;
    access.offset = g.offset;
    access.is_of_row = is_of_row;
    code_.accesses.push_back(std::move(access));
    geometries_.push_back(g);
    return static_cast<int>(geometries_.size()) - 1;
  }

  Source SourceOf(const Operand& operand) {
    Source source;
    if (!operand.is_tensor()) {
      source.scalar = operand.scalar;
      return source;
    }
    if (computed_.contains(operand.value)) {
      source.kind = Source::Kind::kRegister;
      source.value = operand.value;
      return source;
    }
    const Home& home = HomeOf(operand.value);
    Geometry access = operand.access;
    access.offset = access.offset + home.offset;
    source.kind = Source::Kind::kAccess;
    source.access = AccessAt(home.memory, ValueOf(operand.value).dtype, access);
    return source;
  }

  void AddStep(const Instruction& in) {
    Step step;
    step.op = in.op;
    step.result = in.results[0];
    step.result_dtype = ValueOf(step.result).dtype;
    step.dtype = ElementType(f_, in);
    for (const Operand& operand : in.operands) {
      step.sources.push_back(SourceOf(operand));
    }
    step.is_column_call = IsOfColumns(in);
    step.is_slab_call = SlabDimOf(in) >= 0;
    ChooseFunction(&step);
    step.is_of_row = code_.is_rows && !code_.is_columns &&
                     AreRowsOf(ValueOf(step.result).layout.sizes, sizes_);
    code_.steps.push_back(std::move(step));
  }

  void ChooseFunction(Step* step) {
    const ir::Axis axis = step->is_slab_call      ? ir::Axis::kStrided
                          : !step->is_column_call ? ir::Axis::kInner
                          : code_.is_whole        ? ir::Axis::kAll
                                                  : ir::Axis::kOuter;
    step->math = math_.Find(step->op, step->dtype, axis);
    if (step->math < 0) {
      if (!IsNative(step->op)) {
        Fail(absl::StrCat("%", step->result, ": no function for ",
                          ir::InfoOf(step->op).name, " of ",
                          Name(step->dtype)));
      }
      return;
    }
    step->is_array_call = math_.IsArray(step->math);
    step->is_row_call = math_.IsRow(step->math);
    step->is_position_call = math_.IsPositionDependent(step->math);
    if (step->is_row_call || step->is_column_call || step->is_slab_call) return;
    const char* kinds = ir::InfoOf(step->op).operands;
    for (std::size_t i = 0; i < step->sources.size(); ++i) {
      const bool is_allowed = step->is_position_call && kinds[i] == 's';
      if (step->is_array_call && !is_allowed &&
          step->sources[i].kind == Source::Kind::kScalar) {
        Fail(absl::StrCat("%", step->result, ": ", ir::InfoOf(step->op).name,
                          " takes no scalar from an array function"));
      }
    }
  }

  const Function& f_;
  const LoopPlan& plan_;
  const MathTable& math_;
  const ir::Sizes& sizes_;
  const int slab_dim_;
  std::set<ValueId> computed_, columns_;
  std::vector<Geometry> geometries_;  // by access
  LoopCode code_;
  std::string error_;
};

}  // namespace

std::string MakeLoopCodes(const Function& f, const LoopPlan& plan,
                          const Loop& loop, const MathTable& math,
                          std::vector<LoopCode>* codes) {
  const auto resolver = [&](const ir::Sizes& sizes, bool in_order) {
    codes->emplace_back();
    return Resolver(f, plan, math, sizes, in_order, loop);
  };
  if (loop.kind == LoopKind::kColumns || loop.kind == LoopKind::kWhole ||
      RunsInParts(loop.kind)) {
    auto in_parts = resolver(loop.sizes, loop.in_order);
    return in_parts.Run(loop, &codes->back());
  }
  const Instruction& in =
      f.body[static_cast<std::size_t>(loop.instructions.back())];
  const ValueId result = in.results[0];
  if (loop.kind != LoopKind::kUpdate) {
    return absl::StrCat("%", result, ": ", ir::InfoOf(in.op).name,
                        " is not generated");
  }
  const ir::Value& base = f.values[static_cast<std::size_t>(result)];
  auto whole = resolver(base.layout.sizes, false);
  const std::string error = whole.RunCopy(Whole(f, in.operands[0].value),
                                          result, base.layout, &codes->back());
  if (!error.empty()) return error;
  auto part = resolver(loop.sizes, loop.in_order);
  return part.RunCopy(in.operands[1], result, in.operands[0].access,
                      &codes->back());
}

}  // namespace tjit::llvm_backend
