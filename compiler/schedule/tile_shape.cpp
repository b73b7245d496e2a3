#include "compiler/schedule/tile_shape.h"

#include <algorithm>
#include <cstddef>

namespace tjit::llvm_backend {
namespace {

// All buffers of a tile together, and the elements of a tile. A short tile's
// memory traffic fits what the processor fetches ahead and writes behind while
// functions run; tiles of rows are longer, as few rows cost more.
constexpr int kTileBytes = 8 << 10;
constexpr int kMinTile = 64;
constexpr int kMaxTile = 384;
constexpr int kRowTileBytes = 16 << 10;
constexpr int kMaxRowTile = 1024;
// Of a columns loop: some rows are added up at a time. With the sums of a few
// hundred columns beside them they fit the first-level cache.
constexpr int kColumnTileBytes = 16 << 10;

}  // namespace

int LanesOf(const LoopCode& code, int register_bytes) {
  int bytes = 8;
  const auto consider = [&](ir::DType dtype) {
    if (InfoOf(dtype).kind == ir::DTypeKind::kFloat &&
        dtype != ir::DType::kF64) {
      bytes = 4;
    }
  };
  for (const MemoryAccess& access : code.accesses) consider(access.dtype);
  for (const Step& step : code.steps) consider(step.result_dtype);
  return register_bytes / bytes;
}

bool Transposes(const LoopCode& code) {
  const std::size_t dims = code.sizes.size();
  if (dims < 2 || code.in_order) return false;
  return std::any_of(code.accesses.begin(), code.accesses.end(),
                     [&](const MemoryAccess& a) {
                       return a.strides[dims - 2] == ir::Size(1) &&
                              a.strides[dims - 1] != ir::Size(0);
                     });
}

bool RepeatsColumns(const LoopCode& code) {
  const std::size_t dims = code.sizes.size();
  if (dims < 2 || code.in_order) return false;
  return std::any_of(code.accesses.begin(), code.accesses.end(),
                     [&](const MemoryAccess& a) {
                       return a.strides[dims - 2] == ir::Size(0) &&
                              a.strides[dims - 1] != ir::Size(0);
                     });
}

int TileElements(const LoopCode& code, const Phases& phases) {
  const int bytes = std::max(TileElementBytes(phases), 1);
  if (code.is_columns) return kColumnTileBytes / std::max(bytes, 4);
  const int tile = code.is_rows ? kRowTileBytes : kTileBytes;
  return std::clamp(tile / bytes / kMinTile * kMinTile, kMinTile,
                    code.is_rows ? kMaxRowTile : kMaxTile);
}

}  // namespace tjit::llvm_backend
