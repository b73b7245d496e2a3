// Pointwise ops of one tensor, and activations with their backwards.
// Mirrors aten/src/ATen/native/UnaryOps.cpp and Activation.cpp: kPure where
// the impl is one call of a stub over the iterator.
#include <ATen/ops/abs_native.h>
#include <ATen/ops/acos_native.h>
#include <ATen/ops/acosh_native.h>
#include <ATen/ops/asin_native.h>
#include <ATen/ops/asinh_native.h>
#include <ATen/ops/atan_native.h>
#include <ATen/ops/atanh_native.h>
#include <ATen/ops/bitwise_not_native.h>
#include <ATen/ops/ceil_native.h>
#include <ATen/ops/clamp_max_native.h>
#include <ATen/ops/clamp_min_native.h>
#include <ATen/ops/clamp_native.h>
#include <ATen/ops/cos_native.h>
#include <ATen/ops/cosh_native.h>
#include <ATen/ops/elu_backward_native.h>
#include <ATen/ops/elu_native.h>
#include <ATen/ops/erf_native.h>
#include <ATen/ops/erfc_native.h>
#include <ATen/ops/erfinv_native.h>
#include <ATen/ops/exp2_native.h>
#include <ATen/ops/exp_native.h>
#include <ATen/ops/expm1_native.h>
#include <ATen/ops/floor_native.h>
#include <ATen/ops/frac_native.h>
#include <ATen/ops/gelu_backward_native.h>
#include <ATen/ops/gelu_native.h>
#include <ATen/ops/hardshrink_native.h>
#include <ATen/ops/hardsigmoid_backward_native.h>
#include <ATen/ops/hardsigmoid_native.h>
#include <ATen/ops/hardswish_backward_native.h>
#include <ATen/ops/hardswish_native.h>
#include <ATen/ops/hardtanh_backward_native.h>
#include <ATen/ops/hardtanh_native.h>
#include <ATen/ops/leaky_relu_backward_native.h>
#include <ATen/ops/leaky_relu_native.h>
#include <ATen/ops/lgamma_native.h>
#include <ATen/ops/log10_native.h>
#include <ATen/ops/log1p_native.h>
#include <ATen/ops/log2_native.h>
#include <ATen/ops/log_native.h>
#include <ATen/ops/log_sigmoid_backward_native.h>
#include <ATen/ops/log_sigmoid_forward_native.h>
#include <ATen/ops/mish_native.h>
#include <ATen/ops/ne_native.h>
#include <ATen/ops/neg_native.h>
#include <ATen/ops/reciprocal_native.h>
#include <ATen/ops/round_native.h>
#include <ATen/ops/rsqrt_native.h>
#include <ATen/ops/sgn_native.h>
#include <ATen/ops/sigmoid_backward_native.h>
#include <ATen/ops/sigmoid_native.h>
#include <ATen/ops/sign_native.h>
#include <ATen/ops/signbit_native.h>
#include <ATen/ops/silu_backward_native.h>
#include <ATen/ops/silu_native.h>
#include <ATen/ops/sin_native.h>
#include <ATen/ops/sinh_native.h>
#include <ATen/ops/softplus_backward_native.h>
#include <ATen/ops/softplus_native.h>
#include <ATen/ops/softshrink_native.h>
#include <ATen/ops/sqrt_native.h>
#include <ATen/ops/tan_native.h>
#include <ATen/ops/tanh_backward_native.h>
#include <ATen/ops/tanh_native.h>
#include <ATen/ops/threshold_backward_native.h>
#include <ATen/ops/threshold_native.h>
#include <ATen/ops/trunc_native.h>

#include "runtime/library_calls/native_step.h"
#include "runtime/library_calls/structured_step.h"

namespace tjit::runtime {
namespace {

namespace native = at::native;

// relu(x) is clamp_min(x, 0) in eager, one dispatch deeper.
struct ReluKernel : native::structured_clamp_min_out {
  void meta(const at::Tensor& self) {
    native::structured_clamp_min_out::meta(self, zero_);
  }
  void impl(const at::Tensor& self, const at::Tensor& out) {
    native::structured_clamp_min_out::impl(self, zero_, out);
  }

