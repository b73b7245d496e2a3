#include "runtime/call/op_classes.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tjit::runtime {
namespace {

// What the table says of one name; unset fields are the schema's business.
struct TableEntry {
  bool has_class = false;
  OpClass op_class = OpClass::kPlain;
  bool leave_alone = false;
  bool may_warn = false;
  bool has_check = false;
  ValueCheck check = ValueCheck::kNone;
  std::vector<int> writes;
};

using Table = std::unordered_map<std::string, TableEntry>;

Table MakeTable() {
  Table table;
#define TJIT_OP_CLASS(name, value)     \
  table[name].op_class = OpClass::value; \
  table[name].has_class = true;
#define TJIT_OP_LEAVE_ALONE(name) table[name].leave_alone = true;
#define TJIT_OP_VALUE_CHECK(name, value)  \
  table[name].check = ValueCheck::value;    \
  table[name].has_check = true;
#define TJIT_OP_WARNS(name) table[name].may_warn = true;
#define TJIT_OP_WRITES(name, argument) table[name].writes.push_back(argument);
#include "runtime/call/op_classes.def"
#undef TJIT_OP_CLASS
#undef TJIT_OP_LEAVE_ALONE
#undef TJIT_OP_VALUE_CHECK
#undef TJIT_OP_WARNS
#undef TJIT_OP_WRITES
  return table;
}

const TableEntry* Find(const std::string& name) {
  static const Table* table = new Table(MakeTable());
  const auto it = table->find(name);
  return it == table->end() ? nullptr : &it->second;
}

bool IsTensorKind(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::ListType:
      return IsTensorKind(type->castRaw<c10::ListType>()->getElementType());
    case c10::TypeKind::OptionalType:
      return IsTensorKind(
          type->castRaw<c10::OptionalType>()->getElementType());
    default:
      return false;
  }
}

bool Writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool IsView(const c10::FunctionSchema& schema) {
  return !schema.is_mutable() &&
         std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& r) {
                       return r.alias_info() != nullptr;
                     });
}

// The name of an op that writes: `add_`, `add.out`, not `__lshift__`.
bool IsNamedLikeWriter(const c10::OperatorName& name) {
  std::string_view base = name.name;
  const std::string_view overload = name.overload_name;
  return (base.ends_with("_") && !base.ends_with("__")) ||
         base.ends_with("_out") || overload == "out" ||
         overload.ends_with("_out");
}

bool ReturnsOnlyTensors(const c10::FunctionSchema& schema) {
  return std::all_of(
      schema.returns().begin(), schema.returns().end(),
      [](const c10::Argument& r) { return IsTensorKind(r.type()); });
}

OpClass ClassOf(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  if (op.operator_name().name.rfind("aten::", 0) != 0) return OpClass::kForeign;
  if (op.hasTag(at::Tag::data_dependent_output) ||
      op.hasTag(at::Tag::dynamic_output_shape)) {
    return OpClass::kSync;
  }
  if (op.hasTag(at::Tag::nondeterministic_seeded)) return OpClass::kRandom;
  if (!ReturnsOnlyTensors(schema)) return OpClass::kSync;
  const bool writes = std::any_of(schema.arguments().begin(),
                                  schema.arguments().end(), &Writes);
  if (!writes && (schema.returns().empty() ||
                  IsNamedLikeWriter(op.operator_name()))) {
    return OpClass::kSync;
  }
  return OpClass::kPlain;
}

}  // namespace

OpTraits TraitsOf(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  const TableEntry* general = Find(name.name);
  const TableEntry* exact = Find(name.name + "." + name.overload_name);
  OpTraits traits;
  traits.op_class = ClassOf(op);
  traits.leave_alone = IsView(op.schema());
  for (const TableEntry* entry : {general, exact}) {
    if (entry == nullptr) continue;
    if (entry->has_class) {
      traits.op_class = entry->op_class;
      traits.leave_alone = false;
    }
    if (entry->has_check) traits.value_check = entry->check;
    traits.leave_alone = traits.leave_alone || entry->leave_alone;
    traits.may_warn = traits.may_warn || entry->may_warn;
    traits.extra_writes.insert(traits.extra_writes.end(),
                               entry->writes.begin(), entry->writes.end());
  }
  return traits;
}

}  // namespace tjit::runtime
