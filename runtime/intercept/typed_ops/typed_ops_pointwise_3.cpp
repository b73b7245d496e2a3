// Typed wrappers: pointwise ops, part 3 of 7.
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

#include <ATen/ops/isnan_ops.h>
#include <ATen/ops/le_ops.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/log10_ops.h>
#include <ATen/ops/log1p_ops.h>
#include <ATen/ops/log2_ops.h>
#include <ATen/ops/lt_ops.h>
#include <ATen/ops/masked_fill_ops.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/pow_ops.h>

namespace tjit::runtime {

void AddPointwise3Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::isnan>(ops);
  AddTyped<at::_ops::le_Scalar>(ops);
  AddTyped<at::_ops::le_Tensor>(ops);
  AddTyped<at::_ops::le__Scalar>(ops);
  AddTyped<at::_ops::le__Tensor>(ops);
  AddTyped<at::_ops::lerp_Scalar>(ops);
  AddTyped<at::_ops::lerp_Tensor>(ops);
  AddTyped<at::_ops::lerp__Scalar>(ops);
  AddTyped<at::_ops::lerp__Tensor>(ops);
  AddTyped<at::_ops::log>(ops);
  AddTyped<at::_ops::log_out>(ops);
  AddTyped<at::_ops::log10>(ops);
  AddTyped<at::_ops::log10_>(ops);
  AddTyped<at::_ops::log1p>(ops);
  AddTyped<at::_ops::log1p_>(ops);
  AddTyped<at::_ops::log2>(ops);
  AddTyped<at::_ops::log2_>(ops);
  AddTyped<at::_ops::log_>(ops);
  AddTyped<at::_ops::lt_Scalar>(ops);
  AddTyped<at::_ops::lt_Tensor>(ops);
  AddTyped<at::_ops::lt__Scalar>(ops);
  AddTyped<at::_ops::lt__Tensor>(ops);
  AddTyped<at::_ops::masked_fill__Scalar>(ops);
  AddTyped<at::_ops::masked_fill__Tensor>(ops);
  AddTyped<at::_ops::maximum>(ops);
  AddTyped<at::_ops::minimum>(ops);
  AddTyped<at::_ops::mul_Scalar>(ops);
  AddTyped<at::_ops::mul__Scalar>(ops);
  AddTyped<at::_ops::mul_Tensor>(ops);
  AddTyped<at::_ops::mul_out>(ops);
  AddTyped<at::_ops::mul__Tensor>(ops);
  AddTyped<at::_ops::ne_Scalar>(ops);
  AddTyped<at::_ops::ne_Tensor>(ops);
  AddTyped<at::_ops::ne__Scalar>(ops);
  AddTyped<at::_ops::ne__Tensor>(ops);
  AddTyped<at::_ops::neg>(ops);
  AddTyped<at::_ops::neg_out>(ops);
  AddTyped<at::_ops::neg_>(ops);
  AddTyped<at::_ops::pow_Scalar>(ops);
  AddTyped<at::_ops::pow_Scalar_out>(ops);
  AddTyped<at::_ops::pow_Tensor_Scalar>(ops);
  AddTyped<at::_ops::pow_Tensor_Scalar_out>(ops);
  AddTyped<at::_ops::pow_Tensor_Tensor>(ops);
  AddTyped<at::_ops::pow_Tensor_Tensor_out>(ops);
}

}  // namespace tjit::runtime
