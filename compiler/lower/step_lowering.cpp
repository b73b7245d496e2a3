#include "compiler/lower/step_lowering.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lower/promote.h"

namespace tjit::lower {

using ir::DType;
using ir::DTypeKind;
using ir::Op;
using ir::Operand;
using ir::ScalarType;

namespace {

double ValueOf(const ScalarValue& scalar) {
  if (scalar.type == InfoOf(DType::kF64).number) {
    double value = 0;
    std::memcpy(&value, &scalar.bits[0], sizeof(value));
    return value;
  }
  return static_cast<double>(static_cast<std::int64_t>(scalar.bits[0]));
}

// The type of a recorded scalar; false for complex and absent ones.
bool TypeOf(const ScalarValue& value, ScalarType* type, DType* dtype) {
  if (value.type > 0xff ||
      !ir::DTypeByNumber(static_cast<std::uint8_t>(value.type), dtype)) {
    return false;
  }
  switch (*dtype) {
    case DType::kF64:
      *type = ScalarType::kF64;
      return true;
    case DType::kI64:
      *type = ScalarType::kI64;
      return true;
    case DType::kBool:
      *type = ScalarType::kBool;
      return true;
    default:
      return false;
  }
}

}  // namespace

bool StepLowering::Refuse(std::string why) {
  if (reason_.empty()) reason_ = std::move(why);
  return false;
}

bool StepLowering::SetTarget(const Place& place, bool is_fresh) {
  target_ = place;
  target_is_fresh_ = is_fresh;
  target_is_between_ = false;
  loaded_.clear();
  made_.clear();
  return ir::DTypeByNumber(place.geometry->dtype, &target_dtype_) ||
         Refuse("the result has a dtype that the IR has not");
}

bool StepLowering::HasResult(std::size_t result) const {
  if (result >= record().results.size()) return false;
  const ResultRecord::Kind kind = record().results[result].kind;
  return kind == ResultRecord::Kind::kFresh ||
         kind == ResultRecord::Kind::kAlias;
}

bool StepLowering::Into(std::size_t result) {
  result = result * elements_ + element_;
  if (record().results.empty()) return IntoArgument(result);
  if (result >= record().results.size()) return Refuse("has no such result");
  const ResultRecord& r = record().results[result];
  if (r.kind == ResultRecord::Kind::kFresh) {
    return SetTarget(places_.results[result], true);
  }
  if (r.kind == ResultRecord::Kind::kAlias && r.alias_arg >= 0) {
    return IntoArgument(static_cast<std::size_t>(r.alias_arg));
  }
  return Refuse("has an undefined or empty result");
}

bool StepLowering::IntoArgument(std::size_t arg) {
  if (arg >= arg_count() || places_.args[arg].slot == kNoSlot ||
      !record().args[arg].written) {
    return Refuse(absl::StrCat("does not write argument ", arg));
  }
  return SetTarget(places_.args[arg], false);
}

bool StepLowering::IntoBetween(std::size_t arg) {
  if (!SetTarget(places_.args[arg], true)) return false;
  target_is_between_ = true;
  return true;
}

bool StepLowering::Tensor(std::size_t arg, Node* node) {
  return Load(arg * elements_ + element_, node);
}

bool StepLowering::SharedTensor(Node* node) {
  return Load(arg_count() - 1, node);
}

bool StepLowering::Load(std::size_t arg, Node* node) {
  if (arg >= arg_count() || places_.args[arg].slot == kNoSlot) {
    return Refuse(absl::StrCat("has no tensor ", arg));
  }
  const Place& place = places_.args[arg];
  node->operand = storages_.Read(place);
  ir::DTypeByNumber(place.geometry->dtype, &node->dtype);
  node->dims = place.dims;
  node->is_number = place.geometry->wrapped_number;
  loaded_.push_back(arg);
  return true;
}

bool StepLowering::HasScalar(std::size_t index) const {
  ScalarType type;
  DType dtype;
  return index < record().scalars.size() &&
         TypeOf(record().scalars[index].value, &type, &dtype);
}

bool StepLowering::BakedScalar(std::size_t index, double* value) const {
  if (!HasScalar(index) || record().scalars[index].IsRuntime()) return false;
  *value = ValueOf(record().scalars[index].value);
  return true;
}

bool StepLowering::Scalar(std::size_t index, Node* node) {
  if (!HasScalar(index)) {
    return Refuse(absl::StrCat("has no real scalar ", index));
  }
  const ScalarRecord& record = this->record().scalars[index];
  ir::Scalar scalar;
  TypeOf(record.value, &scalar.type, &node->dtype);
  scalar.bits = record.value.bits[0];
  if (record.IsRuntime()) {
    const ScalarSource source{index_, static_cast<std::int32_t>(index)};
    const auto known = std::find(scalars_.begin(), scalars_.end(), source);
    if (known != scalars_.end()) {
      scalar.argument = static_cast<std::int32_t>(known - scalars_.begin());
      scalar.bits = 0;
    } else {
      scalar = builder_.ScalarArgument(scalar.type);
      scalars_.push_back(source);
    }
  }
  node->operand = ir::Builder::Use(scalar);
  node->dims.clear();
  node->is_number = true;
  node->recorded = ValueOf(record.value);
  return true;
}

Node StepLowering::Number(double value) {
  Node node;
  node.operand = ir::Builder::Use(ir::Constant(value));
  node.dtype = DType::kF64;
  node.is_number = true;
  node.recorded = value;
  return node;
}

Node StepLowering::Number(std::int64_t value) {
  Node node;
  node.operand = ir::Builder::Use(ir::Constant(value));
  node.dtype = DType::kI64;
  node.is_number = true;
  node.recorded = static_cast<double>(value);
  return node;
}

bool StepLowering::CommonDType(const std::vector<Node>& nodes,
                               bool is_for_floats, DType* dtype) {
  Promotion promotion;
  for (const Node& node : nodes) {
    if (node.is_number) {
      promotion.AddNumber(node.dtype);
    } else {
      promotion.AddTensor(node.dtype, static_cast<int>(node.dims.size()));
    }
  }
  const std::optional<DType> common = promotion.Common();
  const bool is_default =
      !common || (is_for_floats && InfoOf(*common).kind != DTypeKind::kFloat);
  if (!is_default) {
    *dtype = *common;
    return true;
  }
  *dtype = target_dtype_;
  return (target_is_fresh_ &&
          InfoOf(target_dtype_).kind == DTypeKind::kFloat) ||
         Refuse("computes in the default dtype");
}

ir::Value StepLowering::TargetValue(DType dtype) const {
  ir::Value value;
  value.dtype = dtype;
  value.layout = target_is_between_ ? ir::Contiguous(sizes_.Of(target_.dims))
                                    : storages_.LayoutFor(target_);
  return value;
}

Node StepLowering::Convert(const Node& node, DType dtype) {
  if (!node.operand.is_tensor() || node.dtype == dtype) return node;
  ir::Value value;
  value.dtype = dtype;
  value.layout = ir::Contiguous(node.operand.access.sizes);
  Node converted = node;
  converted.dtype = dtype;
  converted.operand =
      builder_.Use(builder_.EmitAs(std::move(value), Op::kTo, {node.operand}));
  return converted;
}

namespace {

bool BroadcastsTo(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) return false;
  const std::size_t added = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d].size != 1 && from[d].size != to[added + d].size) return false;
  }
  return true;
}

}  // namespace

