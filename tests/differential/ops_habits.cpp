// Habits of programs as people write them: places of a storage that move with
// the iterations, constants made in mid-step, memory filled through a pointer,
// an index that is expanded over features.
#include "tests/differential/op_table.h"
#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

bool SomeRows(const at::Tensor& t) {
  return FloatDim(t) && t.size(0) > 1 && t.numel() > 0;
}
bool SomeMatrix(const at::Tensor& t) { return SomeRows(t) && t.dim() == 2; }

// A row of `t` that changes with the iterations.
at::Tensor RowAt(const at::Tensor& t, std::int64_t i) {
  return t.select(0, i % RowsOf(t));
}

// Half of the rows, from a place that changes with the iterations.
at::Tensor HalfAt(const at::Tensor& t, std::int64_t i) {
  const std::int64_t rows = t.size(0) / 2;
  return t.narrow(0, i % (t.size(0) - rows + 1), rows);
}

void AddPlaces(std::vector<OpSpec>& table) {
  table.push_back({"rows_at_places", Group::kView,
                   "$d0 = at::stack({row($0, 7 * it), row($0, 5 * it + 1)});",
                   One<SomeRows>,
                   [](Context& c) {
                     c.Out(at::stack({RowAt(c.T(0), 7 * c.it()),
                                      RowAt(c.T(0), 5 * c.it() + 1)}));
                   },
                   1});
  table.push_back({"list_of_places", Group::kView,
                   "$d0 = at::cat(six rows of $0, drawn);", One<SomeRows>,
                   [](Context& c) {
                     std::vector<at::Tensor> rows;
                     for (std::int64_t r = 0; r < 6; ++r) {
                       rows.push_back(
                           RowAt(c.T(0), c.it() * (r + 3) + r).unsqueeze(0));
                     }
                     c.Out(at::cat(rows));
                   },
                   1});
  table.push_back({"halves_at_places", Group::kView,
                   "$d0 = half($0, it) - half($0, 3 * it) * half($0, it);",
                   One<SomeRows>,
                   [](Context& c) {
                     const at::Tensor a = HalfAt(c.T(0), c.it());
                     c.Out(a - HalfAt(c.T(0), 3 * c.it()) * a);
                   },
                   1});
  // A cache: the row that is written moves, the whole is read.
  table.push_back({"write_a_row_read_all", Group::kOverlap,
                   "row($0, it).mul_($s0); $d0 = $0 * 2;",
                   IntoScalar<SomeRows, Use::kFraction>,
                   [](Context& c) {
                     RowAt(c.T(0), c.it()).mul_(c.S(0));
                     c.Out(c.T(0) * 2);
                   },
                   1, true});
  table.push_back({"write_half_read_half", Group::kOverlap,
                   "$d0 = half($0, 3 * it) * 2; half($0, it).mul_($s0); "
                   "$d0 = $d0 + half($0, 5 * it);",
                   IntoScalar<SomeRows, Use::kFraction>,
                   [](Context& c) {
                     const at::Tensor before = HalfAt(c.T(0), 3 * c.it()) * 2;
                     HalfAt(c.T(0), c.it()).mul_(c.S(0));
                     c.Out(before + HalfAt(c.T(0), 5 * c.it()));
                   },
                   1, true});
  table.push_back({"write_half_write_all", Group::kOverlap,
                   "half($0, it).sigmoid_(); $0.lerp_($1, $s0);",
                   [](Generator& g, Statement& st) {
                     if (!IntoOne<SomeRows, Float>(g, st)) return false;
                     g.Scalar(st, Use::kFraction);
                     return true;
                   },
                   [](Context& c) {
                     HalfAt(c.T(0), c.it()).sigmoid_();
                     c.T(0).lerp_(c.T(1), c.S(0));
                   },
                   0, true});
}

void AddConstants(std::vector<OpSpec>& table) {
  table.push_back({"constant_in_mid_step", Group::kState,
                   "$d0 = ($0 * 2 + 1) * at::tensor(0.5f + it % 3);",
                   One<Float>,
                   [](Context& c) {
                     const at::Tensor a = c.T(0) * 2 + 1;
                     const float value = 0.5f + static_cast<float>(c.it() % 3);
                     c.Out(a * at::tensor(value));
                   },
                   1});
  table.push_back({"constants_in_mid_step", Group::kState,
                   "$d0 = $0.sum() * at::tensor({0.25f, 1.0f * (it % 2)});",
                   One<Float>,
                   [](Context& c) {
                     const at::Tensor a = c.T(0).sum();
                     c.Out(a * at::tensor(at::ArrayRef<float>(
                                   {0.25f, static_cast<float>(c.it() % 2)})));
                   },
                   1});
}

void AddPointers(std::vector<OpSpec>& table) {
  // One input, filled through one pointer and read twice in between.
  table.push_back({"fill_and_read", Group::kRaw,
                   "{ float* p = $0.data_ptr<float>(); p[0] = $s0 + it % 4; "
                   "auto u = at::tanh($0); p[0] = it % 2; $d0 = u + $0 * u; }",
                   [](Generator& g, Statement& st) {
                     if (!g.Target(st, RawFloat)) return false;
                     g.Scalar(st, Use::kFactor);
                     return true;
                   },
                   [](Context& c) {
                     float* p = c.T(0).data_ptr<float>();
                     p[0] = static_cast<float>(c.D(0)) +
                            static_cast<float>(c.it() % 4);
                     const at::Tensor u = at::tanh(c.T(0));
                     p[0] = static_cast<float>(c.it() % 2);
                     c.Out(u + c.T(0) * u);
                   },
                   1, true});
}

void AddIndices(std::vector<OpSpec>& table) {
  table.push_back(
      {"expanded_index", Group::kIndex,
       "$d0 = at::gather($0, 0, index(it).expand_as($0));", One<SomeMatrix>,
       [](Context& c) {
         const std::int64_t rows = c.T(0).size(0);
         const at::Tensor index =
             at::remainder(at::arange(rows) + c.it(), rows);
         c.Out(at::gather(c.T(0), 0,
                          index.view({-1, 1}).expand({rows, c.T(0).size(1)})));
       },
       1});
}

}  // namespace

void AddHabitOps(std::vector<OpSpec>& table) {
  AddPlaces(table);
  AddConstants(table);
  AddPointers(table);
  AddIndices(table);
}

}  // namespace tjit::differential
