// A group of recorded steps, and the function that it is lowered to: plain
// data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"
#include "recorder/op_record.h"

namespace tjit {

struct GroupStep {
  const StepRecord* record = nullptr;
  std::string_view op;  // "aten::add.Tensor"
  int threads = 0;      // that eager has here; 0: any number
};

// Every slot that a step of the group uses.
struct GroupSlot {
  std::int32_t slot = kNoSlot;
  std::uint64_t bytes = 0;  // of the storage
  // A fresh result of one of the steps, or filled by the first one that uses
  // it (recorder/overwrite.h).
  bool born_here = false;
  // Its content is read after the group, or may be. If false, a born slot gets
  // no memory, and a change to one from outside is not written back.
  bool needed_after = true;
};

// Where a scalar argument of the function comes from: scalar `index` of step
// `step` of the group.
struct ScalarSource {
  std::int32_t step = 0;
  std::int32_t index = 0;
  bool operator==(const ScalarSource& o) const = default;
};

// Where a symbol comes from: size `dim` of tensor argument `arg` of step
// `step` of the group.
struct SizeSource {
  std::int32_t step = 0;
  std::int32_t arg = 0;
  std::int32_t dim = 0;
  bool operator==(const SizeSource& o) const = default;
};

struct Lowered {
  ir::Function function;
  std::vector<std::int32_t> external_slots;  // one per external
  std::vector<std::int32_t> return_slots;    // one per returned value
  std::vector<ScalarSource> scalars;         // one per scalar argument
  std::vector<SizeSource> symbols;           // one per symbol
};

}  // namespace tjit
