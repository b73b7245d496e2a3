// Typed wrappers: nn ops, part 2 of 7.
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

#include <ATen/ops/hardsigmoid_ops.h>
#include <ATen/ops/hardsigmoid_backward_ops.h>
#include <ATen/ops/hardswish_ops.h>
#include <ATen/ops/hardswish_backward_ops.h>
#include <ATen/ops/hardtanh_ops.h>
#include <ATen/ops/hardtanh_backward_ops.h>
#include <ATen/ops/huber_loss_ops.h>
#include <ATen/ops/leaky_relu_ops.h>
#include <ATen/ops/leaky_relu_backward_ops.h>
#include <ATen/ops/log_sigmoid_backward_ops.h>
#include <ATen/ops/log_sigmoid_forward_ops.h>
#include <ATen/ops/max_pool2d_with_indices_ops.h>
#include <ATen/ops/max_pool2d_with_indices_backward_ops.h>
#include <ATen/ops/mish_ops.h>
#include <ATen/ops/mish_backward_ops.h>
#include <ATen/ops/mkldnn_convolution_ops.h>
#include <ATen/ops/mse_loss_ops.h>
#include <ATen/ops/mse_loss_backward_ops.h>
#include <ATen/ops/native_batch_norm_ops.h>
#include <ATen/ops/native_batch_norm_backward_ops.h>
#include <ATen/ops/native_dropout_ops.h>
#include <ATen/ops/native_dropout_backward_ops.h>

namespace tjit::runtime {

void AddNn2Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::hardsigmoid>(ops);
  AddTyped<at::_ops::hardsigmoid_>(ops);
  AddTyped<at::_ops::hardsigmoid_backward>(ops);
  AddTyped<at::_ops::hardswish>(ops);
  AddTyped<at::_ops::hardswish_>(ops);
  AddTyped<at::_ops::hardswish_backward>(ops);
  AddTyped<at::_ops::hardtanh>(ops);
  AddTyped<at::_ops::hardtanh_>(ops);
  AddTyped<at::_ops::hardtanh_backward>(ops);
  AddTyped<at::_ops::huber_loss>(ops);
  AddTyped<at::_ops::leaky_relu>(ops);
  AddTyped<at::_ops::leaky_relu_>(ops);
  AddTyped<at::_ops::leaky_relu_backward>(ops);
  AddTyped<at::_ops::log_sigmoid_backward>(ops);
  AddTyped<at::_ops::log_sigmoid_forward>(ops);
  AddTyped<at::_ops::max_pool2d_with_indices>(ops);
  AddTyped<at::_ops::max_pool2d_with_indices_backward>(ops);
  AddTyped<at::_ops::mish>(ops);
  AddTyped<at::_ops::mish_>(ops);
  AddTyped<at::_ops::mish_backward>(ops);
  AddTyped<at::_ops::mkldnn_convolution>(ops);
  AddTyped<at::_ops::mse_loss>(ops);
  AddTyped<at::_ops::mse_loss_backward>(ops);
  AddTyped<at::_ops::native_batch_norm>(ops);
  AddTyped<at::_ops::native_batch_norm_backward>(ops);
  AddTyped<at::_ops::native_dropout>(ops);
  AddTyped<at::_ops::native_dropout_backward>(ops);
}

}  // namespace tjit::runtime
