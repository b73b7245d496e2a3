// Views of all kinds.
#include <ATen/ATen.h>

#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

bool Contiguous(const at::Tensor& t) { return t.is_contiguous(); }
bool TwoDims(const at::Tensor& t) { return t.dim() >= 2; }
bool Nonempty(const at::Tensor& t) { return t.dim() > 0 && t.size(0) > 0; }
bool Rows(const at::Tensor& t) { return t.dim() > 0 && t.size(0) >= 3; }
bool Large(const at::Tensor& t) {
  return t.is_contiguous() && t.storage_offset() == 0 && t.numel() >= 8;
}

void AddSlices(std::vector<OpSpec>& table) {
  table.push_back({"select", Group::kView, "$d0 = $0.select(0, $i0);",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, Nonempty)) return false;
                     st.ints = {g.rng().Int(0, g.A(st, 0).size(0) - 1)};
                     return true;
                   },
                   [](Context& c) { c.Out(c.T(0).select(0, c.I(0))); }, 1});
  table.push_back({"slice", Group::kView,
                   "$d0 = $0.slice($i0, $i1, $i2, $i3);",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, HasDim)) return false;
                     std::int64_t dim = g.rng().Int(0, g.A(st, 0).dim() - 1);
                     std::int64_t size = g.A(st, 0).size(dim);
                     std::int64_t from = g.rng().Int(0, size / 2);
                     st.ints = {dim, from, g.rng().Int(from, size),
                                g.rng().Int(1, 2)};
                     return true;
                   },
                   [](Context& c) {
                     c.Out(c.T(0).slice(c.I(0), c.I(1), c.I(2), c.I(3)));
                   },
                   1});
  table.push_back({"narrow", Group::kView, "$d0 = $0.narrow(0, $i0, $i1);",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, Nonempty)) return false;
                     std::int64_t size = g.A(st, 0).size(0);
                     std::int64_t from = g.rng().Int(0, size - 1);
                     st.ints = {from, g.rng().Int(1, size - from)};
                     return true;
                   },
                   [](Context& c) { c.Out(c.T(0).narrow(0, c.I(0), c.I(1))); },
                   1});
  table.push_back({"diagonal", Group::kView, "$d0 = $0.diagonal(0, 0, 1);",
                   One<TwoDims>,
                   [](Context& c) { c.Out(c.T(0).diagonal(0, 0, 1)); }, 1});
  table.push_back({"unfold", Group::kView, "$d0 = $0.unfold(0, 2, 1);",
                   One<Rows>,
                   [](Context& c) { c.Out(c.T(0).unfold(0, 2, 1)); }, 1});
  table.push_back({"as_strided", Group::kView,
                   "$d0 = $0.as_strided({2, 3}, {$i0, $i1}, $i2);",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, Large)) return false;
                     st.ints = {g.rng().Int(0, 3), g.rng().Int(0, 1),
                                g.rng().Int(0, 2)};
                     return true;
                   },
                   [](Context& c) {
                     c.Out(c.T(0).as_strided({2, 3}, {c.I(0), c.I(1)},
                                             c.I(2)));
                   },
                   1});
}

