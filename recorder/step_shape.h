// A hash of what two calls must share to match exactly: op, context, dtypes,
// sizes and strides. Finds a step among the many of the same op in other sizes
// that begin a trace or follow one step (child_index.h); it only proposes.
// Tested by: tests/recorder/trace_test.cpp
#pragma once

#include <cstdint>

#include "recorder/op_record.h"

namespace tjit {

class StepShape {
 public:
  StepShape(OpId op, std::uint32_t context) {
    Mix(std::uint64_t{op} << 32 | context);
  }
  void AddTensor(std::uint8_t dtype, std::size_t ndim,
                 const std::int64_t* sizes, const std::int64_t* strides) {
    Mix(std::uint64_t{dtype} << 8 | ndim);
    for (std::size_t d = 0; d < ndim; ++d) {
      Mix(static_cast<std::uint64_t>(sizes[d]));
      Mix(static_cast<std::uint64_t>(strides[d]));
    }
  }
  void AddNoTensor() { Mix(~std::uint64_t{0}); }
  std::uint64_t hash() const { return hash_; }

 private:
  void Mix(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9E3779B97F4A7C15ull;
    hash_ ^= hash_ >> 32;
  }
  std::uint64_t hash_ = 0;
};

// A step that runs at the call matches by op and context alone.
inline std::uint64_t AtCallShape(OpId op, std::uint32_t context) {
  StepShape shape(op, context);
  return ~shape.hash();
}

inline std::uint64_t ShapeOf(const StepRecord& step) {
  if (step.kind == StepKind::kAtCall) return AtCallShape(step.op, step.context);
  StepShape shape(step.op, step.context);
  for (const ArgRecord& arg : step.args) {
    const TensorGeometry& g = arg.geometry;
    if (arg.slot == kNoSlot) {
      shape.AddNoTensor();
    } else {
      shape.AddTensor(g.dtype, g.ndim, g.sizes, g.strides);
    }
  }
  return shape.hash();
}

}  // namespace tjit
