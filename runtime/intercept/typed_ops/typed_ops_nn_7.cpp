// Typed wrappers: nn ops, part 7 of 7.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddNn7Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::_add_relu_Scalar>(ops);
  AddTyped<at::_ops::_add_relu__Scalar>(ops);
  AddTyped<at::_ops::_add_relu__Tensor>(ops);
  AddTyped<at::_ops::_ctc_loss_Tensor>(ops);
  AddTyped<at::_ops::_ctc_loss_backward>(ops);
  AddTyped<at::_ops::_ctc_loss_backward_Tensor>(ops);
  AddTyped<at::_ops::_embedding_bag_backward>(ops);
  AddTyped<at::_ops::_embedding_bag_dense_backward>(ops);
  AddTyped<at::_ops::_embedding_bag_per_sample_weights_backward>(ops);
  AddTyped<at::_ops::_masked_softmax>(ops);
  AddTyped<at::_ops::_masked_softmax_backward>(ops);
  AddTyped<at::_ops::_prelu_kernel_backward>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact2d>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact2d_backward>(ops);
  AddTyped<at::_ops::_weight_norm_interface_backward>(ops);
  AddTyped<at::_ops::avg_pool3d>(ops);
  AddTyped<at::_ops::avg_pool3d_backward>(ops);
  AddTyped<at::_ops::binary_cross_entropy_backward_grad_input>(ops);
  AddTyped<at::_ops::binary_cross_entropy_out>(ops);
  AddTyped<at::_ops::col2im>(ops);
  AddTyped<at::_ops::col2im_out>(ops);
  AddTyped<at::_ops::elu_backward_grad_input>(ops);
  AddTyped<at::_ops::elu_out>(ops);
  AddTyped<at::_ops::embedding_renorm_>(ops);
  AddTyped<at::_ops::gelu_backward_grad_input>(ops);
  AddTyped<at::_ops::gelu_out>(ops);
  AddTyped<at::_ops::glu_backward_jvp>(ops);
  AddTyped<at::_ops::glu_jvp>(ops);
  AddTyped<at::_ops::im2col>(ops);
  AddTyped<at::_ops::im2col_out>(ops);
  AddTyped<at::_ops::leaky_relu_backward_grad_input>(ops);
  AddTyped<at::_ops::max_pool3d_with_indices_backward>(ops);
  AddTyped<at::_ops::max_unpool3d>(ops);
  AddTyped<at::_ops::max_unpool3d_out>(ops);
  AddTyped<at::_ops::mse_loss_backward_grad_input>(ops);
  AddTyped<at::_ops::multi_margin_loss>(ops);
  AddTyped<at::_ops::multi_margin_loss_backward>(ops);
  AddTyped<at::_ops::multi_margin_loss_backward_grad_input>(ops);
  AddTyped<at::_ops::multi_margin_loss_out>(ops);
  AddTyped<at::_ops::multilabel_margin_loss_backward>(ops);
  AddTyped<at::_ops::multilabel_margin_loss_backward_grad_input>(ops);
  AddTyped<at::_ops::rrelu_with_noise>(ops);
  AddTyped<at::_ops::rrelu_with_noise_>(ops);
  AddTyped<at::_ops::rrelu_with_noise_out>(ops);
  AddTyped<at::_ops::upsample_linear1d>(ops);
  AddTyped<at::_ops::upsample_linear1d_backward>(ops);
  AddTyped<at::_ops::upsample_linear1d_backward_grad_input>(ops);
  AddTyped<at::_ops::upsample_linear1d_out>(ops);
  AddTyped<at::_ops::upsample_trilinear3d>(ops);
  AddTyped<at::_ops::upsample_trilinear3d_backward>(ops);
  AddTyped<at::_ops::upsample_trilinear3d_backward_grad_input>(ops);
  AddTyped<at::_ops::upsample_trilinear3d_out>(ops);
}

}  // namespace tjit::runtime
