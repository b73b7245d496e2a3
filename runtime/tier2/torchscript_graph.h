// A group of recorded steps as a graph of TorchScript:
//
//   t = add(x, y); t.mul_(x)   ->   graph(%s0 : Float(16, strides=[1], ...),
//                                         %s1 : Float(16, strides=[1], ...)):
//                                     %2 : int = prim::Constant[value=1]()
//                                     %s2 : Float(...) = aten::add(%s0, %s1,
//                                     %2) %4 : Float(...) = aten::mul_(%s2,
//                                     %s0) return (%s2)
//
// How: one node per step, of the op that was recorded. A tensor from outside
// the group is an input for each geometry in which a step sees its storage; a
// result that a step sees otherwise than it was made is an aten::as_strided of
// it, so views of one storage stay views. Scalars that vary are inputs,
// whatever else is no tensor is a constant. Results are recorded as they were
// then; their types in the graph are for the reader.
//
// Thread: any. Tested by: tests/runtime/tier2/torchscript_test.cpp
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/driver/step_engine.h"
#include "recorder/op_record.h"

namespace tjit::runtime {

struct StepGraph {
  // A tensor of externals[index] of the group, or its scalar `index`.
  struct Input {
    bool is_scalar = false;
    std::size_t index = 0;
    TensorGeometry geometry;
  };

  std::shared_ptr<torch::jit::Graph> graph;
  std::vector<Input> inputs;
  // By output, which are the group's returns.
  std::vector<TensorGeometry> outputs;
};

// Returns "", or why there is no such graph, naming the op.
std::string EmitGraph(const StepGroup& group, StepGraph* out);

}  // namespace tjit::runtime
