// Reductions, scans, sorting and products.
#include <ATen/ATen.h>

#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

bool Wide(const at::Tensor& t) { return FloatDim(t) && t.size(-1) >= 2; }
bool FullFloat(const at::Tensor& t) { return Float(t) && t.numel() > 0; }
bool FullFloatDim(const at::Tensor& t) {
  return FloatDim(t) && t.numel() > 0;
}

#define TJIT_REDUCE_DIM(name)                                            \
  table.push_back({#name "_dim", Group::kReduce,                         \
                   "$d0 = at::" #name "($0, $i0);", OneDim<FullFloatDim>, \
                   [](Context& c) { c.Out(at::name(c.T(0), c.I(0))); }, 1}); \
  table.push_back({#name "_keep", Group::kReduce,                        \
                   "$d0 = at::" #name "($0, $i0, true);",                \
                   OneDim<FullFloatDim>,                                 \
                   [](Context& c) { c.Out(at::name(c.T(0), c.I(0), true)); }, \
                   1})

#define TJIT_REDUCE_ALL(name)                                       \
  table.push_back({#name, Group::kReduce, "$d0 = at::" #name "($0);", \
                   One<FullFloat>,                                  \
                   [](Context& c) { c.Out(at::name(c.T(0))); }, 1})

#define TJIT_ROWWISE(name)                                              \
  table.push_back({#name, Group::kReduce, "$d0 = at::" #name "($0, $i0);", \
                   OneDim<FloatDim>,                                    \
                   [](Context& c) { c.Out(at::name(c.T(0), c.I(0))); }, 1})

void AddReductions(std::vector<OpSpec>& table) {
  TJIT_REDUCE_DIM(sum);
  TJIT_REDUCE_DIM(mean);
  TJIT_REDUCE_DIM(amax);
  TJIT_REDUCE_DIM(amin);
  TJIT_REDUCE_DIM(argmax);
  TJIT_REDUCE_DIM(logsumexp);
  TJIT_REDUCE_ALL(sum);
  TJIT_REDUCE_ALL(mean);
  TJIT_REDUCE_ALL(argmax);
  TJIT_REDUCE_ALL(norm);
  TJIT_REDUCE_ALL(max);
  TJIT_REDUCE_ALL(min);
  TJIT_ROWWISE(softmax);
  TJIT_ROWWISE(log_softmax);
  TJIT_ROWWISE(cumsum);
  table.push_back({"var", Group::kReduce, "$d0 = at::var($0, {-1}, false);",
                   One<Wide>,
                   [](Context& c) {
                     c.Out(at::var(c.T(0), at::OptionalIntArrayRef({-1}),
                                   /*unbiased=*/false));
                   },
                   1});
  table.push_back({"norm_dim", Group::kReduce,
                   "$d0 = at::norm($0, $s0, {-1}, true);",
                   OneScalar<Wide, Use::kExponent>,
                   [](Context& c) {
                     c.Out(at::norm(c.T(0), std::optional<at::Scalar>(c.S(0)),
                                    at::IntArrayRef({-1}), true));
                   },
                   1});
  table.push_back({"sum_out", Group::kReduce,
                   "at::sum_out($0, $1, at::IntArrayRef{1});",
                   [](Generator& g, Statement& st) {
                     if (!g.Target(st, Vector)) return false;
                     std::int64_t n = g.A(st, 0).size(0);
                     return g.Arg(st, [&](const at::Tensor& t) {
                       return Matrix(t) && t.size(0) == n &&
                              t.scalar_type() == g.A(st, 0).scalar_type();
                     });
                   },
                   [](Context& c) {
                     at::sum_out(c.Var(0), c.T(1), at::IntArrayRef({1}));
                   },
                   0, true});
}

void AddSorting(std::vector<OpSpec>& table) {
  table.push_back({"max_dim", Group::kReduce,
                   "std::tie($d0, $d1) = at::max($0, -1);", One<Wide>,
                   [](Context& c) {
                     auto [values, at] = at::max(c.T(0), -1);
                     c.Out(std::move(values), 0);
                     c.Out(std::move(at), 1);
                   },
                   2});
  table.push_back({"sort", Group::kReduce,
                   "std::tie($d0, $d1) = at::sort($0, -1, true);", One<Wide>,
                   [](Context& c) {
                     auto [values, at] = at::sort(c.T(0), -1, true);
                     c.Out(std::move(values), 0);
                     c.Out(std::move(at), 1);
                   },
                   2});
  table.push_back({"topk", Group::kReduce,
                   "std::tie($d0, $d1) = at::topk($0, 2);", One<Wide>,
                   [](Context& c) {
                     auto [values, at] = at::topk(c.T(0), 2);
                     c.Out(std::move(values), 0);
                     c.Out(std::move(at), 1);
                   },
                   2});
  table.push_back({"argsort", Group::kReduce, "$d0 = at::argsort($0);",
                   One<Wide>, [](Context& c) { c.Out(at::argsort(c.T(0))); },
                   1});
  table.push_back({"any", Group::kReduce, "$d0 = at::any($0, -1);",
                   [](Generator& g, Statement& st) {
                     return g.Arg(st, [](const at::Tensor& t) {
                       return Bool(t) && t.dim() > 0;
                     });
                   },
                   [](Context& c) { c.Out(at::any(c.T(0), -1)); }, 1});
}

