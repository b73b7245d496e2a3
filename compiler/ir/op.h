// The ops of the IR as an enum, and what ops.def says of each.
#pragma once

#include <cstdint>
#include <string_view>

#include "compiler/ir/dtype.h"

namespace tjit::ir {

enum class Op : std::uint8_t {
#define TJIT_IR_OP(suffix, name, family, operands, dtypes, type_rule, \
                   shape_rule, eval, doc)                             \
  k##suffix,
#include "compiler/ir/ops.def"
  kCount,
};
inline constexpr int kOpCount = static_cast<int>(Op::kCount);

enum class Family : std::uint8_t { kPointwise, kReduce, kRow, kData, kCall };
enum class DTypeSet : std::uint8_t { kFloat, kNumber, kIntBool, kAll };
enum class TypeRule : std::uint8_t {
  kSame,
  kCompare,
  kWhere,
  kCast,
  kSum,
  kIndex,
  kGiven,
};
enum class ShapeRule : std::uint8_t { kSame, kReduce, kRow, kGiven, kUpdate };

struct OpInfo {
  const char* name;
  Family family;
  const char* operands;  // one letter each, see ops.def
  DTypeSet dtypes;
  TypeRule type_rule;
  ShapeRule shape_rule;
  const char* doc;

  bool takes_dims() const {
    return shape_rule == ShapeRule::kReduce || shape_rule == ShapeRule::kRow;
  }
};

// REQUIRES: op < kCount.
const OpInfo& InfoOf(Op op);
// False if there is no such op.
bool OpByName(std::string_view name, Op* op);
bool Contains(DTypeSet set, DType dtype);
// True if eager's bits depend on the number of the element, and of how many it
// is one (Note [Position-dependent functions] in
// compiler/schedule/math_table.h): such an instruction runs over all of what it
// was lowered for.
bool DependsOnPosition(Op op);

// Words of the table, for messages and docs/ir.md.
const char* Name(Family family);
const char* Name(DTypeSet set);
const char* Name(TypeRule rule);
const char* Name(ShapeRule rule);

}  // namespace tjit::ir
