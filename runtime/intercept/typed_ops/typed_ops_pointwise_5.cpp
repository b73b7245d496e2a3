// Typed wrappers: pointwise ops, part 5 of 7.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddPointwise5Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::acos_out>(ops);
  AddTyped<at::_ops::acosh_out>(ops);
  AddTyped<at::_ops::angle_out>(ops);
  AddTyped<at::_ops::asin_out>(ops);
  AddTyped<at::_ops::asinh_out>(ops);
  AddTyped<at::_ops::atan2_out>(ops);
  AddTyped<at::_ops::atan_out>(ops);
  AddTyped<at::_ops::atanh_out>(ops);
  AddTyped<at::_ops::bitwise_and_Tensor_out>(ops);
  AddTyped<at::_ops::bitwise_left_shift_Tensor_out>(ops);
  AddTyped<at::_ops::bitwise_not_out>(ops);
  AddTyped<at::_ops::bitwise_or_Tensor_out>(ops);
  AddTyped<at::_ops::bitwise_right_shift_Tensor_out>(ops);
  AddTyped<at::_ops::bitwise_xor_Tensor_out>(ops);
  AddTyped<at::_ops::ceil_out>(ops);
  AddTyped<at::_ops::clamp_max_Tensor_out>(ops);
  AddTyped<at::_ops::clamp_min_Tensor_out>(ops);
  AddTyped<at::_ops::complex_out>(ops);
  AddTyped<at::_ops::conj_physical_out>(ops);
  AddTyped<at::_ops::copysign_out>(ops);
  AddTyped<at::_ops::cos_out>(ops);
  AddTyped<at::_ops::cosh_out>(ops);
  AddTyped<at::_ops::erf_out>(ops);
  AddTyped<at::_ops::erfc_out>(ops);
  AddTyped<at::_ops::erfinv_out>(ops);
  AddTyped<at::_ops::exp2_out>(ops);
  AddTyped<at::_ops::expm1_out>(ops);
  AddTyped<at::_ops::floor_divide_out>(ops);
  AddTyped<at::_ops::floor_out>(ops);
  AddTyped<at::_ops::frac_out>(ops);
  AddTyped<at::_ops::i0_out>(ops);
  AddTyped<at::_ops::isneginf_out>(ops);
  AddTyped<at::_ops::isposinf_out>(ops);
  AddTyped<at::_ops::log10_out>(ops);
  AddTyped<at::_ops::log1p_out>(ops);
  AddTyped<at::_ops::log2_out>(ops);
  AddTyped<at::_ops::logical_not>(ops);
  AddTyped<at::_ops::logical_not_out>(ops);
  AddTyped<at::_ops::max_unary_out>(ops);
  AddTyped<at::_ops::min_unary_out>(ops);
  AddTyped<at::_ops::reciprocal_out>(ops);
  AddTyped<at::_ops::round_out>(ops);
  AddTyped<at::_ops::sgn_out>(ops);
  AddTyped<at::_ops::sign_out>(ops);
  AddTyped<at::_ops::signbit_out>(ops);
  AddTyped<at::_ops::sin_out>(ops);
  AddTyped<at::_ops::sinc_out>(ops);
  AddTyped<at::_ops::sinh_out>(ops);
  AddTyped<at::_ops::tan_out>(ops);
  AddTyped<at::_ops::trunc_out>(ops);
}

}  // namespace tjit::runtime
