// Reads and writes through index tensors; results of unknown size.
#include <ATen/ATen.h>

#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

bool Full(const at::Tensor& t) { return t.dim() > 0 && t.numel() > 0; }
bool FullFloat(const at::Tensor& t) { return Float(t) && Full(t); }

// Appends an index vector into dimension 0 of `a`.
bool ArgRows(Generator& g, Statement& st, const at::Tensor& a) {
  return g.Arg(st, [&](const at::Tensor& t) {
    return t.dim() == 1 && IndexesInto(t, a.size(0));
  });
}

bool ProposeRows(Generator& g, Statement& st) {
  return g.Arg(st, Full) && ArgRows(g, st, g.A(st, 0));
}

// Target, row numbers, one source row for each.
bool ProposeRowWrite(Generator& g, Statement& st) {
  if (!g.Target(st, FullFloat)) return false;
  const at::Tensor& a = g.A(st, 0);
  if (!ArgRows(g, st, a)) return false;
  std::int64_t rows = g.A(st, 1).size(0);
  return g.Arg(st, [&](const at::Tensor& t) {
    if (t.scalar_type() != a.scalar_type() || t.dim() != a.dim()) return false;
    return t.size(0) == rows && t.sizes().slice(1) == a.sizes().slice(1);
  });
}

bool ProposeRowFill(Generator& g, Statement& st) {
  if (!g.Target(st, FullFloat) || !ArgRows(g, st, g.A(st, 0))) return false;
  g.Scalar(st, Use::kFactor);
  return true;
}

// An index tensor of as many dims, no larger than its source elsewhere.
bool ProposeGather(Generator& g, Statement& st) {
  if (!g.Arg(st, Full)) return false;
  const at::Tensor& a = g.A(st, 0);
  return g.Arg(st, [&](const at::Tensor& t) {
    if (t.dim() != a.dim() || !IndexesInto(t, a.size(-1))) return false;
    for (std::int64_t i = 0; i + 1 < a.dim(); ++i) {
      if (t.size(i) > a.size(i)) return false;
    }
    return true;
  });
}

void AddReads(std::vector<OpSpec>& table) {
  table.push_back({"index_select", Group::kIndex,
                   "$d0 = at::index_select($0, 0, $1);", ProposeRows,
                   [](Context& c) {
                     c.Out(at::index_select(c.T(0), 0, c.T(1)));
                   },
                   1});
  table.push_back({"embedding", Group::kIndex, "$d0 = at::embedding($0, $1);",
                   [](Generator& g, Statement& st) {
                     return g.Arg(st, [](const at::Tensor& t) {
                              return Matrix(t) && t.numel() > 0;
                            }) && ArgRows(g, st, g.A(st, 0));
                   },
                   [](Context& c) { c.Out(at::embedding(c.T(0), c.T(1))); },
                   1});
  table.push_back({"index", Group::kIndex, "$d0 = at::index($0, {$1});",
                   ProposeRows,
                   [](Context& c) {
                     c.Out(at::index(c.T(0), {std::optional(c.T(1))}));
                   },
                   1});
  table.push_back({"index_columns", Group::kIndex,
                   "$d0 = $0.index({at::indexing::Slice(), $1});",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, [](const at::Tensor& t) {
                           return Full(t) && t.dim() > 1;
                         })) {
                       return false;
                     }
                     std::int64_t n = g.A(st, 0).size(1);
                     return g.Arg(st, [&](const at::Tensor& t) {
                       return t.dim() == 1 && IndexesInto(t, n);
                     });
                   },
                   [](Context& c) {
                     c.Out(c.T(0).index({at::indexing::Slice(), c.T(1)}));
                   },
                   1});
  table.push_back({"gather", Group::kIndex, "$d0 = at::gather($0, -1, $1);",
                   ProposeGather,
                   [](Context& c) { c.Out(at::gather(c.T(0), -1, c.T(1))); },
                   1});
  table.push_back({"take", Group::kIndex, "$d0 = at::take($0, $1);",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, Full)) return false;
                     std::int64_t n = g.A(st, 0).numel();
                     return g.Arg(st, [&](const at::Tensor& t) {
                       return IndexesInto(t, n);
                     });
                   },
                   [](Context& c) { c.Out(at::take(c.T(0), c.T(1))); }, 1});
  table.push_back({"rows_of_argmax", Group::kIndex,
                   "$d0 = at::index_select($0, 0, at::argmax($0, 0).view(-1));",
                   [](Generator& g, Statement& st) {
                     return g.Arg(st, FullFloat);
                   },
                   [](Context& c) {
                     c.Out(at::index_select(c.T(0), 0,
                                            at::argmax(c.T(0), 0).view(-1)));
                   },
                   1});
  table.push_back({"one_less", Group::kIndex, "$d0 = at::clamp_min($0 - 1, 0);",
                   [](Generator& g, Statement& st) {
                     return g.Arg(st, [](const at::Tensor& t) {
                       return t.scalar_type() == at::kLong;
                     });
                   },
                   [](Context& c) { c.Out(at::clamp_min(c.T(0) - 1, 0)); }, 1});
}

