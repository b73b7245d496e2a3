#include "compiler/schedule/kernel_shape.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "compiler/program/place_scratch.h"
#include "compiler/schedule/phases.h"
#include "compiler/schedule/row_blocks.h"
#include "compiler/schedule/tile_shape.h"
#include "support/kept_bytes.h"

namespace tjit::llvm_backend {
namespace {

using ir::Function;

// Bytes of one element of a row or slab in buffers; 0 for other loops.
int ElementBytesOf(const LoopCode& code) {
  if (!code.is_rows && !code.is_slabs) return 0;
  int bytes = TileElementBytes(MakePhases(code));
  for (const Step& step : code.steps) {
    if (code.is_rows && step.is_column_call) bytes += kColumnStateBytes;
  }
  return bytes;
}

// Empties it, and gives its memory back: an assignment may keep that.
template <class T>
void Release(T* list) {
  static_cast<void>(std::exchange(*list, T()));
}

// What these take on the heap.
std::size_t KeptBytesOf(const LoopCode& code) {
  std::size_t bytes = HeapOf(code.sizes) + HeapOf(code.accesses) +
                      HeapOf(code.stores) + HeapOf(code.column_stores);
  for (const MemoryAccess& access : code.accesses) {
    bytes += HeapOf(access.strides);
  }
  return bytes;
}
std::size_t KeptBytesOf(const SharedLoop& loop) {
  return HeapOf(loop.sizes) + HeapOf(loop.memory) + HeapOf(loop.scalars);
}

}  // namespace

// Elements and bytes for given symbols, and what is wrong with them.
class ShapedKernel::Evaluator {
 public:
  Evaluator(const ShapedKernel& kernel, const std::int64_t* symbols)
      : kernel_(kernel),
        symbols_(symbols, static_cast<std::size_t>(kernel.symbols_)) {}

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

  std::int64_t BytesOf(std::size_t memory) {
    const Memory& m = kernel_.memories_[memory];
    return Elements(m.sizes) * InfoOf(m.dtype).bytes;
  }

