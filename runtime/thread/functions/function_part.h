// Where a replay of a function stops and looks: host reads, Note [Host reads]
// in function_plan.h, and ops that run at the call, Note [Parts] in parts.h. And
// what is known of one that does neither, Note [At once] in run_at_once.h.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "recorder/op_record.h"
#include "recorder/tensor_meta.h"
#include "runtime/call/value_checks.h"

namespace tjit::runtime {

struct CapturedCall;

// An argument of a part that is a tensor.
struct PartArgument {
  enum class From : std::uint8_t {
    kUndefined,
    kSlot,  // that a step has made
    kArgument,
    kCaptured,
    kDrawn,
    kCalled,  // a part before it has
    kEmpty,   // none: it has no elements and no memory
  };
  From from = From::kUndefined;
  std::uint32_t index = 0;  // of the slot, argument, ...
  std::uint32_t arg = 0;    // of the op's schema
  // The first argument that is the same tensor, this one if none before it is:
  // attention's kernels ask, and have other bits for other tensors of the same
  // values.
  std::uint32_t same_as = 0;
  TensorGeometry geometry;
};

// An op that runs at the call, between the steps: Note [Parts] in parts.h.
struct FunctionPart {
  std::shared_ptr<const CapturedCall> call;
  std::uint32_t context = 0;
  std::vector<PartArgument> arguments;
  std::vector<std::uint64_t> statics;
  std::uint32_t scalar_begin = 0;  // among those of all parts
  std::uint32_t scalar_count = 0;
  std::uint32_t first_result = 0;  // among those of all parts
  // None: undefined.
  std::vector<std::optional<TensorGeometry>> results;
};

// A whole number or bool that the function reads on the host, or a tensor of
// integers that it computes, and that step `step` indexes by. Or the place of a
// part.
struct FunctionRead {
  std::uint32_t step = 0;  // the one behind it
  std::int32_t slot = kNoSlot;
  TensorGeometry geometry;
  bool is_check = false;   // of indices
  std::uint64_t bits = 0;  // what was read
  IndexRange allowed{};    // of a check
  std::int32_t part = -1;  // that is called here: no slot, no bits
  // The result of a part that is read, where no step has used it: no slot.
  std::int32_t called = -1;
};

// The default generator before and behind the draws of a replay. Undefined: it
// draws no random numbers.
struct GeneratorMoves {
  at::Generator before, after;
};

// What lies in an external slot is put back where a replay ends in the middle,
// behind step `step`, the first one that writes it.
struct RestoredSlot {
  std::int32_t slot = kNoSlot;
  std::uint32_t step = 0;
};

// Of a plan that is nothing but steps: what its replays need where they run at
// once (run_at_once.h).
struct FunctionAtOnce {
  std::uint64_t id = 0;  // of the plan, in this process; 0: there is more to it
  std::vector<std::uint32_t> outside;  // slots that were there before the call
  std::vector<std::uint32_t> made;     // slots of `fresh`
};

}  // namespace tjit::runtime