// Some of eager's ops do not look, and read what lies behind a smaller tensor.
Node StepLowering::Broadcast(const Node& node, const Dims& dims) {
  if (!node.operand.is_tensor()) return node;
  if (!BroadcastsTo(node.dims, dims)) {
    Refuse("has operands of several sizes");
    Node first = node;  // its first element, as something must be given back
    first.dims.clear();
    first.operand.access = {{}, {}, node.operand.access.offset};
    return Broadcast(first, dims);
  }
  const std::size_t added = dims.size() - node.dims.size();
  for (std::size_t d = 0; d < node.dims.size(); ++d) {
    sizes_.Relate(dims[added + d], node.dims[d]);
  }
  Node wide = node;
  wide.dims = dims;
  wide.operand = ir::Builder::Broadcast(node.operand, sizes_.Of(dims));
  return wide;
}

Node StepLowering::ApplyAs(DType dtype, Op op, const std::vector<Node>& nodes) {
  std::vector<Operand> operands;
  for (const Node& node : nodes) {
    operands.push_back(Broadcast(node).operand);
  }
  Node result;
  result.dtype = dtype;
  result.dims = target_.dims;
  made_.push_back(builder_.EmitAs(TargetValue(dtype), op, std::move(operands)));
  result.operand = builder_.Use(made_.back());
  return result;
}

