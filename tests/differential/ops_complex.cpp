// Rows of complex numbers. Only the family of these has them, and no other
// seed draws one.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

bool Complex(const at::Tensor& t) { return t.is_complex(); }
bool ComplexDim(const at::Tensor& t) { return Complex(t) && t.dim() > 0; }
bool ComplexMatrix(const at::Tensor& t) { return Complex(t) && t.dim() == 2; }
bool Parts(const at::Tensor& t) {
  return (t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble);
}
bool Any(const at::Tensor&) { return true; }

c10::complex<double> NumberOf(const Context& c) { return {c.D(0), c.D(1)}; }

// Of those that `Propose` takes, with a complex number behind them.
template <bool (*Propose)(Generator&, Statement&)>
bool WithNumber(Generator& g, Statement& st) {
  if (!Propose(g, st)) return false;
  g.Scalar(st, Use::kFactor);
  g.Scalar(st, Use::kAlpha);
  return true;
}

bool TwoParts(Generator& g, Statement& st) {
  if (!Two<Parts, Parts>(g, st)) return false;
  return g.A(st, 0).scalar_type() == g.A(st, 1).scalar_type();
}

bool Product(Generator& g, Statement& st) {
  if (!g.Arg(st, ComplexMatrix)) return false;
  const at::Tensor& a = g.A(st, 0);
  return g.Arg(st, [&](const at::Tensor& t) {
    return ComplexMatrix(t) && t.scalar_type() == a.scalar_type() &&
           t.size(0) == a.size(1);
  });
}

#define TJIT_COMPLEX(name, text, propose, value)                      \
  table.push_back({name, Group::kComplex, "$d0 = " text ";", propose, \
                   [](Context& c) { c.Out(value); }, 1})
