// Set-up rows, rows that throw, and the table itself.
#include <ATen/ATen.h>

#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

bool Never(Generator&, Statement&) { return false; }

void AddInputs(std::vector<OpSpec>& table) {
  table.push_back({"input", Group::kSetup, "$d0 = at::randn($l0, gen) * $s0;",
                   Never,
                   [](Context& c) {
                     c.Out(at::randn(c.List(0), c.state().generator) * c.D(0));
                   },
                   1});
  table.push_back({"zeros", Group::kSetup, "$d0 = at::zeros($l0);", Never,
                   [](Context& c) { c.Out(at::zeros(c.List(0))); }, 1});
  table.push_back({"param", Group::kSetup,
                   "$d0 = (at::randn($l0, gen) * $s0).requires_grad_();", Never,
                   [](Context& c) {
                     at::Tensor t = at::randn(c.List(0), c.state().generator);
                     c.Out((t * c.D(0)).requires_grad_());
                   },
                   1});
  table.push_back({"indices", Group::kSetup,
                   "$d0 = at::randint($i0, $l1, gen, at::kLong);", Never,
                   [](Context& c) {
                     c.Out(at::randint(c.I(0), c.List(1), c.state().generator,
                                       at::kLong));
                   },
                   1});
  table.push_back({"mask", Group::kSetup, "$d0 = at::rand($l0, gen) > 0.5;",
                   Never,
                   [](Context& c) {
                     c.Out(at::rand(c.List(0), c.state().generator) > 0.5);
                   },
                   1});
  table.push_back(
      {"typed_input", Group::kSetup,
       "$d0 = (at::randn($l1, gen) * 2).to(at::ScalarType($i0));", Never,
       [](Context& c) {
         at::Tensor t = at::randn(c.List(1), c.state().generator) * 2;
         c.Out(t.to(static_cast<at::ScalarType>(c.I(0))));
       },
       1});
  table.push_back(
      {"leaf", Group::kSetup, "$d0 = $0.detach().clone().requires_grad_();",
       Never,
       [](Context& c) { c.Out(c.T(0).detach().clone().requires_grad_()); }, 1});
  table.push_back({"one_value", Group::kSetup,
                   "$d0 = at::full({1}, $s0).expand($l0);", Never,
                   [](Context& c) {
                     c.Out(at::full({1}, c.S(0)).expand(c.List(0)));
                   },
                   1});
  table.push_back({"from_blob", Group::kSetup,
                   "std::vector<float> b_$d0($i0, $s0); $d0 = "
                   "at::from_blob(b_$d0.data(), $l1);",
                   Never,
                   [](Context& c) {
                     auto blob = std::make_shared<std::vector<float>>(
                         c.I(0), static_cast<float>(c.D(0)));
                     c.state().blobs[c.dst_id(0)] = blob;
                     c.Out(at::from_blob(blob->data(), c.List(1)));
                   },
                   1});
  table.push_back({"take_pointer", Group::kSetup,
                   "float* p_$0 = $0.data_ptr<float>();", Never,
                   [](Context& c) {
                     c.state().pointers[c.arg_id(0)] = c.T(0).data_ptr<float>();
                   },
                   0});
}

