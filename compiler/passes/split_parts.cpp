#include "compiler/passes/split_parts.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/boxes.h"
#include "compiler/passes/concats.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/rewriter.h"

namespace tjit {
namespace {

using ir::Geometry;
using ir::Instruction;
using ir::Op;
using ir::Operand;
using ir::ValueId;

constexpr std::size_t kMaxParts = 64;     // of one value
constexpr std::size_t kMaxCopies = 1024;  // of instructions, all together
constexpr std::size_t kMaxRepeated = 16;  // parts of a value that stays whole
// Instructions and externals behind a value that is computed more than once.
constexpr int kMaxRepeatedOps = 3, kMaxRepeatedLoads = 2;

std::size_t Index(ValueId id) { return static_cast<std::size_t>(id); }

// First half: an update with a concat becomes one update for each of its parts.
class Flattener {
 public:
  explicit Flattener(const ir::Function& f)
      : f_(f), concats_(FindConcats(f)), r_(f) {}

  ir::Function Run() {
    for (const Instruction& in : f_.body) {
      std::vector<Part> parts;
      if (in.op == Op::kUpdate && IsWhole(f_, in.operands[1])) {
        AddParts(in.operands[0].access, in.operands[1], &parts);
      }
      if (parts.size() < 2 || parts.size() > kMaxParts) {
        r_.Keep(in);
      } else {
        Emit(in, parts);
      }
    }
    return r_.Finish();
  }

 private:
  struct Part {
    Geometry to;
    Operand from;  // old
  };

  // What to do instead of putting all of `from` there.
  void AddParts(const Geometry& to, const Operand& from,
                std::vector<Part>* parts) {
    const ConcatParts& concat = concats_.of[Index(from.value)];
    const bool is_concat = concat.is_concat() && concat.fill < 0 &&
                           IsWhole(f_, from) &&
                           parts->size() + concat.parts.size() <= kMaxParts;
    std::vector<Box> boxes;
    for (const int i : concat.parts) {
      if (!is_concat) break;
      std::optional<Box> box =
          BoxOf(At(i).operands[0].access, f_.values[Index(from.value)].layout);
      if (!box) break;
      boxes.push_back(std::move(*box));
    }
    if (boxes.empty() || boxes.size() != concat.parts.size()) {
      parts->push_back({to, from});
      return;
    }
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      const Instruction& part = At(concat.parts[k]);
      AddParts(Within(to, boxes[k], part.operands[0].access), part.operands[1],
               parts);
    }
  }

  void Emit(const Instruction& old, const std::vector<Part>& parts) {
    Operand base = r_.Map(old.operands[0]);
    const ir::Value& type = f_.values[Index(old.results[0])];
    for (std::size_t k = 0; k < parts.size(); ++k) {
      Instruction update;
      update.op = Op::kUpdate;
      base.access = parts[k].to;
      update.operands = {base, r_.Map(parts[k].from)};
      if (k + 1 < parts.size()) {
        base.value = r_.EmitFresh(std::move(update), type);
      } else {
        update.results = old.results;
        r_.Emit(std::move(update));
      }
    }
  }

  const Instruction& At(int i) const {
    return f_.body[static_cast<std::size_t>(i)];
  }

  const ir::Function& f_;
  const Concats concats_;
  Rewriter r_;
};

// Which values cost less to compute again than to store and to load: a few
// quick instructions of externals that stay as they are.
class Repeatable {
 public:
  explicit Repeatable(const ir::Function& f) : costs_(f.values.size()) {
    for (ValueId id = 0; id < f.externals; ++id) costs_[Index(id)].loads = 1;
    std::vector<char> has_memory(f.values.size(), 0);
    for (const ir::WriteBack& write : f.writes) {
      costs_[Index(write.to.value)].loads = kMaxRepeatedLoads + 1;
      has_memory[Index(write.from.value)] = 1;
    }
    for (const ValueId id : f.returns) has_memory[Index(id)] = 1;
    for (const Instruction& in : f.body) {
      const bool is_quick = IsQuick(in.op) && !has_memory[Index(in.results[0])];
      for (const ValueId id : in.results) {
        costs_[Index(id)] = is_quick ? CostOf(in) : Cost{kMaxRepeatedOps + 1};
      }
    }
  }