Node StepLowering::Apply(Op op, const std::vector<Node>& nodes) {
  const ir::OpInfo& info = InfoOf(op);
  DType dtype = target_dtype_;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].operand.is_tensor() && info.operands[i] != 'c') {
      dtype = nodes[i].dtype;
    }
  }
  if (info.type_rule == ir::TypeRule::kCompare) dtype = DType::kBool;
  return ApplyAs(dtype, op, nodes);
}

Node StepLowering::Concat(std::vector<Part> parts) {
  const ir::Value target = TargetValue(target_dtype_);
  ir::ValueId whole = builder_.EmitAs(
      target, Op::kFull, {ir::Builder::Use(ir::Constant(std::int64_t{0}))});
  for (Part& part : parts) {
    ir::Geometry to = target.layout;
    to.sizes = part.operand.access.sizes;
    for (std::size_t d = 0; d < part.starts.size(); ++d) {
      to.offset = to.offset + ir::Size(part.starts[d]) * to.strides[d];
    }
    whole = builder_.Emit(Op::kUpdate, {builder_.View(whole, std::move(to)),
                                        std::move(part.operand)});
  }
  made_.push_back(whole);
  Node result;
  result.dtype = target_dtype_;
  result.dims = target_.dims;
  result.operand = builder_.Use(whole);
  return result;
}

bool StepLowering::IsBroadcast(const Node& node) const {
  if (!node.operand.is_tensor()) return true;
  const std::size_t added = target_.dims.size() - node.dims.size();
  for (std::size_t d = 0; d < target_.dims.size(); ++d) {
    if (target_.dims[d].size == 1) continue;
    if (d < added || node.dims[d - added].size == 1 ||
        node.operand.access.strides[d - added] == ir::Size(0)) {
      return true;
    }
  }
  return false;
}

void StepLowering::RelateTarget(std::size_t arg) {
  if (arg >= arg_count()) return;
  const Dims& dims = places_.args[arg].dims;
  if (dims.size() != target_.dims.size()) return;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].size == target_.dims[d].size) {
      sizes_.Relate(dims[d], target_.dims[d]);
    }
  }
}

bool StepLowering::Store(const Node& node) {
  for (const std::size_t arg : loaded_) {
    const Place& read = places_.args[arg];
    if (target_is_fresh_ || read.slot != target_.slot ||
        SameElements(*read.geometry, *target_.geometry) ||
        AreDisjoint(*read.geometry, *target_.geometry)) {
      continue;
    }
    return Refuse(absl::StrCat("reads argument ", arg,
                               " where it writes, but not element by element"));
  }
  const ir::Value target = TargetValue(target_dtype_);
  const bool is_made =
      node.operand.is_tensor() && node.dtype == target_dtype_ &&
      std::find(made_.begin(), made_.end(), node.operand.value) !=
          made_.end() &&
      node.operand.access == target.layout;
  const Node stored =
      is_made ? node
              : ApplyAs(target_dtype_,
                        node.operand.is_tensor() ? Op::kTo : Op::kFull, {node});
  storages_.Write(target_, stored.operand.value);
  return true;
}

}  // namespace tjit::lower
