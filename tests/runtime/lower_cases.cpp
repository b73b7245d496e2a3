#include "tests/runtime/lower_cases.h"

namespace tjit::testing {

const std::vector<OpCase>& PointwiseCases() {
  static const auto* const cases = new std::vector<OpCase>{
      {"aten::add.Tensor", "TTS", true},
      {"aten::add.Tensor", "TT1", true},
      {"aten::add.Scalar", "TS1", true},
      {"aten::sub.Tensor", "TTS", true},
      {"aten::sub.Scalar", "TS1", true},
      {"aten::rsub.Tensor", "TTS", true},
      {"aten::rsub.Scalar", "TSS", true},
      {"aten::mul.Tensor", "TT", true},
      {"aten::mul.Scalar", "TS", true},
      {"aten::div.Tensor", "TT", true},
      {"aten::div.Scalar", "TS", true},
      {"aten::addcmul", "TTTS", false},
      {"aten::addcmul", "TTT1", false},
      {"aten::addcdiv", "TTTS", false},
      {"aten::lerp.Scalar", "TTS", false},
      {"aten::lerp.Scalar", "TTh", false},
      {"aten::lerp.Scalar", "TT3", false},
      {"aten::neg", "T", true},
      {"aten::abs", "T", true},
      {"aten::sign", "T", true},
      {"aten::sgn", "T", true},
      {"aten::reciprocal", "T", true},
      {"aten::sqrt", "T", true},
      {"aten::rsqrt", "T", true},
      {"aten::floor", "T", false},
      {"aten::ceil", "T", false},
      {"aten::trunc", "T", false},
      {"aten::round", "T", false},
      {"aten::relu", "T", true},
      {"aten::clamp", "TmS", false},
      {"aten::clamp", "T03", true},
      {"aten::clamp", "TNS", true},
      {"aten::clamp", "TSN", true},
      {"aten::clamp_min", "T0", true},
      {"aten::clamp_max", "T0", true},
      {"aten::hardtanh", "Tm1", false},
      {"aten::where.self", "MTT", true},
      {"aten::masked_fill.Scalar", "TMS", true},
      {"aten::leaky_relu", "TS", false},
      {"aten::threshold", "TSS", true},
      {"aten::threshold_backward", "TTS", true},
      {"aten::threshold_backward", "TT0", true},
      {"aten::tanh_backward", "TT", false},
      {"aten::sigmoid_backward", "TT", false},
      {"aten::eq.Tensor", "TT", true},
      {"aten::eq.Scalar", "T1", true},
      {"aten::ne.Tensor", "TT", true},
      {"aten::ne.Scalar", "TS", true},
      {"aten::lt.Tensor", "TT", true},
      {"aten::lt.Scalar", "TS", true},
      {"aten::le.Tensor", "TT", true},
      {"aten::le.Scalar", "TS", true},
      {"aten::gt.Tensor", "TT", true},
      {"aten::gt.Scalar", "TS", true},
      {"aten::ge.Tensor", "TT", true},
      {"aten::ge.Scalar", "TS", true},
      {"aten::logical_not", "T", true},
      {"aten::logical_and", "TT", true},
      {"aten::logical_or", "TT", true},
      {"aten::logical_xor", "TT", true},
      {"aten::isnan", "T", true},
      {"aten::exp", "T", true},
      {"aten::expm1", "T", true},
      {"aten::log", "T", true},
      {"aten::log2", "T", true},
      {"aten::log10", "T", true},
      {"aten::log1p", "T", true},
      {"aten::sin", "T", true},
      {"aten::cos", "T", true},
      {"aten::tan", "T", true},
      {"aten::asin", "T", true},
      {"aten::acos", "T", true},
      {"aten::atan", "T", true},
      {"aten::tanh", "T", true},
      {"aten::erf", "T", true},
      {"aten::erfc", "T", true},
  };
  return *cases;
}

const std::vector<OpCase>& CompositeCases() {
  static const auto* const cases = new std::vector<OpCase>{
      {"aten::pow.Tensor_Scalar", "T0", false},
      {"aten::pow.Tensor_Scalar", "T1", false},
      {"aten::pow.Tensor_Scalar", "T2", false},
      {"aten::pow.Tensor_Scalar", "T3", false},
      {"aten::pow.Tensor_Scalar", "Th", false},
      {"aten::pow.Tensor_Scalar", "Tm", false},
      {"aten::pow.Tensor_Scalar", "Tj", false},
      {"aten::pow.Tensor_Scalar", "Tk", false},
      {"aten::frac", "T", false},
      {"aten::leaky_relu_backward", "TTSf", false},
      {"aten::mse_loss", "TT0", false},
      {"aten::smooth_l1_loss", "TT0d", false},
      {"aten::smooth_l1_loss", "TT0S", false},
      {"aten::huber_loss", "TT0d", false},
      {"aten::huber_loss", "TT0S", false},
      {"aten::soft_margin_loss", "TT0", false},
      {"aten::mse_loss_backward", "TTT0", false},
      {"aten::mse_loss_backward", "TTT1", false},
      {"aten::mse_loss_backward", "TTT2", false},
      {"aten::native_dropout_backward", "TMd", false},
      {"aten::hardsigmoid", "T", false},
      {"aten::hardswish", "T", false},
      {"aten::clone", "T", true},
      {"aten::zeros_like", "T", true},
      {"aten::ones_like", "T", true},
      {"aten::full_like", "TS", true},
      {"aten::fill.Scalar", "TS", true},
  };
  return *cases;
}

const std::vector<OpCase>& IntegerCases() {
  static const auto* const cases = new std::vector<OpCase>{
      {"aten::maximum", "TT", true},
      {"aten::minimum", "TT", true},
      {"aten::bitwise_and.Tensor", "TT", true},
      {"aten::bitwise_or.Tensor", "TT", true},
      {"aten::bitwise_xor.Tensor", "TT", true},
  };
  return *cases;
}

const std::vector<OpCase>& HalfCases() {
  static const auto* const cases = new std::vector<OpCase>{
      {"aten::add.Tensor", "TT1", false},
      {"aten::sub.Tensor", "TT1", false},
      {"aten::mul.Tensor", "TT", false},
      {"aten::div.Tensor", "TT", false},
      {"aten::neg", "T", false},
      {"aten::abs", "T", false},
      {"aten::sign", "T", false},
      {"aten::reciprocal", "T", false},
      {"aten::round", "T", false},
      {"aten::relu", "T", false},
      {"aten::threshold_backward", "TT0", false},
      {"aten::where.self", "MTT", false},
      {"aten::lt.Tensor", "TT", false},
      {"aten::isnan", "T", false},
      {"aten::logical_and", "TT", false},
      {"aten::clone", "T", false},
      {"aten::fill.Scalar", "TS", false},
  };
  return *cases;
}

const std::vector<OpCase>& TailCases() {
  static const auto* const cases = new std::vector<OpCase>{
      {"aten::sigmoid", "T", false},
      {"aten::silu", "T", false},
      {"aten::mish", "T", false},
      {"aten::gelu", "Tn", false},
      {"aten::gelu", "Tt", false},
      {"aten::softplus", "Tdh", false},
      {"aten::softplus", "TSS", false},
      {"aten::elu", "TdhS", false},
      {"aten::elu", "T111", false},
      {"aten::exp2", "T", false},
      {"aten::sinh", "T", false},
      {"aten::cosh", "T", false},
      {"aten::pow.Tensor_Tensor", "TT", false},
      {"aten::pow.Tensor_Scalar", "Td", false},
      {"aten::silu_backward", "TT", false},
      {"aten::mish_backward", "TT", false},
      {"aten::gelu_backward", "TTn", false},
      {"aten::gelu_backward", "TTt", false},
      {"aten::softplus_backward", "TTdh", false},
  };
  return *cases;
}

}  // namespace tjit::testing
