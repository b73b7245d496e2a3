// Tensors for the tests of lowering: numbers at which formulas differ, lying in
// different ways.
#pragma once

#include <ATen/ATen.h>

#include <limits>
#include <random>

namespace tjit::testing {

// Random numbers, and those at which formulas differ.
inline at::Tensor Numbers(at::IntArrayRef sizes, at::ScalarType type,
                          std::uint64_t seed) {
  const double inf = std::numeric_limits<double>::infinity();
  const double special[] = {0,         -0.0,  1,      -1,   inf,    -inf,
                            inf - inf, 0.5,   -0.5,   2,    1e-40,  -1e-40,
                            1e30,      -3e38, 5e-324, 88.8, -104.0, 1e300};
  std::mt19937_64 random(seed);
  at::Tensor t = at::empty(sizes, at::kDouble);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const std::uint64_t pick = random();
    t.data_ptr<double>()[i] =
        !at::isFloatingType(type) ? static_cast<double>(pick % 200) - 99
        : pick % 4 == 0           ? special[pick / 4 % std::size(special)]
                        : static_cast<double>(pick % 100000) / 12345 - 4;
  }
  if (type == at::kByte) t.abs_();
  if (type == at::kBool) t.clamp_min_(0);
  return t.to(type);
}

// Numbers of all sizes whose sums round: a sum with a NaN proves little.
inline at::Tensor RoundingInputs(at::IntArrayRef sizes, at::ScalarType type,
                                 std::uint64_t seed) {
  at::manual_seed(seed);
  const at::TensorOptions options(type);
  return at::randn(sizes, options) * at::exp(at::randn(sizes, options) * 3);
}
// The same; every fifth time with infinities and NaNs, as all integers.
inline at::Tensor NumbersToReduce(at::IntArrayRef sizes, at::ScalarType type,
                                  std::uint64_t seed) {
  const bool rounds = seed % 5 != 0 && at::isFloatingType(type);
  return rounds ? RoundingInputs(sizes, type, seed)
                : Numbers(sizes, type, seed);
}

// Halves of all sizes of which the second half of each dim takes away the
// first: what is left of a sum is how it was rounded before it became a half.
inline at::Tensor CancellingInputs(at::IntArrayRef sizes, at::ScalarType type,
                                   std::uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor scale = at::exp2(at::randint(-8, 14, sizes).to(at::kFloat));
  at::Tensor x = at::randn(sizes).mul_(scale).to(type);
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    const std::int64_t half = x.size(d) / 2;
    x.narrow(d, x.size(d) - half, half)
        .copy_(x.narrow(d, 0, half).flip(d).neg());
  }
  return x;
}

// The same numbers, lying otherwise.
enum class Lay { kDense, kStrided, kTransposed, kOffset };
constexpr Lay kLays[] = {Lay::kDense, Lay::kStrided, Lay::kTransposed,
                         Lay::kOffset};
inline at::Tensor Laid(const at::Tensor& t, Lay lay) {
  const std::int64_t n = t.size(0), m = t.size(1);
  at::Tensor view;
  switch (lay) {
    case Lay::kDense:
      return t.clone();
    case Lay::kStrided:
      view = at::zeros({n, 2 * m}, t.options()).slice(1, 0, 2 * m, 2);
      break;
    case Lay::kTransposed:
      view = at::zeros({m, n}, t.options()).t();
      break;
    case Lay::kOffset:
      view = at::zeros({n + 2, m}, t.options()).slice(0, 1, n + 1);
      break;
  }
  view.copy_(t);
  return view;
}

}  // namespace tjit::testing
