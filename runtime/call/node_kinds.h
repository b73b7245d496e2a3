// What a node of a graph of gradients is to tjit.
// Thread: one at a time uses a NodeKinds.
// Tested by: tests/runtime/intercept/backward_order_test.cpp
#pragma once

#include <torch/csrc/autograd/node.h>

#include <array>
#include <cstdint>

namespace tjit::runtime {

enum class NodeKind : std::uint8_t {
  kForeign,     // may run code of the program: a custom function
  kGenerated,   // of an op: reads and writes tensors only
  kAccumulate,  // of a leaf
  kCopySlices,  // of an in-place write to a view
};

// The kinds by the nodes' tables of virtual functions: comparing names takes
// longer than running a small node.
class NodeKinds {
 public:
  NodeKind Of(const torch::autograd::Node& node);

 private:
  struct Known {
    const void* table = nullptr;
    NodeKind kind = NodeKind::kForeign;
  };
  std::array<Known, 256> known_{};
};

// Hooks of the program. Those of retain_grad() are libtorch's own.
bool HasHooks(torch::autograd::Node* node);

}  // namespace tjit::runtime
