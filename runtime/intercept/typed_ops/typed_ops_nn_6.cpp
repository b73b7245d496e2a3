// Typed wrappers: nn ops, part 6 of 7.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddNn6Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::_amp_foreach_non_finite_check_and_unscale_>(ops);
  AddTyped<at::_ops::_amp_update_scale_>(ops);
  AddTyped<at::_ops::_batch_norm_with_update>(ops);
  AddTyped<at::_ops::_batch_norm_with_update_out>(ops);
  AddTyped<at::_ops::_ctc_loss>(ops);
  AddTyped<at::_ops::_fused_adagrad_>(ops);
  AddTyped<at::_ops::_fused_adagrad__tensor_lr>(ops);
  AddTyped<at::_ops::_log_softmax_backward_data_out>(ops);
  AddTyped<at::_ops::_native_batch_norm_legit>(ops);
  AddTyped<at::_ops::_native_batch_norm_legit_no_stats>(ops);
  AddTyped<at::_ops::_native_batch_norm_legit_no_stats_out>(ops);
  AddTyped<at::_ops::_native_batch_norm_legit_out>(ops);
  AddTyped<at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward>(ops);
  AddTyped<at::_ops::_segment_reduce_backward>(ops);
  AddTyped<at::_ops::_softmax_backward_data_out>(ops);
  AddTyped<at::_ops::_transform_bias_rescale_qkv>(ops);
  AddTyped<at::_ops::_upsample_lanczos2d_aa>(ops);
  AddTyped<at::_ops::_upsample_lanczos2d_aa_backward>(ops);
  AddTyped<at::_ops::_upsample_lanczos2d_aa_backward_grad_input>(ops);
  AddTyped<at::_ops::_upsample_lanczos2d_aa_out>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact1d>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact1d_backward>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact1d_backward_grad_input>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact1d_out>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact2d_backward_grad_input>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact3d>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact3d_backward>(ops);
  AddTyped<at::_ops::_upsample_nearest_exact3d_backward_grad_input>(ops);
  AddTyped<at::_ops::avg_pool2d_backward_grad_input>(ops);
  AddTyped<at::_ops::avg_pool3d_backward_grad_input>(ops);
  AddTyped<at::_ops::batch_norm_backward>(ops);
  AddTyped<at::_ops::batch_norm_update_stats>(ops);
  AddTyped<at::_ops::channel_shuffle>(ops);
  AddTyped<at::_ops::fractional_max_pool2d_backward>(ops);
  AddTyped<at::_ops::fractional_max_pool2d_backward_grad_input>(ops);
  AddTyped<at::_ops::fractional_max_pool3d_backward>(ops);
  AddTyped<at::_ops::fractional_max_pool3d_backward_grad_input>(ops);
  AddTyped<at::_ops::glu_backward>(ops);
  AddTyped<at::_ops::grid_sampler_2d>(ops);
  AddTyped<at::_ops::grid_sampler_3d>(ops);
  AddTyped<at::_ops::hardtanh_backward_grad_input>(ops);
  AddTyped<at::_ops::huber_loss_backward_out>(ops);
  AddTyped<at::_ops::huber_loss_out>(ops);
  AddTyped<at::_ops::max_pool2d_with_indices_backward_grad_input>(ops);
  AddTyped<at::_ops::max_pool3d_with_indices>(ops);
  AddTyped<at::_ops::max_pool3d_with_indices_backward_grad_input>(ops);
  AddTyped<at::_ops::multilabel_margin_loss_forward_output>(ops);
  AddTyped<at::_ops::native_batch_norm_out>(ops);
  AddTyped<at::_ops::native_channel_shuffle>(ops);
  AddTyped<at::_ops::nll_loss2d_backward_grad_input>(ops);
  AddTyped<at::_ops::nll_loss_backward_grad_input>(ops);
  AddTyped<at::_ops::segment_reduce>(ops);
  AddTyped<at::_ops::smooth_l1_loss_backward_grad_input>(ops);
  AddTyped<at::_ops::smooth_l1_loss_out>(ops);
  AddTyped<at::_ops::softplus_backward_grad_input>(ops);
  AddTyped<at::_ops::upsample_nearest1d>(ops);
  AddTyped<at::_ops::upsample_nearest1d_backward>(ops);
  AddTyped<at::_ops::upsample_nearest1d_backward_grad_input>(ops);
  AddTyped<at::_ops::upsample_nearest1d_out>(ops);
  AddTyped<at::_ops::upsample_nearest2d_backward_grad_input>(ops);
  AddTyped<at::_ops::upsample_nearest3d>(ops);
  AddTyped<at::_ops::upsample_nearest3d_backward>(ops);
  AddTyped<at::_ops::upsample_nearest3d_backward_grad_input>(ops);
}

}  // namespace tjit::runtime
