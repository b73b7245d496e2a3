// Typed wrappers: nn ops, part 5 of 7.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddNn5Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::_add_relu_Tensor>(ops);
  AddTyped<at::_ops::_embedding_bag>(ops);
  AddTyped<at::_ops::_embedding_bag_forward_only>(ops);
  AddTyped<at::_ops::_fake_quantize_learnable_per_channel_affine>(ops);
  AddTyped<at::_ops::_fake_quantize_learnable_per_channel_affine_backward>(ops);
  AddTyped<at::_ops::_fake_quantize_learnable_per_tensor_affine>(ops);
  AddTyped<at::_ops::_fake_quantize_learnable_per_tensor_affine_backward>(ops);
  AddTyped<
      at::_ops::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams>(ops);
  AddTyped<at::_ops::_fused_moving_avg_obs_fq_helper>(ops);
  AddTyped<at::_ops::_log_softmax_out>(ops);
  AddTyped<at::_ops::_softmax_out>(ops);
  AddTyped<at::_ops::_upsample_bicubic2d_aa>(ops);
  AddTyped<at::_ops::_upsample_bicubic2d_aa_backward>(ops);
  AddTyped<at::_ops::_upsample_bicubic2d_aa_backward_grad_input>(ops);
  AddTyped<at::_ops::_upsample_bilinear2d_aa>(ops);
  AddTyped<at::_ops::_upsample_bilinear2d_aa_backward>(ops);
  AddTyped<at::_ops::_upsample_bilinear2d_aa_backward_grad_input>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact2d_out>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact3d_out>(ops);
  AddTyped<at::_ops::_weight_norm_interface>(ops);
  AddTyped<at::_ops::adaptive_max_pool2d>(ops);
  AddTyped<at::_ops::adaptive_max_pool2d_backward>(ops);
  AddTyped<at::_ops::adaptive_max_pool2d_out>(ops);
  AddTyped<at::_ops::adaptive_max_pool3d>(ops);
  AddTyped<at::_ops::adaptive_max_pool3d_backward>(ops);
  AddTyped<at::_ops::adaptive_max_pool3d_out>(ops);
  AddTyped<at::_ops::avg_pool2d_out>(ops);
  AddTyped<at::_ops::avg_pool3d_out>(ops);
  AddTyped<at::_ops::fake_quantize_per_channel_affine_cachemask>(ops);
  AddTyped<at::_ops::fake_quantize_per_tensor_affine_cachemask>(ops);
  AddTyped<at::_ops::fractional_max_pool2d>(ops);
  AddTyped<at::_ops::fractional_max_pool2d_output>(ops);
  AddTyped<at::_ops::fractional_max_pool3d>(ops);
  AddTyped<at::_ops::fractional_max_pool3d_output>(ops);
  AddTyped<at::_ops::glu_backward_grad_input>(ops);
  AddTyped<at::_ops::glu_out>(ops);
  AddTyped<at::_ops::grid_sampler_2d_backward>(ops);
  AddTyped<at::_ops::grid_sampler_3d_backward>(ops);
  AddTyped<at::_ops::hardshrink>(ops);
  AddTyped<at::_ops::hardshrink_backward>(ops);
  AddTyped<at::_ops::hardtanh_out>(ops);
  AddTyped<at::_ops::max_pool2d_with_indices_out>(ops);
  AddTyped<at::_ops::max_pool3d_with_indices_out>(ops);
  AddTyped<at::_ops::mse_loss_out>(ops);
  AddTyped<at::_ops::multilabel_margin_loss_forward>(ops);
  AddTyped<at::_ops::nll_loss2d_forward_output>(ops);
  AddTyped<at::_ops::nll_loss_forward_output>(ops);
  AddTyped<at::_ops::pixel_shuffle>(ops);
  AddTyped<at::_ops::pixel_unshuffle>(ops);
  AddTyped<at::_ops::softplus_out>(ops);
  AddTyped<at::_ops::softshrink_backward>(ops);
  AddTyped<at::_ops::threshold_out>(ops);
  AddTyped<at::_ops::upsample_bicubic2d>(ops);
  AddTyped<at::_ops::upsample_bicubic2d_backward>(ops);
  AddTyped<at::_ops::upsample_bicubic2d_backward_grad_input>(ops);
  AddTyped<at::_ops::upsample_bicubic2d_out>(ops);
  AddTyped<at::_ops::upsample_bilinear2d_backward_grad_input>(ops);
  AddTyped<at::_ops::upsample_bilinear2d_out>(ops);
  AddTyped<at::_ops::upsample_nearest2d_out>(ops);
  AddTyped<at::_ops::upsample_nearest3d_out>(ops);
}

}  // namespace tjit::runtime