  // Of the memories that a loop over so many elements reads and writes.
  std::int64_t Touched(const LoopCode& code, std::int64_t elements) {
    std::set<int> counted;
    std::int64_t bytes = 0;
    for (const MemoryAccess& access : code.accesses) {
      if (!counted.insert(access.memory).second) continue;
      const std::int64_t all = BytesOf(static_cast<std::size_t>(access.memory));
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

  void CheckRow(const LoopCode& code, int element_bytes) {
    const std::int64_t n = Number(code.sizes.back());
    if (n < 1) Fail("a row has no elements");
    if (n > kMaxRowBytes / std::max(element_bytes, 1)) {
      Fail(absl::StrCat("a row of ", n, " elements takes more than ",
                        kMaxRowBytes, " bytes"));
    }
  }

  void CheckSlab(const LoopCode& code, int element_bytes) {
    const std::int64_t rows = Number(code.sizes[code.sizes.size() - 2]);
    const int bytes = element_bytes * kSlabColumns;
    if (rows < 1) Fail("a column has no elements");
    if (rows > kMaxRowBytes / bytes) {
      Fail(absl::StrCat("some columns of ", rows, " elements take more than ",
                        kMaxRowBytes, " bytes"));
    }
  }

  // Of the codes, with scratch as Evaluate() has placed it.
  void FillBlocks(const std::vector<std::int64_t>& bytes,
                  const TjitShape& shape) {
    KernelMemory memory;
    memory.externals = kernel_.externals_;
    memory.returned =
        static_cast<int>(kernel_.first_scratch_) - kernel_.externals_;
    memory.in_place = kernel_.in_place_;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      memory.scratch.push_back(
          {shape.scratch[i],
           shape.scratch[i] + static_cast<std::uint64_t>(bytes[i])});
    }
    const std::vector<std::int64_t> blocks = RowBlocks(
        kernel_.codes_, memory,
        [this](const ir::Size& size) { return Number(size); },
        kernel_.block_rows_);
    std::copy(blocks.begin(), blocks.end(), shape.blocks);
  }

 private:
  void Fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  void CheckReach(int memory, std::int64_t last) {
    const Memory& m = kernel_.memories_[static_cast<std::size_t>(memory)];
    const std::int64_t extent = Elements(m.sizes);
    if (last >= extent) {
      Fail(absl::StrCat("%", m.value, ": an access reaches element ", last,
                        " of ", extent));
    }
  }

  const ShapedKernel& kernel_;
  const absl::Span<const std::int64_t> symbols_;
  std::string error_;
};

std::string LoopName(const Function& f, std::size_t loop) {
  return loop == 0 ? absl::StrCat("tjit_", f.name)
                   : absl::StrCat("tjit_", f.name, "_", loop);
}

ShapedKernel::ShapedKernel(const Function& function, const LoopPlan& plan,
                           std::vector<LoopCode> codes,
                           std::vector<SharedLoop> shared,
                           std::vector<TjitInPlace> in_place,
                           std::int64_t block_rows)
    : symbols_(function.symbols),
      externals_(function.externals),
      first_scratch_(static_cast<std::size_t>(function.externals) +
                     function.returns.size()),
      scratch_uses_(ScratchUses(function, plan)),
      codes_(std::move(codes)),
      shared_(std::move(shared)),
      in_place_(std::move(in_place)),
      block_rows_(block_rows) {
  const auto add = [&](ir::ValueId id) {
    const ir::Value& value = function.values[static_cast<std::size_t>(id)];
    memories_.push_back({id, value.dtype, value.layout.sizes});
  };
  memories_.reserve(first_scratch_ + plan.scratch.size());
  for (ir::ValueId id = 0; id < function.externals; ++id) add(id);
  for (const ir::ValueId id : function.returns) add(id);
  for (const ir::ValueId id : plan.scratch) add(id);
  element_bytes_.reserve(codes_.size());
  for (LoopCode& code : codes_) {
    element_bytes_.push_back(ElementBytesOf(code));
    Release(&code.steps);
  }
  for (SharedLoop& loop : shared_) {
    Release(&loop.code);
    Release(&loop.functions);
    Release(&loop.signature);
  }
}

std::string ShapedKernel::Evaluate(const std::int64_t* symbols,
                                   const TjitShape& shape) const {
  Evaluator evaluator(*this, symbols);
  for (std::size_t i = 0; i < codes_.size(); ++i) {
    const LoopCode& code = codes_[i];
    shape.extents[i] = evaluator.Number(code.sizes[0]);
    shape.elements[i] = evaluator.Elements(code.sizes);
    shape.bytes[i] = evaluator.Touched(code, shape.elements[i]);
    if (code.is_rows) evaluator.CheckRow(code, element_bytes_[i]);
    if (code.is_slabs) evaluator.CheckSlab(code, element_bytes_[i]);
    for (const MemoryAccess& access : code.accesses) {
      evaluator.Check(code, access);
    }
    for (const ColumnStore& store : code.column_stores) {
      evaluator.Check(code, store);
    }
  }
  std::int64_t* number = shape.numbers;
  for (const SharedLoop& loop : shared_) {
    loop.FillNumbers([&](const ir::Size& s) { return evaluator.Number(s); },
                     number);
    number += loop.number_count();
  }
  std::vector<std::int64_t> bytes;
  for (std::size_t i = first_scratch_; i < memories_.size(); ++i) {
    bytes.push_back(evaluator.BytesOf(i));
  }
  const ScratchPlaces places = PlaceScratch(scratch_uses_, bytes);
  std::copy(places.offsets.begin(), places.offsets.end(), shape.scratch);
  *shape.scratch_bytes = places.bytes;
  if (evaluator.error().empty()) evaluator.FillBlocks(bytes, shape);
  return evaluator.error();
}

std::int32_t ShapedKernel::number_count() const {
  std::int32_t count = 0;
  for (const SharedLoop& loop : shared_) count += loop.number_count();
  return count;
}

std::size_t ShapedKernel::kept_bytes() const {
  std::size_t bytes = HeapOf(memories_) + HeapOf(scratch_uses_) +
                      HeapOf(codes_) + HeapOf(element_bytes_) +
                      HeapOf(shared_) + HeapOf(in_place_);
  for (const Memory& memory : memories_) bytes += HeapOf(memory.sizes);
  for (const PlanStep& use : scratch_uses_) {
    bytes += HeapOf(use.reads) + HeapOf(use.writes);
  }
  for (const LoopCode& code : codes_) bytes += KeptBytesOf(code);
  for (const SharedLoop& loop : shared_) bytes += KeptBytesOf(loop);
  return bytes;
}

}  // namespace tjit::llvm_backend