#define TJIT_COMPLEX_UNARY(op) \
  TJIT_COMPLEX("complex_" #op, "at::" #op "($0)", One<Complex>, at::op(c.T(0)))

void AddFunctions(std::vector<OpSpec>& table) {
  TJIT_COMPLEX_UNARY(abs);
  TJIT_COMPLEX_UNARY(angle);
  TJIT_COMPLEX_UNARY(conj);
  TJIT_COMPLEX_UNARY(conj_physical);
  TJIT_COMPLEX_UNARY(cos);
  TJIT_COMPLEX_UNARY(exp);
  TJIT_COMPLEX_UNARY(imag);
  TJIT_COMPLEX_UNARY(isnan);
  TJIT_COMPLEX_UNARY(log);
  TJIT_COMPLEX_UNARY(neg);
  TJIT_COMPLEX_UNARY(real);
  TJIT_COMPLEX_UNARY(reciprocal);
  TJIT_COMPLEX_UNARY(sgn);
  TJIT_COMPLEX_UNARY(sin);
  TJIT_COMPLEX_UNARY(sqrt);
  TJIT_COMPLEX_UNARY(square);
  TJIT_COMPLEX_UNARY(tanh);
  TJIT_COMPLEX("complex_negative_part", "at::imag(at::conj($0))", One<Complex>,
               at::imag(at::conj(c.T(0))));
  TJIT_COMPLEX("complex_as_real", "at::view_as_real($0.resolve_conj())",
               One<Complex>, at::view_as_real(c.T(0).resolve_conj()));
  TJIT_COMPLEX("complex_of_parts", "at::complex($0, $1)", TwoParts,
               at::complex(c.T(0), c.T(1)));
  TJIT_COMPLEX("complex_polar", "at::polar($0, $1)", TwoParts,
               at::polar(c.T(0), c.T(1)));
}

void AddArithmetic(std::vector<OpSpec>& table) {
  constexpr auto kTwo = Two<Complex, Complex>;
  constexpr auto kMixed = Two<Complex, Any>;
  constexpr auto kNumber = WithNumber<One<Complex>>;
  TJIT_COMPLEX("complex_add", "$0 + $1", kMixed, c.T(0) + c.T(1));
  TJIT_COMPLEX("complex_rsub", "$1 - $0", kMixed, c.T(1) - c.T(0));
  TJIT_COMPLEX("complex_mul", "$0 * $1", kMixed, c.T(0) * c.T(1));
  TJIT_COMPLEX("complex_mul_both", "$0 * $1", kTwo, c.T(0) * c.T(1));
  TJIT_COMPLEX("complex_div", "$0 / ($1 + 3)", kMixed, c.T(0) / (c.T(1) + 3));
  // Operands that die: a result may lie where one was.
  TJIT_COMPLEX("complex_chain", "$0 * $1 * $0 - $1 / ($0 * $1 + 3)", kMixed,
               c.T(0) * c.T(1) * c.T(0) - c.T(1) / (c.T(0) * c.T(1) + 3));
  TJIT_COMPLEX("complex_mul_number", "$0 * c10::complex<double>($s0, $s1)",
               kNumber, c.T(0) * NumberOf(c));
  TJIT_COMPLEX("complex_div_number", "$0 / c10::complex<double>($s0, $s1)",
               kNumber, c.T(0) / NumberOf(c));
  TJIT_COMPLEX("complex_of_real_number", "$0 * c10::complex<double>($s0, $s1)",
               WithNumber<One<Parts>>, c.T(0) * NumberOf(c));
  TJIT_COMPLEX("complex_add_alpha",
               "at::add($0, $1, c10::complex<double>($s0, $s1))",
               WithNumber<kMixed>, at::add(c.T(0), c.T(1), NumberOf(c)));
  TJIT_COMPLEX("complex_pow", "at::pow($0, $s0)",
               (OneScalar<Complex, Use::kExponent>), at::pow(c.T(0), c.S(0)));
  TJIT_COMPLEX("complex_pow_number",
               "at::pow($0, c10::complex<double>($s0, $s1))", kNumber,
               at::pow(c.T(0), NumberOf(c)));
  TJIT_COMPLEX("complex_eq", "at::eq($0, $1)", kMixed, at::eq(c.T(0), c.T(1)));
  TJIT_COMPLEX("complex_ne", "at::ne($0, $1)", kTwo, at::ne(c.T(0), c.T(1)));
  TJIT_COMPLEX("complex_where", "at::where(at::real($0) > 0, $0, $1)", kTwo,
               at::where(at::real(c.T(0)) > 0, c.T(0), c.T(1)));
  TJIT_COMPLEX("complex_mm", "at::mm($0, $1)", Product, at::mm(c.T(0), c.T(1)));
  TJIT_COMPLEX("complex_mm_adjoint", "at::mm($0, $0.mH())", One<ComplexMatrix>,
               at::mm(c.T(0), c.T(0).mH()));
  TJIT_COMPLEX("complex_sum", "$0.sum(-1)", One<ComplexDim>, c.T(0).sum(-1));
  TJIT_COMPLEX("complex_sum_all", "$0.sum()", One<Complex>, c.T(0).sum());
  TJIT_COMPLEX("complex_mean", "$0.mean(0, true)", One<ComplexDim>,
               c.T(0).mean(0, true));
  TJIT_COMPLEX("complex_prod", "$0.prod(-1)", One<ComplexDim>, c.T(0).prod(-1));
  TJIT_COMPLEX("complex_gradient",
               "{ auto z = $0.detach().clone().requires_grad_(); $d0 = "
               "torch::autograd::grad({at::abs(z * $1).sum()}, {z})[0]; }",
               kTwo, [&] {
                 const at::AutoGradMode on(true);
                 const at::Tensor z = c.T(0).detach().clone().requires_grad_();
                 const at::Tensor loss = at::abs(z * c.T(1).detach()).sum();
                 return torch::autograd::grad({loss}, {z})[0];
               }());
}

void AddWrites(std::vector<OpSpec>& table) {
  const auto add = [&](std::string_view name, std::string_view text,
                       bool (*propose)(Generator&, Statement&),
                       void (*run)(Context&)) {
    table.push_back({name, Group::kComplexWrite, text, propose, run, 0,
                     /*writes=*/true});
  };
  constexpr auto kInto = Into<Complex>;
  constexpr auto kNumber = WithNumber<kInto>;
  constexpr auto kOne = IntoOne<Complex, Any>;
  add("complex_add_", "$0.add_($1);", kOne,
      [](Context& c) { c.T(0).add_(c.T(1)); });
  add("complex_mul_", "$0.mul_($1);", kOne,
      [](Context& c) { c.T(0).mul_(c.T(1)); });
  add("complex_copy_", "$0.copy_($1);", kOne,
      [](Context& c) { c.T(0).copy_(c.T(1)); });
  add("complex_mul_number_", "$0.mul_(c10::complex<double>($s0, $s1));",
      kNumber, [](Context& c) { c.T(0).mul_(NumberOf(c)); });
  add("complex_fill_", "$0.fill_(c10::complex<double>($s0, $s1));", kNumber,
      [](Context& c) { c.T(0).fill_(NumberOf(c)); });
  add("complex_conj_physical_", "$0.conj_physical_();", kInto,
      [](Context& c) { c.T(0).conj_physical_(); });
  add("complex_neg_", "$0.neg_();", kInto, [](Context& c) { c.T(0).neg_(); });
  add("complex_real_mul_", "at::real($0).mul_($s0);",
      IntoScalar<Complex, Use::kFactor>,
      [](Context& c) { at::real(c.T(0)).mul_(c.S(0)); });
  add("complex_imag_add_", "at::imag($0).add_($s0);",
      IntoScalar<Complex, Use::kAlpha>,
      [](Context& c) { at::imag(c.T(0)).add_(c.S(0)); });
  add("complex_conj_mul_", "at::conj($0).mul_($1);", kOne,
      [](Context& c) { at::conj(c.T(0)).mul_(c.T(1)); });
  add("complex_conj_add_", "at::conj($0).add_($s0);",
      IntoScalar<Complex, Use::kAlpha>,
      [](Context& c) { at::conj(c.T(0)).add_(c.S(0)); });
  add("complex_masked_fill_",
      "$0.masked_fill_(at::real($0) > 0, c10::complex<double>($s0, $s1));",
      kNumber, [](Context& c) {
        c.T(0).masked_fill_(at::real(c.T(0)) > 0, NumberOf(c));
      });
}

}  // namespace

void AddComplexOps(std::vector<OpSpec>& table) {
  table.push_back({"complex_input", Group::kSetup,
                   "$d0 = at::randn($l1, gen, at::ScalarType($i0));",
                   [](Generator&, Statement&) { return false; },
                   [](Context& c) {
                     c.Out(at::randn(c.List(1), c.state().generator,
                                     at::TensorOptions(
                                         static_cast<at::ScalarType>(c.I(0)))));
                   },
                   1});
  AddFunctions(table);
  AddArithmetic(table);
  AddWrites(table);
}

}  // namespace tjit::differential
