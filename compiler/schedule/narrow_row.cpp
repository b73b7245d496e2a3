#include "compiler/schedule/narrow_row.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace tjit::llvm_backend {
namespace {

using ir::Size;

constexpr std::int64_t kMaxNarrowRow = 16;
// Of one loop, all registers of some rows together: code is compiled and kept.
constexpr int kMaxNarrowSteps = 192;

NarrowAccess KindOf(const MemoryAccess& access, const Size& row) {
  const Size& outer = access.strides[0];
  const Size& inner = access.strides[1];
  if (access.is_of_row) return NarrowAccess::kOther;
  if (inner == Size(1)) {
    if (outer == Size(0)) return NarrowAccess::kOfColumn;
    return outer == row ? NarrowAccess::kDense : NarrowAccess::kOther;
  }
  if (inner != Size(0)) return NarrowAccess::kOther;
  if (outer == Size(0)) return NarrowAccess::kOne;
  return outer == Size(1) ? NarrowAccess::kOfRow : NarrowAccess::kOther;
}

bool IsPlain(const LoopCode& code) {
  return !code.in_order && !code.is_rows && !code.is_whole && !code.is_slabs &&
         code.sizes.size() == 2 &&
         std::none_of(code.steps.begin(), code.steps.end(),
                      [](const Step& step) {
                        return step.is_array_call || step.is_position_call;
                      });
}

}  // namespace

int NarrowRowOf(const LoopCode& code) {
  if (!IsPlain(code) || !code.sizes[1].is_constant()) return 0;
  const std::int64_t row = code.sizes[1].constant();
  if (row < 2 || row > kMaxNarrowRow) return 0;
  const auto kind_of = [&](int a) {
    return KindOf(code.accesses[static_cast<std::size_t>(a)], Size(row));
  };
  for (int a = 0; a < static_cast<int>(code.accesses.size()); ++a) {
    if (kind_of(a) == NarrowAccess::kOther) return 0;
  }
  for (const StoreTo& store : code.stores) {
    const bool is_copy = store.source.kind == Source::Kind::kAccess;
    if (is_copy || kind_of(store.access) != NarrowAccess::kDense) return 0;
  }
  return static_cast<int>(row);
}

int RowsAtATime(const LoopCode& code, int lanes) {
  const int row = code.narrow_row;
  if (row == 0 || lanes == 1 || row % lanes == 0) return 0;
  const int common = std::gcd(row, lanes);
  const int steps = static_cast<int>(code.steps.size()) * (row / common);
  return steps > kMaxNarrowSteps ? 0 : lanes / common;
}

// Of a loop that is known to be narrow: the size of its rows is shared.
NarrowAccess NarrowAccessOf(const MemoryAccess& access) {
  const NarrowAccess kind = KindOf(access, Size(-1));
  return kind == NarrowAccess::kOther ? NarrowAccess::kDense : kind;
}

}  // namespace tjit::llvm_backend
