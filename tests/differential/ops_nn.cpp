// Layers and losses.
#include <ATen/ATen.h>

#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

bool Float32Image(const at::Tensor& t) { return Float32(t) && t.dim() == 4; }
bool Poolable(const at::Tensor& t) {
  return Float32Image(t) && t.size(2) >= 2 && t.size(3) >= 2;
}
bool WideFloat32(const at::Tensor& t) {
  return Float32(t) && t.dim() >= 2 && t.numel() > 0;
}

bool ProposeConv(Generator& g, Statement& st) {
  if (!g.Arg(st, Float32Image)) return false;
  const at::Tensor& x = g.A(st, 0);
  bool found = g.Arg(st, [&](const at::Tensor& w) {
    return Float32Image(w) && w.size(1) == x.size(1) &&
           w.size(2) <= x.size(2) + 2 && w.size(3) <= x.size(3) + 2;
  });
  if (!found) return false;
  std::int64_t n = g.A(st, 1).size(0);
  return g.Arg(st, [&](const at::Tensor& b) {
    return Float32(b) && b.dim() == 1 && b.size(0) == n;
  });
}

// x, weight, bias, running mean, running var (the last two are written); these
// of the type of x, or of f32 beside a half type.
bool ProposeBatchNorm(Generator& g, Statement& st) {
  auto deep = [](const at::Tensor& t) {
    return Float(t) && (t.dim() == 2 || t.dim() == 4) && t.numel() > 0 &&
           t.numel() > t.size(1);
  };
  if (!g.Arg(st, deep)) return false;
  const at::Tensor x = g.A(st, 0);
  const bool is_mixed =
      at::isReducedFloatingType(x.scalar_type()) && g.rng().Chance(0.3);
  const at::ScalarType type = is_mixed ? at::kFloat : x.scalar_type();
  auto channels = [&](const at::Tensor& t) {
    return t.scalar_type() == type && t.dim() == 1 && t.size(0) == x.size(1);
  };
  auto buffer = [&](const at::Tensor& t) {
    return channels(t) && !t.requires_grad() && t.is_contiguous();
  };
  return g.Arg(st, channels) && g.Arg(st, channels) && g.Target(st, buffer) &&
         g.Target(st, buffer) && st.args[3] != st.args[4];
}

bool ProposeLayerNorm(Generator& g, Statement& st) {
  const bool found = g.Arg(st, [](const at::Tensor& t) {
    return Float(t) && t.dim() >= 2 && t.numel() > 0;
  });
  if (!found) return false;
  const at::Tensor x = g.A(st, 0);
  const std::int64_t n = x.size(-1);
  auto row = [&](const at::Tensor& t) {
    return t.scalar_type() == x.scalar_type() && t.dim() == 1 && t.size(0) == n;
  };
  st.ints = {n};
  return g.Arg(st, row) && g.Arg(st, row);
}

// Scores and the class of each row.
bool ProposeClasses(Generator& g, Statement& st) {
  auto scores = [](const at::Tensor& t) { return Matrix(t) && t.numel() > 0; };
  if (!g.Arg(st, scores)) return false;
  const at::Tensor& x = g.A(st, 0);
  return g.Arg(st, [&](const at::Tensor& t) {
    return t.dim() == 1 && t.size(0) == x.size(0) && IndexesInto(t, x.size(1));
  });
}

// Besides, a weight of each class, how to reduce, and the class to ignore.
bool ProposeWeightedClasses(Generator& g, Statement& st) {
  if (!ProposeClasses(g, st)) return false;
  const at::Tensor& x = g.A(st, 0);
  st.ints = {g.rng().Int(0, 2), g.rng().Int(-1, x.size(1) - 1)};
  return g.Arg(st, [&](const at::Tensor& t) {
    return t.scalar_type() == x.scalar_type() && t.dim() == 1 &&
           t.size(0) == x.size(1) && !t.requires_grad();
  });
}

