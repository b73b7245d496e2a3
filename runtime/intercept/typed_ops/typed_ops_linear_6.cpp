// Typed wrappers: linear ops, part 6 of 6.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddLinear6Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::_addmm_activation>(ops);
  AddTyped<at::_ops::_addmm_activation_out>(ops);
  AddTyped<at::_ops::_cdist_backward>(ops);
  AddTyped<at::_ops::_fft_c2c>(ops);
  AddTyped<at::_ops::_fft_c2c_out>(ops);
  AddTyped<at::_ops::_fft_c2r>(ops);
  AddTyped<at::_ops::_fft_c2r_out>(ops);
  AddTyped<at::_ops::_fft_r2c>(ops);
  AddTyped<at::_ops::_fft_r2c_out>(ops);
  AddTyped<at::_ops::_pdist_backward>(ops);
  AddTyped<at::_ops::_pdist_forward>(ops);
  AddTyped<at::_ops::_stack>(ops);
  AddTyped<at::_ops::bernoulli_out>(ops);
  AddTyped<at::_ops::binomial>(ops);
  AddTyped<at::_ops::count_nonzero_dim_IntList>(ops);
  AddTyped<at::_ops::empty_memory_format>(ops);
  AddTyped<at::_ops::empty_strided>(ops);
  AddTyped<at::_ops::eye_m_out>(ops);
  AddTyped<at::_ops::eye_out>(ops);
  AddTyped<at::_ops::gather_out>(ops);
  AddTyped<at::_ops::histc_out>(ops);
  AddTyped<at::_ops::index_Tensor_out>(ops);
  AddTyped<at::_ops::index_add_out>(ops);
  AddTyped<at::_ops::index_copy>(ops);
  AddTyped<at::_ops::index_select_out>(ops);
  AddTyped<at::_ops::is_set_to>(ops);
  AddTyped<at::_ops::isin_Scalar_Tensor_out>(ops);
  AddTyped<at::_ops::isin_Tensor_Scalar>(ops);
  AddTyped<at::_ops::isin_Tensor_Scalar_out>(ops);
  AddTyped<at::_ops::linalg__powsum>(ops);
  AddTyped<at::_ops::linalg_ldl_factor_ex>(ops);
  AddTyped<at::_ops::linalg_ldl_factor_ex_out>(ops);
  AddTyped<at::_ops::linalg_ldl_solve>(ops);
  AddTyped<at::_ops::linalg_ldl_solve_out>(ops);
  AddTyped<at::_ops::linalg_solve_triangular>(ops);
  AddTyped<at::_ops::linalg_solve_triangular_out>(ops);
  AddTyped<at::_ops::linalg_vector_norm_out>(ops);
  AddTyped<at::_ops::linspace_out>(ops);
  AddTyped<at::_ops::logspace_out>(ops);
  AddTyped<at::_ops::multinomial_out>(ops);
  AddTyped<at::_ops::nansum>(ops);
  AddTyped<at::_ops::nansum_out>(ops);
  AddTyped<at::_ops::narrow_copy>(ops);
  AddTyped<at::_ops::narrow_copy_out>(ops);
  AddTyped<at::_ops::nonzero_static>(ops);
  AddTyped<at::_ops::nonzero_static_out>(ops);
  AddTyped<at::_ops::norm_dtype_out>(ops);
  AddTyped<at::_ops::norm_out>(ops);
  AddTyped<at::_ops::normal_Tensor_Tensor_out>(ops);
  AddTyped<at::_ops::normal_Tensor_float_out>(ops);
  AddTyped<at::_ops::normal_float_Tensor_out>(ops);
  AddTyped<at::_ops::polygamma>(ops);
  AddTyped<at::_ops::polygamma_out>(ops);
  AddTyped<at::_ops::prod_int_out>(ops);
  AddTyped<at::_ops::range_out>(ops);
  AddTyped<at::_ops::renorm>(ops);
  AddTyped<at::_ops::renorm_out>(ops);
  AddTyped<at::_ops::repeat_interleave_Tensor>(ops);
  AddTyped<at::_ops::resize_>(ops);
  AddTyped<at::_ops::scatter_reduce_out>(ops);
  AddTyped<at::_ops::scatter_value_out>(ops);
  AddTyped<at::_ops::scatter_value_reduce_out>(ops);
  AddTyped<at::_ops::searchsorted_Scalar>(ops);
  AddTyped<at::_ops::searchsorted_Scalar_out>(ops);
  AddTyped<at::_ops::searchsorted_Tensor>(ops);
  AddTyped<at::_ops::searchsorted_Tensor_out>(ops);
  AddTyped<at::_ops::unfold_backward>(ops);
}

}  // namespace tjit::runtime
