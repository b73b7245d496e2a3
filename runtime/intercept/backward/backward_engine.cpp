// The functions of libtorch's engine that are replaced: the pass itself, and
// what hooks and custom functions ask while one runs.
#include "runtime/intercept/backward/backward_engine.h"

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <functional>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/call/interpose.h"
#include "runtime/intercept/backward/backward_pass.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/thread_context.h"
#include "runtime/report/instruction_log.h"
#include "runtime/thread/functions/jit_node.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {
namespace {

using torch::autograd::AnomalyMode;
using torch::autograd::variable_list;

// Compiled autograd takes whole passes; who switches it on wants that.
std::atomic<bool> g_compiled_autograd{false};

bool HasModes() {
  constexpr c10::DispatchKeySet kModes = c10::DispatchKeySet(
      {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
       c10::DispatchKey::PythonDispatcher, c10::DispatchKey::PreDispatch,
       c10::DispatchKey::Tracer, c10::DispatchKey::Functionalize,
       c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
       c10::DispatchKey::FuncTorchDynamicLayerBackMode,
       c10::DispatchKey::FuncTorchVmapMode});
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(kModes);
}

// Why no pass of this thread is ours now, whatever its graph.
std::optional<BackwardReason> WhyNotNow(bool create_graph, bool accumulates) {
  if (!g_settings.own_backward()) {
    return BackwardReason::kSwitchedOff;
  }
  if (torch::autograd::get_current_graph_task_id() != -1) {  // ours as well
    return BackwardReason::kNested;
  }
  if (g_compiled_autograd.load(std::memory_order_relaxed)) {
    return BackwardReason::kCompiled;
  }
  if (AnomalyMode::is_enabled()) return BackwardReason::kAnomaly;
  if (at::hasCallbacks()) return BackwardReason::kProfiler;
  if (create_graph && accumulates) return BackwardReason::kCreateGraph;
  if (HasModes()) return BackwardReason::kModes;
  return std::nullopt;
}

}  // namespace
}  // namespace tjit::runtime

using tjit::runtime::BackwardPass;

// variable_list torch::autograd::Engine::execute(roots, inputs, keep_graph,
// create_graph, accumulate_grad, outputs)
TJIT_INTERPOSED torch::autograd::variable_list
_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_(
    torch::autograd::Engine* engine, const torch::autograd::edge_list& roots,
    const torch::autograd::variable_list& inputs, bool keep_graph,
    bool create_graph, bool accumulate_grad,
    const torch::autograd::edge_list& outputs) {
  using namespace tjit::runtime;
  using tjit::internal::JitNode;
  if (JitNode::HasAny(create_graph)) [[unlikely]] {
    torch::autograd::edge_list from = roots, to = outputs;
    JitNode::OpenBehind(create_graph, &from, &to);
    if (from != roots || to != outputs) {
      return engine->execute(from, inputs, keep_graph, create_graph,
                             accumulate_grad, to);
    }
  }
  ThreadState* const state = ActiveState();
  if (state != nullptr && state != LogOnlyState() && !state->is_paused()) {
    const BackwardPass::Call call{roots,        inputs,          keep_graph,
                                  create_graph, accumulate_grad, outputs};
    std::optional<tjit::BackwardReason> why =
        WhyNotNow(create_graph, accumulate_grad);
    if (!why) why = BackwardPass::OfThread().Read(call);
    state->CountBackward(why);
    if (!why) return BackwardPass::OfThread().Run(call);
  }
  const BackwardPass::Aside aside;
  return TJIT_NEXT(
      _ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_)(
      engine, roots, inputs, keep_graph, create_graph, accumulate_grad,
      outputs);
}

// bool torch::autograd::Node::task_should_compute_output(size_t) const
TJIT_INTERPOSED bool _ZNK5torch8autograd4Node26task_should_compute_outputEm(
    const torch::autograd::Node* node, std::size_t output) {
  BackwardPass* const pass = BackwardPass::Running();
  if (pass == nullptr) {
    return TJIT_NEXT(_ZNK5torch8autograd4Node26task_should_compute_outputEm)(
        node, output);
  }
  return pass->is_masked() ? pass->ShouldCompute(*node, output)
                           : node->should_compute_output(output);
}

// int torch::autograd::get_current_graph_task_id(); -1: none
TJIT_INTERPOSED int _ZN5torch8autograd25get_current_graph_task_idEv() {
  BackwardPass* const pass = BackwardPass::Running();
  if (pass != nullptr) return pass->id();
  return TJIT_NEXT(_ZN5torch8autograd25get_current_graph_task_idEv)();
}

