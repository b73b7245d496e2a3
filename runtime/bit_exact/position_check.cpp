#include "runtime/bit_exact/position_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace tjit::runtime {
namespace {

// Not floats: some remainder loops of eager take them as doubles.
constexpr double kScalars[] = {0.7, 1.6, 1.3};

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  const std::size_t item = a.itemsize();
  const auto* x = static_cast<const char*>(a.const_data_ptr());
  const auto* y = static_cast<const char*>(b.const_data_ptr());
  if (std::memcmp(x, y, a.nbytes()) == 0) return true;
  const at::Tensor both_nan = a.isnan().logical_and_(b.isnan());
  const bool* nan = both_nan.const_data_ptr<bool>();
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const auto o = static_cast<std::size_t>(i) * item;
    if (!nan[i] && std::memcmp(x + o, y + o, item) != 0) return false;
  }
  return true;
}

// All of it, in tiles of `step` elements. In the arrays halves are floats.
at::Tensor InTiles(TjitPositionFn function, const at::Tensor& a,
                   const at::Tensor* b, std::int64_t step) {
  const auto wide = a.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor x = a.to(wide), y = b == nullptr ? x : b->to(wide);
  at::Tensor out = at::empty_like(x);
  const auto at_element = [](const at::Tensor& t, std::int64_t i) {
    return static_cast<char*>(t.data_ptr()) +
           i * static_cast<std::int64_t>(t.itemsize());
  };
  for (std::int64_t i = 0; i < x.numel(); i += step) {
    function(std::min(step, x.numel() - i), at_element(x, i),
             b == nullptr ? nullptr : at_element(y, i), at_element(out, i), i,
             x.numel(), kScalars[0], kScalars[1], kScalars[2]);
  }
  return out.to(a.scalar_type());
}

// Numbers at which the two formulas differ, and special ones: these are one in
// five, or all but one in four, or zeros of both signs are all but one in four.
enum class Numbers { kUsual, kSpecial, kZeros };
at::Tensor TestInputs(std::int64_t n, at::ScalarType type, unsigned seed,
                      Numbers numbers) {
  const float inf = std::numeric_limits<float>::infinity();
  const float special[] = {0,  -0.0F, inf,  -inf,   inf - inf, 1,
                           -1, 88.7F, -104, 1e-40F, 1e30F,     3};
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  at::Tensor x = at::empty({n}, at::kFloat);
  for (std::int64_t i = 0; i < n; ++i) {
    unsigned pick = random() % (numbers == Numbers::kUsual ? 64 : 16);
    if (numbers == Numbers::kZeros && pick < std::size(special)) pick %= 2;
    x.data_ptr<float>()[i] =
        pick < std::size(special) ? special[pick] : normal(random);
  }
  return x.to(type);
}

bool HaveBitsOfEager(TjitPositionFn function, PositionEager eager,
                     bool is_binary, at::ScalarType type, std::int64_t n,
                     Numbers numbers) {
  const auto seed = static_cast<unsigned>(n);
  const at::Tensor a = TestInputs(n, type, seed, numbers);
  const at::Tensor b = TestInputs(n, type, seed + 1, numbers);
  const at::Tensor expected = eager(a, b, kScalars);
  for (const std::int64_t step : {n, std::int64_t{37}, std::int64_t{5}}) {
    if (!SameBits(InTiles(function, a, is_binary ? &b : nullptr, step),
                  expected)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool TilesHaveBitsOfEager(TjitPositionFn function, PositionEager eager,
                          bool is_binary, at::ScalarType type, Check check,
                          std::string* difference) {
  const std::vector<std::int64_t> lengths =
      check == Check::kSpot ? std::vector<std::int64_t>{17, 100}
                            : std::vector<std::int64_t>{
                                  1, 7, 15, 17, 24, 31, 33, 63, 64, 100, 2021};
  for (const Numbers numbers :
       {Numbers::kUsual, Numbers::kSpecial, Numbers::kZeros}) {
    if (numbers == Numbers::kZeros && !is_binary) continue;
    for (const std::int64_t n : lengths) {
      if (HaveBitsOfEager(function, eager, is_binary, type, n, numbers)) {
        continue;
      }
      if (difference != nullptr) {
        *difference =
            "eager has other bits of " + std::to_string(n) + " elements";
      }
      return false;
    }
  }
  return true;
}

}  // namespace tjit::runtime
