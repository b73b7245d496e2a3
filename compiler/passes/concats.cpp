#include "compiler/passes/concats.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "compiler/passes/access_facts.h"
#include "compiler/passes/rewriter.h"

namespace tjit {
namespace {

using ir::Instruction;
using ir::Op;
using ir::Operand;
using ir::Size;
using ir::ValueId;

// Every pair of parts is compared.
constexpr std::size_t kMaxParts = 128;

class Finder {
 public:
  explicit Finder(const ir::Function& f)
      : f_(f),
        definitions_(Definitions(f)),
        is_needed_(f.values.size(), 0),
        is_base_(f.values.size(), 0),
        is_read_(f.values.size(), 0) {}

  // From the end: who needs a value is known before the value is looked at.
  Concats Run() {
    concats_.of.resize(f_.values.size());
    concats_.is_skipped.assign(f_.body.size(), 0);
    for (const ir::WriteBack& write : f_.writes) Need(write.from.value);
    for (const ValueId id : f_.returns) Need(id);
    FindReaders();
    for (std::size_t i = f_.body.size(); i-- > 0;) Look(i);
    return std::move(concats_);
  }

 private:
  void Need(ValueId id) { is_needed_[static_cast<std::size_t>(id)] = 1; }

  void FindReaders() {
    for (const Instruction& in : f_.body) {
      for (std::size_t k = 0; k < in.operands.size(); ++k) {
        if (!in.operands[k].is_tensor()) continue;
        const bool is_base = in.op == Op::kUpdate && k == 0;
        (is_base ? is_base_
                 : is_read_)[static_cast<std::size_t>(in.operands[k].value)] =
            1;
      }
    }
  }

  void Look(std::size_t i) {
    const Instruction& in = f_.body[i];
    bool is_needed = in.op == Op::kCall;
    for (const ValueId id : in.results) {
      is_needed |= is_needed_[static_cast<std::size_t>(id)] != 0;
    }
    // What nobody reads at all runs.
    if (!is_needed && is_base_[static_cast<std::size_t>(in.results[0])] != 0) {
      concats_.is_skipped[i] = 1;
      return;
    }
    bool is_concat = false;
    if (in.op == Op::kUpdate) {
      ConcatParts& concat =
          concats_.of[static_cast<std::size_t>(in.results[0])];
      concat = PartsOf(static_cast<int>(i));
      is_concat = concat.is_concat();
      for (const int part : concat.parts) {
        const Operand& from =
            f_.body[static_cast<std::size_t>(part)].operands[1];
        Need(from.value);
      }
      if (concat.fill >= 0) {
        Need(f_.body[static_cast<std::size_t>(concat.fill)].results[0]);
      }
      if (is_concat) concats_.is_skipped[i] = 1;
    }
    for (std::size_t k = 0; k < in.operands.size(); ++k) {
      if (in.operands[k].is_tensor() && !is_concat) Need(in.operands[k].value);
    }
  }

  // The updates that end with instruction `last`, if they make a concat.
  ConcatParts PartsOf(int last) const {
    ConcatParts concat;
    const ir::Value& value =
        f_.values[static_cast<std::size_t>(At(last).results[0])];
    const Size all = Product(value.layout.sizes);
    Size covered = 0;
    int i = last;
    while (i >= 0 && At(i).op == Op::kUpdate && covered != all &&
           concat.parts.size() < kMaxParts) {
      covered = covered + Product(At(i).operands[0].access.sizes);
      concat.parts.push_back(i);
      i = definitions_[static_cast<std::size_t>(At(i).operands[0].value)];
    }
    if (covered != all) {
      const bool is_fill =
          i >= 0 && At(i).op == Op::kFull &&
          is_read_[static_cast<std::size_t>(At(i).results[0])] == 0;
      if (!is_fill) return {};
      concat.fill = i;
    }
    std::reverse(concat.parts.begin(), concat.parts.end());
    return AreParts(concat.parts) ? concat : ConcatParts();
  }

  bool AreParts(const std::vector<int>& parts) const {
    for (std::size_t a = 0; a < parts.size(); ++a) {
      const ir::Geometry& mine = At(parts[a]).operands[0].access;
      if (!IsInjective(mine)) return false;
      for (std::size_t b = 0; b < a; ++b) {
        if (!AreDisjoint(mine, At(parts[b]).operands[0].access)) return false;
      }
    }
    return true;
  }

  const Instruction& At(int i) const {
    return f_.body[static_cast<std::size_t>(i)];
  }

  const ir::Function& f_;
  const std::vector<int> definitions_;
  std::vector<char> is_needed_;  // by value: what has been looked at needs it
  std::vector<char> is_base_;    // by value: an update begins with it
  std::vector<char> is_read_;    // by value: otherwise read
  Concats concats_;
};

}  // namespace

Concats FindConcats(const ir::Function& function) {
  return Finder(function).Run();
}

bool IsOwnPart(const ir::Function& function, const Instruction& update) {
  const Operand& from = update.operands[1];
  if (function.IsExternal(from.value) || !IsWhole(function, from)) return false;
  for (const Instruction& in : function.body) {
    if (in.op != Op::kUpdate && in.op != Op::kCall) continue;
    for (const ValueId id : in.results) {
      if (id == from.value) return false;
    }
  }
  return true;
}

}  // namespace tjit
