// Ways to choose arguments that fit, for the rows of the op table.
#pragma once

#include <ATen/ATen.h>

#include "tests/differential/generator.h"

namespace tjit::differential {

// --- What a variable may be ---
inline bool Any(const at::Tensor&) { return true; }
inline bool Float(const at::Tensor& t) {
  return at::isFloatingType(t.scalar_type());
}
inline bool Float32(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat;
}
inline bool Bool(const at::Tensor& t) { return t.scalar_type() == at::kBool; }
inline bool Number(const at::Tensor& t) { return !Bool(t); }
inline bool Whole(const at::Tensor& t) {
  return at::isIntegralType(t.scalar_type(), /*includeBool=*/true);
}
inline bool Matrix(const at::Tensor& t) { return Float(t) && t.dim() == 2; }
inline bool Vector(const at::Tensor& t) { return Float(t) && t.dim() == 1; }
inline bool Batch(const at::Tensor& t) { return Float(t) && t.dim() == 3; }
inline bool Image(const at::Tensor& t) { return Float(t) && t.dim() == 4; }
inline bool FloatDim(const at::Tensor& t) { return Float(t) && t.dim() > 0; }
inline bool NumberDim(const at::Tensor& t) { return Number(t) && t.dim() > 0; }
inline bool HasDim(const at::Tensor& t) { return t.dim() > 0; }
// A raw float pointer to it covers its elements in order.
inline bool RawFloat(const at::Tensor& t) {
  return Float32(t) && t.is_contiguous() && t.numel() > 0;
}
inline bool Differentiable(const at::Tensor& t) {
  return t.requires_grad() && !t.is_leaf();
}
inline bool Leaf(const at::Tensor& t) {
  return t.requires_grad() && t.is_leaf();
}

// Can `b` be broadcast with `a`?
inline bool Broadcasts(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t i = 1; i <= std::min(a.dim(), b.dim()); ++i) {
    if (a.size(-i) != b.size(-i) && a.size(-i) != 1 && b.size(-i) != 1) {
      return false;
    }
  }
  return true;
}

// Can `b` be broadcast to the sizes of `a`?
inline bool FitsInto(const at::Tensor& a, const at::Tensor& b) {
  if (b.dim() > a.dim()) return false;
  for (std::int64_t i = 1; i <= b.dim(); ++i) {
    if (a.size(-i) != b.size(-i) && b.size(-i) != 1) return false;
  }
  return true;
}

// Values that may index a dimension of `size`.
inline bool IndexesInto(const at::Tensor& t, std::int64_t size) {
  if (t.scalar_type() != at::kLong || t.numel() == 0) return false;
  return t.min().item<std::int64_t>() >= 0 &&
         t.max().item<std::int64_t>() < size;
}

// The number of rows, for a remainder. THROWS: without rows, as another
// iteration may have left none, and an exception takes the statement out of the
// program.
inline std::int64_t RowsOf(const at::Tensor& t) {
  TORCH_CHECK(t.dim() > 0 && t.size(0) > 0, "no row in ", t.sizes());
  return t.size(0);
}

// --- Proposals ---
template <bool (*P)(const at::Tensor&)>
bool One(Generator& g, Statement& st) {
  return g.Arg(st, P);
}

template <bool (*P)(const at::Tensor&), Use use>
bool OneScalar(Generator& g, Statement& st) {
  if (!g.Arg(st, P)) return false;
  g.Scalar(st, use);
  return true;
}

template <bool (*P)(const at::Tensor&)>
bool OneDim(Generator& g, Statement& st) {
  if (!g.Arg(st, P) || g.A(st, 0).dim() == 0) return false;
  st.ints.push_back(g.rng().Int(0, g.A(st, 0).dim() - 1));
  return true;
}

template <bool (*P)(const at::Tensor&), bool (*Q)(const at::Tensor&)>
bool Two(Generator& g, Statement& st) {
  if (!g.Arg(st, P)) return false;
  const at::Tensor& a = g.A(st, 0);
  return g.Arg(st, [&](const at::Tensor& t) {
    return Q(t) && Broadcasts(a, t);
  });
}

template <bool (*P)(const at::Tensor&), bool (*Q)(const at::Tensor&), Use use>
bool TwoScalar(Generator& g, Statement& st) {
  if (!Two<P, Q>(g, st)) return false;
  g.Scalar(st, use);
  return true;
}

template <bool (*P)(const at::Tensor&)>
bool Three(Generator& g, Statement& st) {
  if (!Two<P, P>(g, st)) return false;
  const at::Tensor& a = g.A(st, 0);
  const at::Tensor& b = g.A(st, 1);
  return g.Arg(st, [&](const at::Tensor& t) {
    return P(t) && Broadcasts(a, t) && Broadcasts(b, t);
  });
}

template <bool (*P)(const at::Tensor&)>
bool Into(Generator& g, Statement& st) {
  return g.Target(st, P);
}

template <bool (*P)(const at::Tensor&), Use use>
bool IntoScalar(Generator& g, Statement& st) {
  if (!g.Target(st, P)) return false;
  g.Scalar(st, use);
  return true;
}

template <bool (*P)(const at::Tensor&), bool (*Q)(const at::Tensor&)>
bool IntoOne(Generator& g, Statement& st) {
  if (!g.Target(st, P)) return false;
  const at::Tensor& a = g.A(st, 0);
  return g.Arg(st, [&](const at::Tensor& t) {
    return Q(t) && FitsInto(a, t);
  });
}

template <bool (*P)(const at::Tensor&), bool (*Q)(const at::Tensor&), Use use>
bool IntoOneScalar(Generator& g, Statement& st) {
  if (!IntoOne<P, Q>(g, st)) return false;
  g.Scalar(st, use);
  return true;
}

template <bool (*P)(const at::Tensor&)>
bool IntoTwo(Generator& g, Statement& st) {
  if (!IntoOne<P, P>(g, st)) return false;
  const at::Tensor& a = g.A(st, 0);
  return g.Arg(st, [&](const at::Tensor& t) {
    return P(t) && FitsInto(a, t);
  });
}

template <bool (*P)(const at::Tensor&), Use use>
bool IntoTwoScalar(Generator& g, Statement& st) {
  if (!IntoTwo<P>(g, st)) return false;
  g.Scalar(st, use);
  return true;
}

// out, a, b of one size and dtype.
template <bool (*P)(const at::Tensor&), int kInputs>
bool SameSize(Generator& g, Statement& st) {
  if (!g.Target(st, P)) return false;
  const at::Tensor& out = g.A(st, 0);
  for (int i = 0; i < kInputs; ++i) {
    bool found = g.Arg(st, [&](const at::Tensor& t) {
      return t.sizes() == out.sizes() && t.scalar_type() == out.scalar_type();
    });
    if (!found) return false;
  }
  return true;
}

}  // namespace tjit::differential