void AddWrites(std::vector<OpSpec>& table) {
  table.push_back({"index_put_", Group::kIndexWrite,
                   "$0.index_put_({$1}, $2, true);", ProposeRowWrite,
                   [](Context& c) {
                     c.T(0).index_put_({std::optional(c.T(1))}, c.T(2), true);
                   },
                   0, true});
  table.push_back({"index_put_plain_", Group::kIndexWrite,
                   "$0.index_put_({$1}, $2);", ProposeRowWrite,
                   [](Context& c) {
                     c.T(0).index_put_({std::optional(c.T(1))}, c.T(2));
                   },
                   0, true});
  table.push_back({"index_add_", Group::kIndexWrite,
                   "$0.mul_(0.9).index_add_(0, $1, $2, 0.1);", ProposeRowWrite,
                   [](Context& c) {
                     c.T(0).mul_(0.9).index_add_(0, c.T(1), c.T(2), 0.1);
                   },
                   0, true});
  table.push_back({"index_copy_", Group::kIndexWrite,
                   "$0.index_copy_(0, $1, $2);", ProposeRowWrite,
                   [](Context& c) { c.T(0).index_copy_(0, c.T(1), c.T(2)); }, 0,
                   true});
  table.push_back({"index_fill_", Group::kIndexWrite,
                   "$0.index_fill_(0, $1, $s0);", ProposeRowFill,
                   [](Context& c) { c.T(0).index_fill_(0, c.T(1), c.S(0)); }, 0,
                   true});
  table.push_back({"scatter_value_", Group::kIndexWrite,
                   "$0.scatter_(-1, $1, $s0);",
                   [](Generator& g, Statement& st) {
                     if (!g.Target(st, FullFloat)) return false;
                     Statement gather;
                     const at::Tensor& a = g.A(st, 0);
                     bool found = g.Arg(st, [&](const at::Tensor& t) {
                       if (t.dim() != a.dim()) return false;
                       for (std::int64_t i = 0; i + 1 < a.dim(); ++i) {
                         if (t.size(i) > a.size(i)) return false;
                       }
                       return IndexesInto(t, a.size(-1));
                     });
                     g.Scalar(st, Use::kFactor);
                     return found;
                   },
                   [](Context& c) { c.T(0).scatter_(-1, c.T(1), c.S(0)); }, 0,
                   true});
  table.push_back({"scatter_add_", Group::kIndexWrite,
                   "$0.mul_(0.9).scatter_add_(-1, $1, $2);",
                   [](Generator& g, Statement& st) {
                     if (!g.Target(st, FullFloat)) return false;
                     const at::Tensor& a = g.A(st, 0);
                     bool found = g.Arg(st, [&](const at::Tensor& t) {
                       return t.sizes() == a.sizes() &&
                              IndexesInto(t, a.size(-1));
                     });
                     return found && g.Arg(st, [&](const at::Tensor& t) {
                       return t.sizes() == a.sizes() &&
                              t.scalar_type() == a.scalar_type();
                     });
                   },
                   [](Context& c) {
                     c.T(0).mul_(0.9).scatter_add_(-1, c.T(1), c.T(2));
                   },
                   0, true});
}

// Sizes that depend on values: these end a segment.
void AddDynamic(std::vector<OpSpec>& table) {
  table.push_back({"nonzero", Group::kDynamic, "$d0 = at::nonzero($0 > 0.2);",
                   One<FullFloat>,
                   [](Context& c) { c.Out(at::nonzero(c.T(0) > 0.2)); }, 1});
  table.push_back({"masked_select", Group::kDynamic,
                   "$d0 = at::masked_select($0, $0 > 0).sum();", One<FullFloat>,
                   [](Context& c) {
                     c.Out(at::masked_select(c.T(0), c.T(0) > 0).sum());
                   },
                   1});
  table.push_back({"index_mask", Group::kDynamic,
                   "$d0 = at::index($0, {$0 > 0.1}).cumsum(0);", One<FullFloat>,
                   [](Context& c) {
                     at::Tensor mask = c.T(0) > 0.1;
                     c.Out(at::index(c.T(0), {std::optional(mask)}).cumsum(0));
                   },
                   1});
}

}  // namespace

void AddIndexOps(std::vector<OpSpec>& table) {
  AddReads(table);
  AddWrites(table);
  AddDynamic(table);
}

}  // namespace tjit::differential
