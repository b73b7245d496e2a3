// Typed wrappers: pointwise ops, part 7 of 7.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddPointwise7Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::__ilshift___Scalar>(ops);
  AddTyped<at::_ops::__ilshift___Tensor>(ops);
  AddTyped<at::_ops::__irshift___Scalar>(ops);
  AddTyped<at::_ops::__irshift___Tensor>(ops);
  AddTyped<at::_ops::__lshift___Scalar>(ops);
  AddTyped<at::_ops::__rshift___Scalar>(ops);
  AddTyped<at::_ops::acosh_>(ops);
  AddTyped<at::_ops::addcdiv_out>(ops);
  AddTyped<at::_ops::addcmul_out>(ops);
  AddTyped<at::_ops::asinh_>(ops);
  AddTyped<at::_ops::atanh_>(ops);
  AddTyped<at::_ops::bitwise_left_shift__Tensor>(ops);
  AddTyped<at::_ops::bitwise_right_shift__Tensor>(ops);
  AddTyped<at::_ops::clamp_Tensor_out>(ops);
  AddTyped<at::_ops::clamp_max_out>(ops);
  AddTyped<at::_ops::clamp_min_out>(ops);
  AddTyped<at::_ops::clamp_out>(ops);
  AddTyped<at::_ops::copysign__Tensor>(ops);
  AddTyped<at::_ops::digamma_>(ops);
  AddTyped<at::_ops::erfinv_>(ops);
  AddTyped<at::_ops::floor_divide__Tensor>(ops);
  AddTyped<at::_ops::frexp_Tensor_out>(ops);
  AddTyped<at::_ops::gcd_>(ops);
  AddTyped<at::_ops::ge_Scalar_out>(ops);
  AddTyped<at::_ops::gt_Scalar_out>(ops);
  AddTyped<at::_ops::heaviside_>(ops);
  AddTyped<at::_ops::i0_>(ops);
  AddTyped<at::_ops::igamma_>(ops);
  AddTyped<at::_ops::igammac_>(ops);
  AddTyped<at::_ops::lcm_>(ops);
  AddTyped<at::_ops::le_Scalar_out>(ops);
  AddTyped<at::_ops::lerp_Scalar_out>(ops);
  AddTyped<at::_ops::lerp_Tensor_out>(ops);
  AddTyped<at::_ops::lgamma_>(ops);
  AddTyped<at::_ops::logit>(ops);
  AddTyped<at::_ops::logit_>(ops);
  AddTyped<at::_ops::logit_backward>(ops);
  AddTyped<at::_ops::logit_backward_grad_input>(ops);
  AddTyped<at::_ops::logit_out>(ops);
  AddTyped<at::_ops::lt_Scalar_out>(ops);
  AddTyped<at::_ops::nan_to_num_out>(ops);
  AddTyped<at::_ops::ne_Scalar_out>(ops);
  AddTyped<at::_ops::nextafter>(ops);
  AddTyped<at::_ops::nextafter_>(ops);
  AddTyped<at::_ops::round_decimals_out>(ops);
  AddTyped<at::_ops::rsub_Scalar>(ops);
  AddTyped<at::_ops::rsub_Tensor>(ops);
  AddTyped<at::_ops::sgn_>(ops);
  AddTyped<at::_ops::sinc_>(ops);
}

}  // namespace tjit::runtime
