#include "compiler/ir/rules.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tjit::ir {
namespace {

const Value& ValueOf(const Function& function, const Operand& operand) {
  return function.values[static_cast<std::size_t>(operand.value)];
}

// How a scalar may enter arithmetic of `dtype`: integers take no fractions.
bool Fits(ScalarType scalar, DType dtype) {
  switch (InfoOf(dtype).kind) {
    case DTypeKind::kFloat:
      return true;
    case DTypeKind::kInt:
      return scalar != ScalarType::kF64;
    case DTypeKind::kBool:
      return scalar == ScalarType::kBool;
  }
  return false;
}

std::string CheckScalars(const Instruction& in, DType dtype) {
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    const Operand& operand = in.operands[i];
    if (operand.is_tensor() || Fits(operand.scalar.type, dtype)) continue;
    // A parameter of a reduction (p, correction) is not one of its elements.
    if (InfoOf(in.op).family == Family::kReduce) continue;
    // alpha of a bool sum is 1, whatever its type.
    if (InfoOf(in.op).operands[i] == 'r' && dtype == DType::kBool &&
        operand.scalar.type == ScalarType::kI64) {
      continue;
    }
    return absl::StrCat("operand ", i, " is a ", Name(operand.scalar.type),
                        " scalar in arithmetic of ", Name(dtype));
  }
  return "";
}

// The one type of all tensor operands from `first` on.
std::string CommonDType(const Function& function, const Instruction& in,
                        std::size_t first, bool* has_one, DType* dtype) {
  *has_one = false;
  for (std::size_t i = first; i < in.operands.size(); ++i) {
    if (!in.operands[i].is_tensor()) continue;
    const DType mine = ValueOf(function, in.operands[i]).dtype;
    if (*has_one && mine != *dtype) {
      return absl::StrCat("operand ", i, " is ", Name(mine), ", not ",
                          Name(*dtype));
    }
    *has_one = true;
    *dtype = mine;
  }
  return "";
}

DTypeVerdict Error(std::string error) {
  DTypeVerdict verdict;
  verdict.error = std::move(error);
  return verdict;
}

DType ResultOf(TypeRule rule, DType operand) {
  switch (rule) {
    case TypeRule::kCompare:
      return DType::kBool;
    case TypeRule::kIndex:
      return DType::kI64;
    case TypeRule::kSum:
      return InfoOf(operand).kind == DTypeKind::kFloat ? operand : DType::kI64;
    default:
      return operand;
  }
}

Sizes Reduced(const Sizes& sizes, const std::vector<int>& dims, bool keepdim) {
  Sizes left;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const bool is_reduced =
        std::find(dims.begin(), dims.end(), static_cast<int>(d)) != dims.end();
    if (!is_reduced) {
      left.push_back(sizes[d]);
    } else if (keepdim) {
      left.push_back(1);
    }
  }
  return left;
}

// The sizes of all tensor operands, which must be equal.
SizesVerdict CommonSizes(const Instruction& in) {
  SizesVerdict verdict;
  verdict.is_given = true;
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    if (!in.operands[i].is_tensor()) continue;
    const Sizes& mine = in.operands[i].access.sizes;
    if (!verdict.is_given && mine != verdict.sizes) {
      verdict.error = absl::StrCat("operand ", i, " has sizes [", ToText(mine),
                                   "], not [", ToText(verdict.sizes), "]");
      return verdict;
    }
    verdict.is_given = false;
    verdict.sizes = mine;
  }
  return verdict;
}

}  // namespace

DTypeVerdict ResultDType(const Function& function, const Instruction& in) {
  const OpInfo& info = InfoOf(in.op);
  DTypeVerdict verdict;
  if (info.type_rule == TypeRule::kCast || info.type_rule == TypeRule::kGiven) {
    verdict.is_given = true;
    return verdict;
  }
  const bool is_where = info.type_rule == TypeRule::kWhere;
  if (is_where && ValueOf(function, in.operands[0]).dtype != DType::kBool) {
    return Error(absl::StrCat("operand 0 is ",
                              Name(ValueOf(function, in.operands[0]).dtype),
                              ", not bool"));
  }
  bool has_one = false;
  DType dtype = DType::kF32;
  std::string error =
      CommonDType(function, in, is_where ? 1 : 0, &has_one, &dtype);
  if (!error.empty()) return Error(std::move(error));
  if (!has_one) {
    // where(c, 1, 0): the result says which type; others need a tensor.
    if (!is_where) return Error("has no tensor operand");
    verdict.is_given = true;
    return verdict;
  }
  if (!Contains(info.dtypes, dtype)) {
    return Error(absl::StrCat("is not for ", Name(dtype), " but for ",
                              Name(info.dtypes)));
  }
  error = CheckScalars(in, dtype);
  if (!error.empty()) return Error(std::move(error));
  verdict.dtype = ResultOf(info.type_rule, dtype);
  return verdict;
}

SizesVerdict ResultSizes(const Function& function, const Instruction& in) {
  SizesVerdict verdict;
  switch (InfoOf(in.op).shape_rule) {
    case ShapeRule::kGiven:
      verdict.is_given = true;
      return verdict;
    case ShapeRule::kSame:
    case ShapeRule::kRow:
      return CommonSizes(in);
    case ShapeRule::kReduce:
      verdict = CommonSizes(in);
      verdict.sizes = Reduced(in.operands[0].access.sizes, in.dims, in.keepdim);
      return verdict;
    case ShapeRule::kUpdate:
      verdict = CommonSizes(in);
      verdict.sizes = ValueOf(function, in.operands[0]).layout.sizes;
      return verdict;
  }
  return verdict;
}

std::string CheckDims(const Instruction& in) {
  const OpInfo& info = InfoOf(in.op);
  if (in.keepdim && info.family != Family::kReduce) {
    return "has keepdim but reduces nothing";
  }
  if (!info.takes_dims()) return in.dims.empty() ? "" : "takes no dims";
  const auto ndim = static_cast<int>(in.operands[0].access.sizes.size());
  int last = -1;
  for (const int dim : in.dims) {
    if (dim <= last) return absl::StrCat("dim ", dim, " is out of order");
    if (dim >= ndim) {
      return absl::StrCat("dim ", dim, " is not one of ", ndim);
    }
    last = dim;
  }
  if (info.family == Family::kRow && in.dims.size() != 1) {
    return absl::StrCat("has ", in.dims.size(), " dims, not 1");
  }
  return "";
}

std::string CheckOperandKinds(const Instruction& in) {
  const char* kinds = InfoOf(in.op).operands;
  if (kinds[0] == '*') return "";
  const std::size_t count = std::strlen(kinds);
  if (in.operands.size() != count) {
    return absl::StrCat("has ", in.operands.size(), " operands, not ", count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const bool wants_tensor = kinds[i] == 't' || kinds[i] == 'c';
    const bool wants_scalar = kinds[i] == 's' || kinds[i] == 'r';
    if (wants_tensor && !in.operands[i].is_tensor()) {
      return absl::StrCat("operand ", i, " is a scalar, not a tensor");
    }
    if (wants_scalar && in.operands[i].is_tensor()) {
      return absl::StrCat("operand ", i, " is a tensor, not a scalar");
    }
  }
  return "";
}

}  // namespace tjit::ir
