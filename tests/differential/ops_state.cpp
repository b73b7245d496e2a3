// Rows that are not plain computation: random numbers, gradients, reads by the
// program, raw pointers, life times.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <sstream>

#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

bool FullFloat(const at::Tensor& t) { return Float(t) && t.numel() > 0; }
bool FullFloat32(const at::Tensor& t) { return Float32(t) && t.numel() > 0; }

// Proposes a register for the value that is read.
template <bool (*P)(const at::Tensor&)>
bool OneToRegister(Generator& g, Statement& st) {
  if (!g.Arg(st, P)) return false;
  st.ints = {g.NewRegister()};
  return true;
}

void Read(Context& c, double value) {
  c.state().regs[c.I(0)] = value;
  c.Observe(value);
}

void AddRandom(std::vector<OpSpec>& table) {
  table.push_back({"normal_", Group::kRandom, "$0.normal_(0, 1, gen);",
                   Into<Float>,
                   [](Context& c) {
                     c.T(0).normal_(0, 1, c.state().generator);
                   },
                   0, true});
  table.push_back({"uniform_", Group::kRandom, "$0.uniform_(-1, 1, gen);",
                   Into<Float>,
                   [](Context& c) {
                     c.T(0).uniform_(-1, 1, c.state().generator);
                   },
                   0, true});
  table.push_back({"bernoulli_", Group::kRandom, "$0.bernoulli_(0.3, gen);",
                   Into<Float>,
                   [](Context& c) {
                     c.T(0).bernoulli_(0.3, c.state().generator);
                   },
                   0, true});
  table.push_back({"bernoulli", Group::kRandom,
                   "$d0 = at::bernoulli(at::sigmoid($0), gen);", One<Float>,
                   [](Context& c) {
                     c.Out(at::bernoulli(at::sigmoid(c.T(0)),
                                         c.state().generator));
                   },
                   1});
  table.push_back({"random_dropout", Group::kRandom,
                   "$d0 = at::dropout($0, 0.25, true);", One<Float>,
                   [](Context& c) { c.Out(at::dropout(c.T(0), 0.25, true)); },
                   1, false, false, true});
  table.push_back({"rand_like", Group::kRandom, "$d0 = at::rand_like($0);",
                   One<Float>,
                   [](Context& c) { c.Out(at::rand_like(c.T(0))); }, 1, false,
                   false, true});
  table.push_back({"randn_like", Group::kRandom, "$d0 = at::randn_like($0);",
                   One<Float>,
                   [](Context& c) { c.Out(at::randn_like(c.T(0))); }, 1, false,
                   false, true});
  table.push_back({"randn", Group::kRandom,
                   "$d0 = at::randn({$i0, $i1}, gen);",
                   [](Generator& g, Statement& st) {
                     st.ints = {g.rng().Int(1, 6), g.rng().Int(1, 6)};
                     return true;
                   },
                   [](Context& c) {
                     c.Out(at::randn({c.I(0), c.I(1)}, c.state().generator));
                   },
                   1});
  table.push_back({"randperm", Group::kRandom, "$d0 = at::randperm($i0, gen);",
                   [](Generator& g, Statement& st) {
                     st.ints = {g.rng().Int(2, 6)};
                     return true;
                   },
                   [](Context& c) {
                     c.Out(at::randperm(c.I(0), c.state().generator));
                   },
                   1});
  table.push_back({"noise_between", Group::kRandom,
                   "$0.normal_(0, 1, gen); $d0 = $1 + $0; "
                   "$0.normal_(0, 1, gen);",
                   IntoOne<FullFloat, FullFloat>,
                   [](Context& c) {
                     c.T(0).normal_(0, 1, c.state().generator);
                     c.Out(c.T(1) + c.T(0));
                     c.T(0).normal_(0, 1, c.state().generator);
                   },
                   1, true});
  table.push_back({"multinomial", Group::kRandom,
                   "$d0 = at::multinomial(at::sigmoid($0), 1, true, gen);",
                   [](Generator& g, Statement& st) {
                     return g.Arg(st, [](const at::Tensor& t) {
                       return FullFloat32(t) && (t.dim() == 1 || t.dim() == 2);
                     });
                   },
                   [](Context& c) {
                     c.Out(at::multinomial(at::sigmoid(c.T(0)), 1, true,
                                           c.state().generator));
                   },
                   1});
}