// Two arguments of one dtype for which `fits(a, b)` holds.
template <typename P, typename F>
bool Pair(Generator& g, Statement& st, P first, F fits) {
  if (!g.Arg(st, first)) return false;
  const at::Tensor& a = g.A(st, 0);
  return g.Arg(st, [&](const at::Tensor& b) {
    return b.scalar_type() == a.scalar_type() && fits(a, b);
  });
}

bool ProposeMm(Generator& g, Statement& st) {
  return Pair(g, st, Matrix, [](const at::Tensor& a, const at::Tensor& b) {
    return b.dim() == 2 && a.size(1) == b.size(0);
  });
}

bool ProposeMmTransposed(Generator& g, Statement& st) {
  return Pair(g, st, Matrix, [](const at::Tensor& a, const at::Tensor& b) {
    return b.dim() == 2 && a.size(1) == b.size(1);
  });
}

bool ProposeAddmm(Generator& g, Statement& st) {
  if (!ProposeMm(g, st)) return false;
  at::Tensor shape = at::empty({g.A(st, 0).size(0), g.A(st, 1).size(1)});
  at::ScalarType dtype = g.A(st, 0).scalar_type();
  bool found = g.Arg(st, [&](const at::Tensor& t) {
    return t.scalar_type() == dtype && FitsInto(shape, t);
  });
  g.Scalar(st, Use::kFactor);
  g.Scalar(st, Use::kFactor);
  return found;
}

bool ProposeBmm(Generator& g, Statement& st) {
  return Pair(g, st, Batch, [](const at::Tensor& a, const at::Tensor& b) {
    return b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1);
  });
}

bool ProposeMatmul(Generator& g, Statement& st) {
  return Pair(g, st, FloatDim, [](const at::Tensor& a, const at::Tensor& b) {
    return b.dim() > 0 && b.dim() < 3 &&
           a.size(-1) == b.size(b.dim() == 1 ? 0 : -2);
  });
}

bool ProposeLinear(Generator& g, Statement& st) {
  bool found =
      Pair(g, st, FloatDim, [](const at::Tensor& a, const at::Tensor& b) {
        return b.dim() == 2 && a.size(-1) == b.size(1);
      });
  if (!found) return false;
  std::int64_t n = g.A(st, 1).size(0);
  at::ScalarType dtype = g.A(st, 0).scalar_type();
  return g.Arg(st, [&](const at::Tensor& t) {
    return t.dim() == 1 && t.size(0) == n && t.scalar_type() == dtype;
  });
}

void AddProducts(std::vector<OpSpec>& table) {
  table.push_back({"mm", Group::kMatmul, "$d0 = at::mm($0, $1) * 0.3;",
                   ProposeMm,
                   [](Context& c) { c.Out(at::mm(c.T(0), c.T(1)) * 0.3); }, 1});
  table.push_back({"mm_transposed", Group::kMatmul,
                   "$d0 = at::tanh(at::mm($0, $1.t()));", ProposeMmTransposed,
                   [](Context& c) {
                     c.Out(at::tanh(at::mm(c.T(0), c.T(1).t())));
                   },
                   1});
  table.push_back({"addmm", Group::kMatmul,
                   "$d0 = at::addmm($2, $0, $1, $s0, $s1);", ProposeAddmm,
                   [](Context& c) {
                     c.Out(at::addmm(c.T(2), c.T(0), c.T(1), c.S(0), c.S(1)));
                   },
                   1});
  table.push_back({"bmm", Group::kMatmul, "$d0 = at::bmm($0, $1);", ProposeBmm,
                   [](Context& c) { c.Out(at::bmm(c.T(0), c.T(1))); }, 1});
  table.push_back({"bmm_self", Group::kMatmul,
                   "$d0 = at::bmm($0, $0.transpose(1, 2)) * 0.2;", One<Batch>,
                   [](Context& c) {
                     c.Out(at::bmm(c.T(0), c.T(0).transpose(1, 2)) * 0.2);
                   },
                   1});
  table.push_back({"matmul", Group::kMatmul, "$d0 = at::matmul($0, $1);",
                   ProposeMatmul,
                   [](Context& c) { c.Out(at::matmul(c.T(0), c.T(1))); }, 1});
  table.push_back({"linear", Group::kMatmul, "$d0 = at::linear($0, $1, $2);",
                   ProposeLinear,
                   [](Context& c) {
                     c.Out(at::linear(c.T(0), c.T(1), c.T(2)));
                   },
                   1});
  table.push_back({"outer", Group::kMatmul, "$d0 = at::outer($0, $0);",
                   One<Vector>,
                   [](Context& c) { c.Out(at::outer(c.T(0), c.T(0))); }, 1});
  table.push_back({"mm_out", Group::kMatmul, "at::mm_out($0, $1, $2);",
                   [](Generator& g, Statement& st) {
                     Statement product;
                     if (!ProposeMm(g, product)) return false;
                     const at::Tensor& a = g.A(product, 0);
                     const at::Tensor& b = g.A(product, 1);
                     if (!g.Target(st, [&](const at::Tensor& t) {
                           return t.dim() == 2 && t.size(0) == a.size(0) &&
                                  t.size(1) == b.size(1) &&
                                  t.scalar_type() == a.scalar_type();
                         })) {
                       return false;
                     }
                     st.args.push_back(product.args[0]);
                     st.args.push_back(product.args[1]);
                     return true;
                   },
                   [](Context& c) { at::mm_out(c.Var(0), c.T(1), c.T(2)); }, 0,
                   true});
}

}  // namespace

void AddReduceOps(std::vector<OpSpec>& table) {
  AddReductions(table);
  AddSorting(table);
  AddProducts(table);
}

}  // namespace tjit::differential