void AddLayers(std::vector<OpSpec>& table) {
  table.push_back({"conv2d", Group::kNn,
                   "$d0 = at::conv2d($0, $1, $2, {1, 1}, {1, 1});", ProposeConv,
                   [](Context& c) {
                     c.Out(at::conv2d(c.T(0), c.T(1), c.T(2), {1, 1}, {1, 1}));
                   },
                   1});
  table.push_back({"batch_norm_train", Group::kNn,
                   "$d0 = at::batch_norm($0, $1, $2, $3, $4, true, 0.1, 1e-5, "
                   "false);",
                   ProposeBatchNorm,
                   [](Context& c) {
                     c.Out(at::batch_norm(c.T(0), c.T(1), c.T(2), c.T(3),
                                          c.T(4), true, 0.1, 1e-5, false));
                   },
                   1});
  table.push_back({"batch_norm_eval", Group::kNn,
                   "$d0 = at::batch_norm($0, $1, $2, $3, $4.abs() + 1, false, "
                   "0.1, 1e-5, false);",
                   ProposeBatchNorm,
                   [](Context& c) {
                     c.Out(at::batch_norm(c.T(0), c.T(1), c.T(2), c.T(3),
                                          c.T(4).abs() + 1, false, 0.1, 1e-5,
                                          false));
                   },
                   1});
  table.push_back({"layer_norm", Group::kNn,
                   "$d0 = at::layer_norm($0, {$i0}, $1, $2);", ProposeLayerNorm,
                   [](Context& c) {
                     c.Out(at::layer_norm(c.T(0), {c.I(0)}, c.T(1), c.T(2)));
                   },
                   1});
  table.push_back({"max_pool2d", Group::kNn,
                   "$d0 = at::max_pool2d($0, {2, 2}, {1, 1});", One<Poolable>,
                   [](Context& c) {
                     c.Out(at::max_pool2d(c.T(0), {2, 2}, {1, 1}));
                   },
                   1});
  table.push_back({"avg_pool2d", Group::kNn,
                   "$d0 = at::avg_pool2d($0, {2, 2}, {1, 1});", One<Poolable>,
                   [](Context& c) {
                     c.Out(at::avg_pool2d(c.T(0), {2, 2}, {1, 1}));
                   },
                   1});
  table.push_back({"adaptive_pool", Group::kNn,
                   "$d0 = at::adaptive_avg_pool2d($0, {1, 1}).flatten(1);",
                   One<Poolable>,
                   [](Context& c) {
                     c.Out(at::adaptive_avg_pool2d(c.T(0), {1, 1}).flatten(1));
                   },
                   1});
  table.push_back({"dropout", Group::kNn, "$d0 = at::dropout($0, 0.4, true);",
                   One<Float32>,
                   [](Context& c) { c.Out(at::dropout(c.T(0), 0.4, true)); }, 1,
                   false, false, true});
  table.push_back({"flatten", Group::kNn, "$d0 = $0.flatten(1);",
                   One<WideFloat32>,
                   [](Context& c) { c.Out(c.T(0).flatten(1)); }, 1});
  table.push_back({"channels_last", Group::kNn,
                   "$d0 = $0.contiguous(at::MemoryFormat::ChannelsLast);",
                   One<Float32Image>,
                   [](Context& c) {
                     c.Out(c.T(0).contiguous(at::MemoryFormat::ChannelsLast));
                   },
                   1});
}

// x, and one number for each of its channels.
bool ProposeChannels(Generator& g, Statement& st, int count) {
  const bool found = g.Arg(st, [](const at::Tensor& t) {
    return Float(t) && t.dim() >= 2 && t.numel() > 0;
  });
  if (!found) return false;
  const at::Tensor x = g.A(st, 0);
  for (int i = 0; i < count; ++i) {
    const auto fits = [&](const at::Tensor& t) {
      return t.scalar_type() == x.scalar_type() && t.dim() == 1 &&
             t.size(0) == x.size(1);
    };
    if (!g.Arg(st, fits)) return false;
  }
  return true;
}

// Throws where a backward pass to come might end the process, and an exception
// takes the statement out of the program: of channels last, libtorch 2.13
// computes the gradients of the weights only with that of the input, whose
// memory it writes whether or not it is asked for.
const at::Tensor& WithSafeBackward(const at::Tensor& x,
                                   const at::Tensor& weight,
                                   const at::Tensor& bias) {
  const bool asks = at::GradMode::is_enabled() &&
                    (weight.requires_grad() || bias.requires_grad());
  TORCH_CHECK(
      !asks || x.suggest_memory_format() == at::MemoryFormat::Contiguous,
      "group_norm: gradients of weights of channels last");
  return x;
}

