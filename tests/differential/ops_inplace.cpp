// In-place rows, those on overlapping memory included.
#include <ATen/ATen.h>

#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

#define TJIT_INPLACE(name)                                             \
  table.push_back({#name, Group::kInplace, "$0." #name "();", Into<Float>, \
                   [](Context& c) { c.T(0).name(); }, 0, true})

bool Rows(const at::Tensor& t) { return t.dim() > 0 && t.size(0) >= 4; }
bool FloatRows(const at::Tensor& t) { return Float(t) && Rows(t); }
bool Square(const at::Tensor& t) {
  return Matrix(t) && t.size(0) == t.size(1) && t.size(0) > 1;
}

void AddUnary(std::vector<OpSpec>& table) {
  TJIT_INPLACE(tanh_);
  TJIT_INPLACE(sigmoid_);
  TJIT_INPLACE(relu_);
  TJIT_INPLACE(neg_);
  TJIT_INPLACE(abs_);
  TJIT_INPLACE(sin_);
  TJIT_INPLACE(floor_);
  TJIT_INPLACE(zero_);
}

void AddBinary(std::vector<OpSpec>& table) {
  table.push_back({"add_", Group::kInplace, "$0.add_($1);",
                   IntoOne<Number, Number>,
                   [](Context& c) { c.T(0).add_(c.T(1)); }, 0, true});
  table.push_back({"add_alpha_", Group::kInplace, "$0.add_($1, $s0);",
                   IntoOneScalar<Float, Float, Use::kAlpha>,
                   [](Context& c) { c.T(0).add_(c.T(1), c.S(0)); }, 0, true});
  table.push_back({"sub_", Group::kInplace, "$0.sub_($1);",
                   IntoOne<Number, Number>,
                   [](Context& c) { c.T(0).sub_(c.T(1)); }, 0, true});
  table.push_back({"mul_", Group::kInplace, "$0.mul_(at::tanh($1));",
                   IntoOne<Float, Float>,
                   [](Context& c) { c.T(0).mul_(at::tanh(c.T(1))); }, 0, true});
  table.push_back({"div_", Group::kInplace, "$0.div_(at::abs($1) + 1);",
                   IntoOne<Float, Float>,
                   [](Context& c) { c.T(0).div_(at::abs(c.T(1)) + 1); }, 0,
                   true});
  table.push_back({"copy_", Group::kInplace, "$0.copy_($1);",
                   IntoOne<Any, Any>,
                   [](Context& c) { c.T(0).copy_(c.T(1)); }, 0, true});
  table.push_back({"lerp_", Group::kInplace, "$0.lerp_($1, $s0);",
                   IntoOneScalar<Float, Float, Use::kFraction>,
                   [](Context& c) { c.T(0).lerp_(c.T(1), c.S(0)); }, 0, true});
  table.push_back({"addcmul_", Group::kInplace, "$0.addcmul_($1, $2, $s0);",
                   IntoTwoScalar<Float, Use::kAlpha>,
                   [](Context& c) {
                     c.T(0).addcmul_(c.T(1), c.T(2), c.S(0));
                   },
                   0, true});
  table.push_back({"addcdiv_", Group::kInplace,
                   "$0.addcdiv_($1, $2.abs() + 1, $s0);",
                   IntoTwoScalar<Float, Use::kAlpha>,
                   [](Context& c) {
                     c.T(0).addcdiv_(c.T(1), c.T(2).abs() + 1, c.S(0));
                   },
                   0, true});
  table.push_back({"masked_fill_", Group::kInplace,
                   "$0.masked_fill_($1, $s0);",
                   IntoOneScalar<Float, Bool, Use::kFactor>,
                   [](Context& c) { c.T(0).masked_fill_(c.T(1), c.S(0)); }, 0,
                   true});
  table.push_back({"foreach_add_", Group::kInplace,
                   "at::_foreach_add_({$0, $1}, {$2, $2}, $s0);",
                   [](Generator& g, Statement& st) {
                     if (!g.Target(st, Float)) return false;
                     auto like = [&](const at::Tensor& t) {
                       return t.sizes() == g.A(st, 0).sizes() &&
                              t.scalar_type() == g.A(st, 0).scalar_type();
                     };
                     if (!g.Target(st, like) || !g.Arg(st, like)) return false;
                     g.Scalar(st, Use::kAlpha);
                     return st.args[0] != st.args[1];
                   },
                   [](Context& c) {
                     at::_foreach_add_({c.T(0), c.T(1)}, {c.T(2), c.T(2)},
                                       c.S(0));
                   },
                   0, true});
}

