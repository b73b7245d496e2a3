// Reductions. Of any dims where the result does not depend on the order: any
// and all, and sum, the greatest and the smallest of integers. Of floats, where
// sums round and 0 and -0 are equal, those of rows, which eager and a row
// function go through in one order (rows.h).
#include <algorithm>
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/rows.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::DTypeKind;
using ir::Op;

// The reduced dims, ascending, from the static arguments of the overload:
// `-` none, `d` a dim, `l` a list of dims (empty: all), `o` one that may be
// absent, then keepdim; `t` behind it: a dtype to convert to first.
bool DimsOf(StepLowering& s, const char* form, int ndim, std::vector<int>* dims,
            bool* keepdim) {
  std::size_t next = 0;
  std::vector<int> given;
  if (form[0] != '-') {
    const bool is_list =
        form[0] == 'l' || (form[0] == 'o' && s.Static(next++) != 0);
    std::size_t count = form[0] == 'd' ? 1 : 0;
    if (is_list) count = s.Static(next++);
    for (std::size_t i = 0; i < count && i < 8; ++i) {
      const auto dim = static_cast<std::int64_t>(s.Static(next++));
      given.push_back(static_cast<int>(dim < 0 ? dim + ndim : dim));
    }
    *keepdim = s.Static(next++) != 0;
    if (form[1] == 't') {
      if (s.Static(next) != 0) return s.Refuse("converts before it reduces");
      next += 2;
    }
    if (next != s.record().statics.size()) return s.Refuse("has other dims");
  }
  for (int d = 0; d < ndim; ++d) {
    if (given.empty() ||
        std::find(given.begin(), given.end(), d) != given.end()) {
      dims->push_back(d);
    }
  }
  return true;
}

bool Reduce(StepLowering& s, const OpRule& rule) {
  Node x;
  std::vector<int> dims;
  bool keepdim = false;
  if (!s.Into(0) || !s.Tensor(0, &x)) return false;
  const auto ndim = static_cast<int>(x.dims.size());
  if (ndim == 0) return s.Refuse("reduces a single number");
  if (!DimsOf(s, rule.spec, ndim, &dims, &keepdim)) return false;
  const bool is_logical = rule.op == Op::kAny || rule.op == Op::kAllOf;
  const bool is_float = InfoOf(x.dtype).kind == DTypeKind::kFloat;
  if (!is_logical && is_float) {
    if (!AddsRowByRow(s, 0, dims)) return false;
    if (s.target_dtype() != x.dtype) return s.Refuse("converts what it adds");
  }
  if (rule.op == Op::kMean && !is_float) return s.Refuse("is not of floats");
  return s.Store(s.Reduce(rule.op, x, dims, keepdim));
}

constexpr OpRule kRules[] = {
    {"aten::any", "", "aten::any.all_out", Reduce, Op::kAny, "-"},
    {"aten::any.dim", "", "aten::any.out", Reduce, Op::kAny, "d"},
    {"aten::all", "", "aten::all.all_out", Reduce, Op::kAllOf, "-"},
    {"aten::all.dim", "", "aten::all.out", Reduce, Op::kAllOf, "d"},
    {"aten::amax", "", "aten::amax.out", Reduce, Op::kAmax, "l"},
    {"aten::amin", "", "aten::amin.out", Reduce, Op::kAmin, "l"},
    {"aten::sum.dim_IntList", "", "aten::sum.IntList_out", Reduce, Op::kSum,
     "ot"},
    {"aten::mean.dim", "", "aten::mean.out", Reduce, Op::kMean, "ot"},
    {"aten::max", "", "", Reduce, Op::kAmax, "-"},
    {"aten::min", "", "", Reduce, Op::kAmin, "-"},
};

}  // namespace

absl::Span<const OpRule> ReduceRules() { return kRules; }

}  // namespace tjit::lower