  bool operator[](ValueId id) const {
    const Cost& cost = costs_[Index(id)];
    return cost.ops <= kMaxRepeatedOps && cost.loads <= kMaxRepeatedLoads;
  }

 private:
  struct Cost {
    int ops = 0, loads = 0;
  };

  static bool IsQuick(Op op) {
    return op == Op::kAdd || op == Op::kSub || op == Op::kMul ||
           op == Op::kNeg || op == Op::kAbs || op == Op::kSquare ||
           op == Op::kRelu || op == Op::kTo;
  }

  Cost CostOf(const Instruction& in) const {
    Cost cost = {1, 0};
    for (const Operand& operand : in.operands) {
      if (!operand.is_tensor()) continue;
      const Cost& more = costs_[Index(operand.value)];
      cost.ops = std::min(cost.ops + more.ops, kMaxRepeatedOps + 1);
      cost.loads = std::min(cost.loads + more.loads, kMaxRepeatedLoads + 1);
    }
    return cost;
  }

  std::vector<Cost> costs_;  // by value
};

// Second half: from the end to the front, which parts of a value are read.
class Splitter {
 public:
  explicit Splitter(const ir::Function& f)
      : f_(f), r_(f), repeatable_(f), reads_(f.values.size()) {}

  ir::Function Run() {
    for (const ir::WriteBack& write : f_.writes) Whole(write.from.value);
    for (const ValueId id : f_.returns) Whole(id);
    for (std::size_t i = f_.body.size(); i-- > 0;) Look(f_.body[i]);
    if (copies_ == 0 || copies_ > kMaxCopies) return f_;
    for (const Instruction& in : f_.body) Rewrite(in);
    return r_.Finish();
  }

 private:
  struct Part {
    Box box;
    Geometry access;              // of the first who reads it
    ValueId copy = ir::kNoValue;  // new: holds the part alone
  };
  struct Reads {
    bool is_whole = false;  // or not seen to be parts
    std::vector<Part> parts;  // apart, or of a repeatable value
  };

  void Whole(ValueId id) { reads_[Index(id)].is_whole = true; }

  static bool MaySplit(const Instruction& in) {
    return in.op == Op::kTo ||
           (InfoOf(in.op).family == ir::Family::kPointwise &&
            !DependsOnPosition(in.op));
  }

  // Also what the operand does not access: the access of the first operand of
  // an update is what it replaces.
  static bool NeedsAll(const Instruction& in, std::size_t k) {
    return (in.op == Op::kUpdate && k == 0) || in.op == Op::kCall;
  }

  // Parts of it are computed where they are read.
  bool IsSplit(const Instruction& in) const {
    if (!MaySplit(in)) return false;
    const Reads& reads = reads_[Index(in.results[0])];
    if (reads.parts.empty()) return false;
    return !reads.is_whole ||
           (repeatable_[in.results[0]] && reads.parts.size() <= kMaxRepeated);
  }

  // Someone reads `access` of the value.
  void Record(ValueId id, const Geometry& access) {
    Reads& reads = reads_[Index(id)];
    const bool may_repeat = repeatable_[id];
    if (f_.IsExternal(id) || (reads.is_whole && !may_repeat)) return;
    const Geometry& layout = f_.values[Index(id)].layout;
    std::optional<Box> box = BoxOf(access, layout);
    const bool is_part = box && access != layout &&
                         reads.parts.size() < kMaxParts &&
                         box->sizes != layout.sizes;
    bool is_known = false;
    for (const Part& part : reads.parts) {
      if (!is_part) break;
      is_known |= box->IsSameAs(part.box);
      if (!is_known && !may_repeat && !AreApart(*box, part.box)) {
        return Whole(id);
      }
    }
    if (!is_part) return Whole(id);
    if (!is_known) reads.parts.push_back({std::move(*box), access});
  }

