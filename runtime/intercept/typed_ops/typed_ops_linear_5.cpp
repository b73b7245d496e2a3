// Typed wrappers: linear ops, part 5 of 6.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddLinear5Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::_cummax_helper>(ops);
  AddTyped<at::_ops::_cummin_helper>(ops);
  AddTyped<at::_ops::_linalg_det>(ops);
  AddTyped<at::_ops::_linalg_det_result>(ops);
  AddTyped<at::_ops::_linalg_eigh>(ops);
  AddTyped<at::_ops::_linalg_eigh_eigenvalues>(ops);
  AddTyped<at::_ops::_linalg_eigvals>(ops);
  AddTyped<at::_ops::_linalg_slogdet>(ops);
  AddTyped<at::_ops::_linalg_slogdet_sign>(ops);
  AddTyped<at::_ops::_linalg_solve_ex>(ops);
  AddTyped<at::_ops::_linalg_solve_ex_result>(ops);
  AddTyped<at::_ops::_linalg_svd>(ops);
  AddTyped<at::_ops::_linalg_svd_U>(ops);
  AddTyped<at::_ops::_stack_out>(ops);
  AddTyped<at::_ops::_unique2>(ops);
  AddTyped<at::_ops::_weight_int8pack_mm>(ops);
  AddTyped<at::_ops::aminmax>(ops);
  AddTyped<at::_ops::aminmax_out>(ops);
  AddTyped<at::_ops::bucketize_Scalar>(ops);
  AddTyped<at::_ops::bucketize_Tensor>(ops);
  AddTyped<at::_ops::bucketize_Tensor_out>(ops);
  AddTyped<at::_ops::cholesky_inverse>(ops);
  AddTyped<at::_ops::cumprod_out>(ops);
  AddTyped<at::_ops::cumsum_out>(ops);
  AddTyped<at::_ops::dequantize_self>(ops);
  AddTyped<at::_ops::geometric_>(ops);
  AddTyped<at::_ops::hash_tensor>(ops);
  AddTyped<at::_ops::hash_tensor_out>(ops);
  AddTyped<at::_ops::histogram_bin_ct>(ops);
  AddTyped<at::_ops::histogram_bin_ct_out>(ops);
  AddTyped<at::_ops::histogram_bins_tensor>(ops);
  AddTyped<at::_ops::histogram_bins_tensor_out>(ops);
  AddTyped<at::_ops::index_copy_>(ops);
  AddTyped<at::_ops::index_reduce>(ops);
  AddTyped<at::_ops::index_reduce_out>(ops);
  AddTyped<at::_ops::isin_Scalar_Tensor>(ops);
  AddTyped<at::_ops::isin_Tensor_Tensor>(ops);
  AddTyped<at::_ops::isin_Tensor_Tensor_out>(ops);
  AddTyped<at::_ops::kthvalue_values>(ops);
  AddTyped<at::_ops::linalg_cholesky_ex_L>(ops);
  AddTyped<at::_ops::linalg_cross>(ops);
  AddTyped<at::_ops::linalg_inv_ex>(ops);
  AddTyped<at::_ops::linalg_inv_ex_inverse>(ops);
  AddTyped<at::_ops::linalg_lu>(ops);
  AddTyped<at::_ops::linalg_lu_factor_ex>(ops);
  AddTyped<at::_ops::linalg_lu_factor_ex_out>(ops);
  AddTyped<at::_ops::linalg_lu_out>(ops);
  AddTyped<at::_ops::linalg_lu_solve>(ops);
  AddTyped<at::_ops::linalg_lu_solve_out>(ops);
  AddTyped<at::_ops::linalg_qr>(ops);
  AddTyped<at::_ops::linalg_qr_out>(ops);
  AddTyped<at::_ops::lu_unpack>(ops);
  AddTyped<at::_ops::lu_unpack_out>(ops);
  AddTyped<at::_ops::masked_scatter_>(ops);
  AddTyped<at::_ops::ormqr>(ops);
  AddTyped<at::_ops::ormqr_out>(ops);
  AddTyped<at::_ops::randperm_generator_out>(ops);
  AddTyped<at::_ops::renorm_>(ops);
  AddTyped<at::_ops::scatter_reduce_two>(ops);
  AddTyped<at::_ops::scatter_reduce_two_out>(ops);
  AddTyped<at::_ops::std_mean_correction>(ops);
  AddTyped<at::_ops::tril_indices>(ops);
  AddTyped<at::_ops::tril_out>(ops);
  AddTyped<at::_ops::triu_indices>(ops);
  AddTyped<at::_ops::triu_out>(ops);
  AddTyped<at::_ops::unique_consecutive>(ops);
  AddTyped<at::_ops::unique_dim>(ops);
  AddTyped<at::_ops::unique_dim_consecutive>(ops);
}

}  // namespace tjit::runtime
