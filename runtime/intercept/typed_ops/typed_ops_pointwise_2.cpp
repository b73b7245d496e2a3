// Typed wrappers: pointwise ops, part 2 of 7.
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

#include <ATen/ops/cosh_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/erf_ops.h>
#include <ATen/ops/erfc_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/exp2_ops.h>
#include <ATen/ops/expm1_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/floor_ops.h>
#include <ATen/ops/fmod_ops.h>
#include <ATen/ops/frac_ops.h>
#include <ATen/ops/ge_ops.h>
#include <ATen/ops/gt_ops.h>
#include <ATen/ops/hypot_ops.h>

namespace tjit::runtime {

void AddPointwise2Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::cosh_>(ops);
  AddTyped<at::_ops::div_Scalar>(ops);
  AddTyped<at::_ops::div__Scalar>(ops);
  AddTyped<at::_ops::div_Tensor>(ops);
  AddTyped<at::_ops::div_Tensor_mode>(ops);
  AddTyped<at::_ops::div_out>(ops);
  AddTyped<at::_ops::div_out_mode>(ops);
  AddTyped<at::_ops::div__Tensor>(ops);
  AddTyped<at::_ops::div__Tensor_mode>(ops);
  AddTyped<at::_ops::eq_Scalar>(ops);
  AddTyped<at::_ops::eq_Scalar_out>(ops);
  AddTyped<at::_ops::eq_Tensor>(ops);
  AddTyped<at::_ops::eq_Tensor_out>(ops);
  AddTyped<at::_ops::eq__Scalar>(ops);
  AddTyped<at::_ops::eq__Tensor>(ops);
  AddTyped<at::_ops::erf>(ops);
  AddTyped<at::_ops::erf_>(ops);
  AddTyped<at::_ops::erfc>(ops);
  AddTyped<at::_ops::erfc_>(ops);
  AddTyped<at::_ops::exp>(ops);
  AddTyped<at::_ops::exp_out>(ops);
  AddTyped<at::_ops::exp2>(ops);
  AddTyped<at::_ops::exp2_>(ops);
  AddTyped<at::_ops::exp_>(ops);
  AddTyped<at::_ops::expm1>(ops);
  AddTyped<at::_ops::expm1_>(ops);
  AddTyped<at::_ops::fill__Scalar>(ops);
  AddTyped<at::_ops::fill__Tensor>(ops);
  AddTyped<at::_ops::floor>(ops);
  AddTyped<at::_ops::floor_>(ops);
  AddTyped<at::_ops::fmod_Tensor>(ops);
  AddTyped<at::_ops::fmod__Tensor>(ops);
  AddTyped<at::_ops::frac>(ops);
  AddTyped<at::_ops::frac_>(ops);
  AddTyped<at::_ops::ge_Scalar>(ops);
  AddTyped<at::_ops::ge_Tensor>(ops);
  AddTyped<at::_ops::ge__Scalar>(ops);
  AddTyped<at::_ops::ge__Tensor>(ops);
  AddTyped<at::_ops::gt_Scalar>(ops);
  AddTyped<at::_ops::gt_Tensor>(ops);
  AddTyped<at::_ops::gt__Scalar>(ops);
  AddTyped<at::_ops::gt__Tensor>(ops);
  AddTyped<at::_ops::hypot>(ops);
  AddTyped<at::_ops::hypot_>(ops);
}

}  // namespace tjit::runtime
