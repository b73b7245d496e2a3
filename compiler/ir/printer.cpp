#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/ir/ir_text.h"

namespace tjit::ir {
namespace {

std::string DoubleText(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  if (std::isnan(value)) {
    return bits == 0x7ff8000000000000u ? "nan"
                                       : absl::StrFormat("nan:%016x", bits);
  }
  std::string text = absl::StrFormat("%.17g", value);
  if (text.find_first_of(".ein") == std::string::npos) text += ".0";
  return text;
}

std::string OperandText(const Function& function, const Operand& operand) {
  if (!operand.is_tensor()) return ToText(operand.scalar);
  std::string text =
      absl::StrCat(operand.written ? "!" : "", "%", operand.value);
  const auto index = static_cast<std::size_t>(operand.value);
  if (operand.access != function.values[index].layout) {
    text += ToText(operand.access);
  }
  return text;
}

std::string HeadText(const Function& f) {
  std::string text = absl::StrCat("func ", f.name, "(");
  for (int i = 0; i < f.symbols; ++i) {
    absl::StrAppend(&text, i == 0 ? "n" : ", n", i);
  }
  text += ") {\n";
  for (int i = 0; i < f.externals; ++i) {
    absl::StrAppend(&text, "  external %", i, ": ",
                    ToText(f.values[static_cast<std::size_t>(i)]), "\n");
  }
  for (std::size_t i = 0; i < f.scalars.size(); ++i) {
    absl::StrAppend(&text, "  scalar $", i, ": ", Name(f.scalars[i]), "\n");
  }
  return text;
}

}  // namespace

std::string ToText(const Scalar& scalar) {
  if (!scalar.is_constant()) return absl::StrCat("$", scalar.argument);
  switch (scalar.type) {
    case ScalarType::kI64:
      return absl::StrCat(static_cast<std::int64_t>(scalar.bits));
    case ScalarType::kF64:
      return DoubleText(scalar.bits);
    case ScalarType::kBool:
      return scalar.bits != 0 ? "true" : "false";
  }
  return "?";
}

std::string ToText(const Geometry& g) {
  std::string text = absl::StrCat("[", ToText(g.sizes), "]");
  if (g.strides != ContiguousStrides(g.sizes)) {
    absl::StrAppend(&text, "(", ToText(g.strides), ")");
  }
  if (g.offset != Size(0)) absl::StrAppend(&text, "+", g.offset.ToText());
  return text;
}

std::string ToText(const Value& value) {
  return absl::StrCat(Name(value.dtype), ToText(value.layout));
}

std::string Print(const Function& function, const Instruction& in) {
  std::string text;
  const char* before = "";
  for (const ValueId id : in.results) {
    absl::StrAppend(&text, before, "%", id);
    before = ", ";
  }
  absl::StrAppend(&text, in.results.empty() ? "" : " = ", InfoOf(in.op).name);
  before = " ";
  for (const ValueId id : in.results) {
    absl::StrAppend(&text, before,
                    ToText(function.values[static_cast<std::size_t>(id)]));
    before = ", ";
  }
  if (in.op == Op::kCall) {
    absl::StrAppend(&text, " \"", in.callee, "\" step=", in.step);
  }
  before = " ";
  for (const Operand& operand : in.operands) {
    absl::StrAppend(&text, before, OperandText(function, operand));
    before = ", ";
  }
  if (InfoOf(in.op).takes_dims()) {
    text += " dims=[";
    before = "";
    for (const int dim : in.dims) {
      absl::StrAppend(&text, before, dim);
      before = ",";
    }
    absl::StrAppend(&text, "]", in.keepdim ? " keepdim" : "");
  }
  return text;
}

std::string Print(const Function& function) {
  std::string text = HeadText(function);
  for (const Instruction& in : function.body) {
    absl::StrAppend(&text, "  ", Print(function, in), "\n");
  }
  for (const WriteBack& write : function.writes) {
    absl::StrAppend(&text, "  write ", OperandText(function, write.to), " = ",
                    OperandText(function, write.from), "\n");
  }
  const char* before = "  return ";
  for (const ValueId id : function.returns) {
    absl::StrAppend(&text, before, "%", id);
    before = ", ";
  }
  return text + (function.returns.empty() ? "}\n" : "\n}\n");
}

}  // namespace tjit::ir
