// Sums over the dims around others, as of the gradient of a bias in NCHW, and
// reductions of several last dims. Eager takes dims that lie one behind the
// other for one: it adds up each row of the last ones, and puts the rows' sums
// together one after the other. Two reductions of the IR do the same. Threads
// share what is left, so their number does not matter.
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

bool IsAround(const StepLowering& s, std::size_t arg,
              const std::vector<int>& dims, Op op, Around* around) {
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (!IsOf(Floats::kAll, g) || !IsRowMajor(g) || !s.target_is_fresh()) {
    return false;
  }
  int first = 0;  // of the dims that are left, and behind the last of them
  while (first < static_cast<int>(dims.size()) && dims[first] == first) ++first;
  const int last = g.ndim - (static_cast<int>(dims.size()) - first);
  if (first == g.ndim || last == g.ndim || dims[first] != last) return false;
  *around = {};
  for (int d = 0; d < g.ndim; ++d) {
    (d < first  ? around->before
     : d < last ? around->left
                : around->behind) *= g.sizes[d];
  }
  const std::int64_t most = LongestRow(s, arg);
  if (around->left < 2 || around->left > most || around->behind < 2 ||
      around->behind > most || g.numel() == 0) {
    return false;
  }
  // Halves are rounded after each row.
  return around->before == 1 || IsSum(op);
}

Node ReduceAround(StepLowering& s, Op op, const Node& x, const Around& around) {
  const Dim before = {around.before, -1}, left = {around.left, -1};
  s.Fix(x.dims);
  s.Fix(s.target_dims());
  const Node one = StepLowering::Number(1.0);
  const Node rows = Lay(s, x, {before, left, {around.behind, -1}});
  if (around.before == 1) {
    return Lay(s, s.ReduceAt(op, {rows}, {2}, one), s.target_dims());
  }
  const Node sums =
      Lay(s, s.ReduceAt(Op::kSum, {rows}, {2}, one), {before, left});
  const Node sum =
      Lay(s, s.ReduceAt(Op::kSumInTurn, {sums}, {0}, one), s.target_dims());
  if (op == Op::kSum) return sum;
  const auto count = static_cast<double>(around.before * around.behind);
  return s.Apply(Op::kDiv, {sum, StepLowering::Number(count)});
}

}  // namespace tjit::lower