void AddSeeds(std::vector<OpSpec>& table) {
  table.push_back({"manual_seed", Group::kSeed, "at::manual_seed($i0 + it);",
                   [](Generator& g, Statement& st) {
                     st.ints = {g.rng().Int(1, 99)};
                     return true;
                   },
                   [](Context& c) { at::manual_seed(c.I(0) + c.it()); }, 0,
                   false, false, true});
  table.push_back(
      {"replay_generator", Group::kSeed,
       "{ auto s = default_generator.get_state(); $0.normal_(); "
       "default_generator.set_state(s); $d0 = at::randn_like($0); }",
       Into<FullFloat>,
       [](Context& c) {
         at::Generator g = at::globalContext().defaultGenerator(at::kCPU);
         at::Tensor s = g.get_state();
         c.T(0).normal_();
         g.set_state(s);
         c.Out(at::randn_like(c.T(0)));
       },
       1, true, false, true});
}

void AddAutograd(std::vector<OpSpec>& table) {
  table.push_back({"backward", Group::kAutograd, "$0.sum().backward();",
                   One<Differentiable>,
                   [](Context& c) { c.T(0).sum().backward(); }, 0});
  table.push_back({"backward_retain", Group::kAutograd,
                   "$0.sum().backward({}, /*retain_graph=*/true);",
                   One<Differentiable>,
                   [](Context& c) { c.T(0).sum().backward({}, true); }, 0});
  table.push_back({"backward_mean_square", Group::kAutograd,
                   "$0.pow(2).mean().backward();", One<Differentiable>,
                   [](Context& c) { c.T(0).pow(2).mean().backward(); }, 0});
  table.push_back({"backward_with", Group::kAutograd,
                   "$0.backward(at::full_like($0, $s0));",
                   OneScalar<Differentiable, Use::kFraction>,
                   [](Context& c) {
                     c.T(0).backward(at::full_like(c.T(0), c.S(0)));
                   },
                   0});
  table.push_back({"grad_of", Group::kAutograd,
                   "$d0 = torch::autograd::grad({$0.sum()}, {$1}, {}, true)"
                   "[0];",
                   [](Generator& g, Statement& st) {
                     return g.Arg(st, Differentiable) && g.Arg(st, Leaf);
                   },
                   [](Context& c) {
                     c.Out(torch::autograd::grad({c.T(0).sum()}, {c.T(1)}, {},
                                                 true)[0]);
                   },
                   1});
  table.push_back({"get_grad", Group::kAutograd, "$d0 = $0.grad();", One<Leaf>,
                   [](Context& c) { c.Out(c.T(0).grad()); }, 1});
  table.push_back({"zero_grad", Group::kAutograd, "$0.mutable_grad().zero_();",
                   One<Leaf>,
                   [](Context& c) {
                     TORCH_CHECK(c.T(0).grad().defined(), "no gradient");
                     c.T(0).mutable_grad().zero_();
                   },
                   0});
  table.push_back({"reset_grad", Group::kAutograd,
                   "$0.mutable_grad().reset();", One<Leaf>,
                   [](Context& c) { c.T(0).mutable_grad().reset(); }, 0});
  table.push_back({"fresh_leaf", Group::kAutograd,
                   "$d0 = $0.detach().clone().requires_grad_(); "
                   "($d0 * $0.detach()).sum().backward();",
                   One<FullFloat>,
                   [](Context& c) {
                     at::Tensor x = c.T(0).detach().clone().requires_grad_();
                     (x * c.T(0).detach()).sum().backward();
                     c.Out(std::move(x));
                   },
                   1});
}

