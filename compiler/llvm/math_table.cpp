#include "compiler/llvm/math_table.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace tjit::llvm_backend {
namespace {

struct KindInfo {
  bool is_array;
  bool is_double;
  int lanes;
  bool is_row = false;
};
constexpr KindInfo kKinds[kTjitMathKindCount] = {
    {true, false, 0},     {true, true, 0},    {false, false, 4},
    {false, false, 8},    {false, false, 16}, {false, true, 2},
    {false, true, 4},     {false, true, 8},   {true, false, 0, true},
    {true, true, 0, true}};

const KindInfo& InfoOfKind(const TjitMath& entry) {
  return kKinds[static_cast<std::size_t>(entry.kind)];
}

}  // namespace

MathTable::MathTable(const TjitMath* entries, int count, int vector_bits)
    : entries_(entries, entries + count), vector_bits_(vector_bits) {}

int MathTable::Find(ir::Op op, ir::DType dtype) const {
  if (InfoOf(dtype).kind != ir::DTypeKind::kFloat) return -1;
  const bool is_double = dtype == ir::DType::kF64;
  const bool is_narrow = InfoOf(dtype).bytes == 2;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const TjitMath& entry = entries_[i];
    if (entry.kind < 0 || entry.kind >= kTjitMathKindCount) continue;
    const KindInfo& kind = InfoOfKind(entry);
    const int bits = kind.lanes * (kind.is_double ? 64 : 32);
    if (kind.is_double != is_double || bits > vector_bits_ ||
        (kind.is_array && is_narrow) ||
        std::strcmp(entry.op, ir::InfoOf(op).name) != 0) {
      continue;
    }
    return static_cast<int>(i);
  }
  return -1;
}

bool MathTable::IsArray(int index) const {
  return InfoOfKind(at(index)).is_array;
}
bool MathTable::IsRow(int index) const { return InfoOfKind(at(index)).is_row; }
int MathTable::LanesOf(int index) const { return InfoOfKind(at(index)).lanes; }
bool MathTable::IsDouble(int index) const {
  return InfoOfKind(at(index)).is_double;
}

std::string MathTable::SymbolOf(int index) const {
  const TjitMath& entry = at(index);
  return absl::StrCat("tjit_", entry.op, "_", entry.kind, "_", entry.mode);
}

}  // namespace tjit::llvm_backend
