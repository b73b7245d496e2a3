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
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/driver/step_engine.h"
#include "recorder/op_record.h"

namespace tjit::runtime {

// Why a step has no node.
class CannotEmit : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Where the steps of a graph get from what they do not make.
class GraphSource {
 public:
  GraphSource() = default;
  virtual ~GraphSource() = default;
  GraphSource(const GraphSource&) = delete;
  GraphSource& operator=(const GraphSource&) = delete;

  // The tensor of form `g` over external slot `slot`. THROWS: CannotEmit.
  virtual torch::jit::Value* Tensor(std::int32_t slot,
                                    const TensorGeometry& g) = 0;
  // A scalar of a step that varies; null: it is a constant.
  virtual torch::jit::Value* Scalar(const ScalarSource& source,
                                    const ScalarValue& recorded) = 0;
};

// Adds the steps to a graph, in order.
class GraphEmitter {
 public:
  GraphEmitter(torch::jit::Graph* graph, GraphSource* source)
      : graph_(*graph), source_(*source) {}

  // THROWS: CannotEmit.
  void Emit(const SegmentStep& step);

  // A tensor of form `g` over a storage that a step made, or the source has.
  // THROWS: CannotEmit.
  torch::jit::Value* Tensor(std::int32_t slot, const TensorGeometry& g);
  // What the step that makes the storage of `slot` returns.
  struct Born {
    torch::jit::Value* value = nullptr;
    TensorGeometry geometry;
  };
  const Born& BornAt(std::int32_t slot) const { return born_.at(slot); }

 private:
  torch::jit::Value* NextTensor();
  torch::jit::Value* NextScalar(const c10::IValue& captured);
  torch::jit::Value* Argument(const c10::Type& type, const c10::IValue& value);
  torch::jit::Value* List(const c10::TypePtr& element,
                          const c10::IValue& value);
  void NameResults(torch::jit::Node* node);
  void CheckOverload(const torch::jit::Node& node) const;

  torch::jit::Graph& graph_;
  GraphSource& source_;
  const SegmentStep* step_ = nullptr;
  std::int32_t steps_ = 0;
  std::size_t next_arg_ = 0;
  std::int32_t next_scalar_ = 0;
  bool has_number_ = false;  // a tensor of the step became a number
  std::map<std::int32_t, Born> born_;  // by slot
};

// `value` as a constant. THROWS: CannotEmit.
torch::jit::Value* GraphConstant(torch::jit::Graph* graph,
                                 const c10::IValue& value);
// The tensor of form `g` over the storage of `value`; its first element is
// `offset` elements behind the storage's, or no offset: behind that of `value`.
torch::jit::Value* GraphView(torch::jit::Graph* graph,
                             torch::jit::Value* value, const TensorGeometry& g,
                             torch::jit::Value* offset);
c10::TypePtr GraphType(const TensorGeometry& g);
// Same elements of a storage, of one type.
bool SameView(const TensorGeometry& a, const TensorGeometry& b);

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
