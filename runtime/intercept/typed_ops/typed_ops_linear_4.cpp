// Typed wrappers: linear ops, part 4 of 6.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddLinear4Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::_aminmax>(ops);
  AddTyped<at::_ops::_aminmax_dim>(ops);
  AddTyped<at::_ops::_cholesky_solve_helper>(ops);
  AddTyped<at::_ops::_compute_linear_combination>(ops);
  AddTyped<at::_ops::_compute_linear_combination_out>(ops);
  AddTyped<at::_ops::_dirichlet_grad>(ops);
  AddTyped<at::_ops::_int_mm>(ops);
  AddTyped<at::_ops::_int_mm_out>(ops);
  AddTyped<at::_ops::_logcumsumexp>(ops);
  AddTyped<at::_ops::_logcumsumexp_out>(ops);
  AddTyped<at::_ops::_sample_dirichlet>(ops);
  AddTyped<at::_ops::_standard_gamma>(ops);
  AddTyped<at::_ops::_unique>(ops);
  AddTyped<at::_ops::addbmm_out>(ops);
  AddTyped<at::_ops::addmv_out>(ops);
  AddTyped<at::_ops::addr_out>(ops);
  AddTyped<at::_ops::all_all_out>(ops);
  AddTyped<at::_ops::all_dims_out>(ops);
  AddTyped<at::_ops::all_out>(ops);
  AddTyped<at::_ops::amax_out>(ops);
  AddTyped<at::_ops::amin_out>(ops);
  AddTyped<at::_ops::any_all_out>(ops);
  AddTyped<at::_ops::any_dims_out>(ops);
  AddTyped<at::_ops::any_out>(ops);
  AddTyped<at::_ops::argmax_out>(ops);
  AddTyped<at::_ops::argmin_out>(ops);
  AddTyped<at::_ops::baddbmm_out>(ops);
  AddTyped<at::_ops::cauchy_>(ops);
  AddTyped<at::_ops::cholesky_inverse_out>(ops);
  AddTyped<at::_ops::digamma>(ops);
  AddTyped<at::_ops::digamma_out>(ops);
  AddTyped<at::_ops::geqrf>(ops);
  AddTyped<at::_ops::geqrf_a>(ops);
  AddTyped<at::_ops::igamma>(ops);
  AddTyped<at::_ops::igamma_out>(ops);
  AddTyped<at::_ops::index_copy_out>(ops);
  AddTyped<at::_ops::index_reduce_>(ops);
  AddTyped<at::_ops::lgamma>(ops);
  AddTyped<at::_ops::lgamma_out>(ops);
  AddTyped<at::_ops::linalg_cholesky_ex>(ops);
  AddTyped<at::_ops::linalg_cross_out>(ops);
  AddTyped<at::_ops::linalg_eig>(ops);
  AddTyped<at::_ops::linalg_eig_out>(ops);
  AddTyped<at::_ops::linalg_eigvals_out>(ops);
  AddTyped<at::_ops::linalg_householder_product>(ops);
  AddTyped<at::_ops::linalg_householder_product_out>(ops);
  AddTyped<at::_ops::linalg_matrix_exp>(ops);
  AddTyped<at::_ops::log_normal_>(ops);
  AddTyped<at::_ops::masked_select_out>(ops);
  AddTyped<at::_ops::median>(ops);
  AddTyped<at::_ops::median_dim_values>(ops);
  AddTyped<at::_ops::mode>(ops);
  AddTyped<at::_ops::mvlgamma_out>(ops);
  AddTyped<at::_ops::nanmedian>(ops);
  AddTyped<at::_ops::nanmedian_dim_values>(ops);
  AddTyped<at::_ops::nonzero_out>(ops);
  AddTyped<at::_ops::poisson>(ops);
  AddTyped<at::_ops::rsqrt_out>(ops);
  AddTyped<at::_ops::scatter_add_out>(ops);
  AddTyped<at::_ops::scatter_reduce__two>(ops);
  AddTyped<at::_ops::scatter_src_out>(ops);
  AddTyped<at::_ops::set_>(ops);
  AddTyped<at::_ops::set__source_Tensor>(ops);
  AddTyped<at::_ops::std_correction_out>(ops);
  AddTyped<at::_ops::take_out>(ops);
  AddTyped<at::_ops::trace>(ops);
  AddTyped<at::_ops::var_correction_out>(ops);
  AddTyped<at::_ops::where_self_out>(ops);
}

}  // namespace tjit::runtime
