// Typed wrappers: pointwise ops, part 6 of 7.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddPointwise6Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::__lshift___Tensor>(ops);
  AddTyped<at::_ops::__rshift___Tensor>(ops);
  AddTyped<at::_ops::_standard_gamma_grad>(ops);
  AddTyped<at::_ops::acosh>(ops);
  AddTyped<at::_ops::angle>(ops);
  AddTyped<at::_ops::asinh>(ops);
  AddTyped<at::_ops::atanh>(ops);
  AddTyped<at::_ops::bitwise_left_shift_Tensor>(ops);
  AddTyped<at::_ops::bitwise_right_shift_Tensor>(ops);
  AddTyped<at::_ops::copysign_Tensor>(ops);
  AddTyped<at::_ops::erfinv>(ops);
  AddTyped<at::_ops::floor_divide>(ops);
  AddTyped<at::_ops::fmax>(ops);
  AddTyped<at::_ops::fmax_out>(ops);
  AddTyped<at::_ops::fmin>(ops);
  AddTyped<at::_ops::fmin_out>(ops);
  AddTyped<at::_ops::fmod_Tensor_out>(ops);
  AddTyped<at::_ops::gcd>(ops);
  AddTyped<at::_ops::gcd_out>(ops);
  AddTyped<at::_ops::ge_Tensor_out>(ops);
  AddTyped<at::_ops::gt_Tensor_out>(ops);
  AddTyped<at::_ops::heaviside>(ops);
  AddTyped<at::_ops::heaviside_out>(ops);
  AddTyped<at::_ops::hypot_out>(ops);
  AddTyped<at::_ops::i0>(ops);
  AddTyped<at::_ops::igammac>(ops);
  AddTyped<at::_ops::igammac_out>(ops);
  AddTyped<at::_ops::isneginf>(ops);
  AddTyped<at::_ops::isposinf>(ops);
  AddTyped<at::_ops::lcm>(ops);
  AddTyped<at::_ops::lcm_out>(ops);
  AddTyped<at::_ops::le_Tensor_out>(ops);
  AddTyped<at::_ops::logaddexp>(ops);
  AddTyped<at::_ops::logaddexp2>(ops);
  AddTyped<at::_ops::logaddexp2_out>(ops);
  AddTyped<at::_ops::logaddexp_out>(ops);
  AddTyped<at::_ops::logical_and>(ops);
  AddTyped<at::_ops::logical_and_out>(ops);
  AddTyped<at::_ops::logical_or>(ops);
  AddTyped<at::_ops::logical_or_out>(ops);
  AddTyped<at::_ops::logical_xor>(ops);
  AddTyped<at::_ops::logical_xor_out>(ops);
  AddTyped<at::_ops::lt_Tensor_out>(ops);
  AddTyped<at::_ops::maximum_out>(ops);
  AddTyped<at::_ops::minimum_out>(ops);
  AddTyped<at::_ops::ne_Tensor_out>(ops);
  AddTyped<at::_ops::nextafter_out>(ops);
  AddTyped<at::_ops::polar_out>(ops);
  AddTyped<at::_ops::remainder_Tensor_out>(ops);
  AddTyped<at::_ops::sgn>(ops);
  AddTyped<at::_ops::sinc>(ops);
  AddTyped<at::_ops::tanh_backward_grad_input>(ops);
}

}  // namespace tjit::runtime