  void Look(const Instruction& in) {
    const bool is_split = IsSplit(in);
    const bool is_kept = !is_split || reads_[Index(in.results[0])].is_whole;
    for (std::size_t k = 0; k < in.operands.size(); ++k) {
      const Operand& operand = in.operands[k];
      if (!operand.is_tensor()) continue;
      if (NeedsAll(in, k)) {
        Whole(operand.value);
        continue;
      }
      if (is_kept) Record(operand.value, operand.access);
      if (!is_split) continue;
      for (const Part& part : reads_[Index(in.results[0])].parts) {
        Record(operand.value, Within(operand.access, part.box, part.access));
      }
    }
    if (is_split) copies_ += reads_[Index(in.results[0])].parts.size();
  }

  // An old operand, as a new one.
  Operand Read(Operand operand) const {
    if (!operand.is_tensor()) return operand;
    const Reads& reads = reads_[Index(operand.value)];
    if (f_.IsExternal(operand.value) || reads.parts.empty() ||
        reads.parts[0].copy == ir::kNoValue) {
      return r_.Map(std::move(operand));
    }
    const std::optional<Box> box =
        BoxOf(operand.access, f_.values[Index(operand.value)].layout);
    for (const Part& part : reads.parts) {
      if (!box || !box->IsSameAs(part.box)) continue;
      operand.value = part.copy;
      operand.access = OfCopy(part, *box, operand.access);
      return operand;
    }
    return r_.Map(std::move(operand));
  }

  // The elements of `access` in a copy that lies as the first reader's access.
  static Geometry OfCopy(const Part& part, const Box& box,
                         const Geometry& access) {
    Geometry of = ir::Contiguous(part.access.sizes);
    if (access.sizes == of.sizes && box.dims == part.box.dims) return of;
    Geometry other;
    other.sizes = access.sizes;
    for (const int dim : box.dims) {
      const auto at =
          std::find(part.box.dims.begin(), part.box.dims.end(), dim);
      other.strides.push_back(dim < 0 ? ir::Size(0)
                                      : of.strides[static_cast<std::size_t>(
                                            at - part.box.dims.begin())]);
    }
    return other;
  }

  void Rewrite(const Instruction& old) {
    const bool is_split = IsSplit(old);
    if (!is_split || reads_[Index(old.results[0])].is_whole) {
      Instruction in = old;
      for (std::size_t k = 0; k < in.operands.size(); ++k) {
        Operand& operand = in.operands[k];
        operand = NeedsAll(in, k) ? r_.Map(std::move(operand))
                                  : Read(std::move(operand));
      }
      r_.Emit(std::move(in));
    }
    if (!is_split) return;
    const ir::DType dtype = f_.values[Index(old.results[0])].dtype;
    for (Part& part : reads_[Index(old.results[0])].parts) {
      Instruction copy = old;
      for (Operand& operand : copy.operands) {
        if (!operand.is_tensor()) continue;
        operand.access = Within(operand.access, part.box, part.access);
        operand = Read(std::move(operand));
      }
      part.copy = r_.EmitFresh(std::move(copy),
                               {dtype, ir::Contiguous(part.access.sizes)});
    }
  }

  const ir::Function& f_;
  Rewriter r_;
  const Repeatable repeatable_;
  std::vector<Reads> reads_;  // by value
  std::size_t copies_ = 0;
};

}  // namespace

ir::Function SplitParts(const ir::Function& function) {
  const ir::Function flat = Flattener(function).Run();
  const ir::Function live = EliminateDead(flat);
  return Splitter(live).Run();
}

}  // namespace tjit