// bool torch::autograd::get_current_graph_task_keep_graph()
TJIT_INTERPOSED bool _ZN5torch8autograd33get_current_graph_task_keep_graphEv() {
  BackwardPass* const pass = BackwardPass::Running();
  if (pass != nullptr) return pass->keeps_graph();
  return TJIT_NEXT(_ZN5torch8autograd33get_current_graph_task_keep_graphEv)();
}

// const unordered_map<Node*, ExecInfo>*
// torch::autograd::get_current_graph_task_exec_info()
TJIT_INTERPOSED const BackwardPass::ExecInfos*
_ZN5torch8autograd32get_current_graph_task_exec_infoEv() {
  BackwardPass* const pass = BackwardPass::Running();
  if (pass != nullptr) return &pass->exec_infos();
  return TJIT_NEXT(_ZN5torch8autograd32get_current_graph_task_exec_infoEv)();
}

// const unordered_set<Node*>*
// torch::autograd::get_current_graph_task_nodes_in_graph()
TJIT_INTERPOSED const std::unordered_set<torch::autograd::Node*>*
_ZN5torch8autograd37get_current_graph_task_nodes_in_graphEv() {
  BackwardPass* const pass = BackwardPass::Running();
  if (pass != nullptr) return &pass->nodes();
  return TJIT_NEXT(
      _ZN5torch8autograd37get_current_graph_task_nodes_in_graphEv)();
}

// vector<Node*> torch::autograd::get_current_graph_task_execution_order()
TJIT_INTERPOSED std::vector<torch::autograd::Node*>
_ZN5torch8autograd38get_current_graph_task_execution_orderEv() {
  BackwardPass* const pass = BackwardPass::Running();
  if (pass != nullptr) return pass->OrderOfNodes();
  return TJIT_NEXT(
      _ZN5torch8autograd38get_current_graph_task_execution_orderEv)();
}

// intrusive_ptr<Node> torch::autograd::get_current_node()
TJIT_INTERPOSED c10::intrusive_ptr<torch::autograd::Node>
_ZN5torch8autograd16get_current_nodeEv() {
  BackwardPass* const pass = BackwardPass::Running();
  if (pass == nullptr) {
    return TJIT_NEXT(_ZN5torch8autograd16get_current_nodeEv)();
  }
  if (pass->node() == nullptr) return {};
  return pass->node()->getptr();
}

// void torch::autograd::Engine::queue_callback(std::function<void()>)
TJIT_INTERPOSED void
_ZN5torch8autograd6Engine14queue_callbackESt8functionIFvvEE(
    torch::autograd::Engine* engine, std::function<void()> callback) {
  BackwardPass* const pass = BackwardPass::Running();
  if (pass != nullptr) return pass->AddCallback(std::move(callback));
  TJIT_NEXT(_ZN5torch8autograd6Engine14queue_callbackESt8functionIFvvEE)
  (engine, std::move(callback));
}

// bool torch::autograd::Engine::is_checkpoint_valid()
TJIT_INTERPOSED bool _ZN5torch8autograd6Engine19is_checkpoint_validEv(
    torch::autograd::Engine* engine) {
  BackwardPass* const pass = BackwardPass::Running();
  if (BackwardPass::IsInGrad()) return false;
  if (pass != nullptr) return !pass->is_masked();
  return TJIT_NEXT(_ZN5torch8autograd6Engine19is_checkpoint_validEv)(engine);
}

// void torch::autograd::CopySlices::update_exec_info(): tells libtorch's graph
// task that the node within is needed. A pass of ours has none of them if it
// asks for some nodes only.
TJIT_INTERPOSED void _ZN5torch8autograd10CopySlices16update_exec_infoEv(
    torch::autograd::CopySlices* node) {
  if (BackwardPass::Running() != nullptr) return;
  TJIT_NEXT(_ZN5torch8autograd10CopySlices16update_exec_infoEv)(node);
}

// void torch::autograd::Engine::set_compiled_autograd(compiled_autograd_fn)
TJIT_INTERPOSED void
_ZN5torch8autograd6Engine21set_compiled_autogradEPFSt6vectorIN2at6TensorESaIS4_EERKN3c1013intrusive_ptrINS0_4NodeENS7_6detail34intrusive_target_default_null_typeIS9_EEEERKNS0_9GraphTaskEbRKS2_INS0_4EdgeESaISJ_EEE(
    torch::autograd::Engine::compiled_autograd_fn function) {
  tjit::runtime::g_compiled_autograd.store(function != nullptr);
  TJIT_NEXT(
      _ZN5torch8autograd6Engine21set_compiled_autogradEPFSt6vectorIN2at6TensorESaIS4_EERKN3c1013intrusive_ptrINS0_4NodeENS7_6detail34intrusive_target_default_null_typeIS9_EEEERKNS0_9GraphTaskEbRKS2_INS0_4EdgeESaISJ_EEE)
  (function);
}
