// Typed wrappers: pointwise ops, part 1 of 7.
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

#include <ATen/ops/abs_ops.h>
#include <ATen/ops/acos_ops.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/asin_ops.h>
#include <ATen/ops/atan_ops.h>
#include <ATen/ops/atan2_ops.h>
#include <ATen/ops/bitwise_and_ops.h>
#include <ATen/ops/bitwise_not_ops.h>
#include <ATen/ops/bitwise_or_ops.h>
#include <ATen/ops/bitwise_xor_ops.h>
#include <ATen/ops/ceil_ops.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/clamp_max_ops.h>
#include <ATen/ops/clamp_min_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/cosh_ops.h>

namespace tjit::runtime {

void AddPointwise1Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::abs>(ops);
  AddTyped<at::_ops::abs_out>(ops);
  AddTyped<at::_ops::acos>(ops);
  AddTyped<at::_ops::acos_>(ops);
  AddTyped<at::_ops::add_Scalar>(ops);
  AddTyped<at::_ops::add__Scalar>(ops);
  AddTyped<at::_ops::add_Tensor>(ops);
  AddTyped<at::_ops::add_out>(ops);
  AddTyped<at::_ops::add__Tensor>(ops);
  AddTyped<at::_ops::addcdiv>(ops);
  AddTyped<at::_ops::addcdiv_>(ops);
  AddTyped<at::_ops::addcmul>(ops);
  AddTyped<at::_ops::addcmul_>(ops);
  AddTyped<at::_ops::asin>(ops);
  AddTyped<at::_ops::asin_>(ops);
  AddTyped<at::_ops::atan>(ops);
  AddTyped<at::_ops::atan2>(ops);
  AddTyped<at::_ops::atan2_>(ops);
  AddTyped<at::_ops::atan_>(ops);
  AddTyped<at::_ops::bitwise_and_Tensor>(ops);
  AddTyped<at::_ops::bitwise_and__Tensor>(ops);
  AddTyped<at::_ops::bitwise_not>(ops);
  AddTyped<at::_ops::bitwise_not_>(ops);
  AddTyped<at::_ops::bitwise_or_Tensor>(ops);
  AddTyped<at::_ops::bitwise_or__Tensor>(ops);
  AddTyped<at::_ops::bitwise_xor_Tensor>(ops);
  AddTyped<at::_ops::bitwise_xor__Tensor>(ops);
  AddTyped<at::_ops::ceil>(ops);
  AddTyped<at::_ops::ceil_>(ops);
  AddTyped<at::_ops::clamp>(ops);
  AddTyped<at::_ops::clamp_Tensor>(ops);
  AddTyped<at::_ops::clamp_>(ops);
  AddTyped<at::_ops::clamp__Tensor>(ops);
  AddTyped<at::_ops::clamp_max>(ops);
  AddTyped<at::_ops::clamp_max_Tensor>(ops);
  AddTyped<at::_ops::clamp_max_>(ops);
  AddTyped<at::_ops::clamp_max__Tensor>(ops);
  AddTyped<at::_ops::clamp_min>(ops);
  AddTyped<at::_ops::clamp_min_Tensor>(ops);
  AddTyped<at::_ops::clamp_min_>(ops);
  AddTyped<at::_ops::clamp_min__Tensor>(ops);
  AddTyped<at::_ops::copy_>(ops);
  AddTyped<at::_ops::cos>(ops);
  AddTyped<at::_ops::cos_>(ops);
  AddTyped<at::_ops::cosh>(ops);
}

}  // namespace tjit::runtime
