// Typed wrappers: nn ops, part 3 of 7.
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

#include <ATen/ops/native_group_norm_ops.h>
#include <ATen/ops/native_group_norm_backward_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/native_layer_norm_backward_ops.h>
#include <ATen/ops/nll_loss2d_backward_ops.h>
#include <ATen/ops/nll_loss2d_forward_ops.h>
#include <ATen/ops/nll_loss_backward_ops.h>
#include <ATen/ops/nll_loss_forward_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/sigmoid_backward_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/silu_backward_ops.h>
#include <ATen/ops/smooth_l1_loss_ops.h>
#include <ATen/ops/softplus_ops.h>
#include <ATen/ops/softplus_backward_ops.h>
#include <ATen/ops/softshrink_ops.h>
#include <ATen/ops/tanh_backward_ops.h>
#include <ATen/ops/threshold_ops.h>
#include <ATen/ops/threshold_backward_ops.h>
#include <ATen/ops/upsample_bilinear2d_ops.h>
#include <ATen/ops/upsample_bilinear2d_backward_ops.h>
#include <ATen/ops/upsample_nearest2d_ops.h>
#include <ATen/ops/upsample_nearest2d_backward_ops.h>

namespace tjit::runtime {

void AddNn3Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::native_group_norm>(ops);
  AddTyped<at::_ops::native_group_norm_backward>(ops);
  AddTyped<at::_ops::native_layer_norm>(ops);
  AddTyped<at::_ops::native_layer_norm_backward>(ops);
  AddTyped<at::_ops::nll_loss2d_backward>(ops);
  AddTyped<at::_ops::nll_loss2d_forward>(ops);
  AddTyped<at::_ops::nll_loss_backward>(ops);
  AddTyped<at::_ops::nll_loss_forward>(ops);
  AddTyped<at::_ops::relu>(ops);
  AddTyped<at::_ops::relu_>(ops);
  AddTyped<at::_ops::sigmoid_backward>(ops);
  AddTyped<at::_ops::silu>(ops);
  AddTyped<at::_ops::silu_>(ops);
  AddTyped<at::_ops::silu_backward>(ops);
  AddTyped<at::_ops::smooth_l1_loss>(ops);
  AddTyped<at::_ops::softplus>(ops);
  AddTyped<at::_ops::softplus_backward>(ops);
  AddTyped<at::_ops::softshrink>(ops);
  AddTyped<at::_ops::tanh_backward>(ops);
  AddTyped<at::_ops::threshold>(ops);
  AddTyped<at::_ops::threshold_>(ops);
  AddTyped<at::_ops::threshold_backward>(ops);
  AddTyped<at::_ops::upsample_bilinear2d>(ops);
  AddTyped<at::_ops::upsample_bilinear2d_backward>(ops);
  AddTyped<at::_ops::upsample_nearest2d>(ops);
  AddTyped<at::_ops::upsample_nearest2d_backward>(ops);
}

}  // namespace tjit::runtime
