// Typed wrappers: linear ops, part 2 of 6.
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

#include <ATen/ops/cumsum_ops.h>
#include <ATen/ops/dot_ops.h>
#include <ATen/ops/equal_ops.h>
#include <ATen/ops/exponential_ops.h>
#include <ATen/ops/flip_ops.h>
#include <ATen/ops/gather_ops.h>
#include <ATen/ops/histc_ops.h>
#include <ATen/ops/index_ops.h>
#include <ATen/ops/index_add_ops.h>
#include <ATen/ops/index_fill_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/linalg_vector_norm_ops.h>
#include <ATen/ops/masked_select_ops.h>
#include <ATen/ops/max_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/min_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/multinomial_ops.h>
#include <ATen/ops/nonzero_ops.h>
#include <ATen/ops/norm_ops.h>
#include <ATen/ops/normal_ops.h>
#include <ATen/ops/prod_ops.h>

namespace tjit::runtime {

void AddLinear2Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::cumsum_>(ops);
  AddTyped<at::_ops::dot>(ops);
  AddTyped<at::_ops::equal>(ops);
  AddTyped<at::_ops::exponential_>(ops);
  AddTyped<at::_ops::flip>(ops);
  AddTyped<at::_ops::gather>(ops);
  AddTyped<at::_ops::histc>(ops);
  AddTyped<at::_ops::index_Tensor>(ops);
  AddTyped<at::_ops::index_add>(ops);
  AddTyped<at::_ops::index_add_>(ops);
  AddTyped<at::_ops::index_fill__int_Scalar>(ops);
  AddTyped<at::_ops::index_fill__int_Tensor>(ops);
  AddTyped<at::_ops::index_select>(ops);
  AddTyped<at::_ops::linalg_vector_norm>(ops);
  AddTyped<at::_ops::masked_select>(ops);
  AddTyped<at::_ops::max>(ops);
  AddTyped<at::_ops::max_dim>(ops);
  AddTyped<at::_ops::max_dim_max>(ops);
  AddTyped<at::_ops::mean_dim>(ops);
  AddTyped<at::_ops::mean_out>(ops);
  AddTyped<at::_ops::min>(ops);
  AddTyped<at::_ops::min_dim>(ops);
  AddTyped<at::_ops::min_dim_min>(ops);
  AddTyped<at::_ops::mm>(ops);
  AddTyped<at::_ops::mm_out>(ops);
  AddTyped<at::_ops::multinomial>(ops);
  AddTyped<at::_ops::nonzero>(ops);
  AddTyped<at::_ops::norm_ScalarOpt_dim>(ops);
  AddTyped<at::_ops::norm_ScalarOpt_dim_dtype>(ops);
  AddTyped<at::_ops::normal_Tensor_Tensor>(ops);
  AddTyped<at::_ops::normal_Tensor_float>(ops);
  AddTyped<at::_ops::normal_float_Tensor>(ops);
  AddTyped<at::_ops::normal_>(ops);
  AddTyped<at::_ops::prod>(ops);
}

}  // namespace tjit::runtime
