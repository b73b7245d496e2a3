// Sums over the dims outside and inside of others, as of the gradient of a bias
// in NCHW, and reductions of several last dims. Eager takes dims that lie one
// behind the other for one: it adds up each row of the last ones, and puts the
// rows' sums together one after the other. Two reductions of the IR do the
// same. Threads share what is left, so their number does not matter.
// Source: aten/src/ATen/native/cpu/SumKernel.cpp (cascade_sum), TensorIterator
// (reorder_dimensions, coalesce_dimensions) of libtorch 2.13.
#include "compiler/lower/rows.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::Op;

// As the dims say, row-major.
Node Lay(StepLowering& s, Node node, Dims dims) {
  ir::Sizes sizes;
  for (const Dim& dim : dims) sizes.push_back(s.SizeOf(dim));
  const ir::Size offset = node.operand.access.offset;
  node.dims = std::move(dims);
  node.operand.access = ir::Contiguous(sizes);
  node.operand.access.offset = offset;
  return node;
}

bool IsSum(Op op) { return op == Op::kSum || op == Op::kMean; }

}  // namespace

bool IsOuterInner(const StepLowering& s, std::size_t arg,
                  const std::vector<int>& dims, Op op, OuterInner* loops) {
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (!IsOf(Floats::kAll, g) || !IsRowMajor(g) || !s.target_is_fresh()) {
    return false;
  }
  int first = 0;  // of the dims that are left, and behind the last of them
  while (first < static_cast<int>(dims.size()) && dims[first] == first) ++first;
  const int last = g.ndim - (static_cast<int>(dims.size()) - first);
  if (first == g.ndim || last == g.ndim || dims[first] != last) return false;
  *loops = {};
  for (int d = 0; d < g.ndim; ++d) {
    (d < first  ? loops->outer
     : d < last ? loops->kept
                : loops->inner) *= g.sizes[d];
  }
  const std::int64_t most = LongestRow(s, arg);
  if (loops->kept < 2 || loops->kept > most || loops->inner < 2 ||
      loops->inner > most || g.numel() == 0) {
    return false;
  }
  // Halves are rounded after each row.
  return loops->outer == 1 || IsSum(op);
}

Node ReduceOuterInner(StepLowering& s, Op op, const Node& x,
                      const OuterInner& loops) {
  const Dim outer = {loops.outer, -1}, kept = {loops.kept, -1};
  s.Fix(x.dims);
  s.Fix(s.target_dims());
  const Node one = StepLowering::Number(1.0);
  const Node rows = Lay(s, x, {outer, kept, {loops.inner, -1}});
  if (loops.outer == 1) {
    return Lay(s, s.ReduceAt(op, {rows}, {2}, one), s.target_dims());
  }
  const Node sums =
      Lay(s, s.ReduceAt(Op::kSum, {rows}, {2}, one), {outer, kept});
  const Node sum =
      Lay(s, s.ReduceAt(Op::kSumSequential, {sums}, {0}, one), s.target_dims());
  if (op == Op::kSum) return sum;
  const auto count = static_cast<double>(loops.outer * loops.inner);
  return s.Apply(Op::kDiv, {sum, StepLowering::Number(count)});
}

}  // namespace tjit::lower