void AddScalar(std::vector<OpSpec>& table) {
  table.push_back({"add_scalar_", Group::kInplace, "$0.add_($s0);",
                   IntoScalar<Float, Use::kAlpha>,
                   [](Context& c) { c.T(0).add_(c.S(0)); }, 0, true});
  table.push_back({"mul_scalar_", Group::kInplace, "$0.mul_($s0);",
                   IntoScalar<Float, Use::kFraction>,
                   [](Context& c) { c.T(0).mul_(c.S(0)); }, 0, true});
  table.push_back({"div_scalar_", Group::kInplace, "$0.div_(1.0 + $s0);",
                   IntoScalar<Float, Use::kPositive>,
                   [](Context& c) { c.T(0).div_(1.0 + c.D(0)); }, 0, true});
  table.push_back({"fill_", Group::kInplace, "$0.fill_($s0);",
                   IntoScalar<Any, Use::kFactor>,
                   [](Context& c) { c.T(0).fill_(c.S(0)); }, 0, true});
  table.push_back({"clamp_", Group::kInplace, "$0.clamp_(-1.0, $s0);",
                   IntoScalar<Float, Use::kPositive>,
                   [](Context& c) {
                     c.T(0).clamp_(at::Scalar(-1.0), c.S(0));
                   },
                   0, true});
  table.push_back({"pow_", Group::kInplace, "$0.abs_().add_(0.5).pow_($s0);",
                   IntoScalar<Float, Use::kExponent>,
                   [](Context& c) {
                     c.T(0).abs_().add_(0.5).pow_(c.S(0));
                   },
                   0, true});
}

// Reads and writes of one storage at different places. Where memory overlaps
// in part, eager throws, and so must we.
void AddOverlap(std::vector<OpSpec>& table) {
  table.push_back({"shift_overlap", Group::kOverlap,
                   "$0.slice(0, 0, 3).copy_($0.slice(0, 1, 4));", Into<Rows>,
                   [](Context& c) {
                     c.T(0).slice(0, 0, 3).copy_(c.T(0).slice(0, 1, 4));
                   },
                   0, true, true});
  table.push_back({"shift_apart", Group::kOverlap,
                   "$0.slice(0, 0, 2).copy_($0.slice(0, 2, 4));", Into<Rows>,
                   [](Context& c) {
                     c.T(0).slice(0, 0, 2).copy_(c.T(0).slice(0, 2, 4));
                   },
                   0, true});
  table.push_back({"add_self", Group::kOverlap, "$0.mul_(0.4).add_($0);",
                   Into<Float>,
                   [](Context& c) { c.T(0).mul_(0.4).add_(c.T(0)); }, 0, true});
  table.push_back({"add_transposed", Group::kOverlap,
                   "$0.mul_(0.4).add_($0.t());", Into<Square>,
                   [](Context& c) { c.T(0).mul_(0.4).add_(c.T(0).t()); }, 0,
                   true, true});
  table.push_back({"row_from_rows", Group::kOverlap,
                   "{ at::Tensor row = $0.select(0, 0); at::add_out(row, "
                   "$0.select(0, 1), $0.select(0, 2), 0.5); }",
                   Into<FloatRows>,
                   [](Context& c) {
                     at::Tensor row = c.T(0).select(0, 0);
                     at::add_out(row, c.T(0).select(0, 1),
                                 c.T(0).select(0, 2), 0.5);
                   },
                   0, true});
  table.push_back({"write_then_read_view", Group::kOverlap,
                   "{ auto u = $0.select(0, 1); u.add_(1); $d0 = $0 * 0.5; "
                   "u.mul_(0.5); }",
                   Into<FloatRows>,
                   [](Context& c) {
                     at::Tensor u = c.T(0).select(0, 1);
                     u.add_(1);
                     c.Out(c.T(0) * 0.5);
                     u.mul_(0.5);
                   },
                   1, true});
  table.push_back({"write_parts", Group::kOverlap,
                   "$0.select(0, 0).mul_($s0); $0.slice(0, 1, 3).add_($s0);",
                   IntoScalar<FloatRows, Use::kFraction>,
                   [](Context& c) {
                     c.T(0).select(0, 0).mul_(c.S(0));
                     c.T(0).slice(0, 1, 3).add_(c.S(0));
                   },
                   0, true});
  table.push_back({"flip_self", Group::kOverlap, "$0.copy_($0.flip(0));",
                   Into<Rows>,
                   [](Context& c) { c.T(0).copy_(c.T(0).flip(0)); }, 0, true});
}

}  // namespace

void AddInplaceOps(std::vector<OpSpec>& table) {
  AddUnary(table);
  AddBinary(table);
  AddScalar(table);
  AddOverlap(table);
}

}  // namespace tjit::differential
