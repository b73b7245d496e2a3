// Pointwise rows: unary, binary, with scalars, comparisons, out= and casts.
#include <ATen/ATen.h>

#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

bool FloatPair(const at::Tensor& t) { return FloatDim(t) && t.size(0) >= 2; }

#define TJIT_UNARY(name)                                      \
  table.push_back({#name, Group::kUnary,                      \
                   "$d0 = at::" #name "($0);", One<Float>,    \
                   [](Context& c) { c.Out(at::name(c.T(0))); }, 1})

#define TJIT_BINARY(name)                                             \
  table.push_back({#name, Group::kBinary,                             \
                   "$d0 = at::" #name "($0, $1);", Two<Number, Number>, \
                   [](Context& c) { c.Out(at::name(c.T(0), c.T(1))); }, 1})

#define TJIT_COMPARE(name)                                             \
  table.push_back({#name, Group::kCompare,                             \
                   "$d0 = at::" #name "($0, $1);", Two<Number, Number>,  \
                   [](Context& c) { c.Out(at::name(c.T(0), c.T(1))); }, 1}); \
  table.push_back({#name "_scalar", Group::kCompare,                   \
                   "$d0 = at::" #name "($0, $s0);",                    \
                   OneScalar<Number, Use::kFraction>,                  \
                   [](Context& c) { c.Out(at::name(c.T(0), c.S(0))); }, 1})

#define TJIT_CAST(dtype)                                               \
  table.push_back({"to_" #dtype, Group::kCast, "$d0 = $0.to(at::" #dtype \
                   ");", One<Any>,                                     \
                   [](Context& c) { c.Out(c.T(0).to(at::dtype)); }, 1})

void AddUnary(std::vector<OpSpec>& table) {
  TJIT_UNARY(tanh);
  TJIT_UNARY(sigmoid);
  TJIT_UNARY(relu);
  TJIT_UNARY(sin);
  TJIT_UNARY(cos);
  TJIT_UNARY(atan);
  TJIT_UNARY(erf);
  TJIT_UNARY(exp);
  TJIT_UNARY(expm1);
  TJIT_UNARY(neg);
  TJIT_UNARY(abs);
  TJIT_UNARY(square);
  TJIT_UNARY(sqrt);
  TJIT_UNARY(rsqrt);
  TJIT_UNARY(reciprocal);
  TJIT_UNARY(log1p);
  TJIT_UNARY(floor);
  TJIT_UNARY(round);
  TJIT_UNARY(trunc);
  TJIT_UNARY(sign);
  TJIT_UNARY(silu);
  TJIT_UNARY(gelu);
  TJIT_UNARY(softplus);
  TJIT_UNARY(leaky_relu);
  TJIT_UNARY(elu);
  TJIT_UNARY(hardtanh);
  TJIT_UNARY(log_sigmoid);
  TJIT_UNARY(zeros_like);
  TJIT_UNARY(ones_like);
  table.push_back({"signed_zeros", Group::kUnary,
                   "$d0 = at::neg(at::relu($0)) + 0.0;", One<Float>,
                   [](Context& c) { c.Out(at::neg(at::relu(c.T(0))) + 0.0); },
                   1});
  table.push_back({"clamp_nan", Group::kUnary,
                   "$d0 = at::isnan(at::clamp(at::log($0), -1.0, 1.0));",
                   One<Float>,
                   [](Context& c) {
                     c.Out(at::isnan(at::clamp(at::log(c.T(0)), -1.0, 1.0)));
                   },
                   1});
  // What a recorded sequence takes for granted, and now and then is not so.
  table.push_back(
      {"sometimes_cubed", Group::kUnary,
       "$d0 = at::pow($0, it % 5 == 4 ? 3 : 2);", One<Float>,
       [](Context& c) { c.Out(at::pow(c.T(0), c.it() % 5 == 4 ? 3 : 2)); }, 1});
  table.push_back({"sometimes_shorter", Group::kUnary,
                   "$d0 = $0.narrow(0, 0, it % 5 == 4 ? 1 : 2) * 2;",
                   One<FloatPair>,
                   [](Context& c) {
                     c.Out(c.T(0).narrow(0, 0, c.it() % 5 == 4 ? 1 : 2) * 2);
                   },
                   1});
  table.push_back({"log_abs", Group::kUnary,
                   "$d0 = at::log(at::abs($0) + 1);", One<Float>,
                   [](Context& c) { c.Out(at::log(at::abs(c.T(0)) + 1)); }, 1});
}

