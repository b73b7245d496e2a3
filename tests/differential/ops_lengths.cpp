// Lengths that differ from step to step: parts of fixed storages, storages that
// grow, numbers of indices, and ops whose results are as large as the data
// says. Loops that go round so often are Program::loops; the rows that carry
// their state are here.
#include <algorithm>

#include "tests/differential/op_table.h"
#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

bool Never(Generator&, Statement&) { return false; }
bool SomeRows(const at::Tensor& t) { return FloatDim(t) && t.numel() > 0; }

template <bool (*P)(const at::Tensor&)>
bool OneLength(Generator& g, Statement& st) {
  if (!g.Arg(st, P)) return false;
  st.scalars.push_back(g.Length());
  return true;
}

std::int64_t LengthOf(const Context& c) {
  return static_cast<std::int64_t>(c.D(0));
}

// The first rows, at most all.
at::Tensor First(const at::Tensor& t, std::int64_t n) {
  return t.narrow(0, 0, std::min(n, t.size(0)));
}

// So many rows, which change with the iterations.
at::Tensor SomeOf(const at::Tensor& t, std::int64_t n, std::int64_t it) {
  return at::remainder(at::arange(n) * 5 + it, RowsOf(t));
}

void AddLoopState(std::vector<OpSpec>& table) {
  table.push_back({"start", Group::kLength, "$d0 = $0.detach() * 0.5;",
                   One<SomeRows>,
                   [](Context& c) { c.Out(c.T(0).detach() * 0.5); }, 1});
  table.push_back({"carry", Group::kLength,
                   "$d0 = at::tanh($0 * 0.5 + $1 * 0.25);", Never,
                   [](Context& c) {
                     c.Out(at::tanh(c.T(0) * 0.5 + c.T(1) * 0.25));
                   },
                   1});
  table.push_back({"carry_", Group::kLength, "$0.mul_(0.5).add_($1, 0.25);",
                   Never,
                   [](Context& c) { c.T(0).mul_(0.5).add_(c.T(1), 0.25); }, 0,
                   true});
  table.push_back({"row_of_trip", Group::kLength,
                   "$d0 = $0.select(0, $j % $0.size(0)) * 1.5;", One<SomeRows>,
                   [](Context& c) {
                     const std::int64_t row = c.trip() % RowsOf(c.T(0));
                     c.Out(c.T(0).select(0, row) * 1.5);
                   },
                   1});
}

void AddParts(std::vector<OpSpec>& table) {
  table.push_back({"first_rows", Group::kLength,
                   "$d0 = first($0, $s0) * 2 + 1;", OneLength<SomeRows>,
                   [](Context& c) {
                     c.Out(First(c.T(0), LengthOf(c)) * 2 + 1);
                   },
                   1});
  table.push_back({"sum_of_first_rows", Group::kLength,
                   "$d0 = (first($0, $s0) * 0.5).sum(0);",
                   OneLength<SomeRows>,
                   [](Context& c) {
                     c.Out((First(c.T(0), LengthOf(c)) * 0.5).sum(0));
                   },
                   1});
  table.push_back({"write_first_rows", Group::kLength,
                   "first($0, $s0).mul_(0.5); $d0 = $0 * 2;",
                   [](Generator& g, Statement& st) {
                     if (!g.Target(st, SomeRows)) return false;
                     st.scalars.push_back(g.Length());
                     return true;
                   },
                   [](Context& c) {
                     First(c.T(0), LengthOf(c)).mul_(0.5);
                     c.Out(c.T(0) * 2);
                   },
                   1, true});
}

// The cache of what is read into `$d0`, grown by `x`: at most `most` rows.
const at::Tensor& Grow(Context& c, const at::Tensor& x, std::int64_t most) {
  at::Tensor& cache = c.state().caches[c.dst_id(0)];
  const at::Tensor more = x.detach();
  const bool begins = !cache.defined() || cache.size(0) >= most;
  cache = begins ? more.clone() : at::cat({cache, more});
  return cache;
}