void AddOfAllTypes(std::vector<OpSpec>& table) {
  table.push_back(
      {"group_norm", Group::kNn, "$d0 = at::group_norm($0, $i0, $1, $2);",
       [](Generator& g, Statement& st) {
         if (!ProposeChannels(g, st, 2)) return false;
         const std::int64_t channels = g.A(st, 0).size(1);
         st.ints = {channels % 2 == 0 ? 2 : 1};
         return true;
       },
       [](Context& c) {
         c.Out(at::group_norm(WithSafeBackward(c.T(0), c.T(1), c.T(2)), c.I(0),
                              c.T(1), c.T(2)));
       },
       1});
  table.push_back(
      {"prelu", Group::kNn, "$d0 = at::prelu($0, $1);",
       [](Generator& g, Statement& st) { return ProposeChannels(g, st, 1); },
       [](Context& c) { c.Out(at::prelu(c.T(0), c.T(1))); }, 1});
  table.push_back({"glu", Group::kNn, "$d0 = at::glu($0, -1);",
                   [](Generator& g, Statement& st) {
                     return g.Arg(st, [](const at::Tensor& t) {
                       return FloatDim(t) && t.size(-1) % 2 == 0;
                     });
                   },
                   [](Context& c) { c.Out(at::glu(c.T(0), -1)); }, 1});
}

// Into tensors that the op makes as large as it needs.
void AddClassLossesOut(std::vector<OpSpec>& table) {
  table.push_back({"nll_loss_out", Group::kNn,
                   "$d0 = at::empty({0}, $0.options()); at::nll_loss_out($d0, "
                   "$0.detach(), $1, $2.detach(), $i0, $i1);",
                   ProposeWeightedClasses,
                   [](Context& c) {
                     at::Tensor out = at::empty({0}, c.T(0).options());
                     at::nll_loss_out(out, c.T(0).detach(), c.T(1),
                                      c.T(2).detach(), c.I(0), c.I(1));
                     c.Out(out);
                   },
                   1});
  table.push_back(
      {"nll_loss_backward_out", Group::kNn,
       "auto [y, n] = at::nll_loss_forward($0.detach(), $1, $2.detach(), $i0, "
       "$i1); $d0 = at::empty({0}, $0.options()); at::nll_loss_backward_out("
       "$d0, y * 0.5, $0.detach(), $1, $2.detach(), $i0, $i1, n);",
       ProposeWeightedClasses,
       [](Context& c) {
         const at::Tensor x = c.T(0).detach(), weight = c.T(2).detach();
         const auto [y, n] =
             at::nll_loss_forward(x, c.T(1), weight, c.I(0), c.I(1));
         at::Tensor out = at::empty({0}, x.options());
         at::nll_loss_backward_out(out, y * 0.5, x, c.T(1), weight, c.I(0),
                                   c.I(1), n);
         c.Out(out);
       },
       1});
}

void AddLosses(std::vector<OpSpec>& table) {
  table.push_back(
      {"cross_entropy", Group::kNn, "$d0 = at::cross_entropy_loss($0, $1);",
       ProposeClasses,
       [](Context& c) { c.Out(at::cross_entropy_loss(c.T(0), c.T(1))); }, 1});
  table.push_back({"nll_loss", Group::kNn,
                   "$d0 = at::nll_loss(at::log_softmax($0, 1), $1);",
                   ProposeClasses,
                   [](Context& c) {
                     c.Out(at::nll_loss(at::log_softmax(c.T(0), 1), c.T(1)));
                   },
                   1});
  table.push_back(
      {"nll_loss_weighted", Group::kNn,
       "$d0 = at::nll_loss($0, $1, $2, $i0, $i1);", ProposeWeightedClasses,
       [](Context& c) {
         c.Out(at::nll_loss(c.T(0), c.T(1), c.T(2), c.I(0), c.I(1)));
       },
       1});
  AddClassLossesOut(table);
  table.push_back({"mse_loss", Group::kNn, "$d0 = at::mse_loss($0, $1);",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, WideFloat32)) return false;
                     const at::Tensor& a = g.A(st, 0);
                     return g.Arg(st, [&](const at::Tensor& t) {
                       return Float32(t) && t.sizes() == a.sizes();
                     });
                   },
                   [](Context& c) { c.Out(at::mse_loss(c.T(0), c.T(1))); }, 1});
  table.push_back(
      {"smooth_l1", Group::kNn, "$d0 = at::smooth_l1_loss($0, $1.detach());",
       [](Generator& g, Statement& st) {
         if (!g.Arg(st, WideFloat32)) return false;
         const at::Tensor& a = g.A(st, 0);
         return g.Arg(st, [&](const at::Tensor& t) {
           return Float32(t) && t.sizes() == a.sizes();
         });
       },
       [](Context& c) { c.Out(at::smooth_l1_loss(c.T(0), c.T(1).detach())); },
       1});
}

}  // namespace

void AddNnOps(std::vector<OpSpec>& table) {
  AddLayers(table);
  AddOfAllTypes(table);
  AddLosses(table);
}

}  // namespace tjit::differential
