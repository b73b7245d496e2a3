// Typed wrappers: pointwise ops, part 4 of 7.
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

#include <ATen/ops/pow_ops.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/remainder_ops.h>
#include <ATen/ops/repeat_ops.h>
#include <ATen/ops/round_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/sign_ops.h>
#include <ATen/ops/signbit_ops.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/sinh_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/tan_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/trunc_ops.h>
#include <ATen/ops/where_ops.h>
#include <ATen/ops/xlogy_ops.h>
#include <ATen/ops/zero_ops.h>

namespace tjit::runtime {

void AddPointwise4Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::pow__Scalar>(ops);
  AddTyped<at::_ops::pow__Tensor>(ops);
  AddTyped<at::_ops::reciprocal>(ops);
  AddTyped<at::_ops::reciprocal_>(ops);
  AddTyped<at::_ops::remainder_Scalar_Tensor>(ops);
  AddTyped<at::_ops::remainder_Tensor>(ops);
  AddTyped<at::_ops::remainder__Tensor>(ops);
  AddTyped<at::_ops::repeat>(ops);
  AddTyped<at::_ops::round>(ops);
  AddTyped<at::_ops::round_decimals>(ops);
  AddTyped<at::_ops::round_>(ops);
  AddTyped<at::_ops::round__decimals>(ops);
  AddTyped<at::_ops::rsqrt>(ops);
  AddTyped<at::_ops::rsqrt_>(ops);
  AddTyped<at::_ops::sigmoid>(ops);
  AddTyped<at::_ops::sigmoid_out>(ops);
  AddTyped<at::_ops::sigmoid_>(ops);
  AddTyped<at::_ops::sign>(ops);
  AddTyped<at::_ops::sign_>(ops);
  AddTyped<at::_ops::signbit>(ops);
  AddTyped<at::_ops::sin>(ops);
  AddTyped<at::_ops::sin_>(ops);
  AddTyped<at::_ops::sinh>(ops);
  AddTyped<at::_ops::sinh_>(ops);
  AddTyped<at::_ops::sqrt>(ops);
  AddTyped<at::_ops::sqrt_out>(ops);
  AddTyped<at::_ops::sqrt_>(ops);
  AddTyped<at::_ops::sub_Scalar>(ops);
  AddTyped<at::_ops::sub__Scalar>(ops);
  AddTyped<at::_ops::sub_Tensor>(ops);
  AddTyped<at::_ops::sub_out>(ops);
  AddTyped<at::_ops::sub__Tensor>(ops);
  AddTyped<at::_ops::tan>(ops);
  AddTyped<at::_ops::tan_>(ops);
  AddTyped<at::_ops::tanh>(ops);
  AddTyped<at::_ops::tanh_out>(ops);
  AddTyped<at::_ops::tanh_>(ops);
  AddTyped<at::_ops::trunc>(ops);
  AddTyped<at::_ops::trunc_>(ops);
  AddTyped<at::_ops::where_self>(ops);
  AddTyped<at::_ops::xlogy_OutTensor>(ops);
  AddTyped<at::_ops::xlogy_Tensor>(ops);
  AddTyped<at::_ops::xlogy__Tensor>(ops);
  AddTyped<at::_ops::zero_>(ops);
}

}  // namespace tjit::runtime
