#include "compiler/passes/cse.h"

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "compiler/passes/rewriter.h"
#include "support/planted_defect.h"

namespace tjit {
namespace {

using ir::Instruction;
using ir::ValueId;

// Of what is cheap to hash; equality looks at the rest.
std::uint64_t HashOf(const Instruction& in) {
  std::uint64_t hash = absl::HashOf(in.op, in.dims, in.operands.size());
  for (const ir::Operand& operand : in.operands) {
    if (Planted(Defect::kWrongCommon)) continue;
    hash = absl::HashOf(hash, operand.value, operand.scalar.argument,
                        operand.scalar.bits);
  }
  return hash;
}

bool AreEqual(const Instruction& a, const Instruction& b) {
  bool are_same = a.operands == b.operands;
  if (Planted(Defect::kWrongCommon) && !are_same) {
    are_same = a.operands.size() == b.operands.size();
    for (std::size_t i = 0; are_same && i < a.operands.size(); ++i) {
      are_same = a.operands[i].value == b.operands[i].value &&
                 a.operands[i].access == b.operands[i].access;
    }
  }
  return a.op == b.op && are_same && a.dims == b.dims && a.keepdim == b.keepdim;
}

}  // namespace

ir::Function EliminateCommon(const ir::Function& function) {
  std::vector<char> is_returned(function.values.size(), 0);
  for (const ValueId id : function.returns) {
    is_returned[static_cast<std::size_t>(id)] = 1;
  }
  struct Known {
    std::size_t index;  // into the new body
    ValueId old;
  };
  absl::flat_hash_map<std::uint64_t, std::vector<Known>> known;
  Rewriter r(function);
  const auto type_of = [&](ValueId id) -> const ir::Value& {
    return function.values[static_cast<std::size_t>(id)];
  };
  for (const Instruction& old : function.body) {
    Instruction in = r.Mapped(old);
    if (in.op == ir::Op::kCall) {
      r.Emit(std::move(in));
      continue;
    }
    const ValueId id = old.results[0];
    std::vector<Known>& equals = known[HashOf(in)];
    const Known* same = nullptr;
    for (const Known& candidate : equals) {
      const bool both_returned =
          is_returned[static_cast<std::size_t>(id)] != 0 &&
          is_returned[static_cast<std::size_t>(candidate.old)] != 0;
      if (!both_returned && type_of(id) == type_of(candidate.old) &&
          AreEqual(in, r.function().body[candidate.index])) {
        same = &candidate;
        break;
      }
    }
    if (same != nullptr) {
      if (is_returned[static_cast<std::size_t>(id)] != 0) {
        is_returned[static_cast<std::size_t>(same->old)] = 1;
      }
      r.Replace(id, r.Map(same->old));
      continue;
    }
    equals.push_back({r.function().body.size(), id});
    r.Emit(std::move(in));
  }
  return r.Finish();
}

}  // namespace tjit