void AddBinary(std::vector<OpSpec>& table) {
  TJIT_BINARY(add);
  TJIT_BINARY(sub);
  TJIT_BINARY(mul);
  TJIT_BINARY(maximum);
  TJIT_BINARY(minimum);
  TJIT_BINARY(atan2);
  TJIT_BINARY(div);
  table.push_back({"rsub", Group::kBinary, "$d0 = at::sub($1, $0);",
                   Two<Number, Number>,
                   [](Context& c) { c.Out(at::sub(c.T(1), c.T(0))); }, 1});
  table.push_back(
      {"div_safe", Group::kBinary, "$d0 = at::div($0, at::abs($1) + 1);",
       Two<Float, Float>,
       [](Context& c) { c.Out(at::div(c.T(0), at::abs(c.T(1)) + 1)); }, 1});
  table.push_back(
      {"add_alpha", Group::kBinary, "$d0 = at::add($0, $1, $s0);",
       TwoScalar<Float, Float, Use::kFactor>,
       [](Context& c) { c.Out(at::add(c.T(0), c.T(1), c.S(0))); }, 1});
  table.push_back(
      {"sub_alpha", Group::kBinary, "$d0 = at::sub($0, $1, $s0);",
       TwoScalar<Float, Float, Use::kAlpha>,
       [](Context& c) { c.Out(at::sub(c.T(0), c.T(1), c.S(0))); }, 1});
  table.push_back(
      {"lerp", Group::kBinary, "$d0 = at::lerp($0, $1, $s0);",
       TwoScalar<Float, Float, Use::kFraction>,
       [](Context& c) { c.Out(at::lerp(c.T(0), c.T(1), c.S(0))); }, 1});
  table.push_back(
      {"addcmul", Group::kBinary, "$d0 = at::addcmul($0, $1, $2, $s0);",
       [](Generator& g, Statement& st) {
         if (!Three<Float>(g, st)) return false;
         g.Scalar(st, Use::kFactor);
         return true;
       },
       [](Context& c) {
         c.Out(at::addcmul(c.T(0), c.T(1), c.T(2), c.S(0)));
       },
       1});
  table.push_back({"pow_tensor", Group::kBinary,
                   "$d0 = at::pow(at::abs($0) + 0.5, at::tanh($1));",
                   Two<Float, Float>,
                   [](Context& c) {
                     c.Out(at::pow(at::abs(c.T(0)) + 0.5, at::tanh(c.T(1))));
                   },
                   1});
}

void AddScalar(std::vector<OpSpec>& table) {
  table.push_back({"add_scalar", Group::kScalar, "$d0 = at::add($0, $s0, $s1);",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, Float)) return false;
                     g.Scalar(st, Use::kFactor);
                     g.Scalar(st, Use::kFactor);
                     return true;
                   },
                   [](Context& c) {
                     c.Out(at::add(c.T(0), c.S(0), c.S(1)));
                   },
                   1});
  table.push_back({"mul_scalar", Group::kScalar, "$d0 = at::mul($0, $s0);",
                   OneScalar<Number, Use::kFactor>,
                   [](Context& c) { c.Out(at::mul(c.T(0), c.S(0))); }, 1});
  table.push_back({"mul_int", Group::kScalar, "$d0 = at::mul($0, $s0);",
                   OneScalar<Number, Use::kInteger>,
                   [](Context& c) { c.Out(at::mul(c.T(0), c.S(0))); }, 1});
  table.push_back({"div_scalar", Group::kScalar, "$d0 = at::div($0, $s0);",
                   OneScalar<Number, Use::kPositive>,
                   [](Context& c) { c.Out(at::div(c.T(0), c.S(0))); }, 1});
  table.push_back({"rsub_scalar", Group::kScalar, "$d0 = at::rsub($0, $s0);",
                   OneScalar<Float, Use::kFactor>,
                   [](Context& c) { c.Out(at::rsub(c.T(0), c.S(0))); }, 1});
  table.push_back({"pow", Group::kScalar,
                   "$d0 = at::pow(at::abs($0) + 0.5, $s0);",
                   OneScalar<Float, Use::kExponent>,
                   [](Context& c) {
                     c.Out(at::pow(at::abs(c.T(0)) + 0.5, c.S(0)));
                   },
                   1});
  table.push_back({"pow_base", Group::kScalar, "$d0 = at::pow($s0, $0);",
                   OneScalar<Float, Use::kPositive>,
                   [](Context& c) { c.Out(at::pow(c.S(0), c.T(0))); }, 1});
  table.push_back({"clamp", Group::kScalar, "$d0 = at::clamp($0, -1.0, $s0);",
                   OneScalar<Float, Use::kPositive>,
                   [](Context& c) {
                     c.Out(at::clamp(c.T(0), at::Scalar(-1.0), c.S(0)));
                   },
                   1});
  table.push_back({"clamp_min", Group::kScalar, "$d0 = at::clamp_min($0, $s0);",
                   OneScalar<Float, Use::kAlpha>,
                   [](Context& c) { c.Out(at::clamp_min(c.T(0), c.S(0))); },
                   1});
  table.push_back({"full_like", Group::kScalar, "$d0 = at::full_like($0, $s0);",
                   OneScalar<Float, Use::kFactor>,
                   [](Context& c) { c.Out(at::full_like(c.T(0), c.S(0))); },
                   1});
  table.push_back(
      {"mul_scalar_tensor", Group::kScalar,
       "$d0 = at::mul($0, at::scalar_tensor($s0));",
       OneScalar<Float, Use::kFactor>,
       [](Context& c) { c.Out(at::mul(c.T(0), at::scalar_tensor(c.S(0)))); },
       1});
}

