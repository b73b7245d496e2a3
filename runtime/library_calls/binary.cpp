// Pointwise ops of two and three tensors, comparisons, lerp, addcmul; products
// and quotients of two are in complex.cpp.
// Mirrors aten/src/ATen/native/{BinaryOps,PointwiseOps,Lerp,Pow}.cpp.
#include <ATen/ScalarOps.h>
#include <ATen/ops/add_native.h>
#include <ATen/ops/addcdiv_native.h>
#include <ATen/ops/addcmul_native.h>
#include <ATen/ops/atan2_native.h>
#include <ATen/ops/bitwise_and_native.h>
#include <ATen/ops/bitwise_or_native.h>
#include <ATen/ops/bitwise_xor_native.h>
#include <ATen/ops/clamp_max_native.h>
#include <ATen/ops/clamp_min_native.h>
#include <ATen/ops/clamp_native.h>
#include <ATen/ops/copysign_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/eq_native.h>
#include <ATen/ops/fmax_native.h>
#include <ATen/ops/fmin_native.h>
#include <ATen/ops/fmod_native.h>
#include <ATen/ops/ge_native.h>
#include <ATen/ops/gt_native.h>
#include <ATen/ops/hypot_native.h>
#include <ATen/ops/le_native.h>
#include <ATen/ops/lerp_native.h>
#include <ATen/ops/logaddexp_native.h>
#include <ATen/ops/lt_native.h>
#include <ATen/ops/maximum_native.h>
#include <ATen/ops/minimum_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/ne_native.h>
#include <ATen/ops/pow_native.h>
#include <ATen/ops/remainder_native.h>
#include <ATen/ops/sub_native.h>
#include <ATen/ops/xlogy_native.h>

#include "runtime/library_calls/structured_step.h"

