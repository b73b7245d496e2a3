// Ops that put tensors side by side, or the parts of one in another order:
// each part is an `update` of a value that the parts cover (passes/concats.h
// makes one store of each). They only move bytes, so they have eager's bits.
// What is rolled or joined along has a size that is a number: places of parts
// depend on it.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

constexpr std::size_t kMaxParts = 64;
constexpr std::size_t kMaxRolledDims = 4;  // 2^4 parts

std::int64_t StaticNumber(const StepLowering& s, std::size_t index) {
  return static_cast<std::int64_t>(s.Static(index));
}

// A dim as the program counts it, from the end if it is negative.
std::size_t DimOf(std::int64_t dim, std::size_t count) {
  return static_cast<std::size_t>(
      dim < 0 ? dim + static_cast<std::int64_t>(count) : dim);
}

bool LoadPart(StepLowering& s, std::size_t arg, Node* node) {
  if (!s.Tensor(arg, node)) return false;
  if (node->dtype != s.target_dtype()) return s.Refuse("joins several types");
  // Of bytes that are neither 0 nor 1 code makes 1.
  if (node->dtype == ir::DType::kBool) {
    return s.Refuse("moves the bytes of bools");
  }
  return node->dims.size() == s.target_dims().size() ||
         s.Refuse("joins tensors of several dims");
}

// (tensors, dim): statics are the number of tensors and the dim.
bool Cat(StepLowering& s, const OpRule&) {
  const std::size_t count = s.Static(0);
  if (!s.Into(0)) return false;
  if (count == 0 || count > s.arg_count()) return s.Refuse("has no list");
  if (count > kMaxParts) return s.Refuse("joins too many tensors");
  const std::size_t ndim = s.target_dims().size();
  const std::size_t along = DimOf(StaticNumber(s, 1), ndim);
  if (along >= ndim) return s.Refuse("joins along a dim that is none");
  std::vector<StepLowering::Part> parts;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Node node;
    if (!LoadPart(s, i, &node)) return false;
    s.Fix({node.dims[along], s.target_dims()[along]});
    s.RelateTarget(i);
    std::vector<std::int64_t> starts(ndim, 0);
    starts[along] = start;
    start += node.dims[along].size;
    parts.push_back({node.operand, std::move(starts)});
  }
  return s.Store(s.Concat(std::move(parts)));
}

// Replaces each part by two, of which the last `shift` elements come first.
std::vector<StepLowering::Part> Rolled(std::vector<StepLowering::Part> parts,
                                       std::size_t dim, std::int64_t size,
                                       std::int64_t shift) {
  std::vector<StepLowering::Part> rolled;
  for (const StepLowering::Part& part : parts) {
    for (const bool is_front : {true, false}) {
      StepLowering::Part half = part;
      ir::Geometry& access = half.operand.access;
      access.sizes[dim] = is_front ? shift : size - shift;
      if (is_front) {
        access.offset =
            access.offset + ir::Size(size - shift) * access.strides[dim];
      }
      half.starts[dim] = is_front ? 0 : shift;
      rolled.push_back(std::move(half));
    }
  }
  return rolled;
}

// (self, shifts, dims): statics are two lists, each behind its length.
bool Roll(StepLowering& s, const OpRule&) {
  Node node;
  if (!s.Into(0) || !LoadPart(s, 0, &node)) return false;
  const std::size_t count = s.Static(0);
  if (count > kMaxRolledDims || s.Static(1 + count) != count) {
    return s.Refuse("rolls all dims as one, or too many");
  }
  const std::size_t ndim = node.dims.size();
  std::vector<std::int64_t> shifts(ndim, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t dim = DimOf(StaticNumber(s, 2 + count + i), ndim);
    if (dim >= ndim) return s.Refuse("rolls a dim that is none");
    const std::int64_t size = node.dims[dim].size;
    shifts[dim] = ((shifts[dim] + StaticNumber(s, 1 + i)) % size + size) % size;
  }
  s.RelateTarget(0);
  std::vector<StepLowering::Part> parts = {
      {node.operand, std::vector<std::int64_t>(ndim, 0)}};
  for (std::size_t dim = 0; dim < ndim; ++dim) {
    if (shifts[dim] == 0) continue;
    s.Fix({node.dims[dim]});
    parts = Rolled(std::move(parts), dim, node.dims[dim].size, shifts[dim]);
  }
  if (parts.size() == 1) return s.Store(node);
  return s.Store(s.Concat(std::move(parts)));
}

constexpr OpRule kRules[] = {
    {"aten::cat", "", "", Cat},
    {"aten::roll", "", "", Roll},
};

}  // namespace

absl::Span<const OpRule> ConcatRules() { return kRules; }

}  // namespace tjit::lower
