#include "compiler/ir/op.h"

#include <iterator>

#include "support/assert.h"

namespace tjit::ir {
namespace {

constexpr OpInfo kInfos[] = {
#define TJIT_IR_OP(suffix, name, family, operands, dtypes, type_rule, \
                   shape_rule, eval, doc)                             \
  {name,                                                              \
   Family::k##family,                                                 \
   operands,                                                          \
   DTypeSet::k##dtypes,                                               \
   TypeRule::k##type_rule,                                            \
   ShapeRule::k##shape_rule,                                          \
   doc},
#include "compiler/ir/ops.def"
};

constexpr const char* kFamilies[] = {"pointwise", "reduce", "row", "data",
                                     "call"};
constexpr const char* kSets[] = {"float", "number", "int_bool", "all"};
constexpr const char* kTypeRules[] = {"same", "compare", "where", "cast",
                                      "sum",  "index",   "given"};
constexpr const char* kShapeRules[] = {"same", "reduce", "row", "given",
                                       "update"};

}  // namespace

const OpInfo& InfoOf(Op op) {
  TJIT_ASSERT(op < Op::kCount);
  return kInfos[static_cast<int>(op)];
}

bool OpByName(std::string_view name, Op* op) {
  for (int i = 0; i < kOpCount; ++i) {
    if (name != kInfos[i].name) continue;
    *op = static_cast<Op>(i);
    return true;
  }
  return false;
}

bool Contains(DTypeSet set, DType dtype) {
  const DTypeKind kind = InfoOf(dtype).kind;
  switch (set) {
    case DTypeSet::kFloat:
      return kind == DTypeKind::kFloat;
    case DTypeSet::kNumber:
      return kind != DTypeKind::kBool;
    case DTypeSet::kIntBool:
      return kind != DTypeKind::kFloat;
    case DTypeSet::kAll:
      return true;
  }
  return false;
}

bool DependsOnPosition(Op op) {
  return (op >= Op::kSilu && op < Op::kSigmoidBackward) || op == Op::kSigmoid ||
         op == Op::kExp2 || op == Op::kSinh || op == Op::kCosh ||
         op == Op::kAtan2;
}

const char* Name(Family family) { return kFamilies[static_cast<int>(family)]; }
const char* Name(DTypeSet set) { return kSets[static_cast<int>(set)]; }
const char* Name(TypeRule rule) { return kTypeRules[static_cast<int>(rule)]; }
const char* Name(ShapeRule rule) { return kShapeRules[static_cast<int>(rule)]; }

}  // namespace tjit::ir