namespace tjit::runtime {
namespace {

namespace native = at::native;

// S for a tensor and a number, which eager makes an operand of before it calls
// the op: the second one or, reversed, the first.
template <class S, bool kIsReversed = false>
struct WithNumber : S {
  void meta(const at::Tensor& self, const at::Scalar& other) {
    number = native::wrapped_scalar_tensor(other);
    S::meta(kIsReversed ? number : self, kIsReversed ? self : number);
  }
  void impl(const at::Tensor& self, const at::Scalar&, const at::Tensor& out) {
    S::impl(kIsReversed ? number : self, kIsReversed ? self : number, out);
  }
  at::Tensor number;
};

// The same with a factor `alpha` of the second operand.
template <class S, bool kIsReversed = false>
struct WithNumberAndAlpha : S {
  void meta(const at::Tensor& self, const at::Scalar& other,
            const at::Scalar& alpha) {
    number = native::wrapped_scalar_tensor(other);
    S::meta(kIsReversed ? number : self, kIsReversed ? self : number, alpha);
  }
  void impl(const at::Tensor& self, const at::Scalar&, const at::Scalar& alpha,
            const at::Tensor& out) {
    S::impl(kIsReversed ? number : self, kIsReversed ? self : number, alpha,
            out);
  }
  at::Tensor number;
};

#define TJIT_ROWS3(a, b, c, kernel, purity)                      \
  {"aten::" a, PrepareStructured<native::kernel, purity>},       \
      {"aten::" b, PrepareStructured<native::kernel, purity>}, { \
    "aten::" c, PrepareStructured<native::kernel, purity>        \
  }
#define TJIT_TENSOR(op, kernel) \
  TJIT_ROWS3(#op ".Tensor", #op "_.Tensor", #op ".out", kernel, kPure)
#define TJIT_NUMBER(op, ...)                                                \
  {"aten::" #op ".Scalar", PrepareStructured<__VA_ARGS__, kPureWrapped>}, { \
    "aten::" #op "_.Scalar", PrepareStructured<__VA_ARGS__, kPureWrapped>   \
  }
#define TJIT_PLAIN(op, kernel) \
  TJIT_ROWS3(#op, #op "_", #op ".out", kernel, kPure)
#define TJIT_COMPARE(op)                                           \
  TJIT_ROWS3(#op ".Tensor", #op "_.Tensor", #op ".Tensor_out",     \
             structured_##op##_Tensor_out, kPure),                 \
      TJIT_ROWS3(#op ".Scalar", #op "_.Scalar", #op ".Scalar_out", \
                 structured_##op##_Scalar_out, kPureWrapped)

constexpr FactoryRow kRows[] = {
    TJIT_TENSOR(add, structured_ufunc_add_CPU),
    TJIT_NUMBER(add, WithNumberAndAlpha<native::structured_ufunc_add_CPU>),
    TJIT_PLAIN(addcdiv, structured_addcdiv_out),
    TJIT_PLAIN(addcmul, structured_addcmul_out),
    TJIT_PLAIN(atan2, structured_atan2_out),
    TJIT_ROWS3("bitwise_and.Tensor", "bitwise_and_.Tensor",
               "bitwise_and.Tensor_out", structured_bitwise_and_out, kPure),
    TJIT_ROWS3("bitwise_or.Tensor", "bitwise_or_.Tensor",
               "bitwise_or.Tensor_out", structured_bitwise_or_out, kPure),
    TJIT_ROWS3("bitwise_xor.Tensor", "bitwise_xor_.Tensor",
               "bitwise_xor.Tensor_out", structured_bitwise_xor_out, kPure),
    TJIT_ROWS3("clamp.Tensor", "clamp_.Tensor", "clamp.Tensor_out",
               structured_clamp_Tensor_out, kReadsTensors),
    TJIT_ROWS3("clamp_max.Tensor", "clamp_max_.Tensor", "clamp_max.Tensor_out",
               structured_clamp_max_Tensor_out, kPure),
    TJIT_ROWS3("clamp_min.Tensor", "clamp_min_.Tensor", "clamp_min.Tensor_out",
               structured_clamp_min_Tensor_out, kPure),
    TJIT_TENSOR(copysign, structured_copysign_out),
    TJIT_NUMBER(div, WithNumber<native::structured_div_out>),
    TJIT_ROWS3("div.Tensor_mode", "div_.Tensor_mode", "div.out_mode",
               structured_div_out_mode, kPure),
    TJIT_COMPARE(eq),
    {"aten::fmax", PrepareStructured<native::structured_fmax_out, kPure>},
    {"aten::fmin", PrepareStructured<native::structured_fmin_out, kPure>},
    TJIT_ROWS3("fmod.Tensor", "fmod_.Tensor", "fmod.Tensor_out",
               structured_fmod_out, kPure),
    TJIT_COMPARE(ge),
    TJIT_COMPARE(gt),
    TJIT_PLAIN(hypot, structured_hypot_out),
    TJIT_COMPARE(le),
    TJIT_ROWS3("lerp.Scalar", "lerp_.Scalar", "lerp.Scalar_out",
               structured_lerp_Scalar, kPure),
    TJIT_ROWS3("lerp.Tensor", "lerp_.Tensor", "lerp.Tensor_out",
               structured_lerp_Tensor, kPure),
    {"aten::logaddexp",
     PrepareStructured<native::structured_logaddexp_out, kPure>},
    TJIT_COMPARE(lt),
    {"aten::maximum", PrepareStructured<native::structured_maximum_out, kPure>},
    {"aten::minimum", PrepareStructured<native::structured_minimum_out, kPure>},
    {"aten::mul.Scalar",
     PrepareStructured<WithNumber<native::structured_mul_out>, kPureWrapped>},
    // Of halves a number that comes first is rounded.
    {"aten::mul_.Scalar",
     PrepareStructured<WithNumber<native::structured_mul_out, true>,
                       kPureWrapped>},
    TJIT_COMPARE(ne),
    // Exponents 0 and 1 fill and copy without the iterator.
    {"aten::pow.Scalar",
     PrepareStructured<native::structured_pow_Scalar_out, kReadsTensors>},
    TJIT_ROWS3("pow.Tensor_Scalar", "pow_.Scalar", "pow.Tensor_Scalar_out",
               structured_pow_Tensor_Scalar_out, kReadsTensors),
    TJIT_ROWS3("pow.Tensor_Tensor", "pow_.Tensor", "pow.Tensor_Tensor_out",
               structured_pow_Tensor_Tensor_out, kPure),
    TJIT_ROWS3("remainder.Tensor", "remainder_.Tensor", "remainder.Tensor_out",
               structured_remainder_out, kPure),
    {"aten::rsub.Scalar",
     PrepareStructured<WithNumberAndAlpha<native::structured_sub_out, true>,
                       kPureWrapped>},
    TJIT_TENSOR(sub, structured_sub_out),
    TJIT_NUMBER(sub, WithNumberAndAlpha<native::structured_sub_out>),
    TJIT_ROWS3("xlogy.Tensor", "xlogy_.Tensor", "xlogy.OutTensor",
               structured_xlogy_out, kPure),
};

}  // namespace

c10::ArrayRef<FactoryRow> BinaryRows() { return kRows; }

}  // namespace tjit::runtime
