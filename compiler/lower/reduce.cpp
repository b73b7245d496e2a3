// Reductions. Of any dims where the result does not depend on the order: any
// and all, and sum, the greatest and the smallest of integers. Of floats, where
// sums round and 0 and -0 are equal, those of rows, of columns and of all
// elements, which eager and a row function go through in one order (rows.h).
// Source: aten/src/ATen/native/ReduceOps.cpp of libtorch 2.13 (what is
// converted before).
#include <algorithm>
#include <limits>
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/rows.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::DTypeKind;
using ir::Op;

// What a reduction reads: tensor 0.
struct Input {
  Node x;
  std::vector<int> dims;  // ascending
  bool keepdim = false;
  bool has_dtype = false;
};

// All but x, from the static arguments of the overload: `-` none, `d` a dim,
// `l` a list of dims (empty: all), `o` one that may be absent, then keepdim;
// `t` behind it: a dtype to convert to first, which the result has.
bool DimsOf(StepLowering& s, const char* form, int ndim, Input* in) {
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
    in->keepdim = s.Static(next++) != 0;
    if (form[1] == 't') {
      in->has_dtype = s.Static(next) != 0;
      next += 2;
    }
    if (next != s.record().statics.size()) return s.Refuse("has other dims");
  }
  for (int d = 0; d < ndim; ++d) {
    if (given.empty() ||
        std::find(given.begin(), given.end(), d) != given.end()) {
      in->dims.push_back(d);
    }
  }
  return true;
}

bool Load(StepLowering& s, const char* form, Input* in) {
  if (!s.Into(0) || !s.Tensor(0, &in->x)) return false;
  const auto ndim = static_cast<int>(in->x.dims.size());
  if (ndim == 0) return s.Refuse("reduces a single number");
  return DimsOf(s, form, ndim, in);
}

// The sum over a dim as additions of its slices, which fuse with what is
// around: one slice after the other, to 0.
// REQUIRES: IsShortSum() or IsSumOfShortRows().
Node AddSlices(StepLowering& s, const Node& x, std::size_t dim, bool keepdim,
               bool is_mean) {
  const std::int64_t count = x.dims[dim].size;
  s.Fix({x.dims[dim]});
  const Node one = StepLowering::Number(std::int64_t{1});
  const auto at = static_cast<std::ptrdiff_t>(dim);
  Node sum = StepLowering::Number(0.0);
  for (std::int64_t i = 0; i < count; ++i) {
    Node slice = x;
    ir::Geometry& access = slice.operand.access;
    access.offset = access.offset + ir::Size(i) * access.strides[dim];
    if (keepdim) {
      slice.dims[dim] = Dim{};
      access.sizes[dim] = ir::Size(1);
    } else {
      slice.dims.erase(slice.dims.begin() + at);
      access.sizes.erase(access.sizes.begin() + at);
      access.strides.erase(access.strides.begin() + at);
    }
    sum = i == 0 ? s.Apply(Op::kAdd, {slice, sum, one})
                 : s.Apply(Op::kAdd, {sum, slice, one});
  }
  if (!is_mean) return sum;
  return s.Apply(Op::kDiv,
                 {sum, StepLowering::Number(static_cast<double>(count))});
}

// REQUIRES: HasColumns().
Node ReduceColumns(StepLowering& s, Op op, const Node& x,
                   const std::vector<int>& dims, bool keepdim,
                   const Node* number) {
  return dims.size() + 1 == x.dims.size()
             ? s.Reduce(op, x, dims, keepdim, number)
             : s.ReduceLeading(op, x, dims, number);
}

// What is made of one row or column by Welford's formula.
bool StoreDeviation(StepLowering& s, Op op, const Input& in,
                    const Node* correction) {
  const auto& [x, dims, keepdim, has_dtype] = in;
  if (s.target_dtype() != x.dtype) return s.Refuse("converts what it adds");
  std::int64_t results = 1;
  for (const Dim& dim : s.target_dims()) results *= dim.size;
  if (results == 1) return s.Refuse("reduces all to one number");
  if (dims == std::vector<int>{static_cast<int>(x.dims.size()) - 1}) {
    return HasRows(s, 0, dims) &&
           s.Store(s.Reduce(op, x, dims, keepdim, correction));
  }
  if (dims.back() + 1 == static_cast<int>(dims.size())) {
    return HasColumns(s, 0, dims) &&
           s.Store(ReduceColumns(s, op, x, dims, keepdim, correction));
  }
  return CanReduceMiddle(s, 0, dims) &&
         s.Store(ReduceMiddle(s, op, x, dims, correction));
}