// Throws unless there is an element of this index: another iteration may have
// left fewer, and an exception takes the statement out of the program.
const at::Tensor& WithElement(const at::Tensor& t, std::int64_t i) {
  TORCH_CHECK(i < t.numel(), "no element ", i, " in a tensor of ", t.sizes());
  return t;
}

void AddSync(std::vector<OpSpec>& table) {
  table.push_back({"item", Group::kSync, "r$i0 = $0.sum().item<double>();",
                   OneToRegister<FullFloat>,
                   [](Context& c) { Read(c, c.T(0).sum().item<double>()); },
                   0});
  table.push_back(
      {"read_mutable", Group::kSync, "r$i0 = $0.data_ptr<float>()[0];",
       OneToRegister<RawFloat>,
       [](Context& c) { Read(c, WithElement(c.T(0), 0).data_ptr<float>()[0]); },
       0});
  table.push_back({"read_const", Group::kSync,
                   "r$i0 = $0.const_data_ptr<float>()[0];",
                   OneToRegister<RawFloat>,
                   [](Context& c) {
                     Read(c, WithElement(c.T(0), 0).const_data_ptr<float>()[0]);
                   },
                   0});
  table.push_back({"equal", Group::kSync, "r$i0 = at::equal($0, $0 * 1.0);",
                   OneToRegister<FullFloat>,
                   [](Context& c) {
                     Read(c, at::equal(c.T(0), c.T(0) * 1.0) ? 1 : 0);
                   },
                   0});
  table.push_back({"print", Group::kSync, "std::cout << $0;", One<Any>,
                   [](Context& c) {
                     std::ostringstream text;
                     text << c.T(0);
                     c.Observe("printed", text.str());
                   },
                   0});
}

void AddRaw(std::vector<OpSpec>& table) {
  table.push_back({"raw_write", Group::kRaw, "$0.data_ptr<float>()[$i0] = $s0;",
                   [](Generator& g, Statement& st) {
                     if (!g.Target(st, RawFloat)) return false;
                     st.ints = {g.rng().Int(0, g.A(st, 0).numel() - 1)};
                     g.Scalar(st, Use::kFactor);
                     return true;
                   },
                   [](Context& c) {
                     WithElement(c.T(0), c.I(0)).data_ptr<float>()[c.I(0)] =
                         static_cast<float>(c.D(0));
                   },
                   0, true});
  table.push_back({"accessor_write", Group::kRaw,
                   "$0.accessor<float, 2>()[1][0] = $s0;",
                   [](Generator& g, Statement& st) {
                     if (!g.Target(st, [](const at::Tensor& t) {
                           return Float32(t) && t.dim() == 2 &&
                                  t.size(0) > 1 && t.size(1) > 0;
                         })) {
                       return false;
                     }
                     g.Scalar(st, Use::kFactor);
                     return true;
                   },
                   [](Context& c) {
                     TORCH_CHECK(c.T(0).size(0) > 1 && c.T(0).size(1) > 0);
                     c.T(0).accessor<float, 2>()[1][0] =
                         static_cast<float>(c.D(0));
                   },
                   0, true});
  table.push_back({"kept_pointer_write", Group::kRaw, "p_$0[$i0] = $s0;",
                   [](Generator& g, Statement& st) {
                     if (!g.ArgWithPointer(st)) return false;
                     st.ints = {g.rng().Int(0, g.A(st, 0).numel() - 1)};
                     g.Scalar(st, Use::kFactor);
                     return true;
                   },
                   [](Context& c) {
                     float* p = c.state().pointers.at(c.arg_id(0));
                     p[c.I(0)] = static_cast<float>(c.D(0));
                   },
                   0, true});
  table.push_back({"blob_write", Group::kRaw,
                   "std::fill(b_$0.begin(), b_$0.end(), $s0);",
                   [](Generator& g, Statement& st) {
                     if (!g.ArgWithBlob(st)) return false;
                     g.Scalar(st, Use::kFactor);
                     return true;
                   },
                   [](Context& c) {
                     auto& blob = *c.state().blobs.at(c.arg_id(0));
                     std::fill(blob.begin(), blob.end(),
                               static_cast<float>(c.D(0)));
                   },
                   0, true});
  table.push_back({"write_between_uses", Group::kRaw,
                   "{ float* p = $0.data_ptr<float>(); $d0 = $0 * 2; "
                   "p[0] = $s0; }",
                   [](Generator& g, Statement& st) {
                     if (!g.Target(st, RawFloat)) return false;
                     g.Scalar(st, Use::kFactor);
                     return true;
                   },
                   [](Context& c) {
                     float* p = WithElement(c.T(0), 0).data_ptr<float>();
                     c.Out(c.T(0) * 2);
                     p[0] = static_cast<float>(c.D(0));
                   },
                   1, true});
}

