#include "compiler/schedule/kernel_shape.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/program/place_scratch.h"
#include "compiler/schedule/phases.h"
#include "compiler/schedule/row_blocks.h"
#include "compiler/schedule/tile_shape.h"

namespace tjit::llvm_backend {
namespace {

using ir::Function;

class Evaluator {
 public:
  Evaluator(const Function& f, const LoopPlan& plan,
            const std::int64_t* symbols)
      : f_(f),
        plan_(plan),
        symbols_(symbols, static_cast<std::size_t>(f.symbols)) {}

  const std::string& error() const { return error_; }

  std::int64_t Number(const ir::Size& size) {
    const std::optional<std::int64_t> n = size.Evaluate(symbols_);
    if (n && *n >= 0) return *n;
    Fail(absl::StrCat(size.ToText(), " is negative or too large"));
    return 0;
  }

  std::int64_t Elements(const ir::Sizes& sizes) {
    std::int64_t n = 1;
    for (const ir::Size& size : sizes) {
      if (__builtin_mul_overflow(n, Number(size), &n)) {
        Fail("too many elements");
        return 0;
      }
    }
    return n;
  }

  std::int64_t Bytes(ir::ValueId id) {
    const ir::Value& value = f_.values[static_cast<std::size_t>(id)];
    return Elements(value.layout.sizes) * InfoOf(value.dtype).bytes;
  }

  // Of the memories that a loop over so many elements reads and writes.
  std::int64_t Touched(const LoopCode& code, std::int64_t elements) {
    std::set<int> counted;
    std::int64_t bytes = 0;
    for (const MemoryAccess& access : code.accesses) {
      if (!counted.insert(access.memory).second) continue;
      const std::int64_t all = Bytes(ValueAt(access.memory));
      bytes += std::min(all / InfoOf(access.dtype).bytes, elements) *
               InfoOf(access.dtype).bytes;
    }
    return bytes;
  }

  // The access lies within its value.
  void Check(const LoopCode& code, const MemoryAccess& access) {
    std::int64_t last = Number(access.offset);
    for (std::size_t d = 0; d < code.sizes.size(); ++d) {
      const std::int64_t size = Number(code.sizes[d]);
      if (size == 0) return;
      std::int64_t reach = 0;
      if (__builtin_mul_overflow(size - 1, Number(access.strides[d]), &reach) ||
          __builtin_add_overflow(last, reach, &last)) {
        return Fail("an access reaches too far");
      }
    }
    CheckReach(access.memory, last);
  }
  void Check(const LoopCode& code, const ColumnStore& store) {
    std::int64_t last = 0;
    if (__builtin_mul_overflow(Number(code.sizes.back()) - 1,
                               Number(store.stride), &last) ||
        __builtin_add_overflow(last, Number(store.offset), &last)) {
      return Fail("an access reaches too far");
    }
    CheckReach(store.memory, last);
  }

  void CheckRow(const LoopCode& code) {
    const std::int64_t n = Number(code.sizes.back());
    int bytes = TileElementBytes(MakePhases(code));
    for (const Step& step : code.steps) {
      if (step.is_column_call) bytes += kColumnStateBytes;
    }
    if (n < 1) Fail("a row has no elements");
    if (n > kMaxRowBytes / std::max(bytes, 1)) {
      Fail(absl::StrCat("a row of ", n, " elements takes more than ",
                        kMaxRowBytes, " bytes"));
    }
  }

  void CheckSlab(const LoopCode& code) {
    const std::int64_t rows = Number(code.sizes[code.sizes.size() - 2]);
    const int bytes = TileElementBytes(MakePhases(code)) * kSlabColumns;
    if (rows < 1) Fail("a column has no elements");
    if (rows > kMaxRowBytes / bytes) {
      Fail(absl::StrCat("some columns of ", rows, " elements take more than ",
                        kMaxRowBytes, " bytes"));
    }
  }

 private:
  void Fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  void CheckReach(int memory, std::int64_t last) {
    const ir::ValueId id = ValueAt(memory);
    const ir::Value& value = f_.values[static_cast<std::size_t>(id)];
    const std::int64_t extent = Elements(value.layout.sizes);
    if (last >= extent) {
      Fail(absl::StrCat("%", id, ": an access reaches element ", last, " of ",
                        extent));
    }
  }

  ir::ValueId ValueAt(int memory) const {
    if (memory < f_.externals) return memory;
    auto rest = static_cast<std::size_t>(memory - f_.externals);
    if (rest < f_.returns.size()) return f_.returns[rest];
    return plan_.scratch[rest - f_.returns.size()];
  }

  const Function& f_;
  const LoopPlan& plan_;
  const absl::Span<const std::int64_t> symbols_;
  std::string error_;
};

// Scratch as EvaluateShape() has placed it.
void FillBlocks(const ShapedKernel& kernel, Evaluator* evaluator,
                const std::vector<std::int64_t>& bytes,
                const TjitShape& shape) {
  KernelMemory memory;
  memory.externals = kernel.function.externals;
  memory.returned = static_cast<int>(kernel.function.returns.size());
  memory.in_place = kernel.in_place;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    memory.scratch.push_back(
        {shape.scratch[i],
         shape.scratch[i] + static_cast<std::uint64_t>(bytes[i])});
  }
  const std::vector<std::int64_t> blocks = RowBlocks(
      kernel.codes, memory,
      [&](const ir::Size& size) { return evaluator->Number(size); },
      kernel.block_rows);
  std::copy(blocks.begin(), blocks.end(), shape.blocks);
}

}  // namespace

std::string LoopName(const Function& f, std::size_t loop) {
  return loop == 0 ? absl::StrCat("tjit_", f.name)
                   : absl::StrCat("tjit_", f.name, "_", loop);
}

std::string EvaluateShape(const ShapedKernel& kernel,
                          const std::int64_t* symbols, const TjitShape& shape) {
  const std::vector<LoopCode>& codes = kernel.codes;
  Evaluator evaluator(kernel.function, kernel.plan, symbols);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    shape.extents[i] = evaluator.Number(codes[i].sizes[0]);
    shape.elements[i] = evaluator.Elements(codes[i].sizes);
    shape.bytes[i] = evaluator.Touched(codes[i], shape.elements[i]);
    if (codes[i].is_rows) evaluator.CheckRow(codes[i]);
    if (codes[i].is_slabs) evaluator.CheckSlab(codes[i]);
    for (const MemoryAccess& access : codes[i].accesses) {
      evaluator.Check(codes[i], access);
    }
    for (const ColumnStore& store : codes[i].column_stores) {
      evaluator.Check(codes[i], store);
    }
  }
  std::int64_t* number = shape.numbers;
  for (const SharedLoop& loop : kernel.shared) {
    loop.FillNumbers([&](const ir::Size& s) { return evaluator.Number(s); },
                     number);
    number += loop.number_count();
  }
  std::vector<std::int64_t> bytes;
  for (const ir::ValueId value : kernel.plan.scratch) {
    bytes.push_back(evaluator.Bytes(value));
  }
  const ScratchPlaces places =
      PlaceScratch(ScratchUses(kernel.function, kernel.plan), bytes);
  std::copy(places.offsets.begin(), places.offsets.end(), shape.scratch);
  *shape.scratch_bytes = places.bytes;
  if (evaluator.error().empty()) FillBlocks(kernel, &evaluator, bytes, shape);
  return evaluator.error();
}

}  // namespace tjit::llvm_backend