// (input, dims, correction, keepdim)
bool Deviation(StepLowering& s, const OpRule& rule) {
  Input in;
  Node correction = StepLowering::Number(1.0);
  return Load(s, rule.operand_spec, &in) &&
         (!s.HasScalar(0) || s.Scalar(0, &correction)) &&
         StoreDeviation(s, rule.op, in, &correction);
}

// The same, and the mean.
bool DeviationAndMean(StepLowering& s, const OpRule& rule) {
  Input in;
  return Deviation(s, rule) && s.Into(1) && s.Tensor(0, &in.x) &&
         DimsOf(s, rule.operand_spec, static_cast<int>(in.x.dims.size()),
                &in) &&
         StoreDeviation(s, Op::kWelfordMean, in, nullptr);
}

Op OfHalves(Op op) {
  return op == Op::kSum    ? Op::kSumOfHalves
         : op == Op::kAmax ? Op::kAmaxOfHalves
                           : Op::kAminOfHalves;
}

// Eager converts to the type of the result, then reduces; but a mean of halves
// is one of f32 that is converted.
bool ReduceFloats(StepLowering& s, Op reduction, const Input& in) {
  const auto& dims = in.dims;
  const bool keepdim = in.keepdim;
  const bool is_mean = reduction == Op::kMean;
  const bool is_sum = reduction == Op::kSum || is_mean;
  const DType type = s.target_dtype();
  if (InfoOf(type).kind != DTypeKind::kFloat) {
    return s.Refuse("converts to another type than floats");
  }
  const bool is_half = IsHalf(type);
  const Op op = is_half && !is_mean ? OfHalves(reduction) : reduction;
  Node x = is_half && is_mean ? in.x : s.Convert(in.x, type);
  if (is_half) x = s.Convert(x, DType::kF32);
  if (dims.size() == x.dims.size()) {
    return HasWhole(s, 0, dims, true, Floats::kAll) &&
           s.Store(s.Reduce(op, x, dims, keepdim));
  }
  if (is_sum && IsShortSum(s, 0, dims)) {
    return s.Store(
        AddSlices(s, x, static_cast<std::size_t>(dims[0]), keepdim, is_mean));
  }
  if (is_sum && IsSumOfShortRows(s, 0, dims)) {
    return s.Store(AddSlices(s, x, x.dims.size() - 1, keepdim, is_mean));
  }
  OuterInner loops;
  if (dims.size() > 1 && IsOuterInner(s, 0, dims, op, &loops)) {
    return s.Store(ReduceOuterInner(s, op, x, loops));
  }
  if (HasSlabs(s, 0, dims)) return s.Store(ReduceSlabs(s, op, x, dims));
  if (dims.back() + 1 != static_cast<int>(x.dims.size())) {
    return AddsUpColumns(s, 0, dims) &&
           s.Store(ReduceColumns(s, op, x, dims, keepdim, nullptr));
  }
  return AddsRowByRow(s, 0, dims, Floats::kAll) &&
         s.Store(s.Reduce(op, x, dims, keepdim));
}

// any and all of numbers are those of booleans; the others take integers as
// i64, but for extremes of booleans, which are any and all.
bool ReduceIntegers(StepLowering& s, Op op, const Input& in) {
  constexpr std::int64_t kMaxRow = 8192;
  if (in.has_dtype || InfoOf(s.target_dtype()).kind == DTypeKind::kFloat) {
    return s.Refuse("converts before it reduces");
  }
  const bool is_extreme = op == Op::kAmax || op == Op::kAmin;
  if (is_extreme && in.x.dtype == DType::kBool) {
    op = op == Op::kAmax ? Op::kAny : Op::kAllOf;
  }
  const bool is_logical = op == Op::kAny || op == Op::kAllOf;
  const auto ndim = static_cast<int>(in.x.dims.size());
  const auto count = static_cast<int>(in.dims.size());
  const bool is_whole = count == ndim;
  for (const Dim& dim : in.x.dims) {
    if (!is_whole && dim.size > kMaxRow) {
      return s.Refuse("has rows that are long");
    }
  }
  const Node x = s.Convert(in.x, is_logical ? DType::kBool : DType::kI64);
  const bool is_of_rows = count == 1 && in.dims[0] + 1 == ndim;
  const bool is_of_columns = count + 1 == ndim && in.dims.back() + 1 == count;
  if (is_whole || is_of_rows || is_of_columns) {
    return s.Store(s.Reduce(op, x, in.dims, in.keepdim));
  }
  return s.Store(ReduceInAnyOrder(s, op, x, in.dims));
}