// Each throws when it is called, never later.
void AddErrors(std::vector<OpSpec>& table) {
  auto add = [&](std::string_view name, std::string_view text,
                 bool (*propose)(Generator&, Statement&), void (*run)(Context&),
                 int num_dst, bool writes) {
    table.push_back({name, Group::kError, text, propose, run, num_dst, writes,
                     /*throws=*/true});
  };
  add("bad_mm", "$d0 = at::mm($0, $0.new_zeros({17, 3}));", One<Matrix>,
      [](Context& c) { c.Out(at::mm(c.T(0), c.T(0).new_zeros({17, 3}))); }, 1,
      false);
  add("bad_add", "$d0 = $0 + at::zeros({19});", One<HasDim>,
      [](Context& c) { c.Out(c.T(0) + at::zeros({19})); }, 1, false);
  add("bad_view", "$d0 = $0.view({13, 7});", One<Any>,
      [](Context& c) { c.Out(c.T(0).view({13, 7})); }, 1, false);
  add("bad_index_ready", "$d0 = at::index_select($0, 0, at::full({2}, 99));",
      One<HasDim>,
      [](Context& c) {
        c.Out(at::index_select(c.T(0), 0, at::full({2}, 99, at::kLong)));
      },
      1, false);
  add("bad_index_later",
      "$d0 = at::index_select($0, 0, at::argmax($0, 0).view(-1) + 99 * (it % 3 "
      "== 2));",
      One<FloatDim>,
      [](Context& c) {
        at::Tensor at = at::argmax(c.T(0), 0).view(-1);
        c.Out(at::index_select(c.T(0), 0, at + 99 * (c.it() % 3 == 2)));
      },
      1, false);
  add("bad_embedding", "$d0 = at::embedding($0, $1 + 50 * (it % 4 == 3));",
      [](Generator& g, Statement& st) {
        if (!g.Arg(st, Matrix)) return false;
        std::int64_t n = g.A(st, 0).size(0);
        return g.Arg(st, [&](const at::Tensor& t) {
          return IndexesInto(t, n);
        });
      },
      [](Context& c) {
        c.Out(at::embedding(c.T(0), c.T(1) + 50 * (c.it() % 4 == 3)));
      },
      1, false);
  add("bad_item", "$0.item();", One<HasDim>,
      [](Context& c) { c.Observe(c.T(0).item<double>()); }, 0, false);
  add("bad_out_dtype", "{ auto o = at::zeros({1}, at::kInt); "
      "at::add_out(o, $0, 0.5); }",
      One<Float>,
      [](Context& c) {
        at::Tensor o = at::zeros(c.T(0).sizes(), at::kInt);
        at::add_out(o, c.T(0), c.T(0));
      },
      0, false);
  add("bad_in_place_size", "$0.add_(at::zeros({23, 1, 1, 1, 1}));", Into<Float>,
      [](Context& c) { c.T(0).add_(at::zeros({23, 1, 1, 1, 1})); }, 0, true);
  add("bad_version",
      "{ auto a = $0.detach().clone().requires_grad_(); auto b = a.exp(); "
      "b.add_(1); b.sum().backward(); }",
      One<Float>,
      [](Context& c) {
        at::Tensor a = c.T(0).detach().clone().requires_grad_();
        at::Tensor b = a.exp();
        b.add_(1);
        b.sum().backward();
      },
      0, false);
  add("bad_second_backward",
      "{ auto a = $0.detach().clone().requires_grad_(); auto b = "
      "a.exp().sum(); b.backward(); b.backward(); }",
      One<Float>,
      [](Context& c) {
        at::Tensor a = c.T(0).detach().clone().requires_grad_();
        at::Tensor b = a.exp().sum();
        b.backward();
        b.backward();
      },
      0, false);
  add("bad_leaf",
      "{ auto a = $0.detach().clone().requires_grad_(); a.mul_(2); }",
      One<Float>,
      [](Context& c) {
        at::Tensor a = c.T(0).detach().clone().requires_grad_();
        a.mul_(2);
      },
      0, false);
}

std::vector<OpSpec> MakeTable() {
  std::vector<OpSpec> table;
  AddSetupOps(table);
  AddPointwiseOps(table);
  AddInplaceOps(table);
  AddReduceOps(table);
  AddNnOps(table);
  AddIndexOps(table);
  AddViewOps(table);
  AddStateOps(table);
  AddHabitOps(table);
  AddCalledOps(table);
  AddComplexOps(table);
  AddLengthOps(table);
  return table;
}

}  // namespace

void AddSetupOps(std::vector<OpSpec>& table) {
  AddInputs(table);
  AddErrors(table);
}

const std::vector<OpSpec>& OpTable() {
  static const std::vector<OpSpec> table = MakeTable();
  return table;
}

int OpIndex(std::string_view name) {
  const auto& table = OpTable();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].name == name) return static_cast<int>(i);
  }
  TORCH_CHECK(false, "no statement is called ", name);
}

}  // namespace tjit::differential