void AddCompare(std::vector<OpSpec>& table) {
  TJIT_COMPARE(gt);
  TJIT_COMPARE(ge);
  TJIT_COMPARE(lt);
  TJIT_COMPARE(eq);
  TJIT_COMPARE(ne);
  table.push_back({"where", Group::kCompare, "$d0 = at::where($0, $1, $2);",
                   [](Generator& g, Statement& st) {
                     if (!Two<Bool, Number>(g, st)) return false;
                     const at::Tensor& a = g.A(st, 0);
                     const at::Tensor& b = g.A(st, 1);
                     return g.Arg(st, [&](const at::Tensor& t) {
                       return Broadcasts(a, t) && Broadcasts(b, t);
                     });
                   },
                   [](Context& c) {
                     c.Out(at::where(c.T(0), c.T(1), c.T(2)));
                   },
                   1});
  table.push_back({"masked_fill", Group::kCompare,
                   "$d0 = at::masked_fill($0, $1, $s0);",
                   TwoScalar<Float, Bool, Use::kFactor>,
                   [](Context& c) {
                     c.Out(at::masked_fill(c.T(0), c.T(1), c.S(0)));
                   },
                   1});
  table.push_back({"logical_and", Group::kCompare,
                   "$d0 = at::logical_and($0, $1);", Two<Any, Any>,
                   [](Context& c) { c.Out(at::logical_and(c.T(0), c.T(1))); },
                   1});
  table.push_back({"logical_not", Group::kCompare,
                   "$d0 = at::logical_not($0);", One<Any>,
                   [](Context& c) { c.Out(at::logical_not(c.T(0))); }, 1});
  table.push_back({"bitwise_xor", Group::kCompare,
                   "$d0 = at::bitwise_xor($0, $1);", Two<Whole, Whole>,
                   [](Context& c) { c.Out(at::bitwise_xor(c.T(0), c.T(1))); },
                   1});
  table.push_back({"isfinite", Group::kCompare, "$d0 = at::isfinite($0);",
                   One<Float>,
                   [](Context& c) { c.Out(at::isfinite(c.T(0))); }, 1});
}

void AddOut(std::vector<OpSpec>& table) {
  table.push_back({"add_out", Group::kOut, "at::add_out($0, $1, $2);",
                   SameSize<Number, 2>,
                   [](Context& c) { at::add_out(c.Var(0), c.T(1), c.T(2)); },
                   0, true});
  table.push_back({"sub_out", Group::kOut, "at::sub_out($0, $1, $2);",
                   SameSize<Number, 2>,
                   [](Context& c) { at::sub_out(c.Var(0), c.T(1), c.T(2)); },
                   0, true});
  table.push_back(
      {"mul_out", Group::kOut, "at::mul_out($0, $1, at::tanh($2));",
       SameSize<Float, 2>,
       [](Context& c) { at::mul_out(c.Var(0), c.T(1), at::tanh(c.T(2))); }, 0,
       true});
  table.push_back({"tanh_out", Group::kOut, "at::tanh_out($0, $1);",
                   SameSize<Float, 1>,
                   [](Context& c) { at::tanh_out(c.Var(0), c.T(1)); }, 0,
                   true});
  table.push_back(
      {"clamp_out", Group::kOut, "at::clamp_out($0, $1, $s0, 1.0);",
       [](Generator& g, Statement& st) {
         if (!SameSize<Float, 1>(g, st)) return false;
         g.Scalar(st, Use::kAlpha);
         return true;
       },
       [](Context& c) {
         at::clamp_out(c.Var(0), c.T(1), c.S(0), at::Scalar(1.0));
       },
       0, true});
  table.push_back({"add_out_fresh", Group::kOut,
                   "$d0 = at::empty({0}); at::add_out($d0, $0, $1);",
                   Two<Float32, Float32>,
                   [](Context& c) {
                     at::Tensor out = at::empty({0});
                     at::add_out(out, c.T(0), c.T(1));
                     c.Out(std::move(out));
                   },
                   1});
}

void AddCasts(std::vector<OpSpec>& table) {
  TJIT_CAST(kFloat);
  TJIT_CAST(kDouble);
  TJIT_CAST(kBFloat16);
  TJIT_CAST(kHalf);
  TJIT_CAST(kLong);
  TJIT_CAST(kInt);
  TJIT_CAST(kByte);
  TJIT_CAST(kBool);
  table.push_back({"to_copy", Group::kCast,
                   "$d0 = $0.to(at::kFloat, false, /*copy=*/true);", One<Any>,
                   [](Context& c) {
                     c.Out(c.T(0).to(at::kFloat, false, true));
                   },
                   1});
}

}  // namespace

void AddPointwiseOps(std::vector<OpSpec>& table) {
  AddUnary(table);
  AddBinary(table);
  AddScalar(table);
  AddCompare(table);
  AddOut(table);
  AddCasts(table);
}

}  // namespace tjit::differential