bool Reduce(StepLowering& s, const OpRule& rule) {
  Input in;
  if (!Load(s, rule.operand_spec, &in)) return false;
  const auto& [x, dims, keepdim, has_dtype] = in;
  const bool is_logical = rule.op == Op::kAny || rule.op == Op::kAllOf;
  const bool is_float = InfoOf(x.dtype).kind == DTypeKind::kFloat;
  if (rule.operand_spec[0] == '-' && !is_logical && is_float) {
    const Op op = rule.op == Op::kAmax ? Op::kMaxOfAll : Op::kMinOfAll;
    return HasElements(s, 0) && s.Store(s.Reduce(op, x, dims, keepdim));
  }
  if (!is_logical && is_float) {
    return ReduceFloats(s, rule.op, in);
  }
  if (rule.op == Op::kMean && !is_float) return s.Refuse("is not of floats");
  return ReduceIntegers(s, rule.op, in);
}

// (input, p, dims, keepdim, dtype)
bool Norm(StepLowering& s, const OpRule& rule) {
  Input in;
  double p = 2;
  if (!Load(s, rule.operand_spec, &in)) return false;
  const auto& [x, dims, keepdim, has_dtype] = in;
  if (s.HasScalar(0) && !s.BakedScalar(0, &p)) {
    return s.Refuse("has a varying exponent");
  }
  if (p != 1 && p != 2 && p != std::numeric_limits<double>::infinity()) {
    return s.Refuse("has an exponent other than 1, 2 and infinity");
  }
  if (has_dtype || s.target_dtype() != x.dtype) {
    return s.Refuse("converts what it adds");
  }
  const bool is_whole = dims.size() == x.dims.size();
  const Node exponent = StepLowering::Number(p);
  const auto count = static_cast<int>(dims.size());
  const auto ndim = static_cast<int>(x.dims.size());
  // Of 2, eager adds up rows otherwise than what lies apart.
  if (!is_whole && dims != std::vector<int>{ndim - 1} &&
      (p != 2 || dims.front() == ndim - count)) {
    return CanReduceMiddle(s, 0, dims) &&
           s.Store(ReduceMiddle(s, Op::kNorm, x, dims, &exponent));
  }
  // Squares of rows, and a whole is one, are added up by one thread.
  if (!(is_whole ? HasWhole(s, 0, dims, p != 2) : AddsRowByRow(s, 0, dims))) {
    return false;
  }
  if (!is_whole && p != 2 && !s.has_one_thread() &&
      x.dims[dims[0]].size >= kGrain) {
    return s.Refuse("is split among threads");
  }
  return s.Store(s.Reduce(Op::kNorm, x, dims, keepdim, &exponent));
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
    {"aten::var.correction", "", "aten::var.correction_out", Deviation,
     Op::kVar, "o"},
    {"aten::std.correction", "", "aten::std.correction_out", Deviation,
     Op::kStd, "o"},
    {"aten::var_mean.correction", "", "", DeviationAndMean, Op::kVar, "o"},
    {"aten::std_mean.correction", "", "", DeviationAndMean, Op::kStd, "o"},
    {"aten::linalg_vector_norm", "", "aten::linalg_vector_norm.out", Norm,
     Op::kNorm, "ot"},
    {"aten::norm.ScalarOpt_dim", "", "aten::norm.out", Norm, Op::kNorm, "l"},
    {"aten::max", "", "", Reduce, Op::kAmax, "-"},
    {"aten::min", "", "", Reduce, Op::kAmin, "-"},
};

}  // namespace

absl::Span<const OpRule> ReduceRules() { return kRules; }

}  // namespace tjit::lower
