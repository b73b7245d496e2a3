#include "runtime/tier2/torchscript_engine.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <cstring>
#include <string>
#include <utility>

#include "compiler/driver/step_engine.h"
#include "runtime/call/call_frame.h"
#include "runtime/call/kernel_state.h"
#include "runtime/library_calls/executor_tensors.h"
#include "runtime/library_calls/library_call.h"
#include "runtime/tier2/torchscript_graph.h"

namespace tjit::runtime {
namespace {

// REQUIRES: it was recorded as `g`.
void CopyOut(const at::Tensor& result, const TensorGeometry& g,
             std::uint64_t bytes, char* to) {
  TORCH_INTERNAL_ASSERT(
      result.defined() && result.sizes() == c10::IntArrayRef(g.sizes, g.ndim) &&
          result.strides() == c10::IntArrayRef(g.strides, g.ndim) &&
          result.storage_offset() == g.offset &&
          static_cast<std::uint8_t>(result.scalar_type()) == g.dtype &&
          result.storage().nbytes() >= bytes,
      "tjit: a result of a graph is not as its op was recorded");
  if (bytes != 0) std::memcpy(to, result.storage().data(), bytes);
}

// Its tensors live for a run: a run on another thread has its own.
class GraphKernel : public Kernel {
 public:
  GraphKernel(const StepGroup& group, StepGraph graph)
      : graph_(std::move(graph)),
        code_(graph_.graph, "tjit"),
        text_(graph_.graph->toString(/*print_source_locations=*/false)),
        externals_(group.externals.size()),
        context_(group.steps.front()->record.context) {
    bytes_.resize(externals_ + group.returns.size());
    for (const GroupSlot& slot : group.slots) {
      RecordBytes(group.externals, 0, slot);
      RecordBytes(group.returns, externals_, slot);
    }
  }

  bool Shape(KernelShape* /*shape*/, std::string* /*why*/) const override {
    return true;  // its sizes are constants
  }
  std::string_view CodeText() const override { return text_; }

  void Run(char* const* memory, const KernelShape& /*shape*/,
           const ScalarValue* scalars) const override {
    ContextScope scope;
    scope.Switch(context_);
    ExecutorTensors tensors;
    torch::jit::Stack stack;
    for (const StepGraph::Input& input : graph_.inputs) {
      if (input.is_scalar) {
        stack.emplace_back(DecodeScalar(scalars[input.index]));
        continue;
      }
      const auto slot = static_cast<std::int32_t>(input.index);
      stack.emplace_back(
          tensors.Make(slot, bytes_[input.index], input.geometry));
      tensors.Bind(slot, memory[input.index]);
    }
    torch::jit::InterpreterState(code_).run(stack);
    for (std::size_t i = 0; i < stack.size(); ++i) {
      CopyOut(stack[i].toTensor(), graph_.outputs[i], bytes_[externals_ + i],
              memory[externals_ + i]);
    }
  }

 private:
  void RecordBytes(const std::vector<std::int32_t>& slots, std::size_t begin,
                   const GroupSlot& slot) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] == slot.slot) bytes_[begin + i] = slot.bytes;
    }
  }

  const StepGraph graph_;
  const torch::jit::Code code_;
  const std::string text_;
  const std::size_t externals_;
  const std::uint32_t context_;
  std::vector<std::uint64_t> bytes_;  // by memory
};

class TorchscriptEngine : public StepEngine {
 public:
  const char* name() const override { return "torchscript"; }
  bool is_for_speed() const override { return false; }

  std::string WhyNotStep(const StepGroup& step) override {
    StepGraph graph;
    return EmitGraph(step, &graph);
  }

  std::shared_ptr<const Kernel> CompileSteps(const StepGroup& group,
                                             std::string* why) override {
    StepGraph graph;
    *why = EmitGraph(group, &graph);
    if (!why->empty()) return nullptr;
    return std::make_shared<GraphKernel>(group, std::move(graph));
  }
};

}  // namespace

std::unique_ptr<Engine> MakeTorchscriptEngine() {
  return std::make_unique<TorchscriptEngine>();
}

}  // namespace tjit::runtime