void AddReshapes(std::vector<OpSpec>& table) {
  table.push_back({"view_flat", Group::kView, "$d0 = $0.view({-1});",
                   One<Contiguous>,
                   [](Context& c) { c.Out(c.T(0).view({-1})); }, 1});
  table.push_back({"view_pairs", Group::kView, "$d0 = $0.view({-1, 2});",
                   [](Generator& g, Statement& st) {
                     return g.Arg(st, [](const at::Tensor& t) {
                       return Contiguous(t) && t.numel() > 0 &&
                              t.numel() % 2 == 0;
                     });
                   },
                   [](Context& c) { c.Out(c.T(0).view({-1, 2})); }, 1});
  table.push_back({"reshape", Group::kView, "$d0 = $0.reshape({-1});",
                   One<Any>,
                   [](Context& c) { c.Out(c.T(0).reshape({-1})); }, 1});
  table.push_back({"transpose", Group::kView, "$d0 = $0.transpose(0, 1);",
                   One<TwoDims>,
                   [](Context& c) { c.Out(c.T(0).transpose(0, 1)); }, 1});
  table.push_back({"t", Group::kView, "$d0 = $0.t();", One<Matrix>,
                   [](Context& c) { c.Out(c.T(0).t()); }, 1});
  table.push_back({"permute", Group::kView, "$d0 = $0.permute({2, 0, 1});",
                   One<Batch>,
                   [](Context& c) { c.Out(c.T(0).permute({2, 0, 1})); }, 1});
  table.push_back({"unsqueeze", Group::kView, "$d0 = $0.unsqueeze($i0);",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, Any) || g.A(st, 0).dim() > 3) return false;
                     st.ints = {g.rng().Int(0, g.A(st, 0).dim())};
                     return true;
                   },
                   [](Context& c) { c.Out(c.T(0).unsqueeze(c.I(0))); }, 1});
  table.push_back({"squeeze", Group::kView, "$d0 = $0.squeeze();", One<Any>,
                   [](Context& c) { c.Out(c.T(0).squeeze()); }, 1});
  table.push_back({"expand", Group::kView,
                   "$d0 = $0.unsqueeze(0).expand({3, -1});", One<Vector>,
                   [](Context& c) {
                     c.Out(c.T(0).unsqueeze(0).expand({3, -1}));
                   },
                   1});
  table.push_back({"expand_as", Group::kView, "$d0 = $1.expand_as($0);",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, Any)) return false;
                     const at::Tensor& a = g.A(st, 0);
                     return g.Arg(st, [&](const at::Tensor& t) {
                       return FitsInto(a, t);
                     });
                   },
                   [](Context& c) { c.Out(c.T(1).expand_as(c.T(0))); }, 1});
  table.push_back({"detach", Group::kView, "$d0 = $0.detach();", One<Any>,
                   [](Context& c) { c.Out(c.T(0).detach()); }, 1});
  table.push_back({"movedim", Group::kView, "$d0 = $0.movedim(0, -1);",
                   One<TwoDims>,
                   [](Context& c) { c.Out(c.T(0).movedim(0, -1)); }, 1});
}

// The first two parts. Throws if there is one alone: of another iteration's
// value there may be less to cut.
void OutPair(Context& c, const std::vector<at::Tensor>& parts) {
  TORCH_CHECK(parts.size() > 1, "one part alone");
  c.Out(parts[0], 0);
  c.Out(parts[1], 1);
}

