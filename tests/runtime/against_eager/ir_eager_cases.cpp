#include "tests/runtime/against_eager/ir_eager_cases.h"

namespace tjit::ir {
namespace {

using at::Scalar;
using at::Tensor;

#define TJIT_EAGER(...)                             \
  [](const Tensors& x, const Scalar& s) -> Tensor { \
    (void)s;                                        \
    return __VA_ARGS__;                             \
  }

}  // namespace

const std::vector<Case>& BitExactCases() {
  static const auto* const cases = new std::vector<Case>{
      {"add", "%0, %1, S", TJIT_EAGER(at::add(x[0], x[1], s))},
      {"sub", "%0, %1, S", TJIT_EAGER(at::sub(x[0], x[1], s))},
      {"mul", "%0, %1", TJIT_EAGER(at::mul(x[0], x[1]))},
      {"mul", "%0, S", TJIT_EAGER(at::mul(x[0], s))},
      {"div", "%0, %1", TJIT_EAGER(at::div(x[0], x[1]))},
      {"neg", "%0", TJIT_EAGER(at::neg(x[0]))},
      {"abs", "%0", TJIT_EAGER(at::abs(x[0]))},
      {"sign", "%0", TJIT_EAGER(at::sign(x[0]))},
      {"reciprocal", "%0", TJIT_EAGER(at::reciprocal(x[0]))},
      {"square", "%0", TJIT_EAGER(at::square(x[0]))},
      {"floor", "%0", TJIT_EAGER(at::floor(x[0]))},
      {"ceil", "%0", TJIT_EAGER(at::ceil(x[0]))},
      {"trunc", "%0", TJIT_EAGER(at::trunc(x[0]))},
      {"round", "%0", TJIT_EAGER(at::round(x[0]))},
      {"addcmul", "%0, %1, %2, S",
       TJIT_EAGER(at::addcmul(x[0], x[1], x[2], s))},
      {"addcdiv", "%0, %1, %2, S",
       TJIT_EAGER(at::addcdiv(x[0], x[1], x[2], s))},
      {"lerp", "%0, %1, S", TJIT_EAGER(at::lerp(x[0], x[1], s))},
      {"lerp", "%0, %1, %2", TJIT_EAGER(at::lerp(x[0], x[1], x[2]))},
      {"maximum", "%0, %1", TJIT_EAGER(at::maximum(x[0], x[1]))},
      {"minimum", "%0, %1", TJIT_EAGER(at::minimum(x[0], x[1]))},
      {"clamp", "%0, %1, %2", TJIT_EAGER(at::clamp(x[0], x[1], x[2]))},
      {"where", "%3, %0, %1", TJIT_EAGER(at::where(x[3], x[0], x[1]))},
      {"relu", "%0", TJIT_EAGER(at::relu(x[0]))},
      {"leaky_relu", "%0, S", TJIT_EAGER(at::leaky_relu(x[0], s))},
      {"threshold", "%0, %0, S, 7", TJIT_EAGER(at::threshold(x[0], s, 7))},
      {"eq", "%0, %1", TJIT_EAGER(at::eq(x[0], x[1]))},
      {"ne", "%0, %1", TJIT_EAGER(at::ne(x[0], x[1]))},
      {"lt", "%0, %1", TJIT_EAGER(at::lt(x[0], x[1]))},
      {"le", "%0, S", TJIT_EAGER(at::le(x[0], s))},
      {"gt", "%0, %1", TJIT_EAGER(at::gt(x[0], x[1]))},
      {"ge", "%0, S", TJIT_EAGER(at::ge(x[0], s))},
      {"isnan", "%0", TJIT_EAGER(at::isnan(x[0]))},
      {"logical_not", "%0", TJIT_EAGER(at::logical_not(x[0]))},
      {"logical_and", "%0, %1", TJIT_EAGER(at::logical_and(x[0], x[1]))},
      {"logical_or", "%0, %1", TJIT_EAGER(at::logical_or(x[0], x[1]))},
      {"logical_xor", "%0, %1", TJIT_EAGER(at::logical_xor(x[0], x[1]))},
      {"bit_and", "%0, %1", TJIT_EAGER(at::bitwise_and(x[0], x[1]))},
      {"bit_or", "%0, %1", TJIT_EAGER(at::bitwise_or(x[0], x[1]))},
      {"bit_xor", "%0, %1", TJIT_EAGER(at::bitwise_xor(x[0], x[1]))},
      {"sigmoid_backward", "%0, %1",
       TJIT_EAGER(at::sigmoid_backward(x[0], x[1]))},
      {"tanh_backward", "%0, %1", TJIT_EAGER(at::tanh_backward(x[0], x[1]))},
  };
  return *cases;
}

const std::vector<Case>& FunctionCases() {
  static const auto* const cases = new std::vector<Case>{
      {"fmod", "%0, %1", TJIT_EAGER(at::fmod(x[0], x[1]))},
      {"remainder", "%0, %1", TJIT_EAGER(at::remainder(x[0], x[1]))},
      {"sqrt", "%0", TJIT_EAGER(at::sqrt(x[0]))},
      {"rsqrt", "%0", TJIT_EAGER(at::rsqrt(x[0]))},
      {"exp", "%0", TJIT_EAGER(at::exp(x[0]))},
      {"exp2", "%0", TJIT_EAGER(at::exp2(x[0]))},
      {"expm1", "%0", TJIT_EAGER(at::expm1(x[0]))},
      {"log", "%0", TJIT_EAGER(at::log(x[0]))},
      {"log2", "%0", TJIT_EAGER(at::log2(x[0]))},
      {"log10", "%0", TJIT_EAGER(at::log10(x[0]))},
      {"log1p", "%0", TJIT_EAGER(at::log1p(x[0]))},
      {"exp_in_vectors", "%0",
       TJIT_EAGER(at::where(x[0].gt(0), at::exp(x[0]),
                            std::get<1>(at::log_sigmoid_forward(x[0]))))},
      {"sin", "%0", TJIT_EAGER(at::sin(x[0]))},
      {"cos", "%0", TJIT_EAGER(at::cos(x[0]))},
      {"tan", "%0", TJIT_EAGER(at::tan(x[0]))},
      {"asin", "%0", TJIT_EAGER(at::asin(x[0]))},
      {"acos", "%0", TJIT_EAGER(at::acos(x[0]))},
      {"atan", "%0", TJIT_EAGER(at::atan(x[0]))},
      {"atan2", "%0, %1", TJIT_EAGER(at::atan2(x[0], x[1]))},
      {"sinh", "%0", TJIT_EAGER(at::sinh(x[0]))},
      {"cosh", "%0", TJIT_EAGER(at::cosh(x[0]))},
      {"tanh", "%0", TJIT_EAGER(at::tanh(x[0]))},
      {"erf", "%0", TJIT_EAGER(at::erf(x[0]))},
      {"erfc", "%0", TJIT_EAGER(at::erfc(x[0]))},
      {"sigmoid", "%0", TJIT_EAGER(at::sigmoid(x[0]))},
      {"silu", "%0", TJIT_EAGER(at::silu(x[0]))},
      {"mish", "%0", TJIT_EAGER(at::mish(x[0]))},
      {"gelu", "%0", TJIT_EAGER(at::gelu(x[0]))},
      {"gelu_tanh", "%0", TJIT_EAGER(at::gelu(x[0], "tanh"))},
      {"softplus", "%0, S, 2", TJIT_EAGER(at::softplus(x[0], s, 2))},
      {"elu", "%0, S, 2, 0.5", TJIT_EAGER(at::elu(x[0], s, 2, 0.5))},
      {"pow", "%0, %1", TJIT_EAGER(at::pow(x[0], x[1]))},
      {"pow_scalar", "%0, S", TJIT_EAGER(at::pow(x[0], s))},
      {"softshrink", "%0, S", TJIT_EAGER(at::softshrink(x[0], s))},
      {"asinh", "%0", TJIT_EAGER(at::asinh(x[0]))},
      {"acosh", "%0", TJIT_EAGER(at::acosh(x[0]))},
      {"atanh", "%0", TJIT_EAGER(at::atanh(x[0]))},
      {"maximum_of_tensors", "%0, %1", TJIT_EAGER(at::maximum(x[0], x[1]))},
      {"minimum_of_tensors", "%0, %1", TJIT_EAGER(at::minimum(x[0], x[1]))},
      {"fmax", "%0, %1", TJIT_EAGER(at::fmax(x[0], x[1]))},
      {"fmin", "%0, %1", TJIT_EAGER(at::fmin(x[0], x[1]))},
      {"hypot", "%0, %1", TJIT_EAGER(at::hypot(x[0], x[1]))},
      {"nextafter", "%0, %1", TJIT_EAGER(at::nextafter(x[0], x[1]))},
      {"logaddexp", "%0, %1", TJIT_EAGER(at::logaddexp(x[0], x[1]))},
      {"logaddexp2", "%0, %1", TJIT_EAGER(at::logaddexp2(x[0], x[1]))},
      {"xlogy", "%0, %1", TJIT_EAGER(at::xlogy(x[0], x[1]))},
      {"elu_backward", "%0, %1, S, 2, 0.5",
       TJIT_EAGER(at::elu_backward(x[0], s, 2, 0.5, false, x[1]))},
      {"elu_result_backward", "%0, %1, S, 2, 0.5",
       TJIT_EAGER(at::elu_backward(x[0], s, 2, 0.5, true, x[1]))},
      {"hardtanh_backward", "%0, %1, S, 2",
       TJIT_EAGER(at::hardtanh_backward(x[0], x[1], s, 2))},
      {"hardswish_backward", "%0, %1",
       TJIT_EAGER(at::hardswish_backward(x[0], x[1]))},
      {"shrink_backward", "%0, %1, S",
       TJIT_EAGER(at::softshrink_backward(x[0], x[1], s))},
      // The interpreter has no place: it is within whole vectors.
      {"in_remainder", "%0", TJIT_EAGER(at::zeros_like(x[0]))},
      {"smooth_l1_backward", "%0, %1, 1, S",
       TJIT_EAGER(at::smooth_l1_loss_backward(x[1], x[0], at::zeros_like(x[0]),
                                              at::Reduction::Sum,
                                              s.toDouble()))},
      {"huber_backward", "%0, %1, 1, S",
       TJIT_EAGER(at::huber_loss_backward(x[1], x[0], at::zeros_like(x[0]),
                                          at::Reduction::Sum, s.toDouble()))},
      {"silu_backward", "%0, %1", TJIT_EAGER(at::silu_backward(x[0], x[1]))},
      {"mish_backward", "%0, %1", TJIT_EAGER(at::mish_backward(x[0], x[1]))},
      {"gelu_backward", "%0, %1", TJIT_EAGER(at::gelu_backward(x[0], x[1]))},
      {"gelu_tanh_backward", "%0, %1",
       TJIT_EAGER(at::gelu_backward(x[0], x[1], "tanh"))},
      {"softplus_backward", "%0, %1, S, 2",
       TJIT_EAGER(at::softplus_backward(x[0], x[1], s, 2))},
  };
  return *cases;
}

}  // namespace tjit::ir
