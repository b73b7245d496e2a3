// Typed wrappers: nn ops, part 4 of 7.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddNn4Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::_adaptive_avg_pool3d>(ops);
  AddTyped<at::_ops::_adaptive_avg_pool3d_backward>(ops);
  AddTyped<at::_ops::_add_relu_out>(ops);
  AddTyped<at::_ops::_prelu_kernel>(ops);
  AddTyped<at::_ops::_slow_conv2d_backward_grad_input>(ops);
  AddTyped<at::_ops::_slow_conv2d_backward_output_mask>(ops);
  AddTyped<at::_ops::_slow_conv2d_forward>(ops);
  AddTyped<at::_ops::_slow_conv2d_forward_output>(ops);
  AddTyped<at::_ops::_upsample_bicubic2d_aa_out>(ops);
  AddTyped<at::_ops::_upsample_bilinear2d_aa_out>(ops);
  AddTyped<at::_ops::adaptive_avg_pool2d_out>(ops);
  AddTyped<at::_ops::adaptive_avg_pool3d_backward_grad_input>(ops);
  AddTyped<at::_ops::adaptive_avg_pool3d_out>(ops);
  AddTyped<at::_ops::adaptive_max_pool2d_backward_grad_input>(ops);
  AddTyped<at::_ops::adaptive_max_pool3d_backward_grad_input>(ops);
  AddTyped<at::_ops::hardshrink_backward_grad_input>(ops);
  AddTyped<at::_ops::hardshrink_out>(ops);
  AddTyped<at::_ops::hardsigmoid_backward_grad_input>(ops);
  AddTyped<at::_ops::hardsigmoid_out>(ops);
  AddTyped<at::_ops::hardswish_out>(ops);
  AddTyped<at::_ops::leaky_relu_out>(ops);
  AddTyped<at::_ops::log_sigmoid_backward_grad_input>(ops);
  AddTyped<at::_ops::log_sigmoid_forward_output>(ops);
  AddTyped<at::_ops::max_unpool2d>(ops);
  AddTyped<at::_ops::max_unpool2d_out>(ops);
  AddTyped<at::_ops::mish_out>(ops);
  AddTyped<at::_ops::reflection_pad1d>(ops);
  AddTyped<at::_ops::reflection_pad1d_backward>(ops);
  AddTyped<at::_ops::reflection_pad1d_backward_grad_input>(ops);
  AddTyped<at::_ops::reflection_pad1d_out>(ops);
  AddTyped<at::_ops::reflection_pad2d>(ops);
  AddTyped<at::_ops::reflection_pad2d_backward>(ops);
  AddTyped<at::_ops::reflection_pad2d_backward_grad_input>(ops);
  AddTyped<at::_ops::reflection_pad2d_out>(ops);
  AddTyped<at::_ops::reflection_pad3d>(ops);
  AddTyped<at::_ops::reflection_pad3d_backward>(ops);
  AddTyped<at::_ops::reflection_pad3d_backward_grad_input>(ops);
  AddTyped<at::_ops::reflection_pad3d_out>(ops);
  AddTyped<at::_ops::replication_pad1d>(ops);
  AddTyped<at::_ops::replication_pad1d_backward>(ops);
  AddTyped<at::_ops::replication_pad1d_backward_grad_input>(ops);
  AddTyped<at::_ops::replication_pad1d_out>(ops);
  AddTyped<at::_ops::replication_pad2d>(ops);
  AddTyped<at::_ops::replication_pad2d_backward>(ops);
  AddTyped<at::_ops::replication_pad2d_backward_grad_input>(ops);
  AddTyped<at::_ops::replication_pad2d_out>(ops);
  AddTyped<at::_ops::replication_pad3d>(ops);
  AddTyped<at::_ops::replication_pad3d_backward>(ops);
  AddTyped<at::_ops::replication_pad3d_backward_grad_input>(ops);
  AddTyped<at::_ops::replication_pad3d_out>(ops);
  AddTyped<at::_ops::sigmoid_backward_grad_input>(ops);
  AddTyped<at::_ops::silu_backward_grad_input>(ops);
  AddTyped<at::_ops::silu_out>(ops);
  AddTyped<at::_ops::slow_conv3d_forward>(ops);
  AddTyped<at::_ops::slow_conv3d_forward_output>(ops);
  AddTyped<at::_ops::slow_conv_dilated2d>(ops);
  AddTyped<at::_ops::slow_conv_dilated3d>(ops);
  AddTyped<at::_ops::slow_conv_transpose2d>(ops);
  AddTyped<at::_ops::slow_conv_transpose2d_out>(ops);
  AddTyped<at::_ops::slow_conv_transpose3d>(ops);
  AddTyped<at::_ops::slow_conv_transpose3d_out>(ops);
  AddTyped<at::_ops::softshrink_backward_grad_input>(ops);
  AddTyped<at::_ops::softshrink_out>(ops);
  AddTyped<at::_ops::threshold_backward_grad_input>(ops);
}

}  // namespace tjit::runtime