void AddShapes(std::vector<OpSpec>& table) {
  table.push_back({"cat", Group::kShape, "$d0 = at::cat({$0, $1}, $i0);",
                   [](Generator& g, Statement& st) {
                     if (!OneDim<Any>(g, st)) return false;
                     const at::Tensor& a = g.A(st, 0);
                     return g.Arg(st, [&](const at::Tensor& t) {
                       return t.dim() == a.dim() &&
                              (t.sizes() == a.sizes() || t.dim() == 1);
                     });
                   },
                   [](Context& c) { c.Out(at::cat({c.T(0), c.T(1)}, c.I(0))); },
                   1});
  table.push_back({"stack", Group::kShape, "$d0 = at::stack({$0, $1, $0});",
                   [](Generator& g, Statement& st) {
                     if (!g.Arg(st, Any)) return false;
                     const at::Tensor& a = g.A(st, 0);
                     return g.Arg(st, [&](const at::Tensor& t) {
                       return t.sizes() == a.sizes();
                     });
                   },
                   [](Context& c) {
                     c.Out(at::stack({c.T(0), c.T(1), c.T(0)}));
                   },
                   1});
  table.push_back({"split", Group::kShape,
                   "{ auto s = $0.split(2, 0); $d0 = s[0]; $d1 = s[1]; }",
                   One<Rows>,
                   [](Context& c) { OutPair(c, c.T(0).split(2, 0)); }, 2});
  table.push_back({"chunk", Group::kShape,
                   "{ auto s = $0.chunk(2, -1); $d0 = s[0]; $d1 = s[1]; }",
                   [](Generator& g, Statement& st) {
                     return g.Arg(st, [](const at::Tensor& t) {
                       return t.dim() > 0 && t.size(-1) > 1;
                     });
                   },
                   [](Context& c) { OutPair(c, c.T(0).chunk(2, -1)); }, 2});
  table.push_back({"repeat", Group::kShape, "$d0 = $0.repeat({2});",
                   One<Vector>,
                   [](Context& c) { c.Out(c.T(0).repeat({2})); }, 1});
  table.push_back({"clone", Group::kShape, "$d0 = $0.clone();", One<Any>,
                   [](Context& c) { c.Out(c.T(0).clone()); }, 1});
  table.push_back({"contiguous", Group::kShape, "$d0 = $0.contiguous();",
                   One<Any>, [](Context& c) { c.Out(c.T(0).contiguous()); },
                   1});
  table.push_back({"flip", Group::kShape, "$d0 = $0.flip(0);", One<HasDim>,
                   [](Context& c) { c.Out(c.T(0).flip(0)); }, 1});
  table.push_back({"roll", Group::kShape, "$d0 = $0.roll(1, 0);", One<HasDim>,
                   [](Context& c) { c.Out(c.T(0).roll(1, 0)); }, 1});
  table.push_back({"tril", Group::kShape, "$d0 = at::tril($0);", One<TwoDims>,
                   [](Context& c) { c.Out(at::tril(c.T(0))); }, 1});
  table.push_back({"pad", Group::kShape,
                   "$d0 = at::constant_pad_nd($0, {1, 0}, $s0);",
                   OneScalar<FloatDim, Use::kFactor>,
                   [](Context& c) {
                     c.Out(at::constant_pad_nd(c.T(0), {1, 0}, c.S(0)));
                   },
                   1});
}

bool Transformable(const at::Tensor& t) {
  return (t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble) &&
         t.dim() > 0 && t.numel() > 0;
}

// There and back: numbers between are complex.
void AddTransforms(std::vector<OpSpec>& table) {
  table.push_back({"rfft", Group::kShape,
                   "$d0 = at::fft_irfft(at::fft_rfft($0), $0.size(-1));",
                   One<Transformable>,
                   [](Context& c) {
                     const at::Tensor& x = c.T(0);
                     c.Out(at::fft_irfft(at::fft_rfft(x), x.size(-1)));
                   },
                   1});
  table.push_back({"rfftn", Group::kShape,
                   "$d0 = at::fft_irfftn(at::fft_rfftn($0), $0.sizes());",
                   One<Transformable>,
                   [](Context& c) {
                     const at::Tensor& x = c.T(0);
                     c.Out(at::fft_irfftn(at::fft_rfftn(x), x.sizes()));
                   },
                   1});
  table.push_back({"fft", Group::kShape,
                   "$d0 = at::real(at::fft_fft($0, {}, 0, \"ortho\"));",
                   One<Transformable>,
                   [](Context& c) {
                     c.Out(at::real(at::fft_fft(c.T(0), {}, 0, "ortho")));
                   },
                   1});
}

// Complex numbers over and times real ones.
void AddComplex(std::vector<OpSpec>& table) {
  table.push_back({"complex_over", Group::kShape,
                   "$d0 = at::imag(at::complex($0, $0 + 1) / (1 + $0 * $0));",
                   One<Transformable>,
                   [](Context& c) {
                     const at::Tensor& x = c.T(0);
                     c.Out(at::imag(at::complex(x, x + 1) / (1 + x * x)));
                   },
                   1});
  table.push_back({"complex_times", Group::kShape,
                   "$d0 = at::real(($0 * at::complex($0, -$0)).div_($0));",
                   One<Transformable>,
                   [](Context& c) {
                     const at::Tensor& x = c.T(0);
                     c.Out(at::real((x * at::complex(x, -x)).div_(x)));
                   },
                   1});
}

}  // namespace

void AddViewOps(std::vector<OpSpec>& table) {
  AddSlices(table);
  AddReshapes(table);
  AddShapes(table);
  AddTransforms(table);
  AddComplex(table);
}

}  // namespace tjit::differential
