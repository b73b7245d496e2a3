// Which nodes of libtorch's graphs have saved tensors with hooks.
//
// A hook of a saved tensor (a checkpoint, save_on_cpu) runs within the node's
// backward and may ask libtorch which backward pass is under way. Nothing in a
// node tells that it has one. So the function that packs a saved tensor with
// hooks is interposed. It is called while its node is being made, so that node
// and those before it count as hooked: of each thread the last number is kept.
// A hook that is registered later may belong to any node, so after one of those
// every node counts as hooked, for good.
//
// Thread: any. Tested by: tests/runtime/intercept/backward_engine_test.cpp
#pragma once

#include <atomic>

namespace torch::autograd {
struct Node;
}

namespace tjit::runtime {

// True once any saved tensor was packed with hooks.
extern std::atomic<bool> g_any_saved_hooks;

// True if a saved tensor of `node` may have hooks. Asked only where
// g_any_saved_hooks is set.
bool MayHaveSavedHooks(const torch::autograd::Node& node);

}  // namespace tjit::runtime