 private:
  at::Scalar zero_ = 0;
};

// isnan(x) is x != x in eager.
struct IsNanKernel : native::structured_ne_Tensor_out {
  void meta(const at::Tensor& self) {
    native::structured_ne_Tensor_out::meta(self, self);
  }
  void impl(const at::Tensor& self, const at::Tensor& out) {
    native::structured_ne_Tensor_out::impl(self, self, out);
  }
};

#define TJIT_ROWS(op, kernel, purity)                          \
  {"aten::" #op, PrepareStructured<kernel, purity>},           \
      {"aten::" #op "_", PrepareStructured<kernel, purity>}, { \
    "aten::" #op ".out", PrepareStructured<kernel, purity>     \
  }
#define TJIT_UNARY(op) TJIT_ROWS(op, native::structured_##op##_out, kPure)
// Copies integers without an iterator.
#define TJIT_ROUND(op) \
  TJIT_ROWS(op, native::structured_##op##_out, kReadsTensors)
#define TJIT_BACKWARD(op, out)                                               \
  {"aten::" #op, PrepareStructured<native::structured_##op##_out, kPure>}, { \
    "aten::" #op "." #out,                                                   \
        PrepareStructured<native::structured_##op##_out, kPure>              \
  }

constexpr FactoryRow kRows[] = {
    {"aten::abs", PrepareOutCall<&native::abs_out>},
    {"aten::abs.out", PrepareOutCall<&native::abs_out>},
    TJIT_UNARY(acos),
    TJIT_UNARY(acosh),
    TJIT_UNARY(asin),
    TJIT_UNARY(asinh),
    TJIT_UNARY(atan),
    TJIT_UNARY(atanh),
    TJIT_UNARY(bitwise_not),
    TJIT_ROUND(ceil),
    TJIT_ROWS(clamp, native::structured_clamp_out, kReadsTensors),
    TJIT_ROWS(clamp_max, native::structured_clamp_max_out, kReadsTensors),
    TJIT_ROWS(clamp_min, native::structured_clamp_min_out, kReadsTensors),
    TJIT_UNARY(cos),
    TJIT_UNARY(cosh),
    TJIT_UNARY(elu),
    TJIT_BACKWARD(elu_backward, grad_input),
    TJIT_UNARY(erf),
    TJIT_UNARY(erfc),
    TJIT_UNARY(erfinv),
    TJIT_UNARY(exp),
    TJIT_UNARY(exp2),
    TJIT_UNARY(expm1),
    TJIT_ROUND(floor),
    TJIT_UNARY(frac),
    TJIT_ROWS(gelu, native::structured_gelu_out_cpu, kReadsTensors),
    {"aten::gelu_backward",
     PrepareStructured<native::structured_gelu_backward_out_cpu>},
    {"aten::hardshrink",
     PrepareStructured<native::structured_hardshrink_out, kPure>},
    TJIT_UNARY(hardsigmoid),
    TJIT_BACKWARD(hardsigmoid_backward, grad_input),
    {"aten::hardswish", PrepareOutCall<&native::hardswish_out>},
    {"aten::hardswish_", PrepareInPlaceCall<&native::hardswish_>},
    {"aten::hardswish_backward",
     PrepareOutCall<&native::hardswish_backward_out>},
    {"aten::hardtanh", PrepareOutCall<&native::hardtanh_out>},
    {"aten::hardtanh_", PrepareInPlaceCall<&native::hardtanh_>},
    {"aten::hardtanh_backward", PrepareOutCall<&native::hardtanh_backward_out>},
    {"aten::isnan", PrepareStructured<IsNanKernel, kPure>},
    TJIT_UNARY(leaky_relu),
    TJIT_BACKWARD(leaky_relu_backward, grad_input),
    TJIT_UNARY(lgamma),
    TJIT_UNARY(log),
    TJIT_UNARY(log10),
    TJIT_UNARY(log1p),
    TJIT_UNARY(log2),
    {"aten::log_sigmoid_backward",
     PrepareOutCall<&native::log_sigmoid_backward_cpu_out>},
    {"aten::log_sigmoid_forward",
     PrepareOutCall<&native::log_sigmoid_forward_out_cpu, 2>},
    TJIT_UNARY(mish),
    TJIT_UNARY(neg),
    TJIT_UNARY(reciprocal),
    {"aten::relu", PrepareStructured<ReluKernel, kPure>},
    {"aten::relu_", PrepareStructured<ReluKernel, kPure>},
    TJIT_ROUND(round),
    {"aten::round.decimals",
     PrepareStructured<native::structured_round_decimals_out>},
    {"aten::round_.decimals",
     PrepareStructured<native::structured_round_decimals_out>},
    TJIT_UNARY(rsqrt),
    TJIT_UNARY(sgn),
    TJIT_UNARY(sigmoid),
    TJIT_BACKWARD(sigmoid_backward, grad_input),
    TJIT_UNARY(sign),
    {"aten::signbit", PrepareStructured<native::structured_signbit_out>},
    TJIT_UNARY(silu),
    TJIT_BACKWARD(silu_backward, grad_input),
    TJIT_UNARY(sin),
    TJIT_UNARY(sinh),
    TJIT_UNARY(softplus),
    TJIT_BACKWARD(softplus_backward, grad_input),
    {"aten::softshrink",
     PrepareStructured<native::structured_softshrink_out, kPure>},
    TJIT_UNARY(sqrt),
    TJIT_UNARY(tan),
    TJIT_UNARY(tanh),
    TJIT_BACKWARD(tanh_backward, grad_input),
    TJIT_UNARY(threshold),
    TJIT_BACKWARD(threshold_backward, grad_input),
    TJIT_ROUND(trunc),
};

}  // namespace

c10::ArrayRef<FactoryRow> UnaryRows() { return kRows; }

}  // namespace tjit::runtime
