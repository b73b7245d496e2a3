#include "runtime/call/node_kinds.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include <cstring>
#include <string_view>
#include <typeinfo>

namespace tjit::runtime {
namespace {

NodeKind KindOf(const std::type_info& type) {
  if (type == typeid(torch::autograd::AccumulateGrad)) {
    return NodeKind::kAccumulate;
  }
  if (type == typeid(torch::autograd::CopySlices)) return NodeKind::kCopySlices;
  const bool is_plain =
      type == typeid(torch::autograd::CopyBackwards) ||
      type == typeid(torch::autograd::GraphRoot) ||
      type == typeid(torch::autograd::UndefinedGrad) ||
      std::string_view(type.name()).starts_with("N5torch8autograd9generated");
  return is_plain ? NodeKind::kGenerated : NodeKind::kForeign;
}

}  // namespace

NodeKind NodeKinds::Of(const torch::autograd::Node& node) {
  const void* table = nullptr;
  std::memcpy(&table, static_cast<const void*>(&node), sizeof table);
  Known& known =
      known_[reinterpret_cast<std::uintptr_t>(table) / 16 % known_.size()];
  if (known.table != table) known = {table, KindOf(typeid(node))};
  return known.kind;
}

bool HasHooks(torch::autograd::Node* node) {
  return !node->pre_hooks().empty() || !node->post_hooks().empty() ||
         !node->tensor_pre_hooks().empty();
}

}  // namespace tjit::runtime