void AddLifetimes(std::vector<OpSpec>& table) {
  table.push_back({"keep", Group::kState, "kept.push_back($0);", One<Any>,
                   [](Context& c) { c.state().kept.push_back(c.T(0)); }, 0});
  table.push_back({"keep_clone", Group::kState, "kept.push_back($0.clone());",
                   One<Any>,
                   [](Context& c) { c.state().kept.push_back(c.T(0).clone()); },
                   0});
  table.push_back({"forget_kept", Group::kState, "kept.clear();",
                   [](Generator&, Statement&) { return true; },
                   [](Context& c) { c.state().kept.clear(); }, 0});
  table.push_back({"drop", Group::kState, "$0 = at::Tensor();",
                   [](Generator& g, Statement& st) {
                     return g.ArgTemporary(st);
                   },
                   [](Context& c) { c.Var(0) = at::Tensor(); }, 0});
  table.push_back({"alias", Group::kState, "$d0 = $0;", One<Any>,
                   [](Context& c) { c.Out(c.T(0)); }, 1});
  table.push_back({"swap", Group::kState, "std::swap($0, $1);",
                   [](Generator& g, Statement& st) {
                     return SameSize<Float, 1>(g, st) && g.AreTwins(st);
                   },
                   [](Context& c) { std::swap(c.Var(0), c.Var(1)); }, 0, true});
  table.push_back({"next_batch", Group::kState,
                   "$d0 = std::array{$0, $1, $2}[it % 3];",
                   [](Generator&, Statement&) { return false; },
                   [](Context& c) { c.Out(c.T(static_cast<int>(c.it() % 3))); },
                   1});
  table.push_back({"moving_batch", Group::kState, "$d0 = $0.chunk(3)[it % 3];",
                   [](Generator&, Statement&) { return false; },
                   [](Context& c) {
                     const std::int64_t rows = c.T(0).size(0) / 3;
                     c.Out(c.T(0).narrow(0, c.it() % 3 * rows, rows));
                   },
                   1});
  table.push_back({"either", Group::kState,
                   "$d0 = it % $i0 == 0 ? $0 : $1;",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, Float)) return false;
                     const at::Tensor& a = g.A(st, 0);
                     st.ints = {g.rng().Int(2, 7)};
                     return g.Arg(st, [&](const at::Tensor& t) {
                       return t.sizes() == a.sizes() &&
                              t.scalar_type() == a.scalar_type();
                     });
                   },
                   [](Context& c) {
                     c.Out(c.it() % c.I(0) == 0 ? c.T(0) : c.T(1));
                   },
                   1});
}

}  // namespace

void AddStateOps(std::vector<OpSpec>& table) {
  AddRandom(table);
  AddSeeds(table);
  AddAutograd(table);
  AddSync(table);
  AddRaw(table);
  AddLifetimes(table);
}

}  // namespace tjit::differential