void AddGrowing(std::vector<OpSpec>& table) {
  const auto propose = [](Generator& g, Statement& st) {
    if (!g.Arg(st, SomeRows)) return false;
    st.ints = {g.A(st, 0).size(0) * (g.rng().Chance(0.7) ? 2 : 3)};
    return true;
  };
  table.push_back({"growing_cache", Group::kLength,
                   "$d0 = (grow(c_$d0, $0, $i0) * 0.5).sum(0);", propose,
                   [](Context& c) {
                     c.Out((Grow(c, c.T(0), c.I(0)) * 0.5).sum(0));
                   },
                   1});
  table.push_back({"all_of_growing_cache", Group::kLength,
                   "$d0 = at::tanh(grow(c_$d0, $0, $i0));", propose,
                   [](Context& c) {
                     c.Out(at::tanh(Grow(c, c.T(0), c.I(0))));
                   },
                   1});
  table.push_back({"stacked_list", Group::kLength,
                   "{ std::vector<at::Tensor> list = {$0[0]}; "
                   "for (k < $s0) list.push_back($0[k % rows] * (k + 1)); "
                   "$d0 = at::stack(list).mean(0); }",
                   OneLength<SomeRows>,
                   [](Context& c) {
                     const at::Tensor& x = c.T(0);
                     std::vector<at::Tensor> list = {x.select(0, 0)};
                     for (std::int64_t k = 0; k < LengthOf(c); ++k) {
                       list.push_back(x.select(0, k % RowsOf(x)) * (k + 1));
                     }
                     c.Out(at::stack(list).mean(0));
                   },
                   1});
}

void AddSomeIndices(std::vector<OpSpec>& table) {
  table.push_back({"select_some", Group::kLength,
                   "$d0 = at::index_select($0, 0, some($0, $s0, it)) * 2;",
                   OneLength<SomeRows>,
                   [](Context& c) {
                     const at::Tensor& x = c.T(0);
                     const at::Tensor some = SomeOf(x, LengthOf(c), c.it());
                     c.Out(at::index_select(x, 0, some) * 2);
                   },
                   1});
  table.push_back({"scatter_some", Group::kLength,
                   "$d0 = at::index_add($0, 0, some($0, $s0, it), "
                   "first($0, $s0) * 0.5);",
                   OneLength<SomeRows>,
                   [](Context& c) {
                     const at::Tensor& x = c.T(0);
                     const at::Tensor rows = First(x, LengthOf(c)) * 0.5;
                     const at::Tensor some = SomeOf(x, rows.size(0), c.it());
                     c.Out(at::index_add(x, 0, some, rows));
                   },
                   1});
  table.push_back(
      {"scatter_add_some", Group::kLength,
       "$d0 = at::scatter_add($0, 0, some($0, $s0, it).view({-1, 1})"
       ".expand_as(first($0, $s0)), first($0, $s0));",
       [](Generator& g, Statement& st) {
         return OneLength<SomeRows>(g, st) && g.A(st, 0).dim() == 2;
       },
       [](Context& c) {
         const at::Tensor& x = c.T(0);
         const at::Tensor rows = First(x, LengthOf(c));
         const at::Tensor some = SomeOf(x, rows.size(0), c.it());
         c.Out(at::scatter_add(x, 0, some.view({-1, 1}).expand_as(rows), rows));
       },
       1});
  table.push_back({"masked_rows", Group::kLength,
                   "$d0 = at::index($0, {at::arange(rows) < $s0}).sum(0);",
                   OneLength<SomeRows>,
                   [](Context& c) {
                     const at::Tensor mask =
                         at::arange(c.T(0).size(0)) < LengthOf(c);
                     c.Out(at::index(c.T(0), {std::optional(mask)}).sum(0));
                   },
                   1});
}

// Sizes that only the data knows, and ops on what comes of it.
void AddSizesOfData(std::vector<OpSpec>& table) {
  table.push_back({"positive_rows", Group::kLength,
                   "$d0 = at::tanh($0.index_select(0, "
                   "at::nonzero($0.reshape({rows, -1}).sum(1) > 0)"
                   ".flatten()) * 0.5).sum(0);",
                   One<SomeRows>,
                   [](Context& c) {
                     const at::Tensor& x = c.T(0);
                     const at::Tensor sums =
                         x.reshape({x.size(0), -1}).sum(1);
                     const at::Tensor rows = at::nonzero(sums > 0).flatten();
                     c.Out(at::tanh(x.index_select(0, rows) * 0.5).sum(0));
                   },
                   1});
  table.push_back({"selected_values", Group::kLength,
                   "$d0 = at::masked_select($0, $0 > $s0) * 2 + 1;",
                   OneScalar<SomeRows, Use::kAlpha>,
                   [](Context& c) {
                     c.Out(at::masked_select(c.T(0), c.T(0) > c.S(0)) * 2 + 1);
                   },
                   1});
  table.push_back({"unique_values", Group::kLength,
                   "{ auto u = std::get<0>(at::_unique(at::round($0 * 2))); "
                   "$d0 = (u * u + 1).sum(); }",
                   One<SomeRows>,
                   [](Context& c) {
                     const at::Tensor u =
                         std::get<0>(at::_unique(at::round(c.T(0) * 2)));
                     c.Out((u * u + 1).sum());
                   },
                   1});
}

}  // namespace

void AddLengthOps(std::vector<OpSpec>& table) {
  AddLoopState(table);
  AddParts(table);
  AddGrowing(table);
  AddSomeIndices(table);
  AddSizesOfData(table);
}

}  // namespace tjit::differential
