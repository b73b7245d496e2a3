// Typed wrappers: linear ops, part 1 of 6.
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

#include <ATen/ops/_cdist_forward_ops.h>
#include <ATen/ops/_index_put_impl_ops.h>
#include <ATen/ops/_local_scalar_dense_ops.h>
#include <ATen/ops/addbmm_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/addmv_ops.h>
#include <ATen/ops/addr_ops.h>
#include <ATen/ops/all_ops.h>
#include <ATen/ops/amax_ops.h>
#include <ATen/ops/amin_ops.h>
#include <ATen/ops/any_ops.h>
#include <ATen/ops/arange_ops.h>
#include <ATen/ops/argmax_ops.h>
#include <ATen/ops/argmin_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bernoulli_ops.h>
#include <ATen/ops/bincount_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/cumprod_ops.h>
#include <ATen/ops/cumsum_ops.h>

namespace tjit::runtime {

void AddLinear1Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::_cdist_forward>(ops);
  AddTyped<at::_ops::_index_put_impl_>(ops);
  AddTyped<at::_ops::_local_scalar_dense>(ops);
  AddTyped<at::_ops::addbmm>(ops);
  AddTyped<at::_ops::addbmm_>(ops);
  AddTyped<at::_ops::addmm>(ops);
  AddTyped<at::_ops::addmm_out>(ops);
  AddTyped<at::_ops::addmm_>(ops);
  AddTyped<at::_ops::addmv>(ops);
  AddTyped<at::_ops::addmv_>(ops);
  AddTyped<at::_ops::addr>(ops);
  AddTyped<at::_ops::all>(ops);
  AddTyped<at::_ops::all_dim>(ops);
  AddTyped<at::_ops::all_dims>(ops);
  AddTyped<at::_ops::amax>(ops);
  AddTyped<at::_ops::amin>(ops);
  AddTyped<at::_ops::any>(ops);
  AddTyped<at::_ops::any_dim>(ops);
  AddTyped<at::_ops::any_dims>(ops);
  AddTyped<at::_ops::arange_start_out>(ops);
  AddTyped<at::_ops::argmax>(ops);
  AddTyped<at::_ops::argmin>(ops);
  AddTyped<at::_ops::baddbmm>(ops);
  AddTyped<at::_ops::baddbmm_>(ops);
  AddTyped<at::_ops::bernoulli__Tensor>(ops);
  AddTyped<at::_ops::bernoulli__float>(ops);
  AddTyped<at::_ops::bincount>(ops);
  AddTyped<at::_ops::bmm>(ops);
  AddTyped<at::_ops::bmm_out>(ops);
  AddTyped<at::_ops::cat>(ops);
  AddTyped<at::_ops::cat_out>(ops);
  AddTyped<at::_ops::cumprod>(ops);
  AddTyped<at::_ops::cumprod_>(ops);
  AddTyped<at::_ops::cumsum>(ops);
}

}  // namespace tjit::runtime
