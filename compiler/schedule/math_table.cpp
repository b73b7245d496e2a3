#include "compiler/schedule/math_table.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "compiler/ir/dtype.h"

namespace tjit::llvm_backend {
namespace {

using ir::DType;

struct KindInfo {
  bool is_array;
  bool is_position_dependent;
  DType dtype;
  int lanes;
  bool is_row = false;
  ir::Axis axis = ir::Axis::kInner;
};
constexpr KindInfo kKinds[kTjitMathKindCount] = {
    {true, false, DType::kF32, 0},
    {true, false, DType::kF64, 0},
    {false, false, DType::kF32, 4},
    {false, false, DType::kF32, 8},
    {false, false, DType::kF32, 16},
    {false, false, DType::kF64, 2},
    {false, false, DType::kF64, 4},
    {false, false, DType::kF64, 8},
    {true, false, DType::kF32, 0, true},
    {true, false, DType::kF64, 0, true},
    {true, true, DType::kF32, 0},
    {true, true, DType::kF64, 0},
    {true, true, DType::kBF16, 0},
    {true, true, DType::kF16, 0},
    {true, false, DType::kBF16, 0},
    {true, false, DType::kF32, 0, false, ir::Axis::kOuter},
    {true, false, DType::kF64, 0, false, ir::Axis::kOuter},
    {true, false, DType::kF32, 0, false, ir::Axis::kAll},
    {true, false, DType::kF64, 0, false, ir::Axis::kAll},
    {false, false, DType::kF32, 16},
    {false, false, DType::kF64, 8},
    {true, false, DType::kF16, 0},
    {true, false, DType::kI64, 0, true},
    {true, false, DType::kBool, 0, true},
    {true, false, DType::kI64, 0, false, ir::Axis::kOuter},
    {true, false, DType::kBool, 0, false, ir::Axis::kOuter},
    {true, false, DType::kI64, 0, false, ir::Axis::kAll},
    {true, false, DType::kBool, 0, false, ir::Axis::kAll},
    {false, false, DType::kF32, 8},
    {false, false, DType::kF32, 16},
    {true, false, DType::kF32, 0, false, ir::Axis::kStrided},
    {true, false, DType::kF64, 0, false, ir::Axis::kStrided},
};

const KindInfo& InfoOfKind(const TjitMath& entry) {
  return kKinds[static_cast<std::size_t>(entry.kind)];
}

}  // namespace

MathTable::MathTable(const TjitMath* entries, int count, int vector_bits)
    : entries_(entries, entries + count), vector_bits_(vector_bits) {}

int MathTable::Find(ir::Op op, ir::DType dtype, ir::Axis axis) const {
  const bool is_narrow = IsHalf(dtype);
  int found = -1;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const TjitMath& entry = entries_[i];
    if (entry.kind < 0 || entry.kind >= kTjitMathKindCount) continue;
    const KindInfo& kind = InfoOfKind(entry);
    if (kind.lanes * InfoOf(kind.dtype).bytes * 8 > vector_bits_ ||
        kind.axis != axis || std::strcmp(entry.op, ir::InfoOf(op).name) != 0) {
      continue;
    }
    if (kind.dtype == dtype) return static_cast<int>(i);
    const bool fits = is_narrow && !kind.is_array &&
                      !IsSqrtInCode(entry.kind) && kind.dtype == DType::kF32;
    if (fits && found < 0) found = static_cast<int>(i);
  }
  return found;
}

bool MathTable::IsArray(int index) const {
  return InfoOfKind(at(index)).is_array;
}
bool MathTable::IsRow(int index) const { return InfoOfKind(at(index)).is_row; }
bool MathTable::IsPositionDependent(int index) const {
  return InfoOfKind(at(index)).is_position_dependent;
}
bool MathTable::IsRoot(int index) const { return IsSqrtInCode(at(index).kind); }
int MathTable::LanesOf(int index) const { return InfoOfKind(at(index)).lanes; }
bool MathTable::IsDouble(int index) const {
  return InfoOfKind(at(index)).dtype == DType::kF64;
}

std::string MathTable::SymbolOf(int index) const {
  const TjitMath& entry = at(index);
  return absl::StrCat("tjit_", entry.op, "_", entry.kind, "_", entry.mode);
}

}  // namespace tjit::llvm_backend
