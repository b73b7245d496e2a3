#include "compiler/schedule/shared_loop.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/abi/kernel_abi.h"
#include "compiler/schedule/narrow_row.h"

namespace tjit::llvm_backend {
namespace {

using ir::Size;

// A constant that the code generator has better instructions for, or one it
// leaves out.
bool DecidesCode(const ir::Scalar& scalar) {
  if (!scalar.is_constant()) return false;
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;
  return scalar.type != ir::ScalarType::kF64 || (scalar.bits & kFraction) == 0;
}

class Sharer {
 public:
  Sharer(const MathTable& math, SharedLoop* shared)
      : math_(math), shared_(*shared) {}

  std::string Run(const LoopCode& code) {
    shared_.code = code;
    absl::StrAppend(&text_, code.sizes.size(), code.in_order ? "o" : "d",
                    code.is_slabs     ? "s"
                    : code.is_whole   ? "w"
                    : code.is_columns ? "c"
                    : code.is_rows    ? "r"
                                      : "");
    if (code.split_columns > 0) absl::StrAppend(&text_, code.split_columns);
    shared_.code.narrow_row = NarrowRowOf(code);
    if (shared_.code.narrow_row > 0) {
      absl::StrAppend(&text_, "x", shared_.code.narrow_row);
    }
    for (Size& size : shared_.code.sizes) Replace(&size, false);
    for (MemoryAccess& access : shared_.code.accesses) {
      PlaceMemory(access.dtype, &access.memory, &access.offset);
      absl::StrAppend(&text_, "\nm", access.memory, ":", int(access.dtype),
                      access.is_of_row ? "r" : "");
      for (Size& stride : access.strides) Replace(&stride, true);
    }
    bool has_calls = false;
    for (Step& step : shared_.code.steps) {
      has_calls = has_calls || step.is_array_call;
      AddStep(&step);
    }
    for (StoreTo& store : shared_.code.stores) {
      absl::StrAppend(&text_, "\ns", store.access, ":", int(store.dtype));
      AddSource(&store.source);
      // When it may be stored: MakePhases().
      const auto& access =
          code.accesses[static_cast<std::size_t>(store.access)];
      if (access.is_external && has_calls) absl::StrAppend(&text_, "e");
    }
    for (ColumnStore& store : shared_.code.column_stores) {
      store.value = IndexOf(store.value, &values_, &value_list_);
      PlaceMemory(store.dtype, &store.memory, &store.offset);
      absl::StrAppend(&text_, "\nc", store.value, "m", store.memory, ":",
                      int(store.dtype));
      Replace(&store.stride, true);
    }
    shared_.signature = std::move(text_);
    return shared_.sizes.size() < Size::kMaxSymbols ? "" : "too many sizes";
  }

 private:
  // The place of `value` in *list, where it is put if it is new.
  static int IndexOf(int value, std::map<int, int>* places,
                     std::vector<int>* list) {
    const auto [place, is_new] =
        places->try_emplace(value, static_cast<int>(list->size()));
    if (is_new) list->push_back(value);
    return place->second;
  }

  // Pointers are moved before the loop, so that an offset is no other code.
  void PlaceMemory(ir::DType dtype, int* memory, Size* offset) {
    const int bytes = InfoOf(dtype).bytes;
    const auto [place, is_new] =
        memory_.try_emplace({*memory, offset->ToText(), bytes},
                            static_cast<int>(shared_.memory.size()));
    if (is_new) shared_.memory.push_back({*memory, *offset, bytes});
    *memory = place->second;
    *offset = Size(0);
  }

  void Replace(Size* size, bool is_stride) {
    const bool stays = *size == Size(0) || (is_stride && *size == Size(1));
    if (stays) {
      absl::StrAppend(&text_, "=", size->constant());
      return;
    }
    const auto [place, is_new] = sizes_.try_emplace(
        size->ToText(), static_cast<int>(shared_.sizes.size()));
    if (is_new) shared_.sizes.push_back(*size);
    absl::StrAppend(&text_, "n", place->second);
    *size = place->second < Size::kMaxSymbols ? Size::Symbol(place->second)
                                              : Size(0);
  }

  void AddStep(Step* step) {
    absl::StrAppend(&text_, "\n", int(step->op), ":", int(step->result_dtype),
                    ":", int(step->dtype), step->is_of_row ? "r" : "");
    if (step->math >= 0) {
      absl::StrAppend(&text_, "f", math_.SymbolOf(step->math));
      shared_.functions.push_back(step->math);
    }
    for (Source& source : step->sources) AddSource(&source);
    step->result = IndexOf(step->result, &values_, &value_list_);
  }

  void AddSource(Source* source) {
    switch (source->kind) {
      case Source::Kind::kRegister:
        source->value = IndexOf(source->value, &values_, &value_list_);
        absl::StrAppend(&text_, " r", source->value);
        return;
      case Source::Kind::kAccess:
        absl::StrAppend(&text_, " a", source->access);
        return;
      case Source::Kind::kScalar:
        break;
    }
    ir::Scalar& scalar = source->scalar;
    if (DecidesCode(scalar)) {
      absl::StrAppend(&text_, " c", int(scalar.type), ":", scalar.bits);
      return;
    }
    const auto [place, is_new] =
        scalars_.try_emplace({scalar.argument, scalar.bits},
                             static_cast<int>(shared_.scalars.size()));
    if (is_new) shared_.scalars.push_back(scalar);
    scalar = {scalar.type, place->second, 0};
    absl::StrAppend(&text_, " $", int(scalar.type), ":", scalar.argument);
  }

  const MathTable& math_;
  SharedLoop& shared_;
  std::map<std::tuple<int, std::string, int>, int> memory_;
  std::map<int, int> values_;
  std::map<std::pair<int, std::uint64_t>, int> scalars_;  // argument, bits
  std::vector<int> value_list_;
  std::map<std::string, int> sizes_;
  std::string text_;
};

}  // namespace

int SharedLoop::number_count() const {
  const auto is_constant = [](const ir::Scalar& s) { return s.is_constant(); };
  return static_cast<int>(
      2 * memory.size() + scalars.size() + sizes.size() +
      std::count_if(scalars.begin(), scalars.end(), is_constant));
}

void SharedLoop::FillNumbers(const Evaluate& evaluate,
                             std::int64_t* numbers) const {
  std::int64_t* number = numbers;
  for (const Memory& m : memory) {
    *number++ = m.memory;
    std::int64_t bytes = 0;  // of one that is too far the shape is refused
    static_cast<void>(
        __builtin_mul_overflow(evaluate(m.offset), m.item_bytes, &bytes));
    *number++ = bytes;
  }
  std::int64_t* place = number;
  number += scalars.size();
  for (const Size& size : sizes) *number++ = evaluate(size);
  for (const ir::Scalar& scalar : scalars) {
    if (scalar.is_constant()) {
      *place++ = ~static_cast<std::int64_t>(
          static_cast<std::size_t>(number - numbers) * sizeof(std::int64_t));
      *number++ = static_cast<std::int64_t>(scalar.bits);
    } else {
      *place++ = static_cast<std::int64_t>(
          static_cast<std::size_t>(scalar.argument) * sizeof(TjitScalar) +
          offsetof(TjitScalar, bits));
    }
  }
}

std::string ShareLoop(const LoopCode& code, const MathTable& math,
                      SharedLoop* shared) {
  return Sharer(math, shared).Run(code);
}

}  // namespace tjit::llvm_backend
