// Typed wrappers: nn ops, part 1 of 7.
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

#include <ATen/ops/_adaptive_avg_pool2d_ops.h>
#include <ATen/ops/_adaptive_avg_pool2d_backward_ops.h>
#include <ATen/ops/_fused_adam_ops.h>
#include <ATen/ops/_fused_adamw_ops.h>
#include <ATen/ops/_fused_sgd_ops.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/avg_pool2d_ops.h>
#include <ATen/ops/avg_pool2d_backward_ops.h>
#include <ATen/ops/binary_cross_entropy_ops.h>
#include <ATen/ops/binary_cross_entropy_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/elu_ops.h>
#include <ATen/ops/elu_backward_ops.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/glu_ops.h>

namespace tjit::runtime {

void AddNn1Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::_adaptive_avg_pool2d>(ops);
  AddTyped<at::_ops::_adaptive_avg_pool2d_backward>(ops);
  AddTyped<at::_ops::_fused_adam_>(ops);
  AddTyped<at::_ops::_fused_adam__tensor_lr>(ops);
  AddTyped<at::_ops::_fused_adamw_>(ops);
  AddTyped<at::_ops::_fused_adamw__tensor_lr>(ops);
  AddTyped<at::_ops::_fused_sgd_>(ops);
  AddTyped<at::_ops::_fused_sgd__tensor_lr>(ops);
  AddTyped<at::_ops::_log_softmax>(ops);
  AddTyped<at::_ops::_log_softmax_backward_data>(ops);
  AddTyped<at::_ops::_scaled_dot_product_flash_attention_for_cpu>(ops);
  AddTyped<at::_ops::_softmax>(ops);
  AddTyped<at::_ops::_softmax_backward_data>(ops);
  AddTyped<at::_ops::avg_pool2d>(ops);
  AddTyped<at::_ops::avg_pool2d_backward>(ops);
  AddTyped<at::_ops::binary_cross_entropy>(ops);
  AddTyped<at::_ops::binary_cross_entropy_backward>(ops);
  AddTyped<at::_ops::convolution>(ops);
  AddTyped<at::_ops::convolution_backward>(ops);
  AddTyped<at::_ops::elu>(ops);
  AddTyped<at::_ops::elu_>(ops);
  AddTyped<at::_ops::elu_backward>(ops);
  AddTyped<at::_ops::embedding_dense_backward>(ops);
  AddTyped<at::_ops::gelu>(ops);
  AddTyped<at::_ops::gelu_>(ops);
  AddTyped<at::_ops::gelu_backward>(ops);
  AddTyped<at::_ops::glu>(ops);
}

}  // namespace tjit::runtime
